/* The world that a scenario file describes, and what is true in it at a time. Times are Unix microseconds. */
#ifndef WORLD_H
#define WORLD_H

#include <stdint.h>

#define NEVER INT64_MAX
#define TEXT 96

typedef enum { LOAD_OF_PROCESSES, LOAD_CONSTANT, LOAD_BURST } LoadKind;

typedef struct {
    LoadKind kind;
    double percent;
    int64_t period_us, on_us, phase_us;
} Load;

typedef enum { FAULT_CODE, FAULT_HANG, FAULT_LATENCY } FaultKind;

typedef struct {
    FaultKind kind;
    char call[TEXT]; /* a symbol, or a pattern of the shell's kind */
    int64_t amount;  /* the code; milliseconds of a hang, NEVER: for ever; microseconds of latency */
    int64_t from_us, to_us;
    int card, instance; /* indexes, -1: all */
} Fault;

typedef struct {
    unsigned pid;
    unsigned lists; /* a bit for each of ON_COMPUTE, ON_GRAPHICS, ON_MPS */
    uint64_t memory; /* NOT_AVAILABLE_64 if the driver does not tell */
    Load load, encoder, decoder;
    int64_t from_us, to_us;
    unsigned gpu_instance, compute_instance; /* NOT_AVAILABLE_32 outside MIG */
} Process;

enum { ON_COMPUTE = 1, ON_GRAPHICS = 2, ON_MPS = 4 };

typedef struct {
    char uuid[TEXT], name[TEXT];
    int index;
    unsigned gpu_instance, compute_instance, slices, compute_slices;
    uint64_t memory_total, memory_reserved, memory_base;
    Load load;
} Instance;

typedef enum { MIG_UNSUPPORTED, MIG_OFF, MIG_ON } MigMode;

#define MAX_INSTANCES 16

typedef struct {
    char uuid[TEXT], name[TEXT], pci[32];
    int has_memory; /* 0: unified memory, the driver reports none */
    uint64_t memory_total, memory_reserved, memory_base;
    double idle_watts, full_watts, energy_watts, temperature;
    double energy_mj;
    int64_t energy_at_us;
    Load load, memory_load;
    unsigned encoder, decoder, addressing, architecture, slices, padding, minor;
    int64_t sample_period_us, power_period_us;
    int ring, power_ring, gpm;
    double activity[4]; /* percent of SMs, occupancy, tensor, memory bandwidth while its load is 100 */
    uint64_t clock_reasons;
    int has_ecc; /* 0: the card reports neither errors nor rows */
    uint64_t ecc_errors;
    unsigned rows_pending, rows_failed;
    int has_recovery, recovery_code; /* 0: an older driver, which does not know the field */
    unsigned recovery_action;
    uint64_t xid, xid_count;
    int64_t xid_at_us;
    MigMode mig;
    Instance instances[MAX_INSTANCES];
    int instance_count;
    Process *processes;
    int process_count;
} Card;

#define MAX_CARDS 64

typedef struct {
    char driver[TEXT], nvml[TEXT], clock[512], trace[512];
    int cuda, wide_processes;
    long loads; /* how often the driver was loaded: another number means that it was reloaded */
    int unload_code;
    int64_t unload_from_us, unload_to_us;
    Card cards[MAX_CARDS];
    int card_count;
    Fault *faults;
    int fault_count;
} World;

/* Return a scenario file as a world; NULL, with a line on stderr, where it cannot be read or makes no sense. */
World *world_read(const char *path);
void world_free(World *world);

/* Return the world's time: the system's, or the one in its clock file. */
int64_t world_now_us(const World *world);

/* Return the mean percent between two times; load_within where it runs only between two others. */
double load_mean(const Load *load, int64_t start_us, int64_t end_us);
double load_within(const Load *load, int64_t from_us, int64_t to_us, int64_t start_us, int64_t end_us);
double card_mean(const Card *card, int64_t start_us, int64_t end_us);

int process_runs(const Process *process, int64_t now_us);
uint64_t card_used(const Card *card, int64_t now_us);
uint64_t instance_used(const Card *card, const Instance *instance, int64_t now_us);

#endif
