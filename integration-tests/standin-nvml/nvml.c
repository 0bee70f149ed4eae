/* A stand-in for NVIDIA's management library, for tests: it has as many GPUs as it is told, and fails, lies and hangs on
 * demand. Built by the tests (integration-tests/src/standin_nvml.rs), never shipped. Signatures and numbers are those of
 * nvml.h; only what Assay calls is here.
 *
 *   STANDIN_NVML_UUIDS       the GPUs, with commas between; none without it
 *   STANDIN_NVML_PARTITIONS  the partitions of the first GPU, which is in MIG mode then
 *   STANDIN_NVML_FAIL        functions that give an error, with commas between; "readings" for all but those that find
 *                            devices
 *   STANDIN_NVML_HANG        functions that never return
 *   STANDIN_NVML_LIES        when set, values that cannot be
 *   STANDIN_NVML_WORN        when set, a page of memory is retired with each look
 *
 * With -DSPARSE most functions are missing, as in a library of another age. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, TIMEOUT = 10, UNKNOWN = 999 };
enum { MAX_DEVICES = 16, UUID_BYTES = 64 };
enum { XID_CRITICAL = 8 };

typedef struct Device {
    char uuid[UUID_BYTES];
    int is_partition;
    /* How often each kind of thing was asked: readings change with it. */
    unsigned temperatures, powers, corrected, waits, wear;
} Device;

static Device boards[MAX_DEVICES], partitions[MAX_DEVICES];
static unsigned board_count, partition_count;

static int lies(void) { return getenv("STANDIN_NVML_LIES") != NULL; }

/* Whether a name is in a list with commas. */
static int listed(const char *variable, const char *name) {
    const char *at = getenv(variable);
    size_t length = strlen(name);
    while (at && *at) {
        size_t item = strcspn(at, ",");
        if (item == length && strncmp(at, name, length) == 0) return 1;
        at += item + (at[item] == ',');
    }
    return 0;
}

static unsigned enter(const char *name, int is_reading) {
    while (listed("STANDIN_NVML_HANG", name)) pause();
    if (listed("STANDIN_NVML_FAIL", name) || (is_reading && listed("STANDIN_NVML_FAIL", "readings"))) return UNKNOWN;
    return SUCCESS;
}

#define FIND() do { unsigned failed = enter(__func__, 0); if (failed) return failed; } while (0)
#define READING() do { unsigned failed = enter(__func__, 1); if (failed) return failed; } while (0)

static unsigned read_list(const char *variable, Device *devices, int is_partition) {
    unsigned count = 0;
    const char *at = getenv(variable);
    while (at && *at && count < MAX_DEVICES) {
        size_t item = strcspn(at, ",");
        snprintf(devices[count].uuid, UUID_BYTES, "%.*s", (int)item, at);
        devices[count++].is_partition = is_partition;
        at += item + (at[item] == ',');
    }
    return count;
}

unsigned nvmlInit_v2(void) {
    FIND();
    board_count = read_list("STANDIN_NVML_UUIDS", boards, 0);
    partition_count = read_list("STANDIN_NVML_PARTITIONS", partitions, 1);
    return SUCCESS;
}

unsigned nvmlDeviceGetCount_v2(unsigned *count) {
    FIND();
    *count = lies() ? 4000000000u : board_count;
    return SUCCESS;
}

unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    FIND();
    if (board_count == 0 || (index >= board_count && !lies())) return INVALID_ARGUMENT;
    *device = &boards[index % board_count];
    return SUCCESS;
}

unsigned nvmlDeviceGetUUID(Device *device, char *out, unsigned length) {
    FIND();
    snprintf(out, length, "%s", device->uuid);
    return SUCCESS;
}

/* Also in a sparse library: a set of events can be made, but neither be used nor freed. */
unsigned nvmlDeviceGetSupportedEventTypes(Device *device, unsigned long long *types) {
    READING();
    (void)device;
    *types = XID_CRITICAL;
    return SUCCESS;
}

unsigned nvmlEventSetCreate(Device ***set) {
    READING();
    *set = calloc(1, sizeof **set);
    return *set ? SUCCESS : UNKNOWN;
}

#ifndef SPARSE

enum { BIG = 10000 };

/* More than there is room for, and what acts on a terminal, from a liar. */
static unsigned give(char *out, unsigned length, const char *text) {
    if (lies()) {
        memset(out, 'x', BIG);
        memcpy(out, "\x1b[2J\n", 5);
        out[BIG] = 0;
    } else {
        snprintf(out, length, "%s", text);
    }
    return SUCCESS;
}

unsigned nvmlDeviceRegisterEvents(Device *device, unsigned long long types, Device **set) {
    READING();
    (void)types;
    *set = device;
    return SUCCESS;
}

unsigned nvmlShutdown(void) {
    FIND();
    return SUCCESS;
}

unsigned nvmlEventSetFree(Device **set) {
    READING();
    free(set);
    return SUCCESS;
}

typedef struct {
    Device *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} Event;

/* Every other call gives an event; a liar's never end. */
unsigned nvmlEventSetWait_v2(Device **set, Event *event, unsigned timeout_ms) {
    READING();
    (void)timeout_ms;
    Device *device = *set;
    if (!lies() && device->waits++ % 2 == 0) return TIMEOUT;
    *event = (Event){ .device = device, .type = XID_CRITICAL, .data = lies() ? ~0ull : 63 };
    return SUCCESS;
}

/* The wrapper gives this one no more room than it says: even a liar keeps to it. */
unsigned nvmlSystemGetDriverVersion(char *out, unsigned length) {
    READING();
    snprintf(out, length, lies() ? "\x1b[2J\n" : "580.82.07");
    return SUCCESS;
}

unsigned nvmlSystemGetCudaDriverVersion_v2(int *version) {
    READING();
    *version = lies() ? -5 : 13000;
    return SUCCESS;
}

unsigned nvmlDeviceGetName(Device *device, char *out, unsigned length) {
    READING();
    return give(out, length, device->is_partition ? "Stand-in GPU MIG 1g.18gb" : "Stand-in GPU");
}

unsigned nvmlDeviceGetSerial(Device *device, char *out, unsigned length) {
    READING();
    return device->is_partition ? NOT_SUPPORTED : give(out, length, "1320000000001");
}

unsigned nvmlDeviceGetVbiosVersion(Device *device, char *out, unsigned length) {
    READING();
    return device->is_partition ? NOT_SUPPORTED : give(out, length, "96.00.BC.00.01");
}

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;

unsigned nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *pci) {
    READING();
    memset(pci, lies() ? 0xff : 0, sizeof *pci);
    if (!lies()) pci->bus = 0x1b + (unsigned)(device - boards);
    return SUCCESS;
}

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} Memory;

unsigned nvmlDeviceGetMemoryInfo_v2(Device *device, Memory *memory) {
    READING();
    memory->total = lies() ? ~0ull : (device->is_partition ? 18ull : 141ull) << 30;
    memory->used = lies() ? ~0ull : (device->is_partition ? 2ull : 100ull) << 30;
    memory->reserved = 0;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

unsigned nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *limit) {
    READING();
    (void)device;
    *limit = lies() ? ~0u : 700000;
    return SUCCESS;
}

unsigned nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    READING();
    *current = *pending = lies() ? 77 : device == boards && partition_count > 0;
    return SUCCESS;
}

unsigned nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) {
    READING();
    (void)device;
    *count = lies() ? 4000000000u : 7;
    return SUCCESS;
}

unsigned nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **partition) {
    READING();
    if (device != boards || index >= partition_count) return 6; /* not found */
    *partition = &partitions[index];
    return SUCCESS;
}

unsigned nvmlDeviceGetEccMode(Device *device, unsigned *current, unsigned *pending) {
    READING();
    (void)device;
    *current = *pending = lies() ? 77 : 1;
    return SUCCESS;
}

typedef struct {
    unsigned version, environment, cc_feature, dev_tools, multi_gpu;
} ConfComputeSettings;

unsigned nvmlSystemGetConfComputeSettings(ConfComputeSettings *settings) {
    READING();
    settings->environment = settings->dev_tools = settings->multi_gpu = 0;
    settings->cc_feature = lies() ? 77 : 1;
    return SUCCESS;
}

unsigned nvmlDeviceGetTemperature(Device *device, unsigned sensor, unsigned *temperature) {
    READING();
    if (device->is_partition || sensor != 0) return NOT_SUPPORTED;
    *temperature = lies() ? 4000000000u : 60 + device->temperatures++ % 3;
    return SUCCESS;
}

unsigned nvmlDeviceGetPowerUsage(Device *device, unsigned *power) {
    READING();
    if (device->is_partition) return NOT_SUPPORTED;
    *power = lies() ? ~0u : 640000 + 1000 * (device->powers++ % 3);
    return SUCCESS;
}

unsigned nvmlDeviceGetClockInfo(Device *device, unsigned type, unsigned *clock) {
    READING();
    if (device->is_partition) return NOT_SUPPORTED;
    *clock = lies() ? ~0u : type == 1 ? 1590 : 2619;
    return SUCCESS;
}

typedef struct {
    unsigned gpu, memory;
} Utilization;

unsigned nvmlDeviceGetUtilizationRates(Device *device, Utilization *utilization) {
    READING();
    if (device->is_partition) return NOT_SUPPORTED;
    utilization->gpu = lies() ? 4000000000u : 99;
    utilization->memory = lies() ? 101 : 57;
    return SUCCESS;
}

/* The power limit and heat. */
unsigned nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *reasons) {
    READING();
    if (device->is_partition) return NOT_SUPPORTED;
    *reasons = lies() ? ~0ull : 0x04 | 0x20;
    return SUCCESS;
}

/* One corrected error with each look; the others were there before. */
unsigned nvmlDeviceGetTotalEccErrors(Device *device, unsigned type, unsigned counter, unsigned long long *count) {
    READING();
    if (device->is_partition || counter != 0) return NOT_SUPPORTED;
    *count = type == 0 ? 100 + device->corrected++ : 5;
    if (lies()) *count = device->corrected % 2 ? 0 : ~0ull;
    return SUCCESS;
}

/* Eight lanes of sixteen; a page more is retired with each look where STANDIN_NVML_WORN is set. */
unsigned nvmlDeviceGetCurrPcieLinkWidth(Device *device, unsigned *width) {
    READING();
    (void)device;
    *width = lies() ? ~0u : 8;
    return SUCCESS;
}

unsigned nvmlDeviceGetMaxPcieLinkWidth(Device *device, unsigned *width) {
    READING();
    (void)device;
    *width = lies() ? ~0u : 16;
    return SUCCESS;
}

unsigned nvmlDeviceGetCurrPcieLinkGeneration(Device *device, unsigned *generation) {
    READING();
    (void)device;
    *generation = lies() ? ~0u : 5;
    return SUCCESS;
}

unsigned nvmlDeviceGetMaxPcieLinkGeneration(Device *device, unsigned *generation) {
    return nvmlDeviceGetCurrPcieLinkGeneration(device, generation);
}

unsigned nvmlDeviceGetPcieReplayCounter(Device *device, unsigned *replays) {
    READING();
    (void)device;
    *replays = lies() ? ~0u : 3;
    return SUCCESS;
}

unsigned nvmlDeviceGetRetiredPages(Device *device, unsigned cause, unsigned *count, unsigned long long *pages) {
    READING();
    (void)pages;
    *count = lies() ? 4000000000u : 1 + (cause == 0 && getenv("STANDIN_NVML_WORN") ? device->wear++ : 0);
    return 7; /* insufficient size: nobody asks for the pages themselves */
}

unsigned nvmlDeviceGetRetiredPagesPendingStatus(Device *device, unsigned *pending) {
    READING();
    (void)device;
    *pending = lies() ? 77 : 0;
    return SUCCESS;
}

unsigned nvmlDeviceGetRemappedRows(Device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                   unsigned *failed) {
    READING();
    (void)device;
    *corrected = *uncorrected = *pending = *failed = lies() ? 4000000000u : 0;
    return SUCCESS;
}

#endif
