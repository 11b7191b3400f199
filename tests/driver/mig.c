/* Multi-Instance GPU, and GPM: the counters of Hopper and newer, which work there too. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "session.h"

EXPORT int nvmlDeviceGetMigMode(Handle *device, unsigned *current, unsigned *pending)
{
    ENTER(about_handle(device));
    if (subject.card->mig == MIG_UNSUPPORTED)
        return leave(NOT_SUPPORTED);
    *current = *pending = subject.card->mig == MIG_ON;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(Handle *device, unsigned *count)
{
    ENTER(about_handle(device));
    *count = subject.card->mig == MIG_ON ? subject.card->slices : 0;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Handle *device, unsigned index, Handle **instance)
{
    const Card *card;

    ENTER(about_handle(device));
    card = subject.card;
    if (card->mig != MIG_ON || subject.instance != NULL || index >= card->slices)
        return leave(INVALID_ARGUMENT);
    for (int i = 0; i < card->instance_count; i++) {
        if (card->instances[i].index == (int)index) {
            *instance = handle_of(card->instances[i].uuid);
            return leave(SUCCESS);
        }
    }
    return leave(NOT_FOUND);
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle *instance, Handle **device)
{
    ENTER(about_handle(instance));
    if (subject.instance == NULL)
        return leave(INVALID_ARGUMENT);
    *device = handle_of(subject.card->uuid);
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceIsMigDeviceHandle(Handle *device, unsigned *answer)
{
    ENTER(about_handle(device));
    *answer = subject.instance != NULL;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetGpuInstanceId(Handle *device, unsigned *id)
{
    ENTER(about_handle(device));
    if (subject.instance == NULL)
        return leave(INVALID_ARGUMENT);
    *id = subject.instance->gpu_instance;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetComputeInstanceId(Handle *device, unsigned *id)
{
    ENTER(about_handle(device));
    if (subject.instance == NULL)
        return leave(INVALID_ARGUMENT);
    *id = subject.instance->compute_instance;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetAttributes_v2(Handle *device, Attributes *attributes)
{
    ENTER(about_handle(device));
    if (subject.instance == NULL)
        return leave(NOT_SUPPORTED);
    *attributes = (Attributes){
        .multiprocessors = 16 * subject.instance->compute_slices,
        .copy_engines = 1,
        .gpu_instance_slices = subject.instance->slices,
        .compute_instance_slices = subject.instance->compute_slices,
        .memory_mb = subject.instance->memory_total >> 20,
    };
    return leave(SUCCESS);
}

/* Return the slices of a profile on a card of so many, 0 where it is not offered there. */
static unsigned profile_slices(unsigned profile, unsigned all)
{
    static const unsigned slices[] = {1, 2, 3, 4, 7, 8, 6, 1, 2, 1};
    unsigned own = profile < sizeof slices / sizeof *slices ? slices[profile] : 0;

    /* The largest spans the card; a card of four slices has no profile of three. */
    if (own > all || (own > 4 && own != all) || (own == 3 && all == 4))
        return 0;
    return own;
}

static int profile_info(const char *call, Handle *device, unsigned profile, ProfileInfo *info)
{
    Subject subject;
    int refused = enter(call, about_handle(device), &subject);
    unsigned slices;

    if (refused != SUCCESS)
        return refused;
    if (profile >= 0x12)
        return leave(INVALID_ARGUMENT);
    slices = profile_slices(profile, subject.card->slices);
    if (subject.card->mig == MIG_UNSUPPORTED || subject.instance != NULL || slices == 0)
        return leave(NOT_SUPPORTED);
    *info = (ProfileInfo){
        .id = profile,
        .slices = slices,
        .instances = subject.card->slices / slices,
        .multiprocessors = 16 * slices,
        .copy_engines = 1,
        .memory_mb = (subject.card->memory_total >> 20) * slices / subject.card->slices,
    };
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(Handle *device, unsigned profile, ProfileInfo *info)
{
    return profile_info(__func__, device, profile, info);
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(Handle *device, unsigned profile, ProfileInfoV2 *info)
{
    ProfileInfo first;
    int code;

    if (info->version != PROFILE_INFO_V2)
        return ARGUMENT_VERSION_MISMATCH;
    if ((code = profile_info(__func__, device, profile, &first)) != SUCCESS)
        return code;
    info->id = first.id;
    info->p2p = first.p2p;
    info->slices = first.slices;
    info->instances = first.instances;
    info->multiprocessors = first.multiprocessors;
    info->copy_engines = first.copy_engines;
    info->decoders = info->encoders = info->jpegs = info->ofas = 0;
    info->memory_mb = first.memory_mb;
    snprintf(info->name, sizeof info->name, "MIG %ug.%llugb", first.slices,
             (unsigned long long)(first.memory_mb >> 10));
    return SUCCESS;
}

struct GpmSample {
    char card[TEXT];
    long gpu_instance; /* -1: the whole card */
    int64_t time_us;   /* 0: not taken yet */
};

EXPORT int nvmlGpmQueryDeviceSupport(Handle *device, GpmSupport *support)
{
    ENTER(about_handle(device));
    if (support->version != GPM_VERSION)
        return leave(ARGUMENT_VERSION_MISMATCH);
    support->supported = (unsigned)subject.card->gpm;
    return leave(SUCCESS);
}

EXPORT int nvmlGpmSampleAlloc(GpmSample **sample)
{
    ENTER(about_nothing());
    *sample = calloc(1, sizeof **sample);
    return leave(*sample == NULL ? UNKNOWN : SUCCESS);
}

EXPORT int nvmlGpmSampleFree(GpmSample *sample)
{
    free(sample);
    return SUCCESS;
}

static int take_sample(const Subject *subject, long gpu_instance, GpmSample *sample)
{
    if (!subject->card->gpm)
        return NOT_SUPPORTED;
    if (sample == NULL)
        return INVALID_ARGUMENT;
    snprintf(sample->card, sizeof sample->card, "%s", subject->card->uuid);
    sample->gpu_instance = gpu_instance;
    sample->time_us = subject->now_us;
    return SUCCESS;
}

EXPORT int nvmlGpmSampleGet(Handle *device, GpmSample *sample)
{
    ENTER(about_handle(device));
    /* An instance is requested through its card. */
    return leave(subject.instance == NULL ? take_sample(&subject, -1, sample) : NOT_SUPPORTED);
}

static const Instance *instance_of(const Card *card, long gpu_instance)
{
    for (int i = 0; i < card->instance_count; i++)
        if (card->instances[i].gpu_instance == (unsigned)gpu_instance)
            return &card->instances[i];
    return NULL;
}

EXPORT int nvmlGpmMigSampleGet(Handle *device, unsigned gpu_instance, GpmSample *sample)
{
    ENTER(about_handle(device));
    if (subject.card->mig != MIG_ON || instance_of(subject.card, gpu_instance) == NULL)
        return leave(INVALID_ARGUMENT);
    return leave(take_sample(&subject, gpu_instance, sample));
}

/* Return what ran on an instance: its own load, or the sum of its processes'. */
static double instance_mean(const Card *card, const Instance *instance, int64_t start_us, int64_t end_us)
{
    double sum = 0;

    if (instance->load.kind != LOAD_OF_PROCESSES)
        return load_mean(&instance->load, start_us, end_us);
    for (int i = 0; i < card->process_count; i++) {
        const Process *process = &card->processes[i];
        if (process->gpu_instance == instance->gpu_instance)
            sum += load_within(&process->load, process->from_us, process->to_us, start_us, end_us);
    }
    return sum < 100 ? sum : 100;
}

/* Return what a card's metric is while its load is 100: utilization, and what the scenario says of its activity. */
static int part_of_load(const Card *card, unsigned id, double *part)
{
    static const unsigned ids[] = {2, 3, 5, 10};

    *part = 100;
    for (int i = 0; i < 4; i++) {
        if (id == ids[i]) {
            *part = card->activity[i];
            return 1;
        }
    }
    return id == 1;
}

/* Utilization and activity between two samples, exact, not rounded; any other metric is not supported. */
EXPORT int nvmlGpmMetricsGet(GpmMetrics *metrics)
{
    const GpmSample *first = metrics->first, *second = metrics->second;
    const Card *card = NULL;
    const Instance *instance;

    ENTER(about_nothing());
    if (metrics->version != GPM_VERSION)
        return leave(ARGUMENT_VERSION_MISMATCH);
    for (int i = 0; first != NULL && i < subject.world->card_count; i++)
        if (strcmp(subject.world->cards[i].uuid, first->card) == 0)
            card = &subject.world->cards[i];
    if (card == NULL || second == NULL || first->time_us == 0 || second->time_us == 0 ||
        strcmp(first->card, second->card) != 0 || first->gpu_instance != second->gpu_instance ||
        metrics->count > GPM_METRICS)
        return leave(INVALID_ARGUMENT);
    instance = first->gpu_instance < 0 ? NULL : instance_of(card, first->gpu_instance);
    if (first->gpu_instance >= 0 && instance == NULL)
        return leave(INVALID_ARGUMENT);
    for (unsigned i = 0; i < metrics->count; i++) {
        GpmMetric *metric = &metrics->metrics[i];
        double part;
        metric->info.short_name = metric->id == 1 ? "gpu_util" : "activity";
        metric->info.long_name = metric->info.short_name;
        metric->info.unit = "%";
        metric->value = 0;
        if (!part_of_load(card, metric->id, &part)) {
            metric->code = NOT_SUPPORTED;
        } else if (second->time_us - first->time_us < 100000) {
            /* The counters need 100 ms between two samples. */
            metric->code = NO_DATA;
        } else {
            metric->code = SUCCESS;
            metric->value = instance == NULL ? card_mean(card, first->time_us, second->time_us)
                                             : instance_mean(card, instance, first->time_us, second->time_us);
            /* A value that is no percentage is returned unchanged, whatever the load. */
            metric->value = part >= 0 && part <= 100 ? metric->value * part / 100 : part;
        }
    }
    return leave(SUCCESS);
}
