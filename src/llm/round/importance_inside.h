/* src/llm/round/importance_inside.h - inside: files that say how much the columns of each matrix count (imatrix) */
#ifndef TINYI_IMPORTANCE_H
#define TINYI_IMPORTANCE_H
#include "core/file.h"
#include "llm/file/gguf.h"
TINYI_C_BEGIN

/* all zero: none is open */
typedef struct tinyi_importance {
    const char *path;
    tllm_gguf *gguf;
    tiny_file file;                         /* the older form: entries of name, calls, values */
} tinyi_importance;

TINYI_FN tiny_status tinyi_importance_open(tiny_ctx *ctx, const char *path, tinyi_importance *m);
TINYI_FN void tinyi_importance_close(tiny_ctx *ctx, tinyi_importance *m);
/* n_mat vectors of n values into out; out may be NULL to ask. *found: 0 where the file has none for this tensor. */
TINYI_FN tiny_status tinyi_importance_of(tiny_ctx *ctx, const tinyi_importance *m, tllm_text name, size_t n,
                                         size_t n_mat, float *out, int *found);

TINYI_C_END
#endif
