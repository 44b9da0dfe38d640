/* src/llm/serve/energon_inside.h - what the bodies of the pipeline share: its memory, and the steps of its messages
 *
 * Functions that move or fail are called under the lock. */
#ifndef TINYI_ENERGON_INSIDE_H
#define TINYI_ENERGON_INSIDE_H
#include "core/state_inside.h"
#include "llm/serve/energon.h"
TINYI_C_BEGIN

enum {
    TINYI_ENERGON_HEAD = 32,
    TINYI_ENERGON_HELLO = 64,
    TINYI_ENERGON_DEEP = 16,                /* depth, at most */
    TINYI_ENERGON_FLIGHTS = 64,             /* batches between rank 0 and its results, at most */
    TINYI_ENERGON_BATCH = 1,
    TINYI_ENERGON_STOP = 2,
    TINYI_ENERGON_TAG = 247
};

/* a batch in memory: its message, head and body */
typedef struct tinyi_energon_item {
    unsigned char head[TINYI_ENERGON_HEAD];
    unsigned char *body;
    size_t n_body;
    uint64_t number, at;
    int full;                               /* of a queue: there is a batch in it */
} tinyi_energon_item;

/* a batch on its way over one link */
typedef struct tinyi_energon_way {
    tiny_message m;
    int peer, part;                         /* part 0: head, 1: body */
    int on;
    tinyi_energon_item *item;
} tinyi_energon_way;

typedef struct tinyi_energon_request {
    uint64_t uid, since, flight;
    int32_t *token;                         /* (tokens) */
    unsigned char *result;
    tiny_idx n;
    int state;                              /* 0: free, 1: waits, 2: travels, 3: done */
} tinyi_energon_request;

typedef struct tinyi_energon_flight {
    uint64_t number, hash;
    int on, got;                            /* got: ranks whose result is there */
    tiny_idx n;
    int32_t *who;                           /* (texts): slots of its requests */
} tinyi_energon_flight;

typedef struct tinyi_energon_gate { tiny_net net; struct tllm_energon *e; } tinyi_energon_gate;

struct tllm_energon {
    tiny_ctx *ctx;
    tllm_energon_desc d;
    size_t *row;
    tiny_net *net;
    int rank, stage, column;                /* stage -1: rank 0 */
    size_t room;                            /* bytes of a body, at most */
    tiny_status failed;
    char says[200];
    int quit, has_thread, hold;
    int stopping;                           /* 1: the end is known; rank 0: 2: in out[0], 3: sent, 4: it came back */
    uint64_t clock, next, taken;            /* numbers: computed or formed next; taken out of the queue next */
    tllm_energon_counts count;
    /* a worker's queues, by number modulo depth; of rank 0, out[0] is the batch that it sends */
    tinyi_energon_item in[TINYI_ENERGON_DEEP], out[TINYI_ENERGON_DEEP], coming[TINY_NET_RANKS], now;
    uint64_t sent;                          /* number of the next batch to send */
    int told, ended;                        /* ranks of stage 0 that have the current batch or the end; of the last one
                                             * whose end came back */
    uint64_t leave;                         /* virtual clock of what rank 0 sends */
    tinyi_energon_way to[TINY_NET_RANKS], from[TINY_NET_RANKS];
    unsigned char watch[TINYI_ENERGON_HEAD], ack[8];
    int32_t *length, *token;                /* of the batch that is computed */
    tiny_message watch_m;
    /* rank 0 */
    tinyi_energon_request *request;
    tinyi_energon_flight flight[TINYI_ENERGON_FLIGHTS];
    uint64_t done, progress;                /* numbers below are complete; when the last result came */
    int32_t *work, *recent;
    double *waited;
    void *pick;                             /* workspace of the choice of a batch */
    tiny_idx n_recent;
    tinyi_energon_gate gate;
    tiny_net_count group_count[TINY_NET_RANKS];
#if TINYI_HAVE_PTHREAD
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
#endif
};

TINYI_FN void tinyi_energon_lock(tllm_energon *e);
TINYI_FN void tinyi_energon_unlock(tllm_energon *e);
TINYI_FN void tinyi_energon_stir(tllm_energon *e);
TINYI_FN tiny_status tinyi_energon_fail(tllm_energon *e, tiny_status st, const char *says);
TINYI_FN tiny_status tinyi_energon_answer(tllm_energon *e);
TINYI_FN int tinyi_energon_rank(const tllm_energon *e, int stage, int column);
TINYI_FN void tinyi_energon_message(tiny_message *m, unsigned kind, void *data, size_t n, uint64_t at);
TINYI_FN int tinyi_energon_step(tllm_energon *e, int peer, int sends, tiny_message *m, uint64_t *until);
TINYI_FN tiny_status tinyi_energon_refuse(tllm_energon *e, int peer, const char *what);
TINYI_FN int tinyi_energon_turn(tllm_energon *e, int receives, uint64_t *until);
TINYI_FN void tinyi_energon_rest(tllm_energon *e, int receives);
TINYI_FN void tinyi_energon_gate_make(tllm_energon *e);
#if TINYI_HAVE_HELPERS
TINYI_FN void *tinyi_energon_main(void *arg);          /* the thread that moves */
#endif

TINYI_C_END
#endif
