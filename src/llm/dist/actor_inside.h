/* src/llm/dist/actor_inside.h - the state of a run of actors, on threads and ranks or on the clock */
#ifndef TINYI_ACTOR_INSIDE_H
#define TINYI_ACTOR_INSIDE_H
#include "core/state_inside.h"
#include "llm/dist/actor.h"
TINYI_C_BEGIN

enum { TINYI_READY, TINYI_RELEASE, TINYI_END, TINYI_STOP, TINYI_PULL, TINYI_DATA, TINYI_FIN, TINYI_NOTES };
enum { TINYI_FRAME = 20 };                  /* bytes: hash, kind, edge, buffer */

typedef struct tinyi_actor_list { int *at; int first, n, most; } tinyi_actor_list;     /* a queue of numbers */
typedef struct tinyi_actor_edge {
    int from, output, to, c, next;          /* next: another reader of the same output, or -1 */
    size_t bytes;
    int remote;                               /* between two ranks */
    /* the reader's thread */
    tinyi_actor_list queue;
    int ended, stopped, holds;              /* holds: the buffer of the call that runs */
    /* edges between ranks, thread 0 */
    unsigned char *landing;                 /* (c, bytes) at the reader's rank */
    tinyi_actor_list ready, pulled, empty;  /* announced; asked for, by landing; free landings */
    int got_end, said_end, halted, closed;
    uint64_t *ready_at;                     /* (c) simulated: when an item was announced */
} tinyi_actor_edge;
typedef struct tinyi_actor_out {
    int first, n_edge, n_free, live, taken; /* first: its first reader, or -1 */
    unsigned char *data;
    int *refs;                              /* (c) */
} tinyi_actor_out;
typedef struct tinyi_actor_state {
    int c, edge[TLLM_ACTOR_PORTS], ended, busy, stop, thread, here;
    tinyi_actor_out out[TLLM_ACTOR_PORTS];
    tllm_actor_call call;
    uint64_t fired, last;
} tinyi_actor_state;
typedef struct tinyi_actor_note { tiny_idx next; int kind, edge, arg; } tinyi_actor_note;
typedef struct tinyi_actor_inbox { tiny_idx head; char pad[TINYI_ALIGN]; } tinyi_actor_inbox;
typedef struct tinyi_actor_frame { int kind, edge, arg; } tinyi_actor_frame;
typedef struct tinyi_actor_peer {
    tinyi_actor_frame *frame;
    int first, n, most, n_open;             /* of the ring; edges with that rank that are not closed */
    tiny_message send, recv;
    tinyi_actor_frame sends, recvs;
    int sending, receiving;                 /* 0: nothing, 1: a frame, 2: an item */
    unsigned char head_out[TINYI_FRAME], head_in[TINYI_FRAME];
} tinyi_actor_peer;
typedef struct tinyi_actor_event { uint64_t at, order; int kind, edge, arg; } tinyi_actor_event;

typedef struct tinyi_actors {
    tiny_ctx *ctx;
    const tllm_actor_desc *d;
    tiny_net *net;
    int rank, world, n_edge, n_threads, simulated;
    tinyi_actor_state *actor;
    tinyi_actor_edge *edge;
    int *numbers;                           /* all queues and counts of references */
    unsigned char *data;
    tinyi_actor_note *note;                 /* for edge e from e's place on: c READY, c RELEASE, END, STOP */
    tiny_idx *note_at;                      /* (n_edge) */
    tinyi_actor_inbox *inbox;
    tinyi_actor_peer *peer;
    tinyi_actor_frame *frames;
    tiny_idx alive, busy, failed;
    tiny_status st;
    char says[160];
    uint64_t hash, number, timeout;
    /* simulated */
    tinyi_actor_event *event;
    size_t n_event, event_room;
    uint64_t now, order, end;
    uint64_t *link_free, *ready_at;         /* (world, world); for all edges */
    unsigned char *thread_busy;             /* by first actor of a (rank, thread) */
    int *thread_of;
} tinyi_actors;

TINYI_FN tiny_status tinyi_actor_check(tiny_ctx *ctx, const tllm_actor_desc *d, int world);
TINYI_FN tiny_status tinyi_actors_open(tinyi_actors *r);
TINYI_FN void tinyi_actors_close(tinyi_actors *r);
TINYI_FN void *tinyi_actor_zeros(tinyi_actors *r, size_t n, size_t bytes);     /* one more than n */
TINYI_FN size_t tinyi_actor_room(size_t bytes);            /* of a buffer for an item */
TINYI_FN void tinyi_actor_put(tinyi_actor_list *l, int x);
TINYI_FN int tinyi_actor_take(tinyi_actor_list *l);
TINYI_FN void tinyi_actor_fail(tinyi_actors *r, tiny_status st, const char *says);
TINYI_FN void tinyi_actor_refuses(tinyi_actors *r, int a, tiny_status st);
TINYI_FN void tinyi_actor_deliver(tinyi_actors *r, int e, int kind, int arg);
TINYI_FN int tinyi_actor_fires(const tinyi_actors *r, int a);
TINYI_FN tiny_status tinyi_actor_begin(tinyi_actors *r, int a);
TINYI_FN void tinyi_actor_finish(tinyi_actors *r, int a);
TINYI_FN void tinyi_actor_counts(const tinyi_actors *r, tllm_actor_count *count);
/* simulated: a note on an edge between two ranks */
TINYI_FN void tinyi_actor_far(tinyi_actors *r, int e, int kind, int arg);

TINYI_C_END
#endif
