/* src/llm/train/trainer.h - trains a small decoder on stories
 *
 *   tllm_train_desc d;
 *   memset(&d, 0, sizeof d);                           all zero: the recipe of docs/dev/story-model.md
 *   if (tllm_trainer_open(ctx, &d, &t)) ...
 *   while (tllm_trainer_at(t) < d.steps) { st = tllm_trainer_step(t, &report); ... }
 *   tllm_trainer_save(t, "run.ckpt");                  all that is needed to go on: the file grows beside its place
 *   tllm_trainer_model(t, "story.gguf", "Q8_0");       what any engine loads
 *   tllm_trainer_close(t);
 *
 * Tokens are always fresh: the sequences of step n are the n-th piece of the stream that the seed names, and the exact
 * floor of just these tokens is known. A sequence is the token that ends stories, then whole stories, the last one cut
 * off.
 *
 * The sequences of a step are cut into four lanes; a thread takes a whole lane forward and back, and the gradients of
 * the lanes are added in their order. Neither the number of threads nor who computed what enters the result: on one
 * SIMD target the same seed gives the same bits, also when the run was stopped and resumed. */
#ifndef TINYI_TRAINER_H
#define TINYI_TRAINER_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_TRAIN_LANES 4

typedef enum tllm_train_optimizer { TLLM_TRAIN_MUON, TLLM_TRAIN_ADAMW } tllm_train_optimizer;

/* grouped: the layers of "llama", query heads that share keys; latent: those of "plm", keys and values of all heads
 * made from one short vector of each token, and one rotated key that they share; squared ReLU in place of gated SiLU;
 * gated: those of "rwkv6qwen2", gated linear attention, whose state has the same size however long the text is */
typedef enum tllm_train_form { TLLM_TRAIN_GROUPED, TLLM_TRAIN_LATENT, TLLM_TRAIN_GATED } tllm_train_form;

typedef struct tllm_train_desc {            /* zero: the value in brackets */
    int form;                               /* of the layers: grouped, latent or gated */
    /* [256, 4, 8, 2, 512, 256]; latent and gated: kv_heads are the heads */
    int embedding, layers, heads, kv_heads, hidden, context;
    /* latent: numbers that keys and values are made from, of the shared rotated key [64, 16] */
    int latent, rotary;
    int rank;                               /* gated: numbers that the gates of all channels are made from [32] */
    int sequences;                          /* of a step, a multiple of 4 [16] */
    int steps;                              /* of the whole run: what the rates follow [1000] */
    int warmup;                             /* steps until the rates are whole [40] */
    double constant;                        /* the part of the run after which they fall to 0 [0.6] */
    int optimizer;                          /* of the matrices: Muon, or AdamW */
    double matrix_rate, decay, momentum;    /* of the matrices [Muon 0.02, 0.01, 0.95; AdamW 0.003, 0.1] */
    double rate, beta1, beta2, eps;         /* AdamW of the others [0.003, 0.9, 0.95, 1e-8] */
    double clip;                            /* most length of all gradients together [1] */
    /* of the first numbers of the embedding [0.5]; the last norm starts at 1 / (spread sqrt(embedding)), at most 1 */
    double spread;
    /* 1: the gradient asks for all that the grammar lets follow, each with its probability; 0: for what was drawn
     * [0] */
    int exact;
    /* weight, in the gradient, of what is seldom asked: place, yes or no, comparison, colour [1] */
    double stress;
    double rope_base, norm_eps;             /* [10000, 1e-5] */
    uint64_t seed;                          /* of the first weights and of the stories [1] */
} tllm_train_desc;

/* "key = value" lines, # begins a comment; keys are the names above. Sets what it names; a failure names file, line and
 * limit. */
TINY_API tiny_status tllm_train_config(tiny_ctx *ctx, const char *name, const char *text, size_t n,
                                       tllm_train_desc *desc);

typedef struct tllm_train_report {
    int64_t step;                           /* that was just made, counted from 1 */
    double bits, floor;                     /* a token: of the model before the step, of the best that could be */
    double length;                          /* of the gradient, before clipping */
    double factor;                          /* of the rates */
    size_t tokens;
} tllm_train_report;

typedef struct tllm_trainer tllm_trainer;
/* The context must stay. On failure *out is NULL. Takes about 4 times the weights and 60 MB for each thread at the
 * default sizes. */
TINY_API tiny_status tllm_trainer_open(tiny_ctx *ctx, const tllm_train_desc *desc, tllm_trainer **out);
TINY_API void tllm_trainer_close(tllm_trainer *t);          /* takes NULL */
TINY_API const tllm_train_desc *tllm_trainer_desc(const tllm_trainer *t);      /* with the defaults written in */
TINY_API int64_t tllm_trainer_at(const tllm_trainer *t);    /* steps made */
TINY_API size_t tllm_trainer_params(const tllm_trainer *t);

/* One step on fresh stories. A loss or gradient that is no finite number fails, with the step and the tensor in the
 * sentence, and changes nothing. */
TINY_API tiny_status tllm_trainer_step(tllm_trainer *t, tllm_train_report *report);
/* The same on tokens of the caller: (sequences, context + 1); report->floor is 0. */
TINY_API tiny_status tllm_trainer_step_on(tllm_trainer *t, const int32_t *tokens, tllm_train_report *report);
/* Loss (bits a token) and gradient without a step; see tllm_trainer_tensor. */
TINY_API tiny_status tllm_trainer_gradient(tllm_trainer *t, const int32_t *tokens, double *bits);
/* Bits a token, and their floor, of the first n_batches * sequences sequences of the stream `seed`, which is not the
 * training's. */
TINY_API tiny_status tllm_trainer_heldout(tllm_trainer *t, uint64_t seed, int n_batches, double *bits, double *floor);
/* Tensor i as files name it, its values and the gradient of the last step, (rows, cols); 0 past the end. */
TINY_API int tllm_trainer_tensor(const tllm_trainer *t, size_t i, char name[64], tiny_tensor *value,
                                 tiny_tensor *gradient);

/* After a failure of save the file is what it was; after one of load the trainer is what it was. A checkpoint of
 * another description is refused with the first difference; only steps and constant may be others while the rates are
 * whole in both. */
TINY_API tiny_status tllm_trainer_save(tllm_trainer *t, const char *path);
TINY_API tiny_status tllm_trainer_load(tllm_trainer *t, const char *path);
/* A GGUF file of architecture "llama", "plm" for the latent form or "rwkv6qwen2" for the gated one, with the vocabulary
 * of the stories; matrices as `format` ("F32", "Q8_0" ...). */
TINY_API tiny_status tllm_trainer_model(tllm_trainer *t, const char *path, const char *format);

TINYI_C_END
#endif
