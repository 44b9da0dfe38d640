/* src/llm/round/fold.h - where a model can be scaled inside and stay the same function: channels between a producer and
 * those that read it
 *
 *   tllm_folds *f;
 *   tllm_folds_open(ctx, file, &f);
 *   for (i = 0; i < tllm_folds_n(f); i++) tllm_fold_scale(ctx, f, i, factor_of_its_channels);
 *   tllm_folds_floats(ctx, f, tensor, row, rows, out);      its numbers as they are after that; or the whole model:
 *   tllm_folds_put(ctx, f, writer, NULL); tllm_writer_finish(ctx, writer);
 *   tllm_folds_close(ctx, f);
 *
 * A fold is a set of channels: its consumers' columns are multiplied by a factor each, and what its producer gives is
 * divided by the same (a norm by its gain and bias, a matrix by its rows and bias). AWQ and SmoothQuant choose factors
 * that make weights or activations easier to round; a rotation of the stream wants the gains of norms inside the
 * matrices behind them (tllm_fold_gain).
 *
 * Which folds a model has is told by what its forward pass reads, tensor by tensor:
 *   MIX     norm -> queries, keys, values; in parallel blocks whatever reads that norm
 *   VALUE   values -> output of the attention, where each value head serves one query head; or the norm between them ->
 *           output
 *   FEED    norm -> gate, up, of experts and of the shared one too, and the router if it reads the norm
 *   DOWN    up -> down, of each expert by itself, where up reaches down as a factor; or the norm between them -> down
 *   OUTPUT  last norm -> logits, where the embedding does not give them
 * A layer without one has a sentence that says why (tllm_fold_why).
 *
 * Nothing is added to a gain before it is used: files of gemma hold 1 + w, so they divide as all others. */
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

/* A producer: n numbers of a vector, or n rows, from number row on; rows of several matrices are counted through. A
 * consumer: n_mat matrices from matrix mat on, all their rows; or a vector that is multiplied with. */
typedef struct tllm_fold_end { const tllm_gguf_tensor *t; tiny_idx row, mat, n_mat; int vector; } tllm_fold_end;
enum { TLLM_FOLD_FROM = 2, TLLM_FOLD_TO = 12 };
typedef struct tllm_fold {
    int kind;
    tiny_idx layer;                         /* -1: of no layer */
    tiny_idx n;                             /* channels */
    int from_norm;                          /* the producer is a norm: nothing but its gain and bias */
    int n_from, n_to;
    tllm_fold_end from[TLLM_FOLD_FROM], to[TLLM_FOLD_TO];       /* weight, then bias */
} tllm_fold;

typedef struct tllm_folds tllm_folds;

/* file must stay open. Refused: encoders with a decoder, RWKV, four streams, what tllm_model_open refuses. */
TINY_API tiny_status tllm_folds_open(tiny_ctx *ctx, const tllm_gguf *file, tllm_folds **out);
TINY_API void tllm_folds_close(tiny_ctx *ctx, tllm_folds *f);           /* takes NULL; the context that opened it */
TINY_API size_t tllm_folds_n(const tllm_folds *f);
/* in the order of layers, and of kinds in a layer; NULL past the end */
TINY_API const tllm_fold *tllm_fold_at(const tllm_folds *f, size_t i);
/* Why there is none of that kind in that layer (OUTPUT: layer -1); NULL: there is. */
TINY_API const char *tllm_fold_why(const tllm_folds *f, tiny_idx layer, int kind);

/* s: n factors, above 0 and finite; they come on top of those before. Refused as a whole, or taken as a whole. */
TINY_API tiny_status tllm_fold_scale(tiny_ctx *ctx, tllm_folds *f, size_t i, const float *s);
/* The gain of a norm goes wholly into its consumers and becomes 1; a gain of 0 takes its columns with it. A norm with a
 * bias is refused. */
TINY_API tiny_status tllm_fold_gain(tiny_ctx *ctx, tllm_folds *f, size_t i);

TINY_API const tllm_gguf *tllm_folds_file(const tllm_folds *f);
/* is it another than in the file? */
TINY_API int tllm_folds_touch(const tllm_folds *f, const tllm_gguf_tensor *t);
/* What the columns of a matrix were multiplied by: dim[0] numbers; NULL: by nothing. Its inputs are those of the file
 * over this. */
TINY_API const double *tllm_folds_columns(const tllm_folds *f, const tllm_gguf_tensor *t, tiny_idx mat);
/* Rows of a tensor, of all its matrices one after the other, with all factors; out: rows of dim[0]. Norms and biases:
 * their numbers are rows of one, and all of them are wanted. Refused: a number that is finite in the file and not
 * here. */
TINY_API tiny_status tllm_folds_floats(tiny_ctx *ctx, const tllm_folds *f, const tllm_gguf_tensor *t, tiny_idx row,
                                       tiny_idx rows, float *out);
/* The folded model into a writer that was just opened, for its tllm_writer_finish: tensors that folds changed, and
 * those that edit wants, as F32; all others, and all keys, as they were. edit (or NULL) may change a matrix before it
 * is written: w has all rows of matrix mat. */
typedef struct tllm_folds_edit {
    void *user;
    int (*wants)(void *user, const tllm_gguf_tensor *t);                                        /* NULL: none */
    /* NULL: nothing is changed */
    tiny_status (*edit)(void *user, const tllm_gguf_tensor *t, tiny_idx mat, float *w);
} tllm_folds_edit;
TINY_API tiny_status tllm_folds_put(tiny_ctx *ctx, const tllm_folds *f, tllm_writer *w, const tllm_folds_edit *edit);

TINYI_C_END
#endif
