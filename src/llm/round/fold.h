/* src/llm/round/fold.h - folds: channels inside a model that can be scaled without changing its function
 *
 *   tllm_folds *f;
 *   tllm_folds_open(ctx, file, &f);
 *   for (i = 0; i < tllm_folds_n(f); i++) tllm_fold_scale(ctx, f, i, factor_of_its_channels);
 *   tllm_folds_floats(ctx, f, tensor, row, rows, out);      the scaled numbers of a tensor; or write the whole model:
 *   tllm_folds_put(ctx, f, writer, NULL); tllm_writer_finish(ctx, writer);
 *   tllm_folds_close(ctx, f);
 *
 * A fold is a set of channels between a producer (a norm or a matrix) and its consumers (matrices). To scale it, the
 * consumers' columns are multiplied by a factor per channel, and the producer's outputs are divided by it: the gain and
 * bias of a norm, the rows and bias of a matrix. AWQ and SmoothQuant choose factors that make weights or activations
 * easier to round. A rotation of the residual stream moves the gains of norms into the following matrices
 * (tllm_fold_gain).
 *
 * A model has these folds (producer -> consumers):
 *   MIX     norm -> queries, keys, values; in parallel blocks everything that reads that norm
 *   VALUE   values -> output of the attention, if each value head serves one query head; or the norm between them ->
 *           output
 *   FEED    norm -> gate, up, also of experts and the shared expert, and the router if it reads the norm
 *   DOWN    up -> down, for each expert by itself, if up is a factor of the input of down; or the norm between them ->
 *           down
 *   OUTPUT  last norm -> output matrix, unless the embedding serves as the output matrix
 * If a layer lacks a fold, tllm_fold_why gives the reason.
 *
 * Gains are used as stored. Files of gemma store 1 + w, the whole gain, so they need no exception. */
#ifndef TINYI_FOLD_H
#define TINYI_FOLD_H
#include "llm/file/gguf_write.h"
TINYI_C_BEGIN

typedef enum tllm_fold_kind {
    TLLM_FOLD_MIX,
    TLLM_FOLD_VALUE,
    TLLM_FOLD_FEED,
    TLLM_FOLD_DOWN,
    TLLM_FOLD_OUTPUT,
    TLLM_FOLD_KINDS
} tllm_fold_kind;

/* One end of a fold. A producer: n numbers of a vector, or n rows, from index `row` on; rows of several matrices are
 * numbered in one sequence. A consumer: all rows of n_mat matrices from matrix `mat` on; or a vector that multiplies
 * the channels. */
typedef struct tllm_fold_end { const tllm_gguf_tensor *t; tiny_idx row, mat, n_mat; int vector; } tllm_fold_end;
enum { TLLM_FOLD_FROM = 2, TLLM_FOLD_TO = 12 };
typedef struct tllm_fold {
    int kind;
    tiny_idx layer;                         /* -1: not in a layer */
    tiny_idx n;                             /* channels */
    int from_norm;                          /* nonzero: the producer is a norm, its gain and bias */
    int n_from, n_to;
    tllm_fold_end from[TLLM_FOLD_FROM], to[TLLM_FOLD_TO];       /* weight, then bias */
} tllm_fold;

typedef struct tllm_folds tllm_folds;

/* file must stay open. Refused: encoder-decoder models, RWKV, models with four streams (gemma3n), and files that
 * tllm_model_open refuses. On failure *out is NULL. */
TINY_API tiny_status tllm_folds_open(tiny_ctx *ctx, const tllm_gguf *file, tllm_folds **out);
TINY_API void tllm_folds_close(tiny_ctx *ctx, tllm_folds *f);           /* f may be NULL; ctx: the one that opened it */
TINY_API size_t tllm_folds_n(const tllm_folds *f);
/* in the order of layers, and of kinds in a layer; NULL past the end */
TINY_API const tllm_fold *tllm_fold_at(const tllm_folds *f, size_t i);
/* Why that layer has no fold of that kind (OUTPUT: layer -1); NULL: it has one. */
TINY_API const char *tllm_fold_why(const tllm_folds *f, tiny_idx layer, int kind);

/* Scales fold i: s has n factors, above 0 and finite; they are multiplied with earlier factors. On failure nothing has
 * changed. */
TINY_API tiny_status tllm_fold_scale(tiny_ctx *ctx, tllm_folds *f, size_t i, const float *s);
/* Fold i must have a norm as its producer. Moves the gain of the norm into the consumers; the gain becomes 1, and
 * columns with a gain of 0 become 0. A norm with a bias is refused. */
TINY_API tiny_status tllm_fold_gain(tiny_ctx *ctx, tllm_folds *f, size_t i);

TINY_API const tllm_gguf *tllm_folds_file(const tllm_folds *f);
/* 1: the tensor differs from the one in the file */
TINY_API int tllm_folds_touch(const tllm_folds *f, const tllm_gguf_tensor *t);
/* The factors of the columns of a matrix: dim[0] numbers; NULL: none. The folded model divides the
 * inputs of the matrix by them. */
TINY_API const double *tllm_folds_columns(const tllm_folds *f, const tllm_gguf_tensor *t, tiny_idx mat);
/* Writes rows of a tensor, numbered over all its matrices, with all factors applied; out: rows of dim[0]. Norms and
 * biases have rows of one number, and all rows must be requested. Fails if a number is finite in the file but not with
 * its factors. */
TINY_API tiny_status tllm_folds_floats(tiny_ctx *ctx, const tllm_folds *f, const tllm_gguf_tensor *t, tiny_idx row,
                                       tiny_idx rows, float *out);
/* Writes the folded model to a writer that was just opened; call tllm_writer_finish afterwards. Tensors changed by
 * folds or requested by edit are written as F32; all others, and all keys, are copied. edit (or NULL) may change a
 * matrix before it is written: w has all rows of matrix mat. */
typedef struct tllm_folds_edit {
    void *user;
    int (*wants)(void *user, const tllm_gguf_tensor *t);                                        /* NULL: none */
    /* NULL: changes nothing */
    tiny_status (*edit)(void *user, const tllm_gguf_tensor *t, tiny_idx mat, float *w);
} tllm_folds_edit;
TINY_API tiny_status tllm_folds_put(tiny_ctx *ctx, const tllm_folds *f, tllm_writer *w, const tllm_folds_edit *edit);

TINYI_C_END
#endif
