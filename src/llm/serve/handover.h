/* src/llm/serve/handover.h - prompts are read by some workers and continued by others; a desk sends requests to them
 *
 * Paper     Y. Zhong et al., "DistServe", OSDI 2024 (arXiv 2401.09670): a prefill worker reads the prompt and draws the
 *           first token; the keys and values stay in its slot until a decode worker has room and pulls them.
 * Workers   Each has a tllm_engine with `exact`. What a worker does is decided by the desk alone, request by request,
 *           so the parts can change while requests run.
 * Text      A decode worker takes the keys and values of the prompt, computes the last token of the prompt once more,
 *           and draws from the first random number on. So the text has the bits that one engine alone gives, with any
 *           seed, also after a worker has died and the request was read again.
 * Codec     With `codec` of the desk the keys and values travel by the cache codec (llm/lab/kvcodec), which is lossy:
 *           each number is within half a quantization step of its row, at level 4 within 1/254 of the row's largest.
 *           The first token stays that of one engine alone, later ones may differ. Texts that are not handed over,
 *           and others on the same workers, keep their bits.
 * Links     A link is a tiny_net and the rank of the other side in it. With a net of two ranks for each pair, a worker
 *           that dies takes only its own links with it: its requests go to the others. With one net for all, which is
 *           simpler, the death of one rank ends the group.
 * Wire      a head of 56 bytes, then its body. Kinds, sizes, ids and tokens are checked before they are used; keys and
 *           values check themselves (tllm_state_unpack). Anything else ends the link.
 *
 *   tllm_hand_desc w = { 0 };                          on each worker
 *   w.engine = engine; w.desk = link; w.peer = links; w.n_peer = n; w.me = my_number;
 *   tllm_hand_open(ctx, &w, &hand);                    ctx: the one of the engine
 *   tllm_hand_run(hand);                               until the desk closes
 *
 *   tllm_desk_desc d = { 0 };                          on the desk
 *   d.worker = links; d.role = roles; d.n_worker = n;
 *   tllm_desk_open(ctx, &d, &desk);
 *   tllm_desk_submit(desk, &request, &id);
 *   do st = tllm_desk_step(desk, &more); while (!st && more);
 *   tllm_desk_close(desk);
 *
 * Nothing here opens a connection or starts a thread; each object belongs to the thread that calls it. */
#ifndef TINYI_HANDOVER_H
#define TINYI_HANDOVER_H
#include "core/net.h"
#include "llm/serve/engine.h"
#include "llm/lab/kvcodec/kvcodec.h"
TINYI_C_BEGIN

#define TLLM_HAND_WORKERS 32                /* at most */

typedef struct tllm_hand_link { tiny_net *net; int rank; } tllm_hand_link;  /* net NULL: no link */

/* ---- a worker */

typedef struct tllm_hand tllm_hand;
typedef struct tllm_hand_desc {
    tllm_engine *engine;                    /* with pages and `exact`; only this worker uses it */
    tllm_hand_link desk;
    const tllm_hand_link *peer;             /* (n_peer) to each worker by its number; its own entry is not read */
    int n_peer, me;
    /* for `codec` of the desk, and alive until the close: used if the other worker has the same. NULL: each text brings
     * its own, which are about as large as a short text */
    const tllm_kvcodec_tables *tables;
} tllm_hand_desc;
typedef struct tllm_hand_counters {
    uint64_t reads, wholes, takes;          /* requests: prompt only, all of it, continued from another worker */
    uint64_t pulled, pulled_bytes;          /* texts taken from other workers, and the bytes of their messages */
    uint64_t coded, plain_bytes;            /* those that came by the codec; the bytes of all if none had */
    uint64_t gave_coded;                    /* texts given to others by the codec */
    double codec_seconds;                   /* to code them, and to read those that came */
    uint64_t lost;                          /* texts that could not be taken */
    int kept;                               /* texts that wait here to be pulled, now */
} tllm_hand_counters;

/* peer is copied, the nets stay the caller's. On failure *out is NULL. */
TINY_API tiny_status tllm_hand_open(tiny_ctx *ctx, const tllm_hand_desc *desc, tllm_hand **out);
/* Moves messages, then one step of the engine if it has work; else it sleeps for a moment. *more is 0 after the desk
 * has closed. TINY_E_PEER: the desk is gone. more may be NULL. */
TINY_API tiny_status tllm_hand_step(tllm_hand *h, int *more);
TINY_API tiny_status tllm_hand_run(tllm_hand *h);
TINY_API void tllm_hand_count(const tllm_hand *h, tllm_hand_counters *out);
/* Requests that did not end are dropped. Close it before its engine and its nets. h may be NULL. */
TINY_API void tllm_hand_close(tllm_hand *h);

/* ---- the desk */

typedef enum tllm_hand_role { TLLM_HAND_BOTH, TLLM_HAND_PREFILL, TLLM_HAND_DECODE, TLLM_HAND_ROLES } tllm_hand_role;

typedef struct tllm_desk tllm_desk;
typedef struct tllm_desk_load { double prompt, output, rate; } tllm_desk_load;  /* means: tokens, requests a second */
typedef struct tllm_desk_desc {             /* all zero but the workers: the sensible default */
    const tllm_hand_link *worker;           /* (n_worker) */
    const int *role;                        /* (n_worker) tllm_hand_role; NULL: all BOTH */
    int n_worker;
    int most;                               /* requests sent to a worker that did not end there; 0: 64 */
    /* 1 to 4: keys and values travel by the cache codec at this level, where that makes them smaller; 0: as they are */
    int codec;
    /* called when a mean over `window` requests differs from the last plan's by more than the factor: change roles with
     * tllm_desk_role. The first window sets the plan. NULL: never */
    void (*replan)(void *user, tllm_desk *desk, const tllm_desk_load *now, const tllm_desk_load *plan);
    void *user;
    double factor;                          /* 0: 2 */
    int window;                             /* 0: 64 */
} tllm_desk_desc;

typedef struct tllm_desk_result {           /* valid during the callback */
    uint64_t id;
    tiny_status status;                     /* not TINY_OK: the request failed; */
    const char *error;                      /* why, else "" */
    tllm_end end;                           /* TLLM_END_CALLER: cancelled, or failed */
    size_t n_prompt, n_made;
    int prefill, decode;                    /* the workers of the last try; -1: none */
    int tries;                              /* how often the prompt was read: more than 1 after the loss of a worker */
    double first_seconds, seconds;          /* since the submit: until the first token, until the end */
    void *user;
} tllm_desk_result;

typedef struct tllm_desk_request {          /* all zero but the prompt: greedy, to the end of the text */
    const int32_t *prompt;                  /* copied */
    size_t n_prompt;
    size_t n_most;                          /* 0: as many as the context holds */
    uint64_t seed;
    float temperature, top_p;               /* 0: greedy; 0: all */
    int32_t top_k;                          /* 0: all */
    int past_end;
    /* called for each token, in order; nonzero: ends the request. NULL: none */
    int (*token)(void *user, uint64_t id, size_t index, int32_t token);
    void (*end)(void *user, const tllm_desk_result *r);         /* called once; NULL: none */
    void *user;
} tllm_desk_request;

/* The chain of samplers that workers use for a request: up to 3 steps. For comparisons with one engine alone. */
TINY_API size_t tllm_desk_chain(const tllm_desk_request *r, tllm_step step[3]);

TINY_API tiny_status tllm_desk_open(tiny_ctx *ctx, const tllm_desk_desc *desc, tllm_desk **out);
TINY_API tiny_status tllm_desk_submit(tllm_desk *d, const tllm_desk_request *r, uint64_t *id);
TINY_API tiny_status tllm_desk_cancel(tllm_desk *d, uint64_t id);
/* Moves messages, else sleeps for a moment (1 ms). *more (may be NULL): requests did not end yet. A lost worker is no
 * failure: its requests begin again elsewhere. With no worker left they end with TINY_E_PEER. */
TINY_API tiny_status tllm_desk_step(tllm_desk *d, int *more);
TINY_API int tllm_desk_alive(const tllm_desk *d, int worker);       /* 0: its link has failed */
/* Later requests go by the new role. */
TINY_API tiny_status tllm_desk_role(tllm_desk *d, int worker, int role);
/* Tells the workers to stop, and waits until that was sent, up to 2 seconds. Requests end cancelled. Takes NULL. */
TINY_API void tllm_desk_close(tllm_desk *d);

TINYI_C_END
#endif
