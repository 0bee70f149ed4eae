/* A preloaded library that lets calls on the files of one folder fail, as a bad disk does.
 *
 * ASSAY_FAULT_FOLDER  absolute path of the folder; other files are left alone
 * ASSAY_FAULT         file with "KIND FIRST LAST": the calls of that kind, counted from 1 in each process, that fail.
 *                     It is read at each such call: "none 0 0" is a repaired disk.
 * ASSAY_FAULT_TRACE   file to which a line is added for each call that failed, and, with kind "count", for each call
 *
 * enospc  writes, new names and growing files: no space left
 * eio     the same: input/output error
 * fsync   fsync and fdatasync: input/output error
 * torn    writes: the first half is written, then the process is killed
 * read    reads: input/output error
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { CHANGE = 1, WRITE = 2, SYNC = 4, READ = 8 };

static const struct { const char *name; int calls, error; } KINDS[] = {
    {"enospc", CHANGE | WRITE, ENOSPC}, {"eio", CHANGE | WRITE, EIO}, {"fsync", SYNC, EIO},
    {"torn", WRITE, 0}, {"read", READ, EIO}, {"count", CHANGE | WRITE | SYNC, 0},
};
enum { TORN = 3, COUNT = 5, KIND_COUNT = 6 };

static atomic_long counts[KIND_COUNT];

#define REAL(name) ((typeof(&name)) dlsym(RTLD_NEXT, #name))

static int is_ours(const char *path) {
    const char *folder = getenv("ASSAY_FAULT_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0 && !strstr(path, "/run/");
}

static void note(const char *kind, long number, const char *call, const char *path) {
    char line[4352];
    int length = snprintf(line, sizeof line, "%s %ld %s %s\n", kind, number, call, strrchr(path, '/') + 1);
    int file = syscall(SYS_openat, AT_FDCWD, getenv("ASSAY_FAULT_TRACE"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0) return;
    syscall(SYS_write, file, line, length);
    syscall(SYS_close, file);
}

/* The kind that this call has to fail by; -1: by none. */
static int fault(int call, const char *name, const char *path) {
    if (!is_ours(path)) return -1;
    char text[64] = {0}, kind[16];
    int file = syscall(SYS_openat, AT_FDCWD, getenv("ASSAY_FAULT"), O_RDONLY, 0);
    if (file < 0) return -1;
    syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    long first, last;
    if (sscanf(text, "%15s %ld %ld", kind, &first, &last) != 3) return -1;
    for (int i = 0; i < KIND_COUNT; i++) {
        if (strcmp(kind, KINDS[i].name) || !(KINDS[i].calls & call)) continue;
        long number = atomic_fetch_add(&counts[i], 1) + 1;
        if (number < first || number > last) return -1;
        note(kind, number, name, path);
        return i == COUNT ? -1 : i;
    }
    return -1;
}

static int fault_of_file(int call, const char *name, int file) {
    char link[32], path[4097] = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    int saved = errno;
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = saved;
    return length > 0 ? fault(call, name, path) : -1;
}

#define FAIL_BY(kind, result) do { errno = KINDS[kind].error; return result; } while (0)

ssize_t write(int file, const void *bytes, size_t size) {
    int kind = fault_of_file(WRITE, __func__, file);
    if (kind == TORN) { REAL(write)(file, bytes, size / 2); kill(getpid(), SIGKILL); pause(); }
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(write)(file, bytes, size);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at) {
    int kind = fault_of_file(WRITE, "pwrite", file);
    if (kind == TORN) { REAL(pwrite64)(file, bytes, size / 2, at); kill(getpid(), SIGKILL); pause(); }
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(pwrite64)(file, bytes, size, at);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) { return pwrite64(file, bytes, size, at); }

ssize_t writev(int file, const struct iovec *parts, int count) {
    int kind = fault_of_file(WRITE, __func__, file);
    if (kind == TORN) { REAL(write)(file, parts[0].iov_base, parts[0].iov_len / 2); kill(getpid(), SIGKILL); pause(); }
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(writev)(file, parts, count);
}

ssize_t read(int file, void *bytes, size_t size) {
    int kind = fault_of_file(READ, __func__, file);
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(read)(file, bytes, size);
}

ssize_t pread64(int file, void *bytes, size_t size, off64_t at) {
    int kind = fault_of_file(READ, "pread", file);
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(pread64)(file, bytes, size, at);
}

ssize_t pread(int file, void *bytes, size_t size, off_t at) { return pread64(file, bytes, size, at); }

int fsync(int file) {
    int kind = fault_of_file(SYNC, __func__, file);
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(fsync)(file);
}

int fdatasync(int file) {
    int kind = fault_of_file(SYNC, __func__, file);
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(fdatasync)(file);
}

int ftruncate64(int file, off64_t size) {
    struct stat now;
    int grows = fstat(file, &now) == 0 && size > now.st_size;
    int kind = grows ? fault_of_file(CHANGE, "ftruncate", file) : -1;
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(ftruncate64)(file, size);
}

int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

int rename(const char *from, const char *to) {
    int kind = fault(CHANGE, __func__, to);
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(rename)(from, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    int kind = fault(CHANGE, __func__, to);
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(linkat)(from_folder, from, to_folder, to, flags);
}

int mkdir(const char *path, mode_t mode) {
    int kind = access(path, F_OK) ? fault(CHANGE, __func__, path) : -1;
    if (kind >= 0) FAIL_BY(kind, -1);
    return REAL(mkdir)(path, mode);
}

/* New files; an open of one that is there changes nothing. */
static int is_refused(const char *path, int flags, int *kind) {
    *kind = (flags & O_CREAT) && access(path, F_OK) ? fault(CHANGE, "open", path) : -1;
    return *kind >= 0;
}

#define OPEN(name)                                                   \
    int name(const char *path, int flags, ...) {                     \
        va_list more;                                                \
        va_start(more, flags);                                       \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                \
        int kind;                                                    \
        if (is_refused(path, flags, &kind)) FAIL_BY(kind, -1);       \
        return REAL(name)(path, flags, mode);                        \
    }

OPEN(open)
OPEN(open64)
