/* src/llm/serve/engine_inside.h - requests, and the struct of an engine */
#ifndef TINYI_ENGINE_INSIDE_H
#define TINYI_ENGINE_INSIDE_H
#include "core/state_inside.h"
#include "llm/serve/engine.h"
#include "llm/session/session_inside.h"
TINYI_C_BEGIN

/* One block of the intake's context holds the request and the copies of all that it points to. */
typedef struct tinyi_request {
    struct tinyi_request *next;             /* in the inbox, the queue, or among those to be freed */
    struct tinyi_request *before, *after;   /* among all that did not end */
    uint64_t id, number;                    /* number: order of arrival */
    tllm_request of;                        /* pointers into this block */
    tllm_grammar *own;                      /* made from of.gbnf or of.schema */
    tllm_step *chain;                       /* with a step for of.bias */
    size_t n_steps;
    int cancelled, ended;                   /* under the lock */
    /* ---- from here on for the thread that steps */
    int drop;                               /* cancelled, as seen at the beginning of the step */
    int32_t *text;                          /* prompt, then what was made */
    size_t n_text, n_fed;                   /* n_fed: of them in the slot */
    size_t n_ever;                          /* the most that ever was */
    size_t n_told;                          /* of the prompt: logprobs reported, or not to be */
    size_t n_cached, n_made, n_again;
    uint64_t submitted, started, first;
    tiny_idx slot;                          /* -1: waits */
    /* waits: for the leader, whose text begins alike for `lead` tokens and is being read; NULL: it has left */
    struct tinyi_request *leader;
    size_t lead;
    int waits;
    size_t n_now, n_want;                   /* of the running pass: tokens, and rows of results */
    const float *rows;                      /* (n_want, n_vocab) */
    /* proposals, engine_ahead.c. writes: the pass reads its last token. n_ahead: proposals of the pass, in text after
     * its n_text tokens. guess: the first one, also if it is not in the pass; -1: none. keep: the share that is kept */
    int writes;
    int32_t guess;
    unsigned without, patience;             /* with a draft model: steps without proposals, and until a new trial */
    size_t n_ahead, n_proposed, n_kept;
    double keep;
    tinyi_generate g;
    tllm_stream stream;
    int opened, over;
    tllm_end end;
    tiny_status status;
    char error[240];
} tinyi_request;

typedef struct tinyi_slot {
    tinyi_request *r;                       /* NULL: free */
    int32_t *token;                         /* (context) */
    size_t n;                               /* tokens held */
    const tllm_adapter *adapter;            /* that they were computed with */
    float weight;
    uint64_t used;                          /* when a request last left it: the least is reused first */
    uint64_t kept;                          /* only the request with this id may use it; 0: free for all */
    int inexact;                            /* its keys and values are not those of its tokens: nobody copies them */
} tinyi_slot;

/* sums over passes: weight, rows, seconds, rows squared, rows by seconds */
typedef struct tinyi_ahead_pace { double w, x, y, xx, xy; } tinyi_ahead_pace;
/* of the next pass so far: tokens that are likely to come of it, rows, rows without proposals; seconds that the draft
 * takes for a proposal */
typedef struct tinyi_ahead_sum { double tokens, rows, plain, draft; } tinyi_ahead_sum;

struct tllm_engine {
    tiny_ctx *ctx;                          /* of the thread that steps */
    tiny_ctx *in;                           /* of those that submit, one after the other: under the door */
    tllm_engine_desc d;                     /* defaults filled in */
    tllm_gguf *file;                        /* NULL: the model is the caller's */
    tllm_model *own_model;
    tllm_vocab *own_vocab;
    const tllm_model *model;
    const tllm_vocab *vocab;
    tllm_state *state;
    tllm_session text;                      /* ctx, vocab, about, pieces: for tinyi_generate_guided */
    size_t most;                            /* tokens of a request */
    tiny_idx n_page, n_pages;               /* tokens of a page; pages */
    tinyi_slot *slot;
    int32_t *token;                         /* (slots, context) */
    tllm_item *item;
    tinyi_request **row;                    /* (slots) requests in the order of their arrival */
    size_t *held, *from, *to;               /* (slots) for the window */
    float *logits;                          /* (slots + TINYI_ENGINE_WANTS + most proposals of a pass, n_vocab) */
    float *masked;                          /* (n_vocab), with may and piece: of the request at work */
    unsigned char *may;
    char *piece;
    tllm_engine_top *top;
    double *top_p;
    int32_t *top_t;
    const tllm_adapter *adapter;            /* attached to the state now */
    tinyi_request *queue;                   /* by priority, then by number */
    int stepping;
    uint64_t clock;                         /* of slot.used */
    tllm_engine_counters now;               /* as the thread that steps counts */
    tinyi_ahead_pace pace;                  /* of passes without prompts */
    /* a draft model, engine_draft.c */
    tllm_state *draft;                      /* NULL: repetitions are proposed */
    tllm_sampler *draft_greedy;
    int32_t *draft_token;                   /* (slots, context) */
    float *draft_logits;                    /* (slots, n_vocab) */
    size_t draft_most;                      /* positions */
    double draft_seconds;                   /* for a proposal */
    /* ---- under the lock */
    tinyi_request *inbox, *inbox_last, *all, *dead;
    size_t n_all, n_waiting;
    uint64_t next_id, next_number;
    tllm_engine_counters told;
    tllm_engine_slot *told_slot;            /* (slots) */
    int closing, threaded, quit;
#if TINYI_HAVE_PTHREAD
    pthread_mutex_t door, lock;
    pthread_cond_t work, rest;
    pthread_t thread;
#endif
};

#define TINYI_ENGINE_ALIKE 16               /* tokens of a common beginning that are worth waiting for */
#define TINYI_AHEAD_KEEP 0.8                /* the share of proposals kept that a request begins with */
#define TINYI_ENGINE_WANTS 16               /* rows of prompts whose logprobs are wanted, in a step */

TINYI_FN void tinyi_engine_lock(tllm_engine *e);
TINYI_FN void tinyi_engine_unlock(tllm_engine *e);
/* One step, by the thread that may. */
TINYI_FN tiny_status tinyi_engine_round(tllm_engine *e, int *more);
/* Copies what other threads may see. */
TINYI_FN void tinyi_engine_publish(tllm_engine *e, int *more);
TINYI_FN void tinyi_slot_empty(tllm_engine *e, tiny_idx i);
/* Empties the free slot that was left longest ago, other than `keep`; 0: there is none with tokens. */
TINYI_FN int tinyi_engine_evict(tllm_engine *e, tiny_idx keep);
/* kept.c: the slot that is kept for this id, or -1 */
TINYI_FN tiny_idx tinyi_kept_slot(const tllm_engine *e, uint64_t id);
/* An empty slot for what the request `id` will begin with; *at: which one. TINY_E_WORKSPACE: none is free now. */
TINYI_FN tiny_status tinyi_kept_place(tllm_engine *e, const char *call, uint64_t id, const void *bytes, tiny_idx *at);
TINYI_FN void tinyi_kept_hold(tllm_engine *e, tiny_idx at, uint64_t id, size_t n);
/* Ends a request and calls its end. It is in no list but `all`, and in no slot. */
TINYI_FN void tinyi_request_end(tllm_engine *e, tinyi_request *r);
/* Frees what has ended; wait: even if a submit is at work. */
TINYI_FN void tinyi_engine_sweep(tllm_engine *e, int wait);
/* Sampler, stop strings and grammar of a request that gets a slot for the first time; and their end. */
TINYI_FN tiny_status tinyi_request_open(tllm_engine *e, tinyi_request *r);
TINYI_FN void tinyi_request_close(tllm_engine *e, tinyi_request *r);
/* Reports the logprobs of a piece of the prompt; draws the next token and reports it. */
TINYI_FN void tinyi_request_prompt(tllm_engine *e, tinyi_request *r, size_t first);
TINYI_FN void tinyi_request_draw(tllm_engine *e, tinyi_request *r, const float *logits);
/* Adds proposals to the planned tokens of e->row[0 .. n). */
TINYI_FN tiny_status tinyi_engine_ahead(tllm_engine *e, size_t n);
/* Fills in r->n_ahead proposals of each request, or fewer. */
TINYI_FN tiny_status tinyi_engine_draft(tllm_engine *e, size_t n);
TINYI_FN tiny_status tinyi_engine_draft_open(tllm_engine *e);
TINYI_FN void tinyi_engine_draft_close(tllm_engine *e);
/* pages that `more` tokens of a slot take from the free ones */
TINYI_FN tiny_idx tinyi_engine_takes(const tllm_engine *e, tiny_idx slot, size_t more);
/* Draws a token, and further ones while they are those that were proposed. logits: (n_ahead + 1, n_vocab). Cuts the
 * slot back to what was kept. */
TINYI_FN void tinyi_request_draws(tllm_engine *e, tinyi_request *r, const float *logits);
/* A pass with so many rows took so long. known: 0 if the passes so far do not tell what a row costs. */
TINYI_FN void tinyi_ahead_time(tinyi_ahead_pace *p, double rows, double seconds);
TINYI_FN int tinyi_ahead_known(const tinyi_ahead_pace *p, double *base, double *row);
/* How many of `most` proposals raise the tokens per second. They are added to the sum. */
TINYI_FN size_t tinyi_ahead_pays(const tinyi_ahead_pace *p, double keep, size_t most, tinyi_ahead_sum *sum);
/* r->over, with the context's sentence */
TINYI_FN void tinyi_request_fail(tllm_engine *e, tinyi_request *r, tiny_status st);

TINYI_C_END
#endif
