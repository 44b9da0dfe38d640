/* src/llm/serve/engine.h - many requests share one model: every pass over the weights serves all of them
 *
 *   tllm_engine_desc d;
 *   tllm_request r;
 *   int more = 1;
 *   memset(&d, 0, sizeof d);
 *   d.slots = 8;                                   eight requests at a time, further ones wait in the queue
 *   tllm_engine_open_file(ctx, "model.gguf", &d, &e);
 *   memset(&r, 0, sizeof r);
 *   r.prompt = tokens; r.n_prompt = n;             copied: the arrays of the request may go after the call
 *   r.token = print; r.end = finished; r.user = &mine;
 *   tllm_engine_submit(e, &r, &id, NULL, 0);
 *   while (more)
 *       if (tllm_engine_step(e, &more)) ... tiny_ctx_message(ctx) ...
 *   tllm_engine_close(e);
 *
 * A step computes one token of every request that is generating, and a piece of the prompts that are being read, in one
 * pass over the weights. A request joins at the next step after a slot is free, and leaves as soon as it ends. No
 * request waits for the longest one of a batch. docs/papers/flover.md has the method and the measurements.
 *
 * Order     A request with a higher priority goes first; equal ones go in the order of their arrival. A prompt is read
 *           in pieces of at most `budget` tokens in a step, all prompts together, so a long prompt delays the tokens of
 *           the others by one piece only.
 * Prefixes  A slot keeps its tokens when its request ends. A new request takes over the longest common beginning of
 *           its prompt and the tokens of any slot, free or busy; it is not computed again (n_cached). The last token of
 *           the prompt is always computed. Requests that arrive together and begin alike wait for the first of them to
 *           read that beginning.
 * Modes     TLLM_ENGINE_PAGED: keys and values are in pages that slots share, and `cells` may be less than slots *
 *           context. If they run out, free slots lose their tokens first, the longest unused one before the others.
 *           Then the newest request of the lowest priority goes back to the queue, and its tokens are computed again
 *           when it returns. Its text continues as if nothing had happened. TLLM_ENGINE_WINDOW: each slot has the room
 *           of a whole context, and the busy slots are neighbours: a window. If a request ends inside the window,
 *           others move into the hole, as few as possible. With `holes` they stay, and the holes are computed and
 *           thrown away: that is for measurements.
 * Bits      By default the results of a token depend a little, by float rounding, on how many tokens share the pass,
 *           because products with many rows use other kernels. With `exact` they do not: every request gets the bits
 *           that it would get alone, on every target and with any number of threads, whatever else arrives, moves, is
 *           cached or is cancelled. docs/papers/flover.md says what that costs.
 * Drafts    With draft_n, what followed the same tokens earlier in the text of a request is proposed; with draft_model,
 *           what a smaller model would write. The pass that computes the last token of the request also computes the
 *           proposals. Its sampler draws after each of them, and goes on while it draws what was proposed. So the text
 *           is the one without proposals, also with a seed, penalties or a grammar (to the bit with `exact`), in fewer
 *           steps. Proposals use what prompts leave of `budget`, and only free pages. None are made where that gives
 *           fewer tokens per second, because few are kept or the pass has many rows already. Both are measured.
 *           docs/papers/speculate.md has figures.
 * Threads   One thread at a time calls tllm_engine_step, or the engine's own thread does (tllm_engine_start). Any
 *           thread may call submit, cancel, slots and counters at any moment, also inside a callback, if the library
 *           has POSIX threads; else one thread makes all calls. The context belongs to the thread that steps; only an
 *           allocator of your own is also called by the threads that submit. Callbacks run on the thread that steps,
 *           without a lock. A callback must not call step, start, stop or close. */
#ifndef TINYI_ENGINE_H
#define TINYI_ENGINE_H
#include "llm/session/session.h"
TINYI_C_BEGIN

#define TLLM_ENGINE_MOST_SLOTS 1024
#define TLLM_ENGINE_MOST_STEPS 64           /* of a request's chain of samplers */
#define TLLM_ENGINE_MOST_STOPS 64           /* stop strings of a request, */
#define TLLM_ENGINE_MOST_STOP_BYTES 4096    /* and bytes of each */
#define TLLM_ENGINE_MOST_TOP 64             /* alternatives that are reported with a token */

typedef struct tllm_engine tllm_engine;

typedef enum tllm_engine_mode { TLLM_ENGINE_PAGED, TLLM_ENGINE_WINDOW } tllm_engine_mode;

typedef struct tllm_engine_desc {           /* all zero: sensible defaults */
    tiny_idx slots;                         /* requests that run at the same time; 0: 8 */
    tiny_idx context;                       /* most tokens of a request, prompt and answer; 0: of the file, <= 4096 */
    tllm_engine_mode mode;
    tiny_idx cells;                         /* paged: tokens of all slots together; 0: slots * context */
    tiny_idx page;                          /* paged: tokens of a page; 0: 16 */
    tiny_idx budget;                        /* most tokens of prompts in a step; 0: 256 */
    size_t queue;                           /* most requests that wait; 0: 256 */
    int exact;                              /* nonzero: the same bits whoever shares the pass */
    /* paged, nonzero: a request starts only if the pages for its prompt and its n_most are free, so that nothing is
     * ever computed twice */
    int reserve;
    int holes;                              /* window, nonzero: nothing moves */
    int forget;                             /* nonzero: slots keep nothing, and nothing is cached */
    int type_k, type_v;                     /* formats of keys and values, as in tllm_state_desc */
    /* Drafts, above: most tokens that are proposed to a request in a step, at most TLLM_DRAFT_TOKENS. 0: none, with a
     * draft_model 4 */
    int draft_n;
    /* a smaller model proposes, not repetitions in the text. Its vocabulary must have the texts of the engine's. Both
     * must outlive the engine */
    const tllm_model *draft_model;
    const tllm_vocab *draft_vocab;
    int draft_match;                        /* last tokens that must agree with an earlier place; 0: 2 */
    int draft_always;                       /* nonzero: proposes also where that loses time */
    /* called by submit and cancel, on their thread and without a lock: tllm_engine_step has work; NULL: none */
    void (*wake)(void *user);
    void *user;
} tllm_engine_desc;

/* The engine uses the model and the vocabulary and has a state of its own. Both must outlive it; so must ctx. Only
 * decoders that give logits are served. desc may be NULL. On failure *out is NULL. */
TINY_API tiny_status tllm_engine_open(tiny_ctx *ctx, const tllm_model *model, const tllm_vocab *vocab,
                                      const tllm_engine_desc *desc, tllm_engine **out);
/* Opens the file, and closes it with the engine. */
TINY_API tiny_status tllm_engine_open_file(tiny_ctx *ctx, const char *path, const tllm_engine_desc *desc,
                                           tllm_engine **out);
/* Stops the engine's thread. Requests that did not end get their end with TLLM_END_CALLER. e may be NULL. */
TINY_API void tllm_engine_close(tllm_engine *e);

TINY_API const tllm_gguf *tllm_engine_file(const tllm_engine *e);       /* NULL after tllm_engine_open */
TINY_API const tllm_model *tllm_engine_model(const tllm_engine *e);
TINY_API const tllm_vocab *tllm_engine_vocab(const tllm_engine *e);
TINY_API tiny_idx tllm_engine_context(const tllm_engine *e);    /* most tokens of a request */

/* ---- requests ---- */

/* natural logarithm of the probability that the model gives to a token, before the samplers change it */
typedef struct tllm_engine_top { int32_t token; double logprob; } tllm_engine_top;

typedef struct tllm_engine_token {          /* valid during the callback */
    uint64_t id;                            /* of the request */
    int32_t token;
    size_t index;                           /* counted from 0 in the prompt, or in the answer */
    int prompt;                             /* nonzero: a token of the prompt (prompt_logprobs) */
    /* the text that may be shown after this token: whole characters of UTF-8, and nothing that may be the beginning of
     * a stop string; may be empty. Its bytes belong to this and to earlier tokens. No final 0 */
    const char *text;
    size_t n_text;
    double logprob;                         /* 0 unless n_top or logprobs of the request is set */
    const tllm_engine_top *top;             /* the n_top most probable tokens, most probable first */
    size_t n_top;
} tllm_engine_token;

typedef struct tllm_engine_result {         /* valid during the callback */
    uint64_t id;
    tllm_end end;                           /* TLLM_END_CALLER: cancelled, by whatever way */
    tiny_status status;                     /* not TINY_OK: the request failed; */
    const char *error;                      /* why. "" otherwise */
    const char *text;                       /* text that was held back and is now known to be text; n_text bytes */
    size_t n_text;
    const char *stop;                       /* TLLM_END_STRING: the string that was found, else NULL */
    size_t n_prompt, n_cached, n_made;      /* tokens; n_cached: of the prompt, not computed again */
    size_t n_again;                         /* times that the request lost its pages and was computed again */
    size_t n_proposed, n_kept;              /* tokens proposed to it in passes, and how many were kept */
    /* seconds since the submit: until the request had a slot, until its first token, until its end */
    double start_seconds, first_seconds, seconds;
    void *user;
} tllm_engine_result;

typedef struct tllm_request {               /* all zero but prompt and n_prompt: greedy, to the end of the text */
    const int32_t *prompt;
    size_t n_prompt;                        /* at least 1, and less than the context */
    /* the chain of tllm_sampler_open; NULL: greedy. The chain and its lists of biases and breakers are copied. The
     * callback of a filter runs on the thread that steps */
    const tllm_step *chain;
    size_t n_steps;
    uint64_t seed;                          /* of the request's own stream of random numbers */
    const tllm_bias *bias;                  /* a step before the chain; copied */
    size_t n_bias;
    size_t n_most;                          /* most tokens to generate; 0: as many as the context holds */
    /* the answer begins with these tokens, for an answer that was interrupted. Each takes a step and a random number,
     * as if it had been drawn. Copied; not with a grammar */
    const int32_t *begin;
    size_t n_begin;
    int prompt_only;                        /* nonzero: the prompt is read and nothing is generated */
    const char *const *stop;                /* copied */
    size_t n_stop;
    int past_end;                           /* nonzero: an end token does not stop the text; ignored with a grammar */
    int special;                            /* nonzero: control tokens are part of the text */
    /* At most one of: a grammar, which must live until the request ends; a text in GBNF with the rule "root"; a JSON
     * schema. The texts are copied */
    const tllm_grammar *grammar;
    const char *gbnf, *schema;
    size_t n_gbnf, n_schema;
    int logprobs;                           /* nonzero: the logprob of each token is reported, */
    size_t n_top;                           /* and this many alternatives */
    /* nonzero: token is first called for each token of the prompt from the second on, with its logprob and n_top
     * alternatives. The prompt is then computed as a whole: n_cached is 0 */
    int prompt_logprobs;
    int priority;                           /* larger goes first */
    /* paged, nonzero: when the request has ended and was not cancelled, its slot stays as it is until
     * tllm_engine_release. Other requests may copy from it, and may have to wait for its pages */
    int keep;
    /* this LoRA adapter or control vector alone; it must live until the request ends. Each different adapter of a step
     * costs a pass of its own. NULL: none */
    const tllm_adapter *adapter;
    float adapter_weight;                   /* 0: 1 */
    uint64_t id;                            /* your own, not used by a request that did not end; 0: the engine's */
    /* called for each token that is part of the answer; nonzero: ends the request. NULL: none */
    int (*token)(void *user, const tllm_engine_token *t);
    /* called once for every request that was accepted; NULL: none */
    void (*end)(void *user, const tllm_engine_result *r);
    void *user;
} tllm_request;

/* Accepts the request, or refuses it with a status and a sentence: TINY_E_WORKSPACE if the queue is full or the prompt
 * is not shorter than the context, TINY_E_ARGUMENT for an invalid one. *id (id may be NULL): the number of the request.
 * error (may be NULL): room for n_error bytes, receives the sentence. */
TINY_API tiny_status tllm_engine_submit(tllm_engine *e, const tllm_request *r, uint64_t *id, char *error,
                                        size_t n_error);
/* Ends a request: while it waits, reads its prompt or generates. Its end callback comes in the next step, with
 * TLLM_END_CALLER. TINY_E_ARGUMENT: there is no such request, or it has ended. */
TINY_API tiny_status tllm_engine_cancel(tllm_engine *e, uint64_t id);

/* ---- the keys and values of a request, moved to another engine. For the thread that steps, between two steps; needs
 * pages. Bytes of one engine are only taken by one with the same model and the same formats of keys and values.
 * tllm_engine_pack writes what the slot of a request with `keep` holds, if the request has ended; free *bytes with
 * tiny_free. tllm_engine_put stores it in a free slot for the request `id` (not 0), which is submitted next and begins
 * with the same tokens: only the last token of its prompt is computed. TINY_E_WORKSPACE: no slot or no pages are free
 * now. tllm_engine_room: 1 if slots and pages are there for n more requests with `tokens` tokens together, besides a
 * page for each that runs. tllm_engine_bytes: the size of the bytes for that many tokens. */
TINY_API tiny_status tllm_engine_pack(tllm_engine *e, uint64_t id, void **bytes, size_t *n_bytes);
TINY_API tiny_status tllm_engine_put(tllm_engine *e, uint64_t id, const void *bytes, size_t n_bytes);
/* Frees the slot that is kept for this id. TINY_E_ARGUMENT: there is none. */
TINY_API tiny_status tllm_engine_release(tllm_engine *e, uint64_t id);
TINY_API int tllm_engine_room(const tllm_engine *e, size_t n, size_t tokens);
TINY_API size_t tllm_engine_bytes(const tllm_engine *e, size_t tokens);

/* One step. *more (may be NULL): 1 if requests are waiting or running afterwards. A request that fails does not stop
 * the others: its end says why. If the step itself fails (the context's cancel callback, no memory), the status is
 * returned, no token is lost, and the next step tries again. TINY_E_UNSUPPORTED while the engine's own thread runs. */
TINY_API tiny_status tllm_engine_step(tllm_engine *e, int *more);

/* Starts a thread that steps whenever there is work, and sleeps otherwise. The context belongs to it until
 * tllm_engine_stop, which lets a running step finish. TINY_E_UNSUPPORTED: the library has no threads of its own. */
TINY_API tiny_status tllm_engine_start(tllm_engine *e);
TINY_API void tllm_engine_stop(tllm_engine *e);
/* Waits until no request is waiting or running, at most `seconds`; 1: there is none. For the engine's own thread. */
TINY_API int tllm_engine_idle(tllm_engine *e, double seconds);

/* ---- what it does ---- */

typedef enum tllm_engine_work { TLLM_SLOT_FREE, TLLM_SLOT_READS, TLLM_SLOT_WRITES } tllm_engine_work;
typedef struct tllm_engine_slot {
    tllm_engine_work work;                  /* nothing, reads a prompt, generates */
    uint64_t id;                            /* 0: free */
    size_t n_held;                          /* tokens whose keys and values the slot holds, also while it is free */
    size_t n_prompt, n_cached, n_made;
    int priority;
    double seconds;                         /* since the submit */
} tllm_engine_slot;
/* Writes the slots, as they were after the last step, to out (room of them at most). Returns their number. */
TINY_API size_t tllm_engine_slots(tllm_engine *e, tllm_engine_slot *out, size_t room);

typedef struct tllm_engine_counters {       /* since the open */
    uint64_t steps;
    uint64_t rows, rows_useful;             /* tokens computed; those that a request needed for the first time */
    uint64_t moves, bytes_moved;            /* requests moved to another slot; bytes of keys and values copied for it */
    uint64_t prompt_tokens, cached_tokens, made_tokens;     /* prompt_tokens: computed, the cached ones not counted */
    uint64_t proposed, kept;                /* tokens: of drafts in passes, and how many of them were kept */
    uint64_t accepted, ended, failed, cancelled, refused;   /* requests */
    uint64_t again;                         /* requests that lost their pages to others */
    size_t waiting, running;                /* now */
    size_t cells, cells_free;               /* tokens that all pages hold; those of pages that no slot holds */
    double busy_seconds;                    /* in steps */
} tllm_engine_counters;
TINY_API void tllm_engine_count(tllm_engine *e, tllm_engine_counters *out);

TINYI_C_END
#endif
