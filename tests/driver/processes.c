/* NVML's process lists in their versions, and process utilization. */
#include <stddef.h>
#include <string.h>

#include "export.h"
#include "session.h"

/* Fill one row in the layout of a version of the call: 1, or 2 and 3 which are the same but for a few drivers. */
static void fill(char *rows, unsigned row, const Process *process, size_t size)
{
    ProcessInfo info = {.pid = process->pid,
                        .memory = process->memory,
                        .gpu_instance = process->gpu_instance,
                        .compute_instance = process->compute_instance};
    ProcessInfoV1 first = {.pid = process->pid, .memory = process->memory};

    memset(rows + row * size, 0, size);
    if (size == sizeof first)
        memcpy(rows + row * size, &first, sizeof first);
    else
        memcpy(rows + row * size, &info, sizeof info);
}

static int belongs(const Subject *subject, const Process *process, unsigned list)
{
    const Instance *instance = subject->instance;

    if ((process->lists & list) == 0 || !process_runs(process, subject->now_us))
        return 0;
    return instance == NULL || (process->gpu_instance == instance->gpu_instance &&
                                process->compute_instance == instance->compute_instance);
}

/* The call's protocol: `count` rows of room; too little room returns the needed number. */
static int list_processes(const char *call, Handle *device, unsigned list, unsigned *count, void *rows, int version)
{
    Subject subject;
    int refused = enter(call, about_handle(device), &subject);
    size_t size;
    unsigned needed = 0, filled = 0, room;

    if (refused != SUCCESS)
        return refused;
    for (int i = 0; i < subject.card->process_count; i++)
        needed += (unsigned)belongs(&subject, &subject.card->processes[i], list);
    /* Drivers 535.43 to 535.86 widened the rows of version 3 only, under its old name. */
    size = version == 1                                    ? sizeof(ProcessInfoV1)
           : version == 3 && subject.world->wide_processes ? sizeof(ProcessInfoWide)
                                                           : sizeof(ProcessInfo);
    room = rows == NULL ? 0 : *count;
    *count = needed;
    if (needed > room)
        return leave(INSUFFICIENT_SIZE);
    /* A caller's rows may be narrower than this driver's: never write beyond its room. */
    for (int i = 0; i < subject.card->process_count; i++) {
        const Process *process = &subject.card->processes[i];
        size_t expected = version == 1 ? sizeof(ProcessInfoV1) : sizeof(ProcessInfo);
        if (belongs(&subject, process, list) && (filled + 1) * size <= room * expected)
            fill(rows, filled++, process, size);
    }
    return leave(SUCCESS);
}

#define LISTS(symbol, list)                                                                                            \
    EXPORT int symbol(Handle *device, unsigned *count, void *rows)                                                     \
    {                                                                                                                  \
        return list_processes(__func__, device, list, count, rows, 1);                                                 \
    }                                                                                                                  \
    EXPORT int symbol##_v2(Handle *device, unsigned *count, void *rows)                                                \
    {                                                                                                                  \
        return list_processes(__func__, device, list, count, rows, 2);                                                 \
    }                                                                                                                  \
    EXPORT int symbol##_v3(Handle *device, unsigned *count, void *rows)                                                \
    {                                                                                                                  \
        return list_processes(__func__, device, list, count, rows, 3);                                                 \
    }

LISTS(nvmlDeviceGetComputeRunningProcesses, ON_COMPUTE)
LISTS(nvmlDeviceGetGraphicsRunningProcesses, ON_GRAPHICS)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses, ON_MPS)

/* Return a mean in whole percent, 1 for anything above none. */
static unsigned whole_percent(double mean)
{
    if (mean <= 0)
        return 0;
    return mean < 1 ? 1 : (unsigned)(mean + 0.5);
}

/* Return an engine's mean percent for a process over the whole samples after `last_seen_us`, at most the ring's. */
static double mean_since(const Card *card, const Process *process, const Load *load, uint64_t last_seen_us,
                         int64_t now_us)
{
    int64_t period_us = card->sample_period_us;
    int64_t newest = now_us / period_us;
    int64_t first = newest - card->ring;

    if (last_seen_us > INT64_MAX || (int64_t)last_seen_us / period_us >= newest)
        return 0;
    if ((int64_t)last_seen_us / period_us > first)
        first = (int64_t)last_seen_us / period_us;
    return load_within(load, process->from_us, process->to_us, first * period_us, newest * period_us);
}

/*
 * Fill in a process's row; return 0, and nothing is filled in, where there is none: no sample is newer, or it used no
 * engine and was on no list at the newest one. One that is, has a row of zeros (H100, driver 580).
 */
static int use_since(const Card *card, const Process *process, uint64_t last_seen_us, int64_t now_us,
                     ProcessSample *row)
{
    double sm = mean_since(card, process, &process->load, last_seen_us, now_us);
    double encoder = mean_since(card, process, &process->encoder, last_seen_us, now_us);
    double decoder = mean_since(card, process, &process->decoder, last_seen_us, now_us);
    int64_t newest_us = now_us / card->sample_period_us * card->sample_period_us;
    int is_newer = last_seen_us <= INT64_MAX && (int64_t)last_seen_us < newest_us;

    if (sm <= 0 && encoder <= 0 && decoder <= 0 &&
        !(is_newer && process->lists != 0 && process_runs(process, newest_us)))
        return 0;
    *row = (ProcessSample){
        .pid = process->pid,
        .time_us = (uint64_t)newest_us,
        .sm = whole_percent(sm),
        .encoder = whole_percent(encoder),
        .decoder = whole_percent(decoder),
    };
    return 1;
}

/*
 * One row for each process that used or held the card since `last_seen_us`, with the time of the newest sample; none:
 * NOT_FOUND. `padding` rows of zeros follow, as some drivers tell more rows than they fill.
 */
EXPORT int nvmlDeviceGetProcessUtilization(Handle *device, ProcessSample *rows, unsigned *count, uint64_t last_seen_us)
{
    const Card *card;
    ProcessSample row;
    unsigned needed = 0, filled = 0, room;

    ENTER(about_handle(device));
    card = subject.card;
    if (card->mig == MIG_ON)
        return leave(NOT_SUPPORTED);
    for (int i = 0; i < card->process_count; i++)
        needed += (unsigned)use_since(card, &card->processes[i], last_seen_us, subject.now_us, &row);
    if (needed + card->padding == 0)
        return leave(NOT_FOUND);
    room = rows == NULL ? 0 : *count;
    *count = needed + card->padding;
    if (*count > room)
        return leave(INSUFFICIENT_SIZE);
    memset(rows, 0, *count * sizeof *rows);
    for (int i = 0; i < card->process_count; i++)
        if (use_since(card, &card->processes[i], last_seen_us, subject.now_us, &row))
            rows[filled++] = row;
    return leave(SUCCESS);
}
