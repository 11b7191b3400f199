/* The calls of the CUDA driver that tests/hardware/load.py makes, without a card: kernels "run" by the clock, one
   after the other. Each request goes to the file that GUA_FAKE_CUDA names: ALLOC BYTES, KERNEL NANOSECONDS. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t queued_ns;

static void note(const char *what, uint64_t number)
{
    const char *path = getenv("GUA_FAKE_CUDA");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "%s %llu\n", what, (unsigned long long)number);
    fclose(file);
}

int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal == 0 ? 0 : 101; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "Fake card %d", device); return 0; }
int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { (void)device; return flags == 4 ? 0 : 1; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &queued_ns; return 0; }
int cuCtxSetCurrent(void *context) { return context == &queued_ns ? 0 : 201; }
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = 132;
    return attribute == 16 ? 0 : 1;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    if (bytes > (size_t)80 << 30)
        return 2;
    note("ALLOC", bytes);
    *address = 0x7f0000000000;
    return 0;
}

int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t bytes)
{
    (void)bytes;
    return address == 0x7f0000000000 && value == 0 ? 0 : 1;
}

int cuModuleLoadData(void **module, const void *image)
{
    *module = &queued_ns;
    return strstr(image, ".entry busy(") ? 0 : 218;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    *function = module;
    return strcmp(name, "busy") == 0 ? 0 : 500;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra)
{
    if (function != &queued_ns || gx != 264 || gy != 1 || gz != 1 || bx != 256 || by != 1 || bz != 1 || shared ||
        stream || extra || *(uint64_t *)parameters[0] != 0x7f0000000000)
        return 1;
    uint64_t ns = *(uint64_t *)parameters[1];
    note("KERNEL", ns);
    queued_ns += ns;
    return 0;
}

int cuCtxSynchronize(void)
{
    struct timespec left = {.tv_sec = queued_ns / 1000000000, .tv_nsec = queued_ns % 1000000000};
    queued_ns = 0;
    return nanosleep(&left, NULL);
}

int cuGetErrorName(int code, const char **name)
{
    *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
    return 0;
}
