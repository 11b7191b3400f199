/*
 * A simulated NVIDIA driver: NVML's symbols, answered from the scenario file that GUA_SIMULATED_DRIVER names.
 * README.md beside this file documents the format; here are the calls about the driver and whole cards.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "export.h"
#include "session.h"

#define CODEC_PERIOD_US 100000

/* Fill a caller's text buffer. */
static int text(char *buffer, unsigned size, const char *value)
{
    if (buffer == NULL)
        return INVALID_ARGUMENT;
    if (strlen(value) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(buffer, value);
    return SUCCESS;
}

EXPORT int nvmlInit(void) { return open_session("nvmlInit"); }
EXPORT int nvmlInit_v2(void) { return open_session("nvmlInit_v2"); }
EXPORT int nvmlShutdown(void) { return close_session(); }

EXPORT int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return open_session("nvmlInitWithFlags");
}

EXPORT const char *nvmlErrorString(int code)
{
    static char answer[40];

    snprintf(answer, sizeof answer, "simulated NVML error %d", code);
    return answer;
}

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    ENTER(about_nothing());
    return leave(text(version, length, subject.world->driver));
}

EXPORT int nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    ENTER(about_nothing());
    return leave(text(version, length, subject.world->nvml));
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *version)
{
    ENTER(about_nothing());
    *version = subject.world->cuda;
    return leave(SUCCESS);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    ENTER(about_nothing());
    *version = subject.world->cuda;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    ENTER(about_nothing());
    *count = (unsigned)subject.world->card_count;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **handle)
{
    ENTER(((About){.kind = ABOUT_INDEX, .index = index}));
    *handle = handle_of(subject.card->uuid);
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, Handle **handle)
{
    ENTER(((About){.kind = ABOUT_UUID, .text = uuid}));
    *handle = handle_of(uuid);
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, Handle **handle)
{
    ENTER(((About){.kind = ABOUT_PCI, .text = address}));
    *handle = handle_of(subject.card->uuid);
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetUUID(Handle *device, char *uuid, unsigned length)
{
    ENTER(about_handle(device));
    return leave(text(uuid, length, subject.instance == NULL ? subject.card->uuid : subject.instance->uuid));
}

EXPORT int nvmlDeviceGetName(Handle *device, char *name, unsigned length)
{
    char own[2 * TEXT];

    ENTER(about_handle(device));
    if (subject.instance == NULL)
        return leave(text(name, length, subject.card->name));
    if (subject.instance->name[0] != '\0')
        return leave(text(name, length, subject.instance->name));
    snprintf(own, sizeof own, "%s MIG %ug.%llugb", subject.card->name, subject.instance->slices,
             (unsigned long long)(subject.instance->memory_total >> 30));
    return leave(text(name, length, own));
}

EXPORT int nvmlDeviceGetIndex(Handle *device, unsigned *index)
{
    ENTER(about_handle(device));
    *index = (unsigned)(subject.instance == NULL ? subject.card - subject.world->cards : subject.instance->index);
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetPciInfo_v3(Handle *device, PciInfo *info)
{
    ENTER(about_handle(device));
    memset(info, 0, sizeof *info);
    snprintf(info->bus_id, sizeof info->bus_id, "%s", subject.card->pci);
    sscanf(subject.card->pci, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.0", info->domain & 0xFFFF,
             info->bus & 0xFF, info->device & 0xFF);
    info->device_id = 0x233010DE;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetMinorNumber(Handle *device, unsigned *minor)
{
    ENTER(about_handle(device));
    *minor = subject.card->minor;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetAddressingMode(Handle *device, unsigned *mode)
{
    ENTER(about_handle(device));
    if (mode[0] != ADDRESSING_MODE_V1)
        return leave(ARGUMENT_VERSION_MISMATCH);
    mode[1] = subject.card->addressing;
    return leave(SUCCESS);
}

/* Return total, reserve and use; NOT_SUPPORTED if the driver reports none. */
static int memory_of(const Subject *subject, MemoryV2 *memory)
{
    const Card *card = subject->card;
    const Instance *instance = subject->instance;

    if (!card->has_memory)
        return NOT_SUPPORTED;
    memory->total = instance == NULL ? card->memory_total : instance->memory_total;
    memory->reserved = instance == NULL ? card->memory_reserved : instance->memory_reserved;
    memory->used = instance == NULL ? card_used(card, subject->now_us) : instance_used(card, instance, subject->now_us);
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo(Handle *device, Memory *memory)
{
    MemoryV2 split;
    int code;

    ENTER(about_handle(device));
    if ((code = memory_of(&subject, &split)) == SUCCESS)
        *memory = (Memory){.total = split.total, .free = split.free, .used = split.used + split.reserved};
    return leave(code);
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(Handle *device, MemoryV2 *memory)
{
    ENTER(about_handle(device));
    if (memory->version != MEMORY_V2)
        return leave(ARGUMENT_VERSION_MISMATCH);
    return leave(memory_of(&subject, memory));
}

/* Return whether utilization can be reported for a subject: neither of a card with MIG on nor of its instances. */
static int whole(const Subject *subject) { return subject->card->mig != MIG_ON; }

/* Return the percent of one ring sample, whole as in the driver; its number determines its end. */
static unsigned sample_percent(const Card *card, unsigned kind, int64_t number)
{
    int64_t period_us = card->sample_period_us;
    int64_t start_us = (number - 1) * period_us;
    double mean = kind == SAMPLES_GPU ? card_mean(card, start_us, start_us + period_us)
                                      : load_mean(&card->memory_load, start_us, start_us + period_us);

    return (unsigned)(mean + 0.5);
}

/* Return the draw over a time, as the card's utilization in it makes it. */
static double mean_watts(const Card *card, int64_t start_us, int64_t end_us)
{
    return card->idle_watts + (card->full_watts - card->idle_watts) * card_mean(card, start_us, end_us) / 100;
}

EXPORT int nvmlDeviceGetUtilizationRates(Handle *device, Utilization *rates)
{
    int64_t newest;

    ENTER(about_handle(device));
    if (!whole(&subject))
        return leave(NOT_SUPPORTED);
    newest = subject.now_us / subject.card->sample_period_us;
    rates->gpu = sample_percent(subject.card, SAMPLES_GPU, newest);
    rates->memory = sample_percent(subject.card, SAMPLES_MEMORY, newest);
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetEncoderUtilization(Handle *device, unsigned *percent, unsigned *period_us)
{
    ENTER(about_handle(device));
    *percent = subject.card->encoder;
    *period_us = CODEC_PERIOD_US;
    return leave(whole(&subject) ? SUCCESS : NOT_SUPPORTED);
}

EXPORT int nvmlDeviceGetDecoderUtilization(Handle *device, unsigned *percent, unsigned *period_us)
{
    ENTER(about_handle(device));
    *percent = subject.card->decoder;
    *period_us = CODEC_PERIOD_US;
    return leave(whole(&subject) ? SUCCESS : NOT_SUPPORTED);
}

/*
 * The rings: samples end at multiples of their period, the last so many of them are kept. As of a real card (H100,
 * driver 580) what an unsigned int leaves of a value's 8 bytes is whatever was there before.
 */
EXPORT int nvmlDeviceGetSamples(Handle *device, unsigned kind, uint64_t last_seen_us, unsigned *value_type,
                                unsigned *count, Sample *samples)
{
    const Card *card;
    int64_t newest, first, period_us;
    unsigned held;

    ENTER(about_handle(device));
    card = subject.card;
    period_us = kind == SAMPLES_POWER ? card->power_period_us : card->sample_period_us;
    held = (unsigned)(kind == SAMPLES_POWER ? card->power_ring : card->ring);
    if (!whole(&subject) || (kind != SAMPLES_GPU && kind != SAMPLES_MEMORY && kind != SAMPLES_POWER))
        return leave(NOT_SUPPORTED);
    *value_type = VALUE_UNSIGNED_INT;
    if (samples == NULL) {
        *count = held;
        return leave(SUCCESS);
    }
    newest = subject.now_us / period_us;
    first = newest - held + 1;
    if (last_seen_us <= INT64_MAX && (int64_t)last_seen_us / period_us + 1 > first)
        first = (int64_t)last_seen_us / period_us + 1;
    if (last_seen_us > INT64_MAX || first > newest)
        return leave(NOT_FOUND);
    if (newest - first + 1 > (int64_t)*count)
        return leave(INSUFFICIENT_SIZE);
    *count = (unsigned)(newest - first + 1);
    for (unsigned i = 0; i < *count; i++) {
        int64_t end_us = (first + i) * period_us;
        samples[i].time_us = (uint64_t)end_us;
        samples[i].value.u64 = i % 5 == 0 ? 0x00007ffa00000000 : 0;
        samples[i].value.u = kind == SAMPLES_POWER
                                 ? (unsigned)(mean_watts(card, end_us - period_us, end_us) * 1000 + 0.5)
                                 : sample_percent(card, kind, first + i);
    }
    return leave(SUCCESS);
}

/* Return the draw over the last whole sample of utilization. */
static double watts_of(const Subject *subject)
{
    int64_t period_us = subject->card->sample_period_us;
    int64_t end_us = subject->now_us / period_us * period_us;

    return mean_watts(subject->card, end_us - period_us, end_us);
}

EXPORT int nvmlDeviceGetPowerUsage(Handle *device, unsigned *milliwatts)
{
    ENTER(about_handle(device));
    if (subject.instance != NULL)
        return leave(NOT_SUPPORTED);
    *milliwatts = (unsigned)(watts_of(&subject) * 1000 + 0.5);
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(Handle *device, uint64_t *millijoules)
{
    const Card *card;

    ENTER(about_handle(device));
    if (subject.instance != NULL)
        return leave(NOT_SUPPORTED);
    card = subject.card;
    *millijoules =
        (uint64_t)(card->energy_mj + card->energy_watts * (double)(subject.now_us - card->energy_at_us) / 1000 + 0.5);
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetTemperature(Handle *device, unsigned sensor, unsigned *celsius)
{
    ENTER(about_handle(device));
    if (sensor != 0)
        return leave(INVALID_ARGUMENT);
    *celsius = (unsigned)lround(subject.card->temperature);
    return leave(subject.instance == NULL ? SUCCESS : NOT_SUPPORTED);
}

EXPORT int nvmlDeviceGetTemperatureV(Handle *device, unsigned *answer)
{
    ENTER(about_handle(device));
    if (answer[0] != TEMPERATURE_V1)
        return leave(ARGUMENT_VERSION_MISMATCH);
    if (answer[1] != 0)
        return leave(INVALID_ARGUMENT);
    answer[2] = (unsigned)(int)lround(subject.card->temperature);
    return leave(subject.instance == NULL ? SUCCESS : NOT_SUPPORTED);
}

EXPORT int nvmlDeviceGetPersistenceMode(Handle *device, unsigned *mode)
{
    ENTER(about_handle(device));
    *mode = 1;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetComputeMode(Handle *device, unsigned *mode)
{
    ENTER(about_handle(device));
    *mode = 0;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetBrand(Handle *device, unsigned *brand)
{
    ENTER(about_handle(device));
    *brand = 14; /* NVML_BRAND_NVIDIA */
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetSerial(Handle *device, char *serial, unsigned length)
{
    char own[24];

    ENTER(about_handle(device));
    snprintf(own, sizeof own, "16540230%05d", (int)(subject.card - subject.world->cards));
    return leave(text(serial, length, own));
}

EXPORT int nvmlDeviceGetArchitecture(Handle *device, unsigned *architecture)
{
    ENTER(about_handle(device));
    *architecture = subject.card->architecture;
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(Handle *device, int *major, int *minor)
{
    /* By architecture: Kepler 2 to Blackwell 10. */
    static const int capabilities[][2] = {{0, 0}, {0, 0}, {3, 5}, {5, 2}, {6, 0}, {7, 0},
                                          {7, 5}, {8, 0}, {8, 9}, {9, 0}, {10, 0}};

    ENTER(about_handle(device));
    if (subject.card->architecture >= sizeof capabilities / sizeof *capabilities)
        return leave(NOT_SUPPORTED);
    *major = capabilities[subject.card->architecture][0];
    *minor = capabilities[subject.card->architecture][1];
    return leave(SUCCESS);
}
