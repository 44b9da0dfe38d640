/* src/llm/file/fd.h - maps part of an open file: an asset in a package, or a descriptor from another process */
#ifndef TINYI_FD_H
#define TINYI_FD_H
#include "core/file.h"
TINYI_C_BEGIN

/* Maps n_bytes at offset, or reads them if the system cannot map. n_bytes 0: up to the end of the file. name is shown
 * in error messages. The caller owns the descriptor and may close it after the call. Its position does not matter, but
 * may be changed. On Windows it must be in binary mode. Release the bytes with tiny_file_close. */
TINY_API tiny_status tllm_file_from_fd(tiny_ctx *ctx, int fd, uint64_t offset, uint64_t n_bytes, const char *name,
                                       tiny_file *out);

TINYI_C_END
#endif
