/* Reads a scenario file; README.md documents the format. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "world.h"

#define MAX_WORDS 16

typedef struct {
    World *world;
    Card *card;
    Instance *instance;
    Process *process;
    int count;
    char *words[MAX_WORDS]; /* the key, then its values */
    const char *rest;       /* the values as one text */
    const char *problem;
} Parser;

typedef void (*Rule)(Parser *);

static double number(Parser *p, int index)
{
    char *end;
    double value;

    if (index >= p->count) {
        p->problem = "a number is missing";
        return 0;
    }
    value = strtod(p->words[index], &end);
    if (*end != '\0' || end == p->words[index])
        p->problem = "not a number";
    return value;
}

static uint64_t whole(Parser *p, int index)
{
    char *end;
    uint64_t value;

    if (index >= p->count) {
        p->problem = "a whole number is missing";
        return 0;
    }
    value = strtoull(p->words[index], &end, 10);
    if (*end != '\0' || end == p->words[index] || p->words[index][0] == '-')
        p->problem = "not a whole number";
    return value;
}

static void copy(Parser *p, char *to, size_t size, const char *text)
{
    if (strlen(text) >= size || *text == '\0')
        p->problem = "the text is missing or too long";
    else
        strcpy(to, text);
}

static int is(Parser *p, int index, const char *word)
{
    return index < p->count && strcmp(p->words[index], word) == 0;
}

static int64_t seconds(Parser *p, int index)
{
    return (int64_t)(number(p, index) * 1e6 + 0.5);
}

/* Read `[from T] [to T]`, in Unix seconds, from a word on. */
static void window(Parser *p, int index, int64_t *from_us, int64_t *to_us)
{
    *from_us = INT64_MIN;
    *to_us = NEVER;
    for (; index < p->count && p->problem == NULL; index += 2) {
        if (is(p, index, "from"))
            *from_us = seconds(p, index + 1);
        else if (is(p, index, "to"))
            *to_us = seconds(p, index + 1);
        else
            p->problem = "neither 'from' nor 'to'";
    }
}

static void load(Parser *p, Load *into)
{
    if (is(p, 1, "constant") && p->count == 3) {
        into->kind = LOAD_CONSTANT;
        into->percent = number(p, 2);
    } else if (is(p, 1, "burst") && (p->count == 5 || p->count == 6)) {
        into->kind = LOAD_BURST;
        into->period_us = (int64_t)(number(p, 2) * 1000 + 0.5);
        into->on_us = (int64_t)(number(p, 3) * 1000 + 0.5);
        into->percent = number(p, 4);
        into->phase_us = p->count == 6 ? (int64_t)(number(p, 5) * 1000) : 0;
        if (p->problem == NULL && (into->period_us <= 0 || into->on_us < 0 || into->on_us > into->period_us))
            p->problem = "a burst is on for at least 0 and at most its period";
    } else {
        p->problem = "a load is 'constant PERCENT' or 'burst PERIOD_MS ON_MS PERCENT [PHASE_MS]'";
    }
}

static void memory(Parser *p, uint64_t *total, uint64_t *reserved, uint64_t *base)
{
    *total = whole(p, 1);
    *reserved = p->count > 2 ? whole(p, 2) : 0;
    *base = p->count > 3 ? whole(p, 3) : 0;
}

/* Faults stand before the first card (all cards and calls without one), in a card or in an instance. */
static Fault *add_fault(Parser *p, FaultKind kind, const char *call)
{
    World *world = p->world;
    Fault *faults = realloc(world->faults, sizeof(Fault) * (size_t)(world->fault_count + 1));
    Fault *fault;

    if (faults == NULL)
        abort();
    world->faults = faults;
    fault = &faults[world->fault_count++];
    memset(fault, 0, sizeof *fault);
    fault->kind = kind;
    copy(p, fault->call, sizeof fault->call, call);
    fault->from_us = INT64_MIN;
    fault->to_us = NEVER;
    fault->card = p->card == NULL ? -1 : (int)(p->card - world->cards);
    fault->instance = p->instance == NULL ? -1 : (int)(p->instance - p->card->instances);
    return fault;
}

static void set_fault(Parser *p)
{
    Fault *fault = add_fault(p, FAULT_CODE, p->count > 1 ? p->words[1] : "");
    fault->amount = (int64_t)whole(p, 2);
    window(p, 3, &fault->from_us, &fault->to_us);
}

static void set_absent(Parser *p)
{
    add_fault(p, FAULT_CODE, p->count > 1 ? p->words[1] : "")->amount = FUNCTION_NOT_FOUND;
}

static void set_hang(Parser *p)
{
    Fault *fault = add_fault(p, FAULT_HANG, p->count > 1 ? p->words[1] : "");
    int timed = p->count > 2 && !is(p, 2, "from") && !is(p, 2, "to");
    fault->amount = timed ? (int64_t)whole(p, 2) : NEVER;
    window(p, timed ? 3 : 2, &fault->from_us, &fault->to_us);
}

static void set_latency(Parser *p)
{
    add_fault(p, FAULT_LATENCY, p->count > 1 ? p->words[1] : "")->amount = (int64_t)whole(p, 2);
}

static void set_lost(Parser *p)
{
    Fault *fault = add_fault(p, FAULT_CODE, "*");
    int coded = p->count > 1 && !is(p, 1, "from") && !is(p, 1, "to");
    fault->amount = coded ? (int64_t)whole(p, 1) : GPU_IS_LOST;
    window(p, coded ? 2 : 1, &fault->from_us, &fault->to_us);
}

static void set_unload(Parser *p)
{
    p->world->unload_code = (int)whole(p, 1);
    window(p, 2, &p->world->unload_from_us, &p->world->unload_to_us);
}

static void set_driver(Parser *p) { copy(p, p->world->driver, sizeof p->world->driver, p->rest); }
static void set_nvml(Parser *p) { copy(p, p->world->nvml, sizeof p->world->nvml, p->rest); }
static void set_cuda(Parser *p) { p->world->cuda = (int)whole(p, 1); }
static void set_clock(Parser *p) { copy(p, p->world->clock, sizeof p->world->clock, p->rest); }
static void set_trace(Parser *p) { copy(p, p->world->trace, sizeof p->world->trace, p->rest); }
static void set_loads(Parser *p) { p->world->loads = (long)whole(p, 1); }

static void set_process_layout(Parser *p)
{
    p->world->wide_processes = is(p, 1, "wide");
    if (!is(p, 1, "wide") && !is(p, 1, "usual"))
        p->problem = "the layout is 'usual' or 'wide'";
}

static void begin_card(Parser *p)
{
    World *world = p->world;
    Card *card;

    p->instance = NULL;
    p->process = NULL;
    if (world->card_count == MAX_CARDS) {
        p->problem = "too many cards";
        return;
    }
    card = &world->cards[world->card_count];
    memset(card, 0, sizeof *card);
    copy(p, card->uuid, sizeof card->uuid, p->rest);
    strcpy(card->name, "NVIDIA H100 80GB HBM3");
    snprintf(card->pci, sizeof card->pci, "00000000:%02X:00.0", 0x10 + world->card_count);
    card->has_memory = 1;
    card->memory_total = 80ull << 30;
    card->idle_watts = card->full_watts = card->energy_watts = 70;
    card->temperature = 35;
    card->sample_period_us = 200000;
    card->has_recovery = 1;
    card->ring = 71;
    card->power_period_us = 20000;
    card->power_ring = 119;
    memcpy(card->activity, (double[]){100, 50, 0, 30}, sizeof card->activity);
    card->slices = 7;
    card->architecture = 9;
    card->memory_load.kind = LOAD_CONSTANT;
    card->minor = (unsigned)world->card_count;
    p->card = card;
    world->card_count++;
}

static void begin_instance(Parser *p)
{
    Card *card = p->card;
    Instance *instance;

    p->process = NULL;
    if (card->instance_count == MAX_INSTANCES) {
        p->problem = "too many instances";
        return;
    }
    instance = &card->instances[card->instance_count];
    memset(instance, 0, sizeof *instance);
    copy(p, instance->uuid, sizeof instance->uuid, p->rest);
    instance->index = card->instance_count;
    instance->gpu_instance = (unsigned)card->instance_count + 1;
    instance->slices = instance->compute_slices = 1;
    instance->memory_total = card->memory_total / 8;
    p->instance = instance;
    card->instance_count++;
}

static void begin_process(Parser *p)
{
    Card *card = p->card;
    Process *grown = realloc(card->processes, sizeof(Process) * (size_t)(card->process_count + 1));

    if (grown == NULL)
        abort();
    card->processes = grown;
    p->process = &grown[card->process_count++];
    memset(p->process, 0, sizeof *p->process);
    p->process->pid = (unsigned)whole(p, 1);
    p->process->lists = ON_COMPUTE;
    p->process->load.kind = p->process->encoder.kind = p->process->decoder.kind = LOAD_CONSTANT;
    p->process->from_us = INT64_MIN;
    p->process->to_us = NEVER;
    p->process->gpu_instance = p->instance == NULL ? NOT_AVAILABLE_32 : p->instance->gpu_instance;
    p->process->compute_instance = p->instance == NULL ? NOT_AVAILABLE_32 : p->instance->compute_instance;
}

static void card_name(Parser *p) { copy(p, p->card->name, sizeof p->card->name, p->rest); }
static void card_pci(Parser *p) { copy(p, p->card->pci, sizeof p->card->pci, p->rest); }
static void card_minor(Parser *p) { p->card->minor = (unsigned)whole(p, 1); }
static void card_load(Parser *p) { load(p, &p->card->load); }
static void card_memory_load(Parser *p) { load(p, &p->card->memory_load); }
static void card_temperature(Parser *p) { p->card->temperature = number(p, 1); }
static void card_encoder(Parser *p) { p->card->encoder = (unsigned)whole(p, 1); }
static void card_decoder(Parser *p) { p->card->decoder = (unsigned)whole(p, 1); }
static void card_architecture(Parser *p) { p->card->architecture = (unsigned)whole(p, 1); }
static void card_slices(Parser *p) { p->card->slices = (unsigned)whole(p, 1); }
static void card_padding(Parser *p) { p->card->padding = (unsigned)whole(p, 1); }

static void card_memory(Parser *p)
{
    p->card->has_memory = !is(p, 1, "not_supported");
    if (p->card->has_memory)
        memory(p, &p->card->memory_total, &p->card->memory_reserved, &p->card->memory_base);
}

static void card_power(Parser *p)
{
    p->card->idle_watts = number(p, 1);
    p->card->full_watts = p->count > 2 ? number(p, 2) : p->card->idle_watts;
}

static void card_energy(Parser *p)
{
    p->card->energy_mj = number(p, 1);
    p->card->energy_at_us = seconds(p, 2);
    p->card->energy_watts = number(p, 3);
}

static void ring(Parser *p, int64_t *period_us, int *count)
{
    *period_us = (int64_t)(number(p, 1) * 1000 + 0.5);
    *count = (int)whole(p, 2);
    if (p->problem == NULL && *period_us <= 0)
        p->problem = "not a period";
    if (p->problem == NULL && (*count < 1 || *count > 10000))
        p->problem = "a ring holds 1 to 10000 samples";
}

static void card_samples(Parser *p) { ring(p, &p->card->sample_period_us, &p->card->ring); }
static void card_power_samples(Parser *p) { ring(p, &p->card->power_period_us, &p->card->power_ring); }

static void card_clocks(Parser *p) { p->card->clock_reasons = whole(p, 1); }

static void card_ecc(Parser *p)
{
    p->card->has_ecc = 1;
    p->card->ecc_errors = whole(p, 1);
    p->card->rows_pending = p->count > 2 ? (unsigned)whole(p, 2) : 0;
    p->card->rows_failed = p->count > 3 ? (unsigned)whole(p, 3) : 0;
}

static void card_recovery(Parser *p)
{
    p->card->has_recovery = !is(p, 1, "unsupported");
    p->card->recovery_action = p->card->has_recovery ? (unsigned)whole(p, 1) : 0;
    p->card->recovery_code = p->count > 2 ? (int)whole(p, 2) : 0;
}

static void card_xid(Parser *p)
{
    p->card->xid = whole(p, 1);
    p->card->xid_count = whole(p, 2);
    p->card->xid_at_us = seconds(p, 3);
}

static void card_gpm(Parser *p)
{
    p->card->gpm = is(p, 1, "on");
    if (!is(p, 1, "on") && !is(p, 1, "off"))
        p->problem = "gpm is 'on' or 'off'";
}

static void card_activity(Parser *p)
{
    for (int i = 0; i < 4; i++)
        p->card->activity[i] = p->count > i + 1 ? strtod(p->words[i + 1], NULL) : 0;
}

static void card_mig(Parser *p)
{
    p->card->mig = is(p, 1, "on") ? MIG_ON : is(p, 1, "off") ? MIG_OFF : MIG_UNSUPPORTED;
    if (p->card->mig == MIG_UNSUPPORTED && !is(p, 1, "unsupported"))
        p->problem = "mig is 'on', 'off' or 'unsupported'";
}

static void card_addressing(Parser *p)
{
    static const char *const modes[] = {"none", "hmm", "ats"};

    for (unsigned i = 0; i < 3; i++) {
        if (is(p, 1, modes[i])) {
            p->card->addressing = i;
            return;
        }
    }
    p->problem = "addressing is 'none', 'hmm' or 'ats'";
}

static void instance_name(Parser *p) { copy(p, p->instance->name, sizeof p->instance->name, p->rest); }
static void instance_index(Parser *p) { p->instance->index = (int)whole(p, 1); }
static void instance_load(Parser *p) { load(p, &p->instance->load); }
static void instance_gpu_instance(Parser *p) { p->instance->gpu_instance = (unsigned)whole(p, 1); }
static void instance_compute_instance(Parser *p) { p->instance->compute_instance = (unsigned)whole(p, 1); }

static void instance_slices(Parser *p)
{
    p->instance->slices = (unsigned)whole(p, 1);
    p->instance->compute_slices = p->count > 2 ? (unsigned)whole(p, 2) : p->instance->slices;
}

static void instance_memory(Parser *p)
{
    memory(p, &p->instance->memory_total, &p->instance->memory_reserved, &p->instance->memory_base);
}

static void process_load(Parser *p) { load(p, &p->process->load); }
static void process_encoder(Parser *p) { load(p, &p->process->encoder); }
static void process_decoder(Parser *p) { load(p, &p->process->decoder); }
static void process_from(Parser *p) { p->process->from_us = seconds(p, 1); }
static void process_to(Parser *p) { p->process->to_us = seconds(p, 1); }
static void process_memory(Parser *p) { p->process->memory = is(p, 1, "na") ? NOT_AVAILABLE_64 : whole(p, 1); }
static void process_gpu_instance(Parser *p) { p->process->gpu_instance = (unsigned)whole(p, 1); }
static void process_compute_instance(Parser *p) { p->process->compute_instance = (unsigned)whole(p, 1); }

static void process_lists(Parser *p)
{
    p->process->lists = 0;
    for (int i = 1; i < p->count; i++) {
        if (is(p, i, "compute"))
            p->process->lists |= ON_COMPUTE;
        else if (is(p, i, "graphics"))
            p->process->lists |= ON_GRAPHICS;
        else if (is(p, i, "mps"))
            p->process->lists |= ON_MPS;
        else
            p->problem = "the lists are 'compute', 'graphics' and 'mps'";
    }
}

static const struct {
    const char *key;
    Rule of_world, of_card, of_instance, of_process;
} RULES[] = {
    {"driver", set_driver, NULL, NULL, NULL},
    {"nvml", set_nvml, NULL, NULL, NULL},
    {"cuda", set_cuda, NULL, NULL, NULL},
    {"clock", set_clock, NULL, NULL, NULL},
    {"trace", set_trace, NULL, NULL, NULL},
    {"loads", set_loads, NULL, NULL, NULL},
    {"unload", set_unload, NULL, NULL, NULL},
    {"process_layout", set_process_layout, NULL, NULL, NULL},
    {"fault", set_fault, set_fault, set_fault, NULL},
    {"absent", set_absent, set_absent, set_absent, NULL},
    {"hang", set_hang, set_hang, set_hang, NULL},
    {"latency", set_latency, set_latency, set_latency, NULL},
    {"lost", NULL, set_lost, set_lost, NULL},
    {"card", begin_card, begin_card, begin_card, begin_card},
    {"instance", NULL, begin_instance, begin_instance, begin_instance},
    {"process", NULL, begin_process, begin_process, begin_process},
    {"name", NULL, card_name, instance_name, NULL},
    {"pci", NULL, card_pci, NULL, NULL},
    {"minor", NULL, card_minor, NULL, NULL},
    {"memory", NULL, card_memory, instance_memory, process_memory},
    {"power", NULL, card_power, NULL, NULL},
    {"temperature", NULL, card_temperature, NULL, NULL},
    {"energy", NULL, card_energy, NULL, NULL},
    {"load", NULL, card_load, instance_load, process_load},
    {"memory_load", NULL, card_memory_load, NULL, NULL},
    {"encoder", NULL, card_encoder, NULL, process_encoder},
    {"decoder", NULL, card_decoder, NULL, process_decoder},
    {"samples", NULL, card_samples, NULL, NULL},
    {"power_samples", NULL, card_power_samples, NULL, NULL},
    {"gpm", NULL, card_gpm, NULL, NULL},
    {"activity", NULL, card_activity, NULL, NULL},
    {"clocks", NULL, card_clocks, NULL, NULL},
    {"ecc", NULL, card_ecc, NULL, NULL},
    {"recovery", NULL, card_recovery, NULL, NULL},
    {"xid", NULL, card_xid, NULL, NULL},
    {"mig", NULL, card_mig, NULL, NULL},
    {"slices", NULL, card_slices, instance_slices, NULL},
    {"addressing", NULL, card_addressing, NULL, NULL},
    {"architecture", NULL, card_architecture, NULL, NULL},
    {"padding", NULL, card_padding, NULL, NULL},
    {"index", NULL, NULL, instance_index, NULL},
    {"gpu_instance", NULL, NULL, instance_gpu_instance, process_gpu_instance},
    {"compute_instance", NULL, NULL, instance_compute_instance, process_compute_instance},
    {"lists", NULL, NULL, NULL, process_lists},
    {"from", NULL, NULL, NULL, process_from},
    {"to", NULL, NULL, NULL, process_to},
};

static void read_line(Parser *p, char *line)
{
    static char values[1024];
    char *word, *position;
    size_t length;

    line[strcspn(line, "#\n")] = '\0';
    line += strspn(line, " \t");
    for (length = strlen(line); length > 0 && strchr(" \t\r", line[length - 1]) != NULL; length--)
        line[length - 1] = '\0';
    if (*line == '\0')
        return;
    word = line + strcspn(line, " \t");
    snprintf(values, sizeof values, "%s", word + strspn(word, " \t"));
    p->rest = values;
    p->count = 0;
    for (word = strtok_r(line, " \t", &position); word != NULL; word = strtok_r(NULL, " \t", &position)) {
        if (p->count == MAX_WORDS)
            break;
        p->words[p->count++] = word;
    }
    p->problem = "no such key in this place";
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
        Rule rule;

        if (!is(p, 0, RULES[i].key))
            continue;
        rule = p->process != NULL    ? RULES[i].of_process
               : p->instance != NULL ? RULES[i].of_instance
               : p->card != NULL     ? RULES[i].of_card
                                     : RULES[i].of_world;
        if (rule != NULL) {
            p->problem = NULL;
            rule(p);
        }
        return;
    }
}

World *world_read(const char *path)
{
    char line[1024];
    Parser parser = {0};
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        fprintf(stderr, "simulated driver: cannot read %s: %s\n", path, strerror(errno));
        return NULL;
    }
    if ((parser.world = calloc(1, sizeof *parser.world)) == NULL)
        abort();
    strcpy(parser.world->driver, "575.57.08");
    strcpy(parser.world->nvml, "12.575.57.08");
    parser.world->cuda = 12090;
    parser.world->loads = 1;
    for (int at = 1; parser.problem == NULL && fgets(line, sizeof line, file) != NULL; at++) {
        read_line(&parser, line);
        if (parser.problem != NULL)
            fprintf(stderr, "simulated driver: %s:%d: %s: %s\n", path, at, line + strspn(line, " \t"), parser.problem);
    }
    fclose(file);
    if (parser.problem != NULL) {
        world_free(parser.world);
        return NULL;
    }
    return parser.world;
}
