/* src/llm/file/fd.h - part of an open file as bytes: an asset in a package, a descriptor from another process */
#ifndef TINYI_FD_H
#define TINYI_FD_H
#include "core/file.h"
TINYI_C_BEGIN

/* Maps n_bytes at offset, or reads them if the system cannot map. n_bytes 0: up to the end. Error messages contain
 * name. The caller owns the descriptor, which must be in binary mode on Windows; its position is not used, but may
 * change. tiny_file_close frees the bytes. */
TINY_API tiny_status tllm_file_from_fd(tiny_ctx *ctx, int fd, uint64_t offset, uint64_t n_bytes, const char *name,
                                       tiny_file *out);

TINYI_C_END
#endif
