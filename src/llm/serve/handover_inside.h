/* src/llm/serve/handover_inside.h - messages of the desk and its workers
 *
 * Head     little endian, 56 bytes: u32 "hand", u16 kind, u16 flags, u64 id, u64 bytes of the body, u64 seed, u32 a,
 *          u32 b, u32 n_most, f32 temperature, f32 top_p, i32 top_k. A body follows as a message of its own.
 * Kinds    desk to worker: READ, WHOLE, TAKE (a: the worker that read it), bodies are the tokens of the prompt; DROP;
 *          STOP. Worker to desk: FIRST (a: token); TOKEN (a: token, b: index); END (a: end, b: tokens made, n_most:
 *          status, top_k: the only token of a READ; body: a sentence); LOST. Between workers: PULL (a: level of the
 *          codec or 0, seed: tllm_kvcodec_tables_id or 0); PAGES (body: as tllm_engine_pack, with the flag CODED as
 *          handover_coded.c has it, or none: dropped); BYE, the last one.
 * Codec    the level in the flags of a TAKE. READ, WHOLE and TAKE with b > 0: the last b tokens of the body are not of
 *          the prompt but of the text, which begins with them. */
#ifndef TINYI_HANDOVER_INSIDE_H
#define TINYI_HANDOVER_INSIDE_H
#include "llm/serve/handover.h"
#include "llm/serve/engine_inside.h"
TINYI_C_BEGIN

enum {
    TINYI_HAND_READ = 1, TINYI_HAND_WHOLE, TINYI_HAND_TAKE, TINYI_HAND_DROP, TINYI_HAND_STOP, TINYI_HAND_FIRST,
    TINYI_HAND_TOKEN, TINYI_HAND_END, TINYI_HAND_LOST, TINYI_HAND_PULL, TINYI_HAND_PAGES, TINYI_HAND_BYE
};
enum { TINYI_HAND_HEAD = 56, TINYI_HAND_SAYS = 240, TINYI_HAND_PROMPT = 1 << 24 };
enum { TINYI_HAND_PAST_END = 1, TINYI_HAND_CODED = 2, TINYI_HAND_LEVEL = 4 };   /* flags; the bit where the level is */

typedef struct tinyi_hand_head {
    int kind;
    unsigned flags;
    uint64_t id, n_body, seed;
    uint32_t a, b, n_most;
    float temperature, top_p;
    int32_t top_k;
} tinyi_hand_head;

typedef struct tinyi_hand_block {           /* a message to be sent */
    struct tinyi_hand_block *next;
    unsigned char head[TINYI_HAND_HEAD];
    void *body;                             /* of the context */
    size_t n;
} tinyi_hand_block;

/* one end of a link */
typedef struct tinyi_hand_post {
    tllm_hand_link to;
    int open;                               /* 0: none, failed, or said BYE */
    size_t most;                            /* bytes of a body that may come */
    tiny_message in, out;
    unsigned char head[TINYI_HAND_HEAD];
    tinyi_hand_head got;
    void *body;                             /* of `got`; a handler that keeps it sets NULL */
    int has_head, sends_body;
    tinyi_hand_block *first, *last;
} tinyi_hand_post;

TINYI_FN void tinyi_hand_open(tinyi_hand_post *p, const tllm_hand_link *to, size_t most);
TINYI_FN void tinyi_hand_shut(tiny_ctx *ctx, tinyi_hand_post *p);          /* frees what was not sent */
/* body (n bytes of the context's allocator, or NULL) belongs to the post from here on, also after a failure. Nothing is
 * done on a link that is not open. */
TINYI_FN tiny_status tinyi_hand_put(tiny_ctx *ctx, tinyi_hand_post *p, const tinyi_hand_head *head, void *body,
                                    size_t n);
TINYI_FN void *tinyi_hand_copy(tiny_ctx *ctx, const void *bytes, size_t n);
/* Sends what can be sent; *moved is set if anything was. A failure closes the link. */
TINYI_FN tiny_status tinyi_hand_send(tiny_ctx *ctx, tinyi_hand_post *p, int *moved);
/* *whole: a message is in p->got and p->body, which is freed by the next call. */
TINYI_FN tiny_status tinyi_hand_recv(tiny_ctx *ctx, tinyi_hand_post *p, int *whole);
/* For an invalid message: fails the link, and its net if that has no other link: then the other side learns of it. */
TINYI_FN tiny_status tinyi_hand_wrong(tiny_ctx *ctx, tinyi_hand_post *p, const char *what);

/* ---- handover_coded.c */
TINYI_FN tiny_status tinyi_hand_tables(tllm_engine *e, const tllm_kvcodec_tables *tables);     /* do they fit? */
/* What the slot kept for this id holds, coded; *bytes NULL: it travels plain. tables NULL: it brings its own. */
TINYI_FN tiny_status tinyi_hand_code(tllm_engine *e, uint64_t id, int level, const tllm_kvcodec_tables *tables,
                                     void **bytes, size_t *n);
/* As tllm_engine_put; invalid bytes are TINY_E_FORMAT and change nothing that is in use. */
TINYI_FN tiny_status tinyi_hand_uncode(tllm_engine *e, uint64_t id, const tllm_kvcodec_tables *tables,
                                       const unsigned char *bytes, size_t n, const int32_t *prompt, size_t n_prompt);

TINYI_C_END
#endif
