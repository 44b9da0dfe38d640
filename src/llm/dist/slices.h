/* src/llm/dist/slices.h - a rank without the model file gets its part of it from rank 0
 *
 *   rank 0                                           each other rank, at the same time
 *   d.net = net; d.file = file; d.share = share;     d.net = net; d.share = share; d.folder = "cache";
 *   tllm_slices_serve(ctx, &d);                      tllm_slices_fetch(ctx, &d, path, sizeof path);
 *   ... tiny_comm_open, tllm_model_cut_by ...        tllm_gguf_open(ctx, path, &file); ... the same ...
 *
 * The file that a rank gets has the size and the header of the whole one. It holds the rows and columns of that rank;
 * the rest is a hole, which takes no space on file systems with sparse files. It stays in the folder, under a name made
 * of digests, and the next group with the same file, ranks and shares uses it again. A rank that has the whole file
 * gives it, and only compares it.
 *
 * Slices are asked for by number of tensor and rank, never by a name or a place in the file. Every length and digest
 * (SHA-256) is checked before the file gets its name. Nothing from the wire becomes a path. */
#ifndef TINYI_SLICES_H
#define TINYI_SLICES_H
#include "core/net.h"
#include "llm/file/gguf.h"
TINYI_C_BEGIN

typedef struct tllm_slices_desc {
    tiny_net *net;                          /* before its comm is opened. A failure ends its group */
    const tllm_gguf *file;                  /* one GGUF file. NULL: this rank, which is not 0, has none */
    const double *share;                    /* as in tllm_model_cut_by, the same on all ranks */
    const char *folder;                     /* without a file: where the part is kept; it must exist */
    uint64_t timeout_ns;                    /* without any progress; 0: 60 s */
    uint64_t most;                          /* the largest file that is accepted, in bytes; 0: no limit */
} tllm_slices_desc;

typedef struct tllm_slices_about {
    uint64_t bytes;                         /* of slices and headers, sent or received */
    int asked;                              /* rank 0: ranks that took slices. Others: 1, this rank did */
} tllm_slices_about;

/* Rank 0: answers until every other rank has what it needs. about may be NULL. */
TINY_API tiny_status tllm_slices_serve(tiny_ctx *ctx, const tllm_slices_desc *desc, tllm_slices_about *about);
/* Other ranks. path: the file, "" where desc has one; TINY_E_OVERFLOW: it does not fit into room. */
TINY_API tiny_status tllm_slices_fetch(tiny_ctx *ctx, const tllm_slices_desc *desc, char *path, size_t room,
                                       tllm_slices_about *about);

TINYI_C_END
#endif
