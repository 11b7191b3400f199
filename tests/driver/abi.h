/* NVML's binary interface as nvidia-ml-py declares it (pynvml.py), for the calls that the simulated driver answers. */
#ifndef ABI_H
#define ABI_H

#include <stdint.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    FUNCTION_NOT_FOUND = 13,
    GPU_IS_LOST = 15,
    NO_DATA = 21,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

#define NOT_AVAILABLE_64 UINT64_MAX
#define NOT_AVAILABLE_32 UINT32_MAX

typedef struct Handle Handle;

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;

typedef struct {
    uint64_t total, free, used;
} Memory;

#define MEMORY_V2 0x02000028u
typedef struct {
    unsigned version;
    uint64_t total, reserved, free, used;
} MemoryV2;

#define ADDRESSING_MODE_V1 0x1000008u
#define TEMPERATURE_V1 0x100000Cu

typedef struct {
    unsigned gpu, memory;
} Utilization;

#define SAMPLES_POWER 0u
#define SAMPLES_GPU 1u
#define SAMPLES_MEMORY 2u
#define VALUE_UNSIGNED_INT 1u
typedef struct {
    uint64_t time_us;
    union {
        double d;
        unsigned u;
        uint64_t u64;
    } value;
} Sample;

#define RECOVERY_ACTION 230u
typedef struct {
    unsigned field, scope;
    int64_t time_us, latency_us;
    unsigned type;
    int code;
    union {
        double d;
        unsigned u;
        uint64_t u64;
    } value;
} FieldValue;

typedef struct {
    unsigned pid;
    uint64_t memory;
} ProcessInfoV1;

typedef struct {
    unsigned pid;
    uint64_t memory;
    unsigned gpu_instance, compute_instance;
} ProcessInfo;

/* What some 535 drivers fill where callers expect ProcessInfo. */
typedef struct {
    ProcessInfo info;
    uint64_t protected_memory;
} ProcessInfoWide;

typedef struct {
    unsigned pid;
    uint64_t time_us;
    unsigned sm, memory, encoder, decoder;
} ProcessSample;

typedef struct {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    unsigned gpu_instance_slices, compute_instance_slices;
    uint64_t memory_mb;
} Attributes;

typedef struct {
    unsigned id, p2p, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    uint64_t memory_mb;
} ProfileInfo;

#define PROFILE_INFO_V2 0x02000098u
typedef struct {
    unsigned version;
    unsigned id, p2p, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    uint64_t memory_mb;
    char name[96];
} ProfileInfoV2;

#define XID_EVENTS 8u
typedef struct EventSet EventSet;
typedef struct {
    Handle *device;
    uint64_t type, data;
    unsigned gpu_instance, compute_instance;
} EventData;

typedef struct GpmSample GpmSample;

typedef struct {
    unsigned version, supported;
} GpmSupport;

#define GPM_VERSION 1u
#define GPM_METRICS 477
typedef struct {
    unsigned id;
    int code;
    double value;
    struct {
        const char *short_name, *long_name, *unit;
    } info;
} GpmMetric;

typedef struct {
    unsigned version, count;
    GpmSample *first, *second;
    GpmMetric metrics[GPM_METRICS];
} GpmMetrics;

#endif
