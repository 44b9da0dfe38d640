/* src/core/file.h - reads whole files, and writes files that are never half written
 *
 *   tiny_file f;
 *   if (tiny_file_open(ctx, "model.gguf", &f)) ... the sentence names the file ...
 *   ... f.bytes, f.n_bytes ...
 *   tiny_file_close(ctx, &f);
 *
 * tiny_file_open maps the file where the system can, and reads it into the context's memory elsewhere. If another
 * program shortens a mapped file, reading its lost pages stops this program with a signal. Use tiny_file_copy for files
 * that other programs may change. */
#ifndef TINYI_FILE_H
#define TINYI_FILE_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef struct tiny_file {
    const unsigned char *bytes;
    size_t n_bytes;
    void *mapped, *owned;                   /* private: at most one is set; neither for tiny_file_memory */
    size_t mapped_bytes;
} tiny_file;

/* A file whose bytes are already in memory: no copy, nothing to free. */
TINY_API tiny_file tiny_file_memory(const void *bytes, size_t n_bytes);
TINY_API tiny_status tiny_file_open(tiny_ctx *ctx, const char *path, tiny_file *out);
/* The most bytes that are read from a device (a terminal, /dev/zero) and from a pipe: these may never end. From a pipe
 * at most half of the machine's memory is read. A longer input fails. */
#define TINY_FILE_MOST_DEVICE ((uint64_t)64 << 20)
#define TINY_FILE_MOST_PIPE   ((uint64_t)16 << 30)
TINY_API tiny_status tiny_file_copy(tiny_ctx *ctx, const char *path, tiny_file *out);   /* read, never mapped */
TINY_API void tiny_file_close(tiny_ctx *ctx, tiny_file *file);     /* also takes one that failed to open */

/* Writes path.part, then renames it over path. Readers see the old file or the new one, even after a full disk or a
 * kill. A device or a pipe at path is written to, not replaced. A symbolic link at path.part is not followed unless it
 * leads to a character device. Fails if another program is writing path.part (where the system has flock). */
TINY_API tiny_status tiny_file_write(tiny_ctx *ctx, const char *path, const void *bytes, size_t n_bytes);

/* ---- inside: what the bodies share ---- */

/* tiny_file_write in pieces. All zero: nothing is open. After finish, even a failed one, and after abandon it is all
 * zero again. */
typedef struct tinyi_out {
    char *path, *part;                      /* one block: the name, and the one it is written under */
    uint64_t n_bytes;                       /* so far */
    void *file;                             /* a FILE */
    int special;                            /* a device or a pipe: written in its place */
    int lock;
} tinyi_out;
TINYI_FN uint64_t tinyi_file_most(const char *path);   /* the most bytes that are read from it */
TINYI_FN int tinyi_file_special(const char *path);     /* it exists, and is neither a regular file nor a folder */
/* of the machine, or of the container or service; UINT64_MAX if the system does not tell */
TINYI_FN uint64_t tinyi_half_memory(void);
TINYI_FN uint64_t tinyi_spare_memory(void);            /* the same, but no more than is free now */
/* The least memory limit of the control groups that this process is in, as containers and services are: version 2 with
 * the groups above it, version 1 as a container sees it. Of Linux: "/sys/fs/cgroup", "/proc/self/cgroup" */
TINYI_FN uint64_t tinyi_group_memory(const char *root, const char *groups);
/* The steps of a write, for a writer of several files. *file is a FILE. close returns 0, with errno set, if not all
 * bytes were written. The part stays locked until its file is closed and tinyi_part_unlock was called. Call that after
 * the part was renamed or removed. lock may be NULL; *lock 0: no lock. */
TINYI_FN tiny_status tinyi_part_open(tiny_ctx *ctx, const char *part, int special, void **file, int *lock);
TINYI_FN int tinyi_part_close(void *file, int special);
TINYI_FN tiny_status tinyi_part_rename(tiny_ctx *ctx, const char *part, const char *path);
TINYI_FN void tinyi_part_unlock(int *lock);
TINYI_FN tiny_status tinyi_out_open(tiny_ctx *ctx, const char *path, tinyi_out *out);
TINYI_FN tiny_status tinyi_out_add(tiny_ctx *ctx, tinyi_out *out, const void *bytes, size_t n_bytes);
TINYI_FN tiny_status tinyi_out_finish(tiny_ctx *ctx, tinyi_out *out);
TINYI_FN void tinyi_out_abandon(tiny_ctx *ctx, tinyi_out *out);        /* removes the part */
/* sets where the next bytes are written; fails for devices and pipes */
TINYI_FN tiny_status tinyi_out_seek(tiny_ctx *ctx, tinyi_out *out, uint64_t at);

/* Reads a file in pieces, for files larger than memory. All zero: nothing is open. */
typedef struct tinyi_in {
    const char *path;                       /* the caller's */
    void *file;                             /* a FILE */
    uint64_t n_bytes;                       /* its size; 0 for a pipe, which cannot be sought in either */
} tinyi_in;
TINYI_FN tiny_status tinyi_in_open(tiny_ctx *ctx, const char *path, tinyi_in *in);
/* *n < room: the end of the file */
TINYI_FN tiny_status tinyi_in_read(tiny_ctx *ctx, tinyi_in *in, void *bytes, size_t room, size_t *n);
TINYI_FN tiny_status tinyi_in_seek(tiny_ctx *ctx, tinyi_in *in, uint64_t at);
TINYI_FN void tinyi_in_close(tinyi_in *in);
/* Opens the bytes added so far for reading; more may be added meanwhile. */
TINYI_FN tiny_status tinyi_out_look(tiny_ctx *ctx, tinyi_out *out, tinyi_in *in);

TINYI_C_END
#endif
