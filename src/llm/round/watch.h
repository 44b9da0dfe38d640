/* src/llm/round/watch.h - statistics of the inputs of the matrices of a model, collected while it reads a text
 *
 *   tllm_watch *w;
 *   tllm_watch_open(ctx, file, &w);
 *   tllm_watch_pick(w, tensor, TLLM_CALIB_PRODUCTS);        each tensor to observe, before the text
 *   tiny_ctx_desc d = { 0 };
 *   d.accel = tllm_watch_hook(w);                           the model runs in its own context, which calls the watch at
 *                                                           every operation
 *   tiny_ctx_open(&d, &run); tllm_model_open(run, file, &model); ... tllm_forward(...) ...
 *   const tllm_calib *c = tllm_watch_of(w, tensor, 0);
 *
 * The model needs no support for it. The watch is installed as an accelerator. It observes each product whose matrix is
 * in the file and declines it, so the context computes it as usual. Matrices with the same inputs (queries, keys and
 * values; gate and up) share one tllm_calib. A matrix with a replacement (tllm_watch_replace) is multiplied in that
 * form, so that later layers get the inputs that they will have in the rounded model. */
#ifndef TINYI_WATCH_H
#define TINYI_WATCH_H
#include "core/accel.h"
#include "llm/file/gguf.h"
#include "llm/round/calib.h"
TINYI_C_BEGIN

typedef struct tllm_watch tllm_watch;

/* ctx computes the statistics; the model must run in another context. file must stay open. */
TINY_API tiny_status tllm_watch_open(tiny_ctx *ctx, const tllm_gguf *file, tllm_watch **out);
TINY_API void tllm_watch_close(tllm_watch *w);              /* w may be NULL; close the context with its hook first */
/* owned by the watch */
TINY_API const tiny_accel *tllm_watch_hook(const tllm_watch *w);
/* Starts collecting statistics of that tensor; flags as in tllm_calib_open. */
TINY_API tiny_status tllm_watch_pick(tllm_watch *w, const tllm_gguf_tensor *t, int flags);
/* The statistics of matrix i of the tensor (one per expert). NULL: no product used the matrix, or one used only a
 * part of it. */
TINY_API const tllm_calib *tllm_watch_of(const tllm_watch *w, const tllm_gguf_tensor *t, tiny_idx i);
/* Frees all statistics and stops collecting. */
TINY_API void tllm_watch_forget(tllm_watch *w);
/* Computes with other weights: bytes has all matrices of the tensor in another block format, or as floats, and must
 * stay valid. NULL: the original again. */
TINY_API tiny_status tllm_watch_replace(tllm_watch *w, const tllm_gguf_tensor *t, int format, const void *bytes);
/* The first failure while the model ran, such as NaN inputs or a failed allocation. The context of the watch has the
 * message. */
TINY_API tiny_status tllm_watch_status(const tllm_watch *w);

TINYI_C_END
#endif
