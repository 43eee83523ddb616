// fault.c: stand between a program and its disk (Linux, LD_PRELOAD).
//
// Every call that changes a file or folder below FAULT_ROOT is a *point*, numbered from 1 in the
// order of the calls of all processes that share FAULT_STATE. At the point that was armed the
// process is killed, its write is torn, or the call fails; or each point is recorded, with what
// was written, for a power cut to be played back; or only listed, a byte each that tells its kind.
//
//   FAULT_ROOT   the folder
//   FAULT_STATE  a file of sizeof(struct state), made by the test, outside of the folder
//   FAULT_TRACE  where to record to; outside of the folder
//
// Only calls that libc exports are seen: not a mapping's stores, nor stdio's own writes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { WATCH, KILL, TEAR, FAIL, FAIL_ON, RECORD, LIST };
enum kind { CREATE = 1, WRITE, TRUNCATE, SYNC, RENAME, REMOVE, LINK, MAKE, DROP, MARK, ALLOCATE };

struct state {  // shared by all processes; the test writes the first three fields
    int32_t action, error;
    int64_t at;
    _Atomic int64_t points;
};

static struct state *state;
static char root[PATH_MAX];
static size_t root_length;
static int trace = -1;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;  // the trace's order is the calls'

__attribute__((constructor)) static void begin(void) {
    const char *below = getenv("FAULT_ROOT"), *shared = getenv("FAULT_STATE");
    const char *to = getenv("FAULT_TRACE");
    if (!below || !shared || !realpath(below, root)) return;
    root_length = strlen(root);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, shared, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (found == MAP_FAILED) return;
    state = found;
    if (to) trace = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_below(const char *path) {
    return !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

// Return 1 and the absolute path where a name, relative to a folder, lies below the root.
static int named(int folder, const char *name, char *path) {
    if (!state || !name) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        char of[64], at[PATH_MAX];
        if (folder == AT_FDCWD) snprintf(of, sizeof of, "/proc/self/cwd");
        else snprintf(of, sizeof of, "/proc/self/fd/%d", folder);
        ssize_t size = readlink(of, at, sizeof at - 1);
        if (size < 0) return 0;
        at[size] = 0;
        if ((size_t)snprintf(path, PATH_MAX, "%s/%s", at, name) >= PATH_MAX) return 0;
    }
    return is_below(path);
}

static int opened(int fd, char *path) {
    if (!state) return 0;
    char of[64];
    int saved = errno;
    snprintf(of, sizeof of, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(of, path, PATH_MAX - 1);
    errno = saved;
    if (size < 0) return 0;
    path[size] = 0;
    return is_below(path);
}

// Count a point. Return 0 to go on, 1 to tear the write and die, or -1 with errno set.
static int point(enum kind kind) {
    int64_t now = atomic_fetch_add(&state->points, 1) + 1;
    int is_it = state->at && now == state->at, is_after = state->at && now > state->at;
    switch (state->action) {
    case KILL:
        if (is_it) kill(getpid(), SIGKILL), pause();
        return 0;
    case TEAR: return is_it;
    case FAIL:
    case FAIL_ON:
        if (!is_it && !(is_after && state->action == FAIL_ON)) return 0;
        errno = state->error;
        return -1;
    case LIST:
        if (trace >= 0 && syscall(SYS_write, trace, &(char){(char)kind}, 1) != 1) _exit(99);
        return 0;
    default: return 0;
    }
}

static void die(void) { kill(getpid(), SIGKILL), pause(); }

static int is_recording(void) { return state->action == RECORD && trace >= 0; }

// kind, path and second path with their sizes, place, size, data
static void record(enum kind kind, const char *path, const char *to, int64_t place,
                   const void *data, uint64_t size) {
    if (!is_recording()) return;
    uint32_t sizes[3] = {kind, (uint32_t)strlen(path + root_length), to ? (uint32_t)strlen(to + root_length) : 0};
    struct iovec parts[] = {{sizes, sizeof sizes}, {&place, sizeof place}, {&size, sizeof size},
                            {(void *)(path + root_length), sizes[1]},
                            {to ? (void *)(to + root_length) : NULL, sizes[2]},
                            {(void *)data, data ? size : 0}};
    size_t whole = 0;
    for (int i = 0; i < 6; i++) whole += parts[i].iov_len;
    if (syscall(SYS_writev, trace, parts, 6) != (long)whole) _exit(99);
}

// Say in the trace where the program stands: what it was told is durable must be.
void fault_mark(const char *text) {
    if (!state) return;
    pthread_mutex_lock(&order);
    record(MARK, root, NULL, 0, text, strlen(text));
    pthread_mutex_unlock(&order);
}

static int open_at(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    int changes = (flags & O_CREAT) || (flags & O_TRUNC);
    if (!changes || (flags & O_TMPFILE) == O_TMPFILE || !named(folder, name, path))
        return (int)syscall(SYS_openat, folder, name, flags, mode);
    struct stat found;
    int is_there = !fstatat(folder, name, &found, 0);
    if (is_there && !((flags & O_TRUNC) && found.st_size))
        return (int)syscall(SYS_openat, folder, name, flags, mode);
    int verdict = point(is_there ? TRUNCATE : CREATE);
    if (verdict < 0) return -1;
    if (verdict) die();
    pthread_mutex_lock(&order);
    int fd = (int)syscall(SYS_openat, folder, name, flags, mode);
    if (fd >= 0) record(is_there ? TRUNCATE : CREATE, path, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&order);
    return fd;
}

#define OPEN(name)                                                        \
    int name(const char *path, int flags, ...) {                          \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                     \
        return open_at(AT_FDCWD, path, flags, mode);                      \
    }
#define OPENAT(name)                                                      \
    int name(int folder, const char *path, int flags, ...) {              \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                     \
        return open_at(folder, path, flags, mode);                        \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

// Write at a place; at < 0: where the file stands.
static ssize_t put(int fd, const void *data, size_t size, off_t at) {
    char path[PATH_MAX];
    if (!opened(fd, path))
        return at < 0 ? syscall(SYS_write, fd, data, size) : syscall(SYS_pwrite64, fd, data, size, at);
    int verdict = point(WRITE);
    if (verdict < 0) return -1;
    pthread_mutex_lock(&order);
    off_t place = at;
    if (at < 0) {
        int is_appending = fcntl(fd, F_GETFL) & O_APPEND;
        struct stat found;
        place = is_appending && !fstat(fd, &found) ? found.st_size : lseek(fd, 0, SEEK_CUR);
    }
    size_t asked = verdict ? size / 2 : size;
    ssize_t done = at < 0 ? syscall(SYS_write, fd, data, asked) : syscall(SYS_pwrite64, fd, data, asked, at);
    if (verdict) die();
    if (done > 0) record(WRITE, path, NULL, place, data, (uint64_t)done);
    pthread_mutex_unlock(&order);
    return done;
}

ssize_t write(int fd, const void *data, size_t size) { return put(fd, data, size, -1); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return put(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return put(fd, data, size, at); }

static ssize_t put_all(int fd, const struct iovec *parts, int count, off_t at) {
    char path[PATH_MAX];
    if (!opened(fd, path))
        return at < 0 ? syscall(SYS_writev, fd, parts, count)
                      : syscall(SYS_pwritev, fd, parts, count, at, 0);
    ssize_t whole = 0;
    for (int i = 0; i < count; i++) {
        ssize_t done = put(fd, parts[i].iov_base, parts[i].iov_len, at < 0 ? -1 : at + whole);
        if (done < 0) return whole ? whole : -1;
        whole += done;
        if ((size_t)done < parts[i].iov_len) break;
    }
    return whole;
}
ssize_t writev(int fd, const struct iovec *parts, int count) { return put_all(fd, parts, count, -1); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return put_all(fd, parts, count, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { return put_all(fd, parts, count, at); }

// Calls that change something and write nothing: one point each.
#define CHANGE(is_ours, kind, to, place, call)                            \
    if (!(is_ours)) return (int)(call);                                   \
    int verdict = point(kind);                                            \
    if (verdict < 0) return -1;                                           \
    if (verdict) die();                                                   \
    pthread_mutex_lock(&order);                                           \
    int done = (int)(call);                                               \
    if (!done) record(kind, path, to, place, NULL, 0);                    \
    pthread_mutex_unlock(&order);                                         \
    return done

// No test pulls the plug: what was synced is known from the trace, and none waits for a real disk.
int fsync(int fd) { char path[PATH_MAX]; if (!opened(fd, path)) return (int)syscall(SYS_fsync, fd); CHANGE(1, SYNC, NULL, 0, 0); }
int fdatasync(int fd) { char path[PATH_MAX]; if (!opened(fd, path)) return (int)syscall(SYS_fdatasync, fd); CHANGE(1, SYNC, NULL, 0, 0); }
int ftruncate(int fd, off_t size) { char path[PATH_MAX]; CHANGE(opened(fd, path), TRUNCATE, NULL, size, syscall(SYS_ftruncate, fd, size)); }
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
int truncate(const char *name, off_t size) { char path[PATH_MAX]; CHANGE(named(AT_FDCWD, name, path), TRUNCATE, NULL, size, syscall(SYS_truncate, name, size)); }
int fallocate(int fd, int mode, off_t at, off_t size) { char path[PATH_MAX]; CHANGE(opened(fd, path), ALLOCATE, NULL, at + size, syscall(SYS_fallocate, fd, mode, at, size)); }
int fallocate64(int fd, int mode, off64_t at, off64_t size) { return fallocate(fd, mode, at, size); }
int posix_fallocate(int fd, off_t at, off_t size) { return fallocate(fd, 0, at, size) ? errno : 0; }
int posix_fallocate64(int fd, off64_t at, off64_t size) { return posix_fallocate(fd, at, size); }

static int rename_at(int from, const char *name, int to, const char *other, unsigned flags) {
    char path[PATH_MAX], target[PATH_MAX];
    int ours = named(from, name, path), into = named(to, other, target);
    CHANGE(ours && into, RENAME, target, 0, syscall(SYS_renameat2, from, name, to, other, flags));
}
int rename(const char *name, const char *other) { return rename_at(AT_FDCWD, name, AT_FDCWD, other, 0); }
int renameat(int from, const char *name, int to, const char *other) { return rename_at(from, name, to, other, 0); }
int renameat2(int from, const char *name, int to, const char *other, unsigned flags) { return rename_at(from, name, to, other, flags); }

int linkat(int from, const char *name, int to, const char *other, int flags) {
    char path[PATH_MAX], target[PATH_MAX];
    int ours = named(from, name, path), into = named(to, other, target);
    CHANGE(ours && into, LINK, target, 0, syscall(SYS_linkat, from, name, to, other, flags));
}
int link(const char *name, const char *other) { return linkat(AT_FDCWD, name, AT_FDCWD, other, 0); }

int unlinkat(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    CHANGE(named(folder, name, path), (flags & AT_REMOVEDIR) ? DROP : REMOVE, NULL, 0, syscall(SYS_unlinkat, folder, name, flags));
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int remove(const char *name) {
    struct stat found;
    return unlinkat(AT_FDCWD, name, !lstat(name, &found) && S_ISDIR(found.st_mode) ? AT_REMOVEDIR : 0);
}
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    CHANGE(named(folder, name, path), MAKE, NULL, 0, syscall(SYS_mkdirat, folder, name, mode));
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

// Shortcuts past read and write: refused, so that callers take the long way, which is seen.
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *place, size_t size, unsigned flags) {
    char path[PATH_MAX];
    if (opened(to, path)) { errno = ENOSYS; return -1; }
    return syscall(SYS_copy_file_range, from, at, to, place, size, flags);
}
ssize_t sendfile(int to, int from, off_t *at, size_t size) {
    char path[PATH_MAX];
    if (opened(to, path)) { errno = EINVAL; return -1; }
    return syscall(SYS_sendfile, to, from, at, size);
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) { return sendfile(to, from, at, size); }
