#define _GNU_SOURCE
#include "session.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HANDLES 4096
#define REREAD_US 10000
#define HANG_SLICE_US 20000

struct Handle {
    char uuid[TEXT];
    unsigned session;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static World *world;
static int references;   /* nvmlInit less nvmlShutdown */
static unsigned session; /* counts how often references left 0 */
static int stale;        /* the driver went away since then: only a new session reaches it */
static long loads;       /* the driver's loads that this session began with */
static Handle handles[HANDLES];
static unsigned handles_made;

static int64_t steady_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void nap(int64_t us)
{
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    nanosleep(&time, NULL);
}

/* Read the scenario again if its file was replaced; a look at most every 10 ms. */
static void reread(void)
{
    static struct stat seen;
    static int64_t looked_us;
    static const char *path;
    struct stat found;
    int64_t now_us = steady_us();

    if (looked_us != 0 && now_us - looked_us < REREAD_US)
        return;
    looked_us = now_us;
    if (path == NULL && (path = getenv("GUA_SIMULATED_DRIVER")) == NULL) {
        fputs("simulated driver: GUA_SIMULATED_DRIVER names no scenario\n", stderr);
        path = "";
    }
    if (stat(path, &found) != 0) {
        world_free(world);
        world = NULL;
        memset(&seen, 0, sizeof seen);
        return;
    }
    if (found.st_ino == seen.st_ino && found.st_size == seen.st_size && found.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        found.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return;
    seen = found;
    world_free(world);
    world = world_read(path);
}

static int within(int64_t now_us, int64_t from_us, int64_t to_us)
{
    return from_us <= now_us && now_us < to_us;
}

/* Return the code of an unloaded driver, SUCCESS where it is loaded; remember that it went. */
static int unloaded(const Subject *subject)
{
    if (world->loads != loads)
        stale = 1;
    if (world->unload_code == 0 || !within(subject->now_us, world->unload_from_us, world->unload_to_us))
        return SUCCESS;
    stale = 1;
    return world->unload_code;
}

static const Fault *fault_of(FaultKind kind, const char *call, const Subject *subject)
{
    int card = subject->card == NULL ? -1 : (int)(subject->card - world->cards);
    int instance = subject->instance == NULL ? -1 : (int)(subject->instance - subject->card->instances);

    for (int i = 0; i < world->fault_count; i++) {
        const Fault *fault = &world->faults[i];
        if (fault->kind == kind && (fault->card == -1 || fault->card == card) &&
            (fault->instance == -1 || fault->instance == instance) &&
            within(subject->now_us, fault->from_us, fault->to_us) && fnmatch(fault->call, call, 0) == 0)
            return fault;
    }
    return NULL;
}

static int find_uuid(Subject *subject, const char *uuid)
{
    for (int i = 0; i < world->card_count; i++) {
        Card *card = &world->cards[i];
        if (strcmp(card->uuid, uuid) == 0) {
            subject->card = card;
            return SUCCESS;
        }
        for (int j = 0; j < card->instance_count; j++) {
            if (card->mig == MIG_ON && strcmp(card->instances[j].uuid, uuid) == 0) {
                subject->card = card;
                subject->instance = &card->instances[j];
                return SUCCESS;
            }
        }
    }
    return NOT_FOUND;
}

static int find_handle(Subject *subject, const Handle *handle)
{
    if (handle < handles || handle >= handles + HANDLES || handle->session != session || stale)
        return INVALID_ARGUMENT;
    if (find_uuid(subject, handle->uuid) == SUCCESS)
        return SUCCESS;
    /* A card that was pulled out is lost; an instance that was destroyed has no valid handle. */
    return strncmp(handle->uuid, "MIG-", 4) == 0 ? INVALID_ARGUMENT : GPU_IS_LOST;
}

/* Compare PCI addresses, whose domain has 4 or 8 digits. */
static int same_address(const char *one, const char *other)
{
    size_t length = strlen(one), other_length = strlen(other);

    if (length < 12 || other_length < 12)
        return 0;
    return strcasecmp(one + length - 12, other + other_length - 12) == 0;
}

static int find(Subject *subject, About about)
{
    switch (about.kind) {
    case ABOUT_HANDLE:
        return find_handle(subject, about.handle);
    case ABOUT_INDEX:
        if (about.index >= (unsigned)world->card_count)
            return INVALID_ARGUMENT;
        subject->card = &world->cards[about.index];
        return SUCCESS;
    case ABOUT_UUID:
        return about.text == NULL ? INVALID_ARGUMENT : find_uuid(subject, about.text);
    case ABOUT_PCI:
        for (int i = 0; about.text != NULL && i < world->card_count; i++) {
            if (same_address(world->cards[i].pci, about.text)) {
                subject->card = &world->cards[i];
                return SUCCESS;
            }
        }
        return about.text == NULL ? INVALID_ARGUMENT : NOT_FOUND;
    default:
        return SUCCESS;
    }
}

/* Append `UNIX_US PID CALL UUID|- CODE` to the scenario's trace file: the call, its time, its process and its card. */
static void trace(const char *call, const Subject *subject, int code)
{
    char line[512];
    const char *uuid = subject->instance != NULL ? subject->instance->uuid
                       : subject->card != NULL   ? subject->card->uuid
                                                 : "-";
    int length, file;

    if (world == NULL || world->trace[0] == '\0')
        return;
    length = snprintf(line, sizeof line, "%lld %d %s %s %d\n", (long long)subject->now_us, (int)getpid(), call, uuid,
                      code);
    file = open(world->trace, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0 && write(file, line, (size_t)length) < 0)
        perror("simulated driver: trace");
    if (file >= 0)
        close(file);
}

/* Look at the world as it is now and return what the call must answer, before any fault. */
static int look(About about, int opening, Subject *subject)
{
    int code, found;

    memset(subject, 0, sizeof *subject);
    reread();
    if (world == NULL)
        return UNKNOWN;
    subject->world = world;
    subject->now_us = world_now_us(world);
    code = unloaded(subject); /* first, as it determines whether handles are still good */
    found = find(subject, about);
    if (code != SUCCESS || opening)
        return code;
    if (references == 0 || (stale && about.kind != ABOUT_HANDLE))
        return UNINITIALIZED;
    return found;
}

/* Do what `enter` says; the world stays locked, also where a code other than SUCCESS is returned. */
static int enter_locked(const char *call, About about, int opening, Subject *subject)
{
    int64_t begun_us = steady_us();
    const Fault *fault;
    int code, slow = 0;

    pthread_mutex_lock(&lock);
    for (;;) {
        code = look(about, opening, subject);
        if (world == NULL)
            return code;
        if ((fault = fault_of(FAULT_HANG, call, subject)) != NULL) {
            int64_t left_us = fault->amount == NEVER ? NEVER : fault->amount * 1000 - (steady_us() - begun_us);
            if (left_us > 0) {
                pthread_mutex_unlock(&lock);
                nap(left_us < HANG_SLICE_US ? left_us : HANG_SLICE_US);
                pthread_mutex_lock(&lock);
                continue;
            }
        }
        if (!slow && (fault = fault_of(FAULT_LATENCY, call, subject)) != NULL) {
            slow = 1;
            pthread_mutex_unlock(&lock);
            nap(fault->amount);
            pthread_mutex_lock(&lock);
            continue;
        }
        break;
    }
    if (code == SUCCESS && (fault = fault_of(FAULT_CODE, call, subject)) != NULL)
        code = (int)fault->amount;
    trace(call, subject, code);
    return code;
}

int enter(const char *call, About about, Subject *subject)
{
    int code = enter_locked(call, about, 0, subject);

    return code == SUCCESS ? SUCCESS : leave(code);
}

int leave(int code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

int open_session(const char *call)
{
    Subject subject;
    int code = enter_locked(call, about_nothing(), 1, &subject);

    if (code != SUCCESS)
        return leave(code);
    /* As in NVML, a second nvmlInit only counts: it does not reach a driver that was loaded anew. */
    if (references++ == 0) {
        session++;
        stale = 0;
        loads = world->loads;
    }
    return leave(SUCCESS);
}

int close_session(void)
{
    Subject subject;
    int code = enter_locked("nvmlShutdown", about_nothing(), 1, &subject);

    /* The library lets go whatever the driver says. */
    if (references == 0)
        return leave(code == SUCCESS ? UNINITIALIZED : code);
    references--;
    return leave(code);
}

Handle *handle_of(const char *uuid)
{
    Handle *handle;

    for (unsigned i = 0; i < HANDLES; i++)
        if (handles[i].session == session && strcmp(handles[i].uuid, uuid) == 0)
            return &handles[i];
    handle = &handles[handles_made++ % HANDLES];
    snprintf(handle->uuid, sizeof handle->uuid, "%s", uuid);
    handle->session = session;
    return handle;
}
