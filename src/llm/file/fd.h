/* src/llm/file/fd.h - a piece of an open file as bytes: an asset inside a package, a descriptor from another process */
#ifndef TINYI_FD_H
#define TINYI_FD_H
#include "core/file.h"
TINYI_C_BEGIN

/* n_bytes at offset; 0: up to the end. Mapped where the system can, else read. name stands in the sentences. The
 * descriptor stays the caller's (on Windows opened as binary); its position is not used and not kept. tiny_file_close
 * gives the bytes back. */
TINY_API tiny_status tllm_file_from_fd(tiny_ctx *ctx, int fd, uint64_t offset, uint64_t n_bytes, const char *name,
                                       tiny_file *out);

TINYI_C_END
#endif
