/* src/llm/lab/nets/slim.h - networks cut in two: an encoder of many widths, codes for the link, a tail of one set of
 * weights, and the choice of the width while the link changes
 *
 *     tllm_slim_desc d = { 0 };                           4 members, 2 channels each, codes of 4 bits
 *     d.in[0] = 1; d.in[1] = d.in[2] = 32; d.n_class = 10;
 *     tllm_slim_open(ctx, &d, &slim);
 *     tllm_slim_fit(slim, &task.train, NULL);             all widths at once
 *     tllm_slim_encode(slim, x, 0, m, z);                 device: x one image, z the numbers of m members
 *     tllm_slim_pack(slim, z, 0, m, 0, frame, room, &n);  device: n bytes for the link
 *     tllm_slim_unpack(slim, frame, n, &have, z);         server: have members have arrived
 *     tllm_slim_tail(slim, z, have, logits);              server
 *
 * The encoder has K members without connections between them. The active ones are always the first m, so a width costs
 * m / K, and the result of a member never depends on m: one member may travel first and others follow in later frames.
 * The server pads the missing ones with zeros, scales by K / m, and uses the batch norms of that m. Both ends hold
 * the same file (tllm_slim_save). One thread at a time may use a network. No call of encode, pack, unpack and tail
 * allocates after the first use of each width. */
#ifndef TINYI_LLM_SLIM_H
#define TINYI_LLM_SLIM_H
#include "llm/lab/nets/task.h"
#include "math/train.h"
TINYI_C_BEGIN

#define TLLM_SLIM_MEMBERS 16                /* most members */
#define TLLM_SLIM_HEAD 20                   /* bytes of a frame before its codes */

typedef struct tllm_slim_desc {             /* zero: the value in brackets */
    tiny_idx in[3];                         /* channels, height, width of an image; at most 1020 on a side */
    int members;                            /* K [4] */
    tiny_idx width;                         /* channels inside of a member [4] */
    tiny_idx send;                          /* channels that a member sends [2] */
    tiny_idx tail;                          /* channels of the tail [32] */
    tiny_idx n_class;
    int bits;                               /* of a code in training: 2 to 8 [4] */
    int prefix;                             /* nonzero: one wide stack cut by channels, a batch norm for each width */
    uint64_t seed;
} tllm_slim_desc;

typedef struct tllm_slim tllm_slim;

TINY_API tiny_status tllm_slim_open(tiny_ctx *ctx, const tllm_slim_desc *desc, tllm_slim **out);
TINY_API void tllm_slim_close(tllm_slim *slim);             /* takes NULL */
TINY_API const tllm_slim_desc *tllm_slim_is(const tllm_slim *slim);     /* with the values that zeros stand for */
TINY_API tiny_status tllm_slim_save(const tllm_slim *slim, const char *path);
TINY_API tiny_status tllm_slim_load(tllm_slim *slim, const char *path);     /* after a failure nothing has changed */

typedef struct tllm_slim_cost {             /* of a width */
    double encoder, tail;                   /* products and sums of an image */
    size_t n_encoder, n_tail;               /* weights, without norms */
    tiny_idx numbers;                       /* that encode gives */
    size_t bytes;                           /* of a frame with codes of `bits`, header included */
} tllm_slim_cost;
TINY_API tiny_status tllm_slim_cost_of(const tllm_slim *slim, int m, tllm_slim_cost *cost);

/* ---- training: each step runs the widths K, 1 and two random ones. The loss is the cross-entropy of width K; the
 * others learn from its logits. After a third of the epochs the codes are rounded. At the end the statistics of every
 * batch norm are computed anew over 100 batches of the set, or as many as the training had. */
typedef struct tllm_slim_fit_state { int64_t step, steps; double loss; } tllm_slim_fit_state;
typedef struct tllm_slim_fit_desc {         /* zero: the value in brackets */
    tiny_idx batch;                         /* [100, or all samples if there are fewer] */
    int64_t epochs;                         /* [12] */
    double lr;                              /* of Adam, times a cosine that ends at 0 [4e-3] */
    uint64_t seed;
    int alone;                              /* nonzero: only width K, as a separate model */
    int half;                               /* nonzero: smaller widths learn half from the labels */
    int (*callback)(void *user, const tllm_slim_fit_state *state);      /* nonzero ends the training with TINY_OK */
    void *user;
} tllm_slim_fit_desc;
TINY_API tiny_status tllm_slim_fit(tllm_slim *slim, const tllm_nn_set *set, const tllm_slim_fit_desc *desc);

/* ---- a frame: the two ends */

/* x (channels, height, width) f32, dense; z receives the numbers of members first .. first + count - 1. prefix: first
 * is 0. */
TINY_API tiny_status tllm_slim_encode(tllm_slim *slim, const float *x, int first, int count, float *z);

/* Codes round(z / step), clamped to 2^(bits-1) - 1 on both sides. bits 0: those of the training; 2 to 8. coded: an
 * arithmetic coder with the counts of the training set, for the bits of the training only. */
typedef struct tllm_slim_pack_desc { int bits, coded; } tllm_slim_pack_desc;
TINY_API size_t tllm_slim_frame_most(const tllm_slim *slim, int count);     /* bytes that a frame takes at most */
TINY_API tiny_status tllm_slim_pack(const tllm_slim *slim, const float *z, int first, int count,
                                    const tllm_slim_pack_desc *desc, void *frame, size_t room, size_t *n);
/* *have: members that have arrived. A frame that begins with member 0 starts anew, another must begin with member
 * *have. z has the numbers of all members; those of the frame are set. After a failure z and *have are unchanged. */
TINY_API tiny_status tllm_slim_unpack(const tllm_slim *slim, const void *frame, size_t n, int *have, float *z);
TINY_API float tllm_slim_step(const tllm_slim *slim, int member, int bits);     /* 0: no such member or bits */
TINY_API double tllm_slim_entropy(const tllm_slim *slim, int member);           /* bits a code on the training set */

TINY_API tiny_status tllm_slim_tail(tllm_slim *slim, const float *z, int m, float *logits);
/* A linear classifier of the numbers of member 0, for a device without a link. */
TINY_API tiny_status tllm_slim_local(tllm_slim *slim, const float *z, float *logits);
/* *n_right: samples whose largest logit, of the first of equals, is that of the label; each goes through a frame.
 * m 0: the local classifier. *bytes: the mean of a frame. */
TINY_API tiny_status tllm_slim_right(tllm_slim *slim, const tllm_nn_set *set, int m, const tllm_slim_pack_desc *desc,
                                     tiny_idx *n_right, double *bytes);

/* ---- the controller: the largest m whose frame is answered in time
 *     t_enc(m) + bytes(m) / bandwidth + rtt / 2 + t_dec(m) <= deadline
 * A plain struct without memory; set members, bytes and deadline, the rest to 0. */
typedef struct tllm_slim_control {
    int members;
    size_t bytes[TLLM_SLIM_MEMBERS];        /* of a frame of 1 .. K members */
    double deadline;                        /* seconds */
    double margin;                          /* going up needs this share of the deadline [0.9] */
    int good;                               /* frames in a row in which a larger m would have fitted [3] */
    int probe;                              /* frames without any m after which m = 1 is tried [8] */
    /* ---- measured; read them at will */
    double encode[TLLM_SLIM_MEMBERS], decode[TLLM_SLIM_MEMBERS];    /* seconds; 0: not measured */
    double rtt, bandwidth, variance;        /* seconds, bytes a second; 0: not measured */
    double last[3];                         /* bandwidths of the last transfers */
    int n_last, n_good, idle, m;
} tllm_slim_control;

typedef struct tllm_slim_seen {             /* of a frame; 0: not measured */
    int m;                                  /* 0: nothing was sent */
    size_t bytes;
    double encode, transfer, decode, rtt;   /* seconds; transfer: of the bytes alone */
} tllm_slim_seen;

/* Takes in what was seen of the last frame (NULL: the first call), and returns the m of the next one. 0: not even one
 * member fits; -1: a number is not valid: a bandwidth of 0 or NaN, an m beyond members. */
TINY_API int tllm_slim_control_next(tllm_slim_control *c, const tllm_slim_seen *seen);
TINY_API double tllm_slim_control_time(const tllm_slim_control *c, int m);  /* expected seconds; 0: nothing measured */

TINYI_C_END
#endif
