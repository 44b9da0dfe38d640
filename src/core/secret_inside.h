/* src/core/secret_inside.h - memory for keys: wiped when it is freed, and in no core file */
#ifndef TINYI_SECRET_INSIDE_H
#define TINYI_SECRET_INSIDE_H
#include "core/sha256.h"
TINYI_C_BEGIN

/* n bytes, zero, 64-byte aligned. On Linux they are alone on their pages, which core files leave out; other systems
 * write them into a core file. NULL: the context has the sentence. */
TINYI_FN void *tinyi_secret_alloc(tiny_ctx *ctx, size_t n);
TINYI_FN void tinyi_secret_free(tiny_ctx *ctx, void *memory);         /* takes NULL */

TINYI_C_END
#endif
