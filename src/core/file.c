/* src/core/file.c */
#include "core/state_inside.h"
#include "core/file.h"
#include <string.h>
#ifndef TINY_NO_STDIO
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#endif
#if !defined TINY_NO_STDIO && (defined __unix__ || defined __APPLE__) && !defined __EMSCRIPTEN__ && !defined __wasi__
#define TINYI_HAVE_MMAP 1
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined O_NOFOLLOW
#define TINYI_NOFOLLOW O_NOFOLLOW
#elif defined __O_NOFOLLOW                  /* strict C99 hides the other one */
#define TINYI_NOFOLLOW __O_NOFOLLOW
#endif
#if defined TINYI_NOFOLLOW && !defined _POSIX_C_SOURCE && !defined __APPLE__ && !defined __cplusplus
extern FILE *fdopen(int fd, const char *mode);          /* hidden there too */
#endif
#else
#define TINYI_HAVE_MMAP 0
#endif
#if !defined TINY_NO_STDIO && defined _WIN32
#ifdef __cplusplus
extern "C"
#endif
__declspec(dllimport) int __stdcall MoveFileExA(const char *, const char *, unsigned long);
#endif

TINY_API tiny_file tiny_file_memory(const void *bytes, size_t n_bytes)
{
    tiny_file f;
    memset(&f, 0, sizeof f);
    f.bytes = (const unsigned char *)bytes;
    f.n_bytes = n_bytes;
    return f;
}

#ifndef TINY_NO_STDIO
/* the number at the start of a file, or after `name` in it; UINT64_MAX: there is none */
static uint64_t tinyi_number_in(const char *path, const char *name)
{
    char text[4096];
    const char *at = text;
    uint64_t n = 0;
    size_t got;
    FILE *f = fopen(path, "r");
    if (!f) return UINT64_MAX;
    got = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[got] = 0;
    if (name && (at = strstr(text, name)) != NULL) at += strlen(name);
    while (at && *at == ' ') at++;
    if (!at || *at < '0' || *at > '9') return UINT64_MAX;   /* "max": no limit */
    for (; *at >= '0' && *at <= '9' && n < UINT64_MAX / 16; at++) n = n * 10 + (uint64_t)(*at - '0');
    return n;
}

TINYI_FN uint64_t tinyi_group_memory(const char *root, const char *groups)
{
    char line[1024], path[1200], *end;
    uint64_t least;
    FILE *f = fopen(groups, "r");
    (void)snprintf(path, sizeof path, "%s/memory/memory.limit_in_bytes", root);
    least = tinyi_number_in(path, NULL);
    if (!f) return least;
    while (fgets(line, (int)sizeof line, f))
        if (!strncmp(line, "0::/", 4)) {
            line[strcspn(line, "\n")] = 0;
            for (end = line + strlen(line); end >= line + 3; end--) {
                if (*end && *end != '/') continue;
                *end = 0;
                (void)snprintf(path, sizeof path, "%s%s/memory.max", root, line + 3);
                least = TINYI_MIN(least, tinyi_number_in(path, NULL));
            }
        }
    (void)fclose(f);
    return least;
}
#else
TINYI_FN uint64_t tinyi_group_memory(const char *root, const char *groups)
{
    (void)root;
    (void)groups;
    return UINT64_MAX;
}
#endif

TINYI_FN uint64_t tinyi_half_memory(void)
{
    uint64_t most = UINT64_MAX;
#if TINYI_HAVE_MMAP && defined _SC_PHYS_PAGES
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) most = (uint64_t)pages * (uint64_t)page;
#endif
#if TINYI_HAVE_MMAP && defined __linux__
    most = TINYI_MIN(most, tinyi_group_memory("/sys/fs/cgroup", "/proc/self/cgroup"));
#endif
    return most == UINT64_MAX ? most : most / 2;
}

TINYI_FN uint64_t tinyi_spare_memory(void)
{
    uint64_t most = tinyi_half_memory();
#if TINYI_HAVE_MMAP && defined __linux__
    const uint64_t kilobytes = tinyi_number_in("/proc/meminfo", "MemAvailable:");
    if (kilobytes < UINT64_MAX / 1024) most = TINYI_MIN(most, kilobytes * 1024);
#endif
    return most;
}

#ifdef TINY_NO_STDIO
static tiny_status tinyi_file_none(tiny_ctx *ctx, const char *path)
{
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: this build has no files (TINY_NO_STDIO)", path ? path : "?");
}
TINYI_FN int tinyi_file_special(const char *path)
{
    (void)path;
    return 0;
}
TINY_API tiny_status tiny_file_open(tiny_ctx *ctx, const char *path, tiny_file *out)
{
    if (out) *out = tiny_file_memory(NULL, 0);
    return tinyi_file_none(ctx, path);
}
TINY_API tiny_status tiny_file_copy(tiny_ctx *ctx, const char *path, tiny_file *out)
{
    return tiny_file_open(ctx, path, out);
}
tiny_status tinyi_part_open(tiny_ctx *ctx, const char *part, int special, void **file, int *lock)
{
    (void)special;
    (void)lock;
    *file = NULL;
    return tinyi_file_none(ctx, part);
}
uint64_t tinyi_file_most(const char *path)
{
    (void)path;
    return 0;
}
int tinyi_part_close(void *file, int special)
{
    (void)file;
    return special & 0;
}
tiny_status tinyi_part_rename(tiny_ctx *ctx, const char *part, const char *path)
{
    (void)part;
    return tinyi_file_none(ctx, path);
}
void tinyi_part_unlock(int *lock) { *lock = 0; }
tiny_status tinyi_out_open(tiny_ctx *ctx, const char *path, tinyi_out *out)
{
    memset(out, 0, sizeof *out);
    return tinyi_file_none(ctx, path);
}
tiny_status tinyi_out_add(tiny_ctx *ctx, tinyi_out *out, const void *bytes, size_t n_bytes)
{
    (void)out;
    (void)bytes;
    (void)n_bytes;
    return tinyi_file_none(ctx, NULL);
}
tiny_status tinyi_out_finish(tiny_ctx *ctx, tinyi_out *out) { return tinyi_out_add(ctx, out, NULL, 0); }
void tinyi_out_abandon(tiny_ctx *ctx, tinyi_out *out)
{
    (void)ctx;
    (void)out;
}
tiny_status tinyi_out_seek(tiny_ctx *ctx, tinyi_out *out, uint64_t at)
{
    (void)at;
    return tinyi_out_add(ctx, out, NULL, 0);
}
tiny_status tinyi_in_open(tiny_ctx *ctx, const char *path, tinyi_in *in)
{
    memset(in, 0, sizeof *in);
    return tinyi_file_none(ctx, path);
}
tiny_status tinyi_in_read(tiny_ctx *ctx, tinyi_in *in, void *bytes, size_t room, size_t *n)
{
    (void)bytes;
    (void)room;
    *n = 0;
    return tinyi_file_none(ctx, in->path);
}
tiny_status tinyi_in_seek(tiny_ctx *ctx, tinyi_in *in, uint64_t at)
{
    (void)at;
    return tinyi_file_none(ctx, in->path);
}
void tinyi_in_close(tinyi_in *in) { (void)in; }
tiny_status tinyi_out_look(tiny_ctx *ctx, tinyi_out *out, tinyi_in *in)
{
    (void)out;
    return tinyi_in_open(ctx, NULL, in);
}
#else

/* Reads until the end, whatever size the system tells: pipes have none, and a file may grow or shrink meanwhile. */
static tiny_status tinyi_file_read(tiny_ctx *ctx, FILE *f, const char *path, uint64_t most, tiny_file *out)
{
    size_t room = 1u << 16, n = 0;
    unsigned char *p = (unsigned char *)tinyi_alloc(ctx, room, 1);
    if (!p) return tiny_ctx_status(ctx);
    for (;;) {
        unsigned char *q;
        n += fread(p + n, 1, room - n, f);
        if (ferror(f)) {
            tiny_free(ctx, p);
            return tinyi_fail(ctx, TINY_E_IO, "%s: read error after %zu bytes: %s", path, n, strerror(errno));
        }
        if (n < room && n <= most) break;
        if (n > most) {
            tiny_free(ctx, p);
            return tinyi_fail(ctx, TINY_E_IO,
                              "%s: more than %llu bytes were read without an end; this is the limit for anything that "
                              "is not a regular file",
                              path, (unsigned long long)most);
        }
        q = (unsigned char *)tinyi_alloc(ctx, room, 2);
        if (!q) {
            tiny_free(ctx, p);
            return tiny_ctx_status(ctx);
        }
        memcpy(q, p, n);
        tiny_free(ctx, p);
        p = q;
        room *= 2;
    }
    out->owned = p;
    out->bytes = p;
    out->n_bytes = n;
    return TINY_OK;
}

static tiny_status tinyi_file_enter(tiny_ctx *ctx, const char *path, tiny_file *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = tiny_file_memory(NULL, 0);
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a file needs a path and an output pointer");
    return TINY_OK;
}

/* A device (/dev/zero) or the writer of a pipe may never end, so both have a limit; a pipe gets half of the memory. */
TINYI_FN uint64_t tinyi_file_most(const char *path)
{
#if TINYI_HAVE_MMAP
    struct stat info;
    if (!stat(path, &info) && !S_ISREG(info.st_mode)) {
        return S_ISCHR(info.st_mode) ? TINY_FILE_MOST_DEVICE : TINYI_MIN(tinyi_half_memory(), TINY_FILE_MOST_PIPE);
    }
#endif
    (void)path;
    return UINT64_MAX;
}

TINY_API tiny_status tiny_file_copy(tiny_ctx *ctx, const char *path, tiny_file *out)
{
    FILE *f;
    tiny_status st = tinyi_file_enter(ctx, path, out);
    if (st) return st;
    f = fopen(path, "rb");
    if (!f) return tinyi_fail(ctx, TINY_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
    st = tinyi_file_read(ctx, f, path, tinyi_file_most(path), out);
    (void)fclose(f);
    return st;
}

/* neither file nor folder: output to /dev/null must not replace it by a file, and a pipe is opened once */
TINYI_FN int tinyi_file_special(const char *path)
{
#if TINYI_HAVE_MMAP
    struct stat info;
    return !stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
#else
    (void)path;
    return 0;
#endif
}

TINY_API tiny_status tiny_file_open(tiny_ctx *ctx, const char *path, tiny_file *out)
{
#if TINYI_HAVE_MMAP
    tiny_status st = tinyi_file_enter(ctx, path, out);
    struct stat info;
    int fd;
    if (st) return st;
    /* the writer of a pipe is gone after the pipe was closed once */
    if (tinyi_file_special(path)) return tiny_file_copy(ctx, path, out);
    fd = open(path, O_RDONLY);
    if (fd < 0) return tinyi_fail(ctx, TINY_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
    if (!fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size > 0 &&
        (uintmax_t)info.st_size <= (uintmax_t)TINY_IDX_MAX) {
        void *p = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) {
            (void)close(fd);
            out->mapped = p;
            out->mapped_bytes = out->n_bytes = (size_t)info.st_size;
            out->bytes = (const unsigned char *)p;
            return TINY_OK;
        }
    }
    (void)close(fd);
#endif
    return tiny_file_copy(ctx, path, out);
}

#ifdef TINYI_NOFOLLOW
/* Two programs that write the same path would mix their bytes. The lock is released when the last descriptor is closed,
 * also by a kill. A program that opened the part just before it was renamed has a file that is no longer the part. It
 * must open the part again (*ours 0). */
static tiny_status tinyi_part_lock(tiny_ctx *ctx, const char *part, int fd, int *ours)
{
    struct stat mine, there;
    memset(&mine, 0, sizeof mine);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);   /* children have no part in it */
#ifdef LOCK_EX
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return tinyi_fail(ctx, TINY_E_IO, "%s: another program is writing it", part);
#endif
    if (fstat(fd, &mine) || !S_ISREG(mine.st_mode)) *ours = 1;
    if (!*ours) *ours = !stat(part, &there) && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
    /* left by a killed program; strict C99 hides ftruncate */
    if (*ours && S_ISREG(mine.st_mode) && mine.st_size > 0) {
        const int again = open(part, O_WRONLY | O_TRUNC | O_NONBLOCK | TINYI_NOFOLLOW);
        if (again < 0) return tinyi_fail(ctx, TINY_E_IO, "%s: cannot be emptied: %s", part, strerror(errno));
        (void)close(again);
    }
    return TINY_OK;
}
#endif

/* In a folder with other writers, one of them may have put a link to one of our files under this name. */
tiny_status tinyi_part_open(tiny_ctx *ctx, const char *part, int special, void **file, int *lock)
{
#ifdef TINYI_NOFOLLOW
    int fd = -1, ours = 0, tries;
    if (lock) *lock = 0;
    for (tries = 0; !special && !ours && (fd = open(part, O_WRONLY | O_CREAT | O_NONBLOCK | TINYI_NOFOLLOW, 0666)) >= 0;
         tries++) {
        tiny_status st;
        /* some file systems of networks have no numbers that stay: as if there were no lock */
        ours = tries == 100;
        st = tinyi_part_lock(ctx, part, fd, &ours);
        if (st || !ours) (void)close(fd);
        if (st) return st;
    }
    if (fd >= 0) {
        const int held = lock ? dup(fd) : -1;
        *file = fdopen(fd, "wb");
        if (!*file) (void)close(fd);
        if (held >= 0) {
            (void)fcntl(held, F_SETFD, FD_CLOEXEC);
            *lock = held + 1;
            if (!*file) tinyi_part_unlock(lock);
        }
    } else if (special || errno != ELOOP) {
        *file = special ? fopen(part, "wb") : NULL;
    } else { /* a link; where it leads is neither made nor emptied, and no reader of a pipe is waited for */
        const int there = open(part, O_WRONLY | O_NONBLOCK);
        struct stat info;
        *file = there >= 0 && !fstat(there, &info) && S_ISCHR(info.st_mode) ? fdopen(there, "wb") : NULL;
        if (!*file && there >= 0) (void)close(there);
        if (!*file)
            return tinyi_fail(ctx, TINY_E_IO,
                              "%s: is a symbolic link that does not lead to a device; its target is not overwritten",
                              part);
    }
#else
    (void)special;
    if (lock) *lock = 0;
    *file = fopen(part, "wb");
#endif
    return *file ? TINY_OK : tinyi_fail(ctx, TINY_E_IO, "%s: cannot be opened for writing: %s", part, strerror(errno));
}

void tinyi_part_unlock(int *lock)
{
#ifdef TINYI_NOFOLLOW
    if (*lock) (void)close(*lock - 1);
#endif
    *lock = 0;
}

int tinyi_part_close(void *file, int special)
{
    int ok = !fflush((FILE *)file);
#if TINYI_HAVE_MMAP && defined _POSIX_C_SOURCE
    ok &= special || !fsync(fileno((FILE *)file));
#else
    (void)special;
#endif
    return ok & !fclose((FILE *)file);
}

tiny_status tinyi_part_rename(tiny_ctx *ctx, const char *part, const char *path)
{
    if (tinyi_file_special(part))
        return tinyi_fail(ctx, TINY_E_IO, "%s: is not a regular file, and does not replace %s", part, path);
#ifdef _WIN32
    if (MoveFileExA(part, path, 1)) return TINY_OK;     /* 1: replace what is there; rename refuses on Windows */
#else
    if (!rename(part, path)) return TINY_OK;
#endif
    return tinyi_fail(ctx, TINY_E_IO, "%s: cannot be renamed to %s: %s", part, path, strerror(errno));
}

tiny_status tinyi_out_open(tiny_ctx *ctx, const char *path, tinyi_out *out)
{
    size_t n = strlen(path);
    tiny_status st;
    memset(out, 0, sizeof *out);
    /* path stands in memory: twice it is no overflow */
    out->path = (char *)tinyi_alloc(ctx, 2 * n + 1 + sizeof ".part", 1);
    if (!out->path) return tiny_ctx_status(ctx);
    out->part = out->path + n + 1;
    memcpy(out->path, path, n + 1);
    memcpy(out->part, path, n);
    out->special = tinyi_file_special(path);
    memcpy(out->part + n, out->special ? "" : ".part", out->special ? 1 : sizeof ".part");
    st = tinyi_part_open(ctx, out->part, out->special, &out->file, &out->lock);
    if (!st) return TINY_OK;
    out->special = 1;                       /* what stands there is not ours */
    tinyi_out_abandon(ctx, out);
    return st;
}

static tiny_status tinyi_out_fail(tiny_ctx *ctx, const tinyi_out *out)
{
    return tinyi_fail(ctx, TINY_E_IO, "%s: %llu bytes could not be written: %s", out->part,
                      (unsigned long long)out->n_bytes, strerror(errno));
}

tiny_status tinyi_out_add(tiny_ctx *ctx, tinyi_out *out, const void *bytes, size_t n_bytes)
{
    out->n_bytes += n_bytes;
    return n_bytes && fwrite(bytes, 1, n_bytes, (FILE *)out->file) != n_bytes ? tinyi_out_fail(ctx, out) : TINY_OK;
}

tiny_status tinyi_out_finish(tiny_ctx *ctx, tinyi_out *out)
{
    tiny_status st = TINY_OK;
    const int arrived = tinyi_part_close(out->file, out->special);
    out->file = NULL;
    if (!arrived) st = tinyi_out_fail(ctx, out);
    else if (!out->special) {
        st = tinyi_part_rename(ctx, out->part, out->path);
        if (!st) out->special = 1;          /* nothing is left to remove */
    }
    tinyi_out_abandon(ctx, out);
    return st;
}

static int tinyi_file_seek(FILE *f, uint64_t at, int from)
{
#ifdef _WIN32
    return at <= INT64_MAX && !_fseeki64(f, (__int64)at, from);
#else
    return at <= (uint64_t)LONG_MAX && !fseek(f, (long)at, from);
#endif
}

/* where it stands; 0 also where that is not known */
static uint64_t tinyi_file_tell(FILE *f)
{
#ifdef _WIN32
    const __int64 at = _ftelli64(f);
#else
    const long at = ftell(f);
#endif
    return at > 0 ? (uint64_t)at : 0;
}

tiny_status tinyi_out_seek(tiny_ctx *ctx, tinyi_out *out, uint64_t at)
{
    if (out->special)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: it is not a regular file, so it cannot be written out of order", out->part);
    if (!tinyi_file_seek((FILE *)out->file, at, SEEK_SET))
        return tinyi_fail(ctx, TINY_E_IO, "%s: byte %llu cannot be reached", out->part, (unsigned long long)at);
    return TINY_OK;
}

tiny_status tinyi_in_open(tiny_ctx *ctx, const char *path, tinyi_in *in)
{
    memset(in, 0, sizeof *in);
    in->path = path;
    in->file = fopen(path, "rb");
    if (!in->file) return tinyi_fail(ctx, TINY_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
    if (tinyi_file_special(path) || !tinyi_file_seek((FILE *)in->file, 0, SEEK_END)) return TINY_OK;
    in->n_bytes = tinyi_file_tell((FILE *)in->file);
    return tinyi_in_seek(ctx, in, 0);
}

tiny_status tinyi_in_read(tiny_ctx *ctx, tinyi_in *in, void *bytes, size_t room, size_t *n)
{
    *n = fread(bytes, 1, room, (FILE *)in->file);
    return ferror((FILE *)in->file) ? tinyi_fail(ctx, TINY_E_IO, "%s: read error: %s", in->path, strerror(errno))
                                    : TINY_OK;
}

tiny_status tinyi_in_seek(tiny_ctx *ctx, tinyi_in *in, uint64_t at)
{
    return tinyi_file_seek((FILE *)in->file, at, SEEK_SET)
               ? TINY_OK
               : tinyi_fail(ctx, TINY_E_IO, "%s: byte %llu cannot be reached", in->path, (unsigned long long)at);
}

void tinyi_in_close(tinyi_in *in)
{
    if (in->file) (void)fclose((FILE *)in->file);
    memset(in, 0, sizeof *in);
}

tiny_status tinyi_out_look(tiny_ctx *ctx, tinyi_out *out, tinyi_in *in)
{
    memset(in, 0, sizeof *in);
    return fflush((FILE *)out->file) ? tinyi_out_fail(ctx, out) : tinyi_in_open(ctx, out->part, in);
}

void tinyi_out_abandon(tiny_ctx *ctx, tinyi_out *out)
{
    if (out->file) (void)fclose((FILE *)out->file);
    if (out->path && !out->special) (void)remove(out->part);
    tinyi_part_unlock(&out->lock);          /* last: the next writer of the path makes its own part */
    tiny_free(ctx, out->path);
    memset(out, 0, sizeof *out);
}
#endif

TINY_API tiny_status tiny_file_write(tiny_ctx *ctx, const char *path, const void *bytes, size_t n_bytes)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tinyi_out out;
    if (st) return st;
    if (!path || (!bytes && n_bytes))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a file to write needs a path and its bytes");
    st = tinyi_out_open(ctx, path, &out);
    if (st) return st;
    st = tinyi_out_add(ctx, &out, bytes, n_bytes);
    if (!st) return tinyi_out_finish(ctx, &out);
    tinyi_out_abandon(ctx, &out);
    return st;
}

TINY_API void tiny_file_close(tiny_ctx *ctx, tiny_file *file)
{
    if (!file) return;
#if TINYI_HAVE_MMAP
    if (file->mapped) (void)munmap(file->mapped, file->mapped_bytes);
#endif
    tiny_free(ctx, file->owned);
    *file = tiny_file_memory(NULL, 0);
}
