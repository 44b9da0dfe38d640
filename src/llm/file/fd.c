/* src/llm/file/fd.c */
#include "core/state_inside.h"
#include "llm/file/fd.h"
#include <string.h>
#ifndef TINY_NO_STDIO
#include <errno.h>
#if defined _WIN32
#define TINYI_FD_READS 1
#define TINYI_FD_MAPS 0
#include <io.h>
#elif defined __unix__ || defined __APPLE__ || defined __wasi__
#define TINYI_FD_READS 1
#if defined __EMSCRIPTEN__ || defined __wasi__
#define TINYI_FD_MAPS 0
#else
#define TINYI_FD_MAPS 1
#include <sys/mman.h>
#endif
#include <sys/stat.h>
#include <unistd.h>
#endif
#endif
#ifndef TINYI_FD_READS
#define TINYI_FD_READS 0
#endif

#if TINYI_FD_READS
/* bytes of the file; -1: the system does not know, and errno says why; -2: it is no regular file */
static long long tinyi_fd_size(int fd)
{
    if (fd < 0) {                           /* some C libraries end the program */
        errno = EBADF;
        return -1;
    }
#ifdef _WIN32
    return _filelengthi64(fd);
#else
    {
        struct stat info;
        if (fstat(fd, &info)) return -1;
        return S_ISREG(info.st_mode) ? (long long)info.st_size : -2;
    }
#endif
}

/* n bytes at offset into p; how many came */
static size_t tinyi_fd_read(int fd, uint64_t offset, unsigned char *p, size_t n)
{
    const size_t piece = (size_t)1 << 24;   /* what every system takes at once */
    size_t done = 0;
#ifdef _WIN32
    if (_lseeki64(fd, (long long)offset, 0) < 0) return 0;
#else
    if (lseek(fd, (off_t)offset, SEEK_SET) < 0) return 0;
#endif
    while (done < n) {
        size_t want = TINYI_MIN(n - done, piece);
#ifdef _WIN32
        int got = _read(fd, p + done, (unsigned)want);
#else
        ptrdiff_t got = read(fd, p + done, want);
        if (got < 0 && errno == EINTR) continue;
#endif
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}
#endif

TINY_API tiny_status tllm_file_from_fd(tiny_ctx *ctx, int fd, uint64_t offset, uint64_t n_bytes, const char *name,
                                       tiny_file *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = tiny_file_memory(NULL, 0);
    if (st) return st;
    if (!out || !name)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "file descriptor: the name or the result pointer is NULL");
#if TINYI_FD_READS
    {
        long long all = tinyi_fd_size(fd);
        uint64_t size = (uint64_t)all;
        unsigned char *p;
        if (all == -2) return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: the descriptor is not a regular file", name);
        if (all < 0)
            return tinyi_fail(ctx, TINY_E_IO, "%s: the size of the file cannot be read: %s", name,
                              strerror(errno));
        if (offset > size || n_bytes > size - offset)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %llu bytes at %llu were requested, but the file ends at %llu",
                              name, (unsigned long long)n_bytes, (unsigned long long)offset, (unsigned long long)size);
        if (!n_bytes) n_bytes = size - offset;
        if (!n_bytes) return TINY_OK;
        if (n_bytes > (uint64_t)TINY_IDX_MAX / 2)
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %llu bytes are more than this machine can address", name,
                              (unsigned long long)n_bytes);
#if TINYI_FD_MAPS
        {
            uint64_t before = offset % (uint64_t)sysconf(_SC_PAGESIZE);    /* a mapping starts with a page */
            void *map = mmap(NULL, (size_t)(n_bytes + before), PROT_READ, MAP_PRIVATE, fd, (off_t)(offset - before));
            if (map != MAP_FAILED) {
                out->mapped = map;
                out->mapped_bytes = (size_t)(n_bytes + before);
                out->bytes = (const unsigned char *)map + before;
                out->n_bytes = (size_t)n_bytes;
                return TINY_OK;
            }
        }
#endif
        p = (unsigned char *)tinyi_alloc(ctx, (size_t)n_bytes, 1);
        if (!p) return tiny_ctx_status(ctx);
        if (tinyi_fd_read(fd, offset, p, (size_t)n_bytes) != (size_t)n_bytes) {
            tiny_free(ctx, p);
            return tinyi_fail(ctx, TINY_E_IO, "%s: %llu bytes at %llu cannot be read: %s", name,
                              (unsigned long long)n_bytes, (unsigned long long)offset, strerror(errno));
        }
        out->owned = p;
        out->bytes = p;
        out->n_bytes = (size_t)n_bytes;
        return TINY_OK;
    }
#else
    (void)fd;
    (void)offset;
    (void)n_bytes;
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: this build does not support descriptors", name);
#endif
}
