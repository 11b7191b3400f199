// Load a Compose file with the library that Docker Compose itself uses, and print the project as JSON.
//
// Arguments: the file, then the profiles to enable; variables come from the environment alone, no .env is read.
// What the library refuses is one line on standard error, and exit code 1.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file string, profiles []string) error {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithOsEnv, cli.WithProfiles(profiles))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	shown, err := project.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(shown)
	return err
}
