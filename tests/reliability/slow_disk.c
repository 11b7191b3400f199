/* Preloaded into an agent: writing through to the disk takes as many milliseconds as the file $SLOW_DISK says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void take_time(void)
{
    const char *path = getenv("SLOW_DISK");
    FILE *file = path ? fopen(path, "re") : NULL;
    unsigned milliseconds = 0;
    if (file) {
        if (fscanf(file, "%u", &milliseconds) != 1)
            milliseconds = 0;
        fclose(file);
    }
    usleep(milliseconds * 1000);
}

int fsync(int descriptor)
{
    take_time();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(descriptor);
}

int fdatasync(int descriptor)
{
    take_time();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(descriptor);
}
