/* src/llm/lab/nets/split.h - the two processes of a network that is cut in two (llm/lab/nets/slim.h): messages between
 * a device and a server over any transport of ranks
 *
 *     d.net = tiny_tcp_net(tcp); d.peer = 0; d.slim = slim;                 device: rank 1 of 2
 *     tllm_split_open(ctx, &d, &split);
 *     tllm_split_ping(split, &rtt);
 *     tllm_split_send(split, id, frame, n);               a frame of tllm_slim_pack
 *     tllm_split_wait(split, id, until, &answer, &got);   got 0: too late; that answer will be ignored
 *     tllm_split_end(split);
 *
 *     d.peer = 1; tllm_split_open(ctx, &d, &split);       server: rank 0
 *     tllm_split_serve(split, &served);                   until the device ends
 *
 * Several frames may have one id: those after the first bring further members, and each is answered. A frame that is
 * damaged, or whose earlier members are missing, is counted and answered without classes. One of an older id is
 * dropped. A message longer than the longest possible frame ends the connection. */
#ifndef TINYI_LLM_SPLIT_H
#define TINYI_LLM_SPLIT_H
#include "llm/lab/nets/slim.h"
#include "core/net.h"
TINYI_C_BEGIN

#define TLLM_SPLIT_TOP 5                    /* classes of an answer at most */
#define TLLM_SPLIT_HEAD 16                  /* bytes before each frame: kind, id, length, zero */

typedef struct tllm_split_answer {
    uint32_t id;
    int m, n;                               /* members that the server had; classes in the answer, 0: frame refused */
    int32_t label[TLLM_SPLIT_TOP];          /* the most probable ones, in falling order */
    float p[TLLM_SPLIT_TOP];
    double decode;                          /* seconds that the server computed */
} tllm_split_answer;

typedef struct tllm_split_served { uint64_t frames, images, pings, refused, late; } tllm_split_served;

typedef struct tllm_split_desc {
    tiny_net *net;                          /* the caller's; nobody else sends or receives on it */
    int peer;
    tllm_slim *slim;                        /* the caller's: the same file on both ends */
    uint64_t timeout_ns;                    /* for a message that has begun, and for a ping; 0: 30 s */
} tllm_split_desc;

typedef struct tllm_split tllm_split;
TINY_API tiny_status tllm_split_open(tiny_ctx *ctx, const tllm_split_desc *desc, tllm_split **out);
TINY_API void tllm_split_close(tllm_split *split);          /* takes NULL; the transport stays open */

/* Returns when the transport has taken the whole frame. id: 1 or more, never falling. */
TINY_API tiny_status tllm_split_send(tllm_split *split, uint32_t id, const void *frame, size_t n);
/* An image itself, in 8 bits a pixel from its smallest to its largest: the server runs the encoder too, all of it. */
TINY_API tiny_status tllm_split_send_image(tllm_split *split, uint32_t id, const float *x);
TINY_API size_t tllm_split_image_bytes(const tllm_split *split);
/* Waits until the clock (tiny_now_ns) reaches `until`. Answers to older ids are dropped. */
TINY_API tiny_status tllm_split_wait(tllm_split *split, uint32_t id, uint64_t until, tllm_split_answer *answer,
                                     int *got);
/* *seconds: there and back, of a message without a frame; answers that are still to come are dropped. */
TINY_API tiny_status tllm_split_ping(tllm_split *split, double *seconds);
TINY_API tiny_status tllm_split_end(tllm_split *split);     /* the server's call returns */

TINY_API tiny_status tllm_split_serve(tllm_split *split, tllm_split_served *served);        /* served may be NULL */

TINYI_C_END
#endif
