/* src/llm/round/watch.h - what each matrix of a model is multiplied with: statistics of the inputs of its linear
 * layers, over a text
 *
 *   tllm_watch *w;
 *   tllm_watch_open(ctx, file, &w);
 *   tllm_watch_pick(w, tensor, TLLM_CALIB_PRODUCTS);        each one that is wanted, before the text
 *   tiny_ctx_desc d = { 0 };
 *   d.accel = tllm_watch_hook(w);                           the model runs in a context of its own, that asks the watch
 *                                                           at every operation
 *   tiny_ctx_open(&d, &run); tllm_model_open(run, file, &model); ... tllm_forward(...) ...
 *   const tllm_calib *c = tllm_watch_of(w, tensor, 0);
 *
 * Nothing in the model knows of it: the watch stands where an accelerator stands, looks at the products whose matrix
 * lies in the file, and declines them. Matrices that read the same inputs (queries, keys and values; gate and up) share
 * one calibrator. A matrix that was given a smaller form (tllm_watch_replace) is multiplied in that one instead, so
 * that what comes after sees what it will see. */
#ifndef TINYI_WATCH_H
#define TINYI_WATCH_H
#include "core/accel.h"
#include "llm/file/gguf.h"
#include "llm/round/calib.h"
TINYI_C_BEGIN

typedef struct tllm_watch tllm_watch;

/* ctx: the one that computes the statistics; not the one that the model runs in. file must stay open. */
TINY_API tiny_status tllm_watch_open(tiny_ctx *ctx, const tllm_gguf *file, tllm_watch **out);
TINY_API void tllm_watch_close(tllm_watch *w);              /* takes NULL; after the context that has its hook */
TINY_API const tiny_accel *tllm_watch_hook(const tllm_watch *w);
/* From here on statistics of that tensor are gathered; flags as of tllm_calib_open. */
TINY_API tiny_status tllm_watch_pick(tllm_watch *w, const tllm_gguf_tensor *t, int flags);
/* Matrix i of the tensor (experts: one each). NULL: nothing was multiplied with it, or not with the whole of it. */
TINY_API const tllm_calib *tllm_watch_of(const tllm_watch *w, const tllm_gguf_tensor *t, tiny_idx i);
/* Gives all statistics back, picks nothing any more. */
TINY_API void tllm_watch_forget(tllm_watch *w);
/* bytes: all matrices of the tensor in another format of blocks; they must stay. NULL: its own again. */
TINY_API tiny_status tllm_watch_replace(tllm_watch *w, const tllm_gguf_tensor *t, int format, const void *bytes);
/* The first failure while the model ran, its sentence in the context of the watch: inputs that are no numbers, no
 * memory. */
TINY_API tiny_status tllm_watch_status(const tllm_watch *w);

TINYI_C_END
#endif
