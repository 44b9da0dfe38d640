/* src/llm/train/judge.h - what a model knows of the language of the stories, and what it lost
 *
 *   tllm_judgement j;
 *   if (tllm_judge(ctx, model, base, NULL, &j)) ...        base: the same model before it was compressed; or NULL
 *   ... j.bits - j.floor ...                                bits a token above what the best reader needs
 *
 * Held-out stories are read by the model (teacher forced): bits a token, and for each kind of forced token the share
 * that the model finds by its likeliest guess. Then it tells stories itself, which the grammar parses, and answers
 * every sum of the lessons. Any model whose vocabulary has the 544 tokens of the stories can be judged. */
#ifndef TINYI_JUDGE_H
#define TINYI_JUDGE_H
#include "llm/model/model.h"
#include "llm/train/story.h"
TINYI_C_BEGIN

typedef struct tllm_judge_desc {            /* zero: the value in brackets */
    uint64_t seed;                          /* of the stories [999] */
    int stories;                            /* held out [2000] */
    /* stories that it tells, drawn and by the likeliest token [1000]; below 0: none */
    int samples, greedy;
    /* formats of keys and values, bits of inputs, of the model, not of the base [floats]; sizes are the judge's own */
    const tllm_state_desc *state;
} tllm_judge_desc;

/* excess: bits a token of the kind */
typedef struct tllm_judge_tag { size_t n, right; double excess; } tllm_judge_tag;

typedef struct tllm_told {                  /* stories that the model told */
    size_t n, valid, tokens;                /* tokens up to the first fault, or the end */
    size_t unfinished;                      /* no fault, and no end within 256 tokens */
    size_t fault[TLLM_STORY_TAGS];          /* what was asked for where the first fault is */
} tllm_told;

typedef struct tllm_judgement {
    size_t stories, tokens;
    double bits, floor;                     /* a token */
    double low, high;                       /* of bits - floor: 95 of 100 samples of as many stories (bootstrap) */
    tllm_judge_tag tag[TLLM_STORY_TAGS];
    size_t sums, sums_right;                /* each sum and difference of the lessons, asked once */
    tllm_told drawn, greedy;
    int has_base;
    /* bits a token of the base; of KL(base, model); the share of tokens with the same best guess */
    double base_bits, kl, agree;
    /* of bits - base_bits, by the same bootstrap; where 0 lies between, the two are not told apart */
    double lost_low, lost_high;
    double kl_low, kl_high;
} tllm_judgement;

/* desc and base may be NULL. */
TINY_API tiny_status tllm_judge(tiny_ctx *ctx, const tllm_model *model, const tllm_model *base,
                                const tllm_judge_desc *desc, tllm_judgement *out);

TINYI_C_END
#endif
