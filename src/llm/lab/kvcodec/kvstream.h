/* src/llm/lab/kvcodec/kvstream.h - chooses the level at which each chunk of a cache is sent, to meet a deadline
 *
 *   tllm_kvstream_desc d = { 0 };
 *   d.n_chunk = n; d.bytes = bytes;                 (n, TLLM_KVCODEC_LEVELS): the size of each chunk at each level
 *   d.recompute = seconds;                          (n) the time to compute a chunk from its text
 *   d.deadline = 2.0;
 *   tllm_kvstream_run(ctx, &d, &transport, &result);        sends all chunks with a function of the caller
 *   tllm_kvstream_plan(ctx, &d, bits_per_second, &result);  the same over a simulated link
 *
 * The controller knows the sizes, the elapsed time and the speed of the last chunk. It does not know the future of the
 * link. Y. Liu et al., 2024 (arXiv 2310.07240), section 5.3. */
#ifndef TINYI_KVSTREAM_H
#define TINYI_KVSTREAM_H
#include "core/rng.h"
#include "llm/lab/kvcodec/kvcodec.h"
TINYI_C_BEGIN

#define TLLM_KVSTREAM_TEXT 0                /* not a level: send the text and compute the chunk */

typedef enum tllm_kvstream_policy {
    /* plans for all remaining chunks: text if that meets the deadline, else the best level that does, else the faster
     * of text and the lowest level */
    TLLM_KVSTREAM_REST,
    /* each chunk has deadline / n_chunk: the best level that fits, else text (as in the authors' simulation) */
    TLLM_KVSTREAM_BUDGET,
    TLLM_KVSTREAM_FIXED                     /* always the level of the description, or text */
} tllm_kvstream_policy;

typedef struct tllm_kvstream_desc {
    tiny_idx n_chunk;
    int n_level;                            /* 1..TLLM_KVCODEC_LEVELS; 0: 3, the levels with differences */
    const double *bytes;                    /* (n_chunk, TLLM_KVCODEC_LEVELS), increasing with the level */
    const double *recompute;                /* (n_chunk) seconds */
    /* (n_chunk) seconds, overlapped with the transfer of the next chunk; NULL: none */
    const double *decode;
    double deadline;                        /* seconds to the end of the last chunk */
    double bits_per_second;                 /* estimated speed of the link before the first chunk; 0: unknown */
    tllm_kvstream_policy policy;
    /* level of the first chunk if the speed is unknown (0: the middle level), and of the fixed policy */
    int level;
    int *choice;                            /* (n_chunk) out */
    double *done;                           /* (n_chunk) out: time when each arrived or was computed; may be NULL */
} tllm_kvstream_desc;

typedef struct tllm_kvstream_result {
    double seconds;                         /* to the end of the last chunk, decoded */
    double bytes;                           /* sent, without texts */
    tiny_idx n_text;
    int missed;                             /* nonzero: the deadline was missed */
} tllm_kvstream_result;

/* Chooses the level of chunk i, or its text, by the seconds since the start and the last known speed of the link (0:
 * unknown). For callers with their own loop. */
TINY_API tiny_status tllm_kvstream_choose(tiny_ctx *ctx, const tllm_kvstream_desc *d, tiny_idx i, double elapsed,
                                          double bits_per_second, int *choice);

/* The caller's function that delivers chunk i as chosen: it sends the bytes, or has the chunk computed from its text.
 * *bytes, *seconds: of the transfer; a text counts as 0 bytes. A status other than TINY_OK ends the run. */
typedef struct tllm_kvstream_transport {
    tiny_status (*send)(void *user, tiny_idx i, int choice, double *bytes, double *seconds);
    void *user;
} tllm_kvstream_transport;
TINY_API tiny_status tllm_kvstream_run(tiny_ctx *ctx, const tllm_kvstream_desc *d,
                                       const tllm_kvstream_transport *transport, tllm_kvstream_result *result);

/* bits_per_second: (n_chunk) speed of the link while each chunk is sent */
TINY_API tiny_status tllm_kvstream_plan(tiny_ctx *ctx, const tllm_kvstream_desc *d, const double *bits_per_second,
                                        tllm_kvstream_result *result);

/* A random trace for tllm_kvstream_plan, uniform between two speeds; 0, 0: 0.1 to 10 Gbit/s */
TINY_API void tllm_kvstream_trace(tiny_rng *rng, double low, double high, double *bits_per_second, tiny_idx n);

TINYI_C_END
#endif
