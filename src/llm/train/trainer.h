/* src/llm/train/trainer.h - trains a small decoder on stories
 *
 *   tllm_train_desc d;
 *   memset(&d, 0, sizeof d);                           all zero: the recipe of docs/dev/story-model.md
 *   if (tllm_trainer_open(ctx, &d, &t)) ...
 *   while (tllm_trainer_at(t) < d.steps) { st = tllm_trainer_step(t, &report); ... }
 *   tllm_trainer_save(t, "run.ckpt");                  a checkpoint to continue from; written and then renamed
 *   tllm_trainer_model(t, "story.gguf", "Q8_0");       a model file for any engine
 *   tllm_trainer_close(t);
 *
 * No token is used twice: step n trains on the n-th piece of the stream of stories that the seed gives. The least
 * possible loss of these tokens is known exactly. A sequence is the end token, then whole stories, the last one
 * truncated.
 *
 * The sequences of a step are split into four lanes. A thread computes a whole lane forward and backward, and the
 * gradients of the lanes are added in order. The result does not depend on the number of threads or their schedule: on
 * one SIMD target the same seed gives the same bits, also after a run was stopped and resumed. */
#ifndef TINYI_TRAINER_H
#define TINYI_TRAINER_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_TRAIN_LANES 4

typedef enum tllm_train_optimizer { TLLM_TRAIN_MUON, TLLM_TRAIN_ADAMW } tllm_train_optimizer;

/* The form of the layers. Grouped, as in "llama": groups of query heads share keys and values. Latent, as in "plm":
 * keys and values of all heads come from one short vector per token, with one shared rotated key; the network has
 * squared ReLU instead of gated SiLU. Gated, as in "rwkv6qwen2": gated linear attention, whose state has the same size
 * for any length of text. */
typedef enum tllm_train_form { TLLM_TRAIN_GROUPED, TLLM_TRAIN_LATENT, TLLM_TRAIN_GATED } tllm_train_form;

typedef struct tllm_train_desc {            /* zero: the value in brackets */
    int form;                               /* of the layers: grouped, latent or gated */
    /* [256, 4, 8, 2, 512, 256]; latent and gated: kv_heads are the heads */
    int embedding, layers, heads, kv_heads, hidden, context;
    /* latent: size of the vector of keys and values; of the shared rotated key [64, 16] */
    int latent, rotary;
    int rank;                               /* gated: size of the vector that gives the gates of all channels [32] */
    int sequences;                          /* of a step, a multiple of 4 [16] */
    int steps;                              /* of the whole run; the schedule of the rates depends on it [1000] */
    int warmup;                             /* steps in which the rates rise to their full values [40] */
    double constant;                        /* the share of the run after which the rates begin to fall, to 0 [0.6] */
    int optimizer;                          /* of the matrices: Muon, or AdamW */
    double matrix_rate, decay, momentum;    /* of the matrices [Muon 0.02, 0.01, 0.95; AdamW 0.003, 0.1] */
    double rate, beta1, beta2, eps;         /* AdamW of the other tensors [0.003, 0.9, 0.95, 1e-8] */
    double clip;                            /* largest norm of the whole gradient [1] */
    /* of the initial embedding [0.5]; the last norm starts at 1 / (spread sqrt(embedding)), at most 1 */
    double spread;
    /* 1: the target of the gradient is the exact distribution of the grammar; 0: the drawn token [0] */
    int exact;
    /* weight in the gradient of rare kinds: place, yes or no, comparison, colour [1] */
    double stress;
    double rope_base, norm_eps;             /* [10000, 1e-5] */
    uint64_t seed;                          /* of the initial weights and of the stories [1] */
} tllm_train_desc;

/* Reads "key = value" lines into desc; # begins a comment; the keys are the names above. An error message names file,
 * line and limit. */
TINY_API tiny_status tllm_train_config(tiny_ctx *ctx, const char *name, const char *text, size_t n,
                                       tllm_train_desc *desc);

typedef struct tllm_train_report {
    int64_t step;                           /* the step just made, counted from 1 */
    double bits, floor;                     /* per token: of the model before the step, of the best possible model */
    double length;                          /* norm of the gradient before clipping */
    double factor;                          /* by which the schedule multiplied the rates */
    size_t tokens;
} tllm_train_report;

typedef struct tllm_trainer tllm_trainer;
/* The context must outlive the trainer. On failure *out is NULL. Memory: about 4 times the weights, and 60 MB for each
 * thread at the default sizes. One thread at a time may use a trainer. */
TINY_API tiny_status tllm_trainer_open(tiny_ctx *ctx, const tllm_train_desc *desc, tllm_trainer **out);
TINY_API void tllm_trainer_close(tllm_trainer *t);          /* t may be NULL */
TINY_API const tllm_train_desc *tllm_trainer_desc(const tllm_trainer *t);      /* with the defaults filled in */
TINY_API int64_t tllm_trainer_at(const tllm_trainer *t);    /* steps made */
TINY_API size_t tllm_trainer_params(const tllm_trainer *t);

/* Makes one step on new stories. Fails if a loss or gradient is not finite; the message names the step and the tensor,
 * and nothing has changed. */
TINY_API tiny_status tllm_trainer_step(tllm_trainer *t, tllm_train_report *report);
/* The same on the caller's tokens, (sequences, context + 1); report->floor is 0. */
TINY_API tiny_status tllm_trainer_step_on(tllm_trainer *t, const int32_t *tokens, tllm_train_report *report);
/* Loss (bits per token) and gradient without a step; see tllm_trainer_tensor. */
TINY_API tiny_status tllm_trainer_gradient(tllm_trainer *t, const int32_t *tokens, double *bits);
/* Bits per token, and their floor, of the first n_batches * sequences sequences of the stream `seed`, which must not be
 * the seed of the training. */
TINY_API tiny_status tllm_trainer_heldout(tllm_trainer *t, uint64_t seed, int n_batches, double *bits, double *floor);
/* Tensor i: its name in model files, its values and the gradient of the last step, (rows, cols). Returns 0 past the
 * end. */
TINY_API int tllm_trainer_tensor(const tllm_trainer *t, size_t i, char name[64], tiny_tensor *value,
                                 tiny_tensor *gradient);

/* If save fails, the file is unchanged; if load fails, the trainer is unchanged. A checkpoint with another description
 * is refused, and the message names the first difference. Only steps and constant may differ, while both schedules are
 * at the full rates. */
TINY_API tiny_status tllm_trainer_save(tllm_trainer *t, const char *path);
TINY_API tiny_status tllm_trainer_load(tllm_trainer *t, const char *path);
/* Writes a GGUF file of architecture "llama" ("plm" for the latent form, "rwkv6qwen2" for the gated form) with the
 * vocabulary of the stories and matrices in `format` ("F32", "Q8_0" ...). */
TINY_API tiny_status tllm_trainer_model(tllm_trainer *t, const char *path, const char *format);

TINYI_C_END
#endif
