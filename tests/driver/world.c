/* What is true in a scenario's world at a time. */
#define _GNU_SOURCE
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "abi.h"

int64_t world_now_us(const World *world)
{
    struct timespec now;
    static _Thread_local long long last;
    FILE *file;

    if (world->clock[0] == '\0') {
        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    }
    /* A clock that is just being written keeps its last value. */
    if ((file = fopen(world->clock, "re")) != NULL) {
        long long value;
        if (fscanf(file, "%lld", &value) == 1)
            last = value;
        fclose(file);
    }
    return last;
}

/* Return the microseconds with load from the time 0 to a time. */
static int64_t busy_until(const Load *load, int64_t time_us)
{
    int64_t since = time_us - load->phase_us;
    int64_t periods = since / load->period_us;
    int64_t rest = since % load->period_us;

    if (rest < 0) {
        rest += load->period_us;
        periods--;
    }
    return periods * load->on_us + (rest < load->on_us ? rest : load->on_us);
}

double load_mean(const Load *load, int64_t start_us, int64_t end_us)
{
    if (load->kind != LOAD_BURST || end_us <= start_us)
        return load->kind == LOAD_CONSTANT ? load->percent : 0;
    return load->percent * (double)(busy_until(load, end_us) - busy_until(load, start_us)) / (double)(end_us - start_us);
}

double load_within(const Load *load, int64_t from_us, int64_t to_us, int64_t start_us, int64_t end_us)
{
    int64_t first = start_us > from_us ? start_us : from_us;
    int64_t last = end_us < to_us ? end_us : to_us;

    if (last <= first || end_us <= start_us)
        return 0;
    return load_mean(load, first, last) * (double)(last - first) / (double)(end_us - start_us);
}

double card_mean(const Card *card, int64_t start_us, int64_t end_us)
{
    double sum = 0;

    if (card->load.kind != LOAD_OF_PROCESSES)
        return load_mean(&card->load, start_us, end_us);
    for (int i = 0; i < card->process_count; i++) {
        const Process *process = &card->processes[i];
        sum += load_within(&process->load, process->from_us, process->to_us, start_us, end_us);
    }
    return sum < 100 ? sum : 100;
}

int process_runs(const Process *process, int64_t now_us)
{
    return process->from_us <= now_us && now_us < process->to_us;
}

static uint64_t used_by_processes(const Card *card, unsigned gpu_instance, int64_t now_us)
{
    uint64_t used = 0;

    for (int i = 0; i < card->process_count; i++) {
        const Process *process = &card->processes[i];
        int inside = gpu_instance == NOT_AVAILABLE_32 || process->gpu_instance == gpu_instance;
        if (inside && process_runs(process, now_us) && process->memory != NOT_AVAILABLE_64)
            used += process->memory;
    }
    return used;
}

uint64_t card_used(const Card *card, int64_t now_us)
{
    uint64_t used = card->memory_base + used_by_processes(card, NOT_AVAILABLE_32, now_us);

    for (int i = 0; i < card->instance_count; i++)
        used += card->instances[i].memory_base;
    return used;
}

uint64_t instance_used(const Card *card, const Instance *instance, int64_t now_us)
{
    return instance->memory_base + used_by_processes(card, instance->gpu_instance, now_us);
}

void world_free(World *world)
{
    if (world == NULL)
        return;
    for (int i = 0; i < world->card_count; i++)
        free(world->cards[i].processes);
    free(world->faults);
    free(world);
}
