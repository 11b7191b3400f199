"""``gua --install-completion``: the lines that teach a shell to ask gua what may stand next."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gua.core.errors import UsageError

OPTION: Final = "--install-completion"
_BASH: Final = """\
_gua() {
    mapfile -t COMPREPLY < <("$1" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _gua gua gua-otel
"""
_ZSH: Final = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_gua() {
    local -a found
    found=("${(@f)$("$words[1]" complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
compdef _gua gua gua-otel
"""
_FISH: Final = """\
function __gua_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] complete $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c gua -f -a '(__gua_complete)'
complete -c gua-otel -f -a '(__gua_complete)'
"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def install(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Teach the shell that is named, else that of ``SHELL``, to complete. Raises UsageError for one it does not know.

    The script goes where the user's data lies (fish has a place for it), and one line into the shell's own file.
    """
    shell = arguments[0] if arguments else Path(environ.get("SHELL", "")).name
    if shell not in SCRIPTS or len(arguments) > 1:
        msg = f"completion is for {', '.join(SCRIPTS)}: name one, as in gua {OPTION} bash"
        raise UsageError(msg)
    home = Path.home()
    if shell == "fish":
        script = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/gua.fish"
    else:
        script = Path(environ.get("XDG_DATA_HOME") or home / ".local/share") / f"gua/completion.{shell}"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(SCRIPTS[shell], encoding="utf-8")
    told = f"completion for {shell} is in {script}"
    if shell != "fish":
        start = home / ".bashrc" if shell == "bash" else Path(environ.get("ZDOTDIR") or home) / ".zshrc"
        line = f"[ -r {shlex.quote(str(script))} ] && . {shlex.quote(str(script))}\n"
        if not start.exists() or line not in start.read_text(encoding="utf-8", errors="replace"):
            with start.open("a", encoding="utf-8") as file:
                file.write(f"\n# what gua {OPTION} added\n{line}")
        told += f", which {start} reads"
    sys.stdout.write(f"{told}: open another terminal\n")
    return 0
