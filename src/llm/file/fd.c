/* src/llm/file/fd.c */
#include "core/state.h"
#include "llm/file/fd.h"
#if !defined TINY_NO_STDIO && (defined __unix__ || defined __APPLE__) && !defined __EMSCRIPTEN__ && !defined __wasi__
#define TINYI_FD_MAPS 1
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#else
#define TINYI_FD_MAPS 0
#endif

TINY_API tiny_status tllm_file_from_fd(tiny_ctx *ctx, int fd, uint64_t offset, uint64_t n_bytes, const char *name, tiny_file *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = tiny_file_memory(NULL, 0);
    if (st) return st;
    if (!out || !name) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a file from a descriptor needs a name and a place for its bytes");
#if TINYI_FD_MAPS
    {
        struct stat info;
        uint64_t size, page = (uint64_t)sysconf(_SC_PAGESIZE), before;
        void *p;
        if (fstat(fd, &info)) return tinyi_fail(ctx, TINY_E_IO, "%s: the descriptor cannot be asked for its size: %s", name, strerror(errno));
        if (!S_ISREG(info.st_mode)) return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: the descriptor is no regular file", name);
        size = (uint64_t)info.st_size;
        if (offset > size || n_bytes > size - offset)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %llu bytes at %llu were asked for, the file ends at %llu", name, (unsigned long long)n_bytes,
                              (unsigned long long)offset, (unsigned long long)size);
        if (!n_bytes) n_bytes = size - offset;
        if (!n_bytes) return TINY_OK;
        before = offset % page;             /* a mapping starts with a page */
        if (n_bytes > (uint64_t)TINY_IDX_MAX - before)
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %llu bytes are more than this machine can address", name, (unsigned long long)n_bytes);
        p = mmap(NULL, (size_t)(n_bytes + before), PROT_READ, MAP_PRIVATE, fd, (off_t)(offset - before));
        if (p == MAP_FAILED) return tinyi_fail(ctx, TINY_E_IO, "%s: %llu bytes cannot be mapped: %s", name, (unsigned long long)n_bytes, strerror(errno));
        out->mapped = p;
        out->mapped_bytes = (size_t)(n_bytes + before);
        out->bytes = (const unsigned char *)p + before;
        out->n_bytes = (size_t)n_bytes;
        return TINY_OK;
    }
#else
    (void)fd;
    (void)offset;
    (void)n_bytes;
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: this system has no descriptors that can be mapped", name);
#endif
}
