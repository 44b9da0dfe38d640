/* src/llm/dist/actor.h - operations as actors with a fixed number of buffers
 *
 * An actor takes one item from each of its inputs, runs, and gives one item to each of its outputs. An output has a
 * fixed number of buffers. The actor fires when every input has an item and every output has a free buffer. A buffer is
 * free again when all its readers have released it. So a slow actor stops those before it, and the memory of a run is
 * known before it begins: the sum of buffers times bytes.
 *
 *   static tiny_status load(tllm_actor_call *c) { ... fill c->out[0] ...; if (c->item == 19) c->end = TLLM_ACTOR_LAST;
 *                                                 return TINY_OK; }
 *   tllm_actor list[2] = { { 0 } };
 *   list[0].act = load;  list[0].n_out = 1;  list[0].bytes[0] = 4096;
 *   list[1].act = work;  list[1].n_in = 1;   list[1].thread = 1;          its input 0 is output 0 of actor 0
 *   tllm_actor_desc d = { 0 };
 *   d.actor = list; d.n_actor = 2;
 *   tllm_actor_run(ctx, &d, NULL);
 *
 * Actors of one thread take turns. Threads of a rank pass buffers by address. Between ranks, the reader's rank asks for
 * an item when it has a free buffer of its own for it, of which there are as many as at the output.
 *
 * A run ends when every actor has ended. An actor ends after the call that sets `end`, when an input has ended and its
 * items are used up, or when a reader of one of its outputs has stopped. Its readers then get an end mark after the
 * last item, and the actors that it reads from are stopped. An actor that reads two inputs of different lengths ends
 * with the shorter one. */
#ifndef TINYI_ACTOR_H
#define TINYI_ACTOR_H
#include "core/net.h"
TINYI_C_BEGIN

#define TLLM_ACTORS 4096                    /* of a graph, at most */
#define TLLM_ACTOR_PORTS 4                  /* inputs of an actor, and outputs, at most */
#define TLLM_ACTOR_BUFFERS 1024             /* of an output, at most */
#define TLLM_ACTOR_NEVER UINT64_MAX

enum {
    TLLM_ACTOR_LAST = 1,                    /* what this call gives is the last item */
    TLLM_ACTOR_END                          /* this call gives nothing, and there is no further one */
};

typedef struct tllm_actor_call {
    void *user;
    uint64_t id;                            /* rank << 48 | thread << 32 | number in the list */
    uint64_t item;                          /* how often the actor has fired before */
    const void *in[TLLM_ACTOR_PORTS];
    void *out[TLLM_ACTOR_PORTS];
    int end;                                /* the call may set it */
    uint64_t ns;                            /* simulated: how long this call takes; the call may change it */
    uint64_t at;                            /* simulated: when it begins; else 0 */
} tllm_actor_call;
/* A status other than TINY_OK ends the run on all ranks. The function runs on a thread of the run's context, so it may
 * not call the library with that context. */
typedef tiny_status (*tllm_actor_fn)(tllm_actor_call *call);

typedef struct tllm_actor {
    int rank, thread;
    int n_in, from[TLLM_ACTOR_PORTS];       /* numbers of earlier actors: so there are no circles */
    int output[TLLM_ACTOR_PORTS];           /* which of their outputs */
    int n_out;
    size_t bytes[TLLM_ACTOR_PORTS];         /* of an item of each output */
    int buffers;                            /* of each output; 0: 2 */
    tllm_actor_fn act;                      /* needed on its own rank only */
    void *user;
    uint64_t ns;                            /* simulated: how long a call takes; TLLM_ACTOR_NEVER: it does not return */
} tllm_actor;

typedef struct tllm_actor_desc {
    const tllm_actor *actor;                /* (n_actor) the same on every rank, apart from act and user */
    int n_actor;
    tiny_net *net;                          /* NULL: one rank */
    uint64_t timeout_ns;                    /* how long another rank may be silent while this one waits; 0: 10 s */
    /* tllm_actor_simulate: links between ranks; 0 bits: no limit */
    uint64_t latency_ns;
    double bits_per_second;
} tllm_actor_desc;

typedef struct tllm_actor_count {           /* of one actor on its own rank */
    uint64_t fired;
    int live;                               /* the most buffers of an output that were in use at once */
    int ended;
    uint64_t last;                          /* simulated: when its last call returned */
} tllm_actor_count;

/* Bytes of all buffers on a rank. SIZE_MAX: more than can be addressed, or an invalid graph. */
TINY_API size_t tllm_actor_memory(const tllm_actor_desc *desc, int rank);
/* Every rank of the net makes the call. count: (n_actor) or NULL. With fewer threads than actors name, several of their
 * threads share one: the items are the same. */
TINY_API tiny_status tllm_actor_run(tiny_ctx *ctx, const tllm_actor_desc *desc, tllm_actor_count *count);
/* The same graph on one thread with a clock of its own: each (rank, thread) runs one call at a time, a message inside a
 * rank takes no time. *end: when the last call returned. The calls are made, with their buffers. */
TINY_API tiny_status tllm_actor_simulate(tiny_ctx *ctx, const tllm_actor_desc *desc, tllm_actor_count *count,
                                         uint64_t *end);

TINYI_C_END
#endif
