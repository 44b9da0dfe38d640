/* src/core/wire_inside.h - TLD1, the bytes that ranks exchange: frames and the handshake, without sockets
 *
 *   frame      32 bytes of head, payload, 16 bytes of MAC. All integers are little endian.
 *              0 "TLD1"  4 version  5 type  6 flags (2)  8 rank of the sender (4)  12 bytes of payload (4)
 *              16 number of the frame in its direction (8)  24 tag (8)
 *   MAC        the first 16 bytes of HMAC-SHA256(key of the direction, head and payload)
 *   handshake  worker: HELLO; master: CHALLENGE with its proof; worker: AUTH with its own; from then on, frames with a
 *              MAC, numbered from 0. The first is the master's WELCOME, or an ABORT that says why not.
 *
 * A proof is HMAC-SHA256 over all that was said before, with the hash of the secret as its key; so neither side reveals
 * the secret, and nonces make each handshake another one. */
#ifndef TINYI_WIRE_H
#define TINYI_WIRE_H
#include "core/sha256.h"
TINYI_C_BEGIN

enum {
    TINYI_WIRE_HELLO = 1,
    TINYI_WIRE_CHALLENGE,
    TINYI_WIRE_AUTH,
    TINYI_WIRE_WELCOME,
    TINYI_WIRE_PING,
    TINYI_WIRE_PONG,
    TINYI_WIRE_PLAN,                        /* PLAN to RESULT but REDUCE, and STOP: no state of ours allows them */
    TINYI_WIRE_SLICE_REQ,
    TINYI_WIRE_SLICE_DATA,
    TINYI_WIRE_STEP,
    TINYI_WIRE_REDUCE,                      /* a message */
    TINYI_WIRE_RESULT,
    TINYI_WIRE_STOP,
    TINYI_WIRE_ABORT,
    TINYI_WIRE_BYE,
    TINYI_WIRE_TYPES
};
enum { TINYI_WIRE_F16 = 1, TINYI_WIRE_MORE = 2 };
#define TINYI_WIRE_HEAD 32u
#define TINYI_WIRE_MAC 16u
#define TINYI_WIRE_ANY 0xffffffffu          /* as a rank: whichever is free */
#define TINYI_WIRE_PLAN_MOST 4096u          /* bytes of a plan in WELCOME */
#define TINYI_WIRE_SAYS 160

/* the reason in ABORT; from MODEL on, in the answer to AUTH only */
enum {
    TINYI_ABORT_GONE = 1,
    TINYI_ABORT_PROTOCOL,
    TINYI_ABORT_LATE,
    TINYI_ABORT_STOPPED,
    TINYI_ABORT_MODEL = 16,
    TINYI_ABORT_CONFIG,
    TINYI_ABORT_RANK
};

typedef struct tinyi_head { int type, flags; uint32_t rank, n; uint64_t number, tag; } tinyi_head;

TINYI_FN void tinyi_head_put(unsigned char p[TINYI_WIRE_HEAD], const tinyi_head *h);
/* Everything that a head alone can show: magic, version, type, flags, and a payload that this type may have. most: of a
 * REDUCE. 0: says holds the sentence. */
TINYI_FN int tinyi_head_get(const unsigned char p[TINYI_WIRE_HEAD], uint32_t most, tinyi_head *h,
                            char says[TINYI_WIRE_SAYS]);
TINYI_FN void tinyi_wire_mac(tiny_hmac *key, const unsigned char *frame, size_t n, unsigned char mac[TINYI_WIRE_MAC]);

typedef struct tinyi_shake {                /* a side of a handshake */
    /* set by the caller, the rest 0 */
    int server;
    uint32_t rank, world;                   /* its own; client: ANY and 0 take what the server gives */
    uint32_t most;                          /* bytes of payload that it takes */
    unsigned char key[32], nonce[32], run[16], model[32], config[32];       /* run: server */

    /* Of the other side, when done. Nothing may be believed before. A client sets peer_rank: the rank that it calls. */
    int done;
    uint32_t peer_rank, peer_world, peer_most;
    unsigned char peer_model[32], peer_config[32];
    tiny_hmac sends, receives;              /* the keys of the two directions */

    unsigned char out[TINYI_WIRE_HEAD + 108];           /* to be sent: bytes out_at to n_out - 1 */
    size_t n_out, out_at;
    unsigned char in[TINYI_WIRE_HEAD + 108];
    size_t n_in;
    int state;
    unsigned char hello[108], challenge[88];
    char says[TINYI_WIRE_SAYS];
} tinyi_shake;

/* The first bytes of a client; a server waits. */
TINYI_FN void tinyi_shake_start(tinyi_shake *k);
/* How many bytes it can take; never beyond the end of the handshake, so that frames after it stay where they are. */
TINYI_FN size_t tinyi_shake_wants(const tinyi_shake *k);
TINYI_FN tiny_status tinyi_shake_take(tinyi_shake *k, const unsigned char *p, size_t n);      /* n <= wants */

TINYI_C_END
#endif
