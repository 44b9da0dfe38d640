/* src/llm/lab/kvcodec/kvstream.h - which level each chunk of a cache is sent at, so that the first token comes in time
 *
 *   tllm_kvstream_desc d = { 0 };
 *   d.n_chunk = n; d.bytes = bytes;                 (n, TLLM_KVCODEC_LEVELS) of each chunk at the levels 1, 2, ...
 *   d.recompute = seconds;                          (n) to compute a chunk from its text
 *   d.deadline = 2.0;
 *   tllm_kvstream_run(ctx, &d, &transport, &result);        sends all, by a function of the caller
 *   tllm_kvstream_plan(ctx, &d, bits_per_second, &result);  the same over a link that is only counted
 *
 * The controller knows the sizes, the time that went by, and how fast the last chunk came: nothing of what the link
 * will do. Y. Liu et al., 2024 (arXiv 2310.07240), 5.3. */
#ifndef TINYI_KVSTREAM_H
#define TINYI_KVSTREAM_H
#include "core/rng.h"
#include "llm/lab/kvcodec/kvcodec.h"
TINYI_C_BEGIN

#define TLLM_KVSTREAM_TEXT 0                /* a choice: a level, or the text, computed anew where it arrives */

typedef enum tllm_kvstream_policy {
    /* looks at all that is left: text if that makes it, else the best level that does, else the quicker of both */
    TLLM_KVSTREAM_REST,
    /* deadline / n_chunk for each: the best level that fits, else text (the released simulation) */
    TLLM_KVSTREAM_BUDGET,
    TLLM_KVSTREAM_FIXED                     /* always the level of the description, or text */
} tllm_kvstream_policy;

typedef struct tllm_kvstream_desc {
    tiny_idx n_chunk;
    int n_level;                            /* 1..TLLM_KVCODEC_LEVELS; 0: 3, the levels with differences */
    const double *bytes;                    /* (n_chunk, TLLM_KVCODEC_LEVELS); rising with the level */
    const double *recompute;                /* (n_chunk) seconds */
    /* (n_chunk) seconds, hidden behind the transfer of the next one; NULL: none */
    const double *decode;
    double deadline;                        /* seconds to the end of the last chunk */
    double bits_per_second;                 /* that the link is believed to have before the first chunk; 0: not known */
    tllm_kvstream_policy policy;
    /* of the first chunk where nothing is known (0: the middle one), and of the fixed policy */
    int level;
    int *choice;                            /* (n_chunk) out */
    double *done;                           /* (n_chunk) out: when each had arrived, or was computed; may be NULL */
} tllm_kvstream_desc;

typedef struct tllm_kvstream_result {
    double seconds;                         /* to the end of the last chunk, decoded */
    double bytes;                           /* sent, without texts */
    tiny_idx n_text;
    int missed;                             /* the deadline */
} tllm_kvstream_result;

/* What to send next: chunk i, seconds since the start, and the speed of the link as known (0: not). For callers with a
 * loop of their own. */
TINY_API tiny_status tllm_kvstream_choose(tiny_ctx *ctx, const tllm_kvstream_desc *d, tiny_idx i, double elapsed,
                                          double bits_per_second, int *choice);

/* Brings chunk i at the choice to its place: sends its bytes, or has it computed from its text. *bytes, *seconds: of
 * the transfer; a text costs no bytes. Anything but TINY_OK ends the run. */
typedef struct tllm_kvstream_transport {
    tiny_status (*send)(void *user, tiny_idx i, int choice, double *bytes, double *seconds);
    void *user;
} tllm_kvstream_transport;
TINY_API tiny_status tllm_kvstream_run(tiny_ctx *ctx, const tllm_kvstream_desc *d,
                                       const tllm_kvstream_transport *transport, tllm_kvstream_result *result);

/* bits_per_second: (n_chunk) what the link has while each chunk is sent */
TINY_API tiny_status tllm_kvstream_plan(tiny_ctx *ctx, const tllm_kvstream_desc *d, const double *bits_per_second,
                                        tllm_kvstream_result *result);

/* A trace for tllm_kvstream_plan: each uniform between two speeds; 0, 0: 0.1 to 10 Gbit/s */
TINY_API void tllm_kvstream_trace(tiny_rng *rng, double low, double high, double *bits_per_second, tiny_idx n);

TINYI_C_END
#endif
