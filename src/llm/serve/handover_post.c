/* src/llm/serve/handover_post.c - heads and bodies over one link, without ever waiting */
#include "llm/serve/handover_inside.h"
#include "core/half_inside.h"
#include <string.h>

#define TINYI_HAND_TAG UINT64_C(0x68616e6400)           /* of heads; of bodies one more */
#define TINYI_HAND_WORD 0x646e6168u                     /* "hand" */

TINYI_FN void tinyi_hand_open(tinyi_hand_post *p, const tllm_hand_link *to, size_t most)
{
    memset(p, 0, sizeof *p);
    p->to = *to;
    p->open = to->net != NULL;
    p->most = most;
}

static void tinyi_hand_drop_first(tiny_ctx *ctx, tinyi_hand_post *p)
{
    tinyi_hand_block *b = p->first;
    p->first = b->next;
    if (!p->first) p->last = NULL;
    tiny_free(ctx, b->body);
    tiny_free(ctx, b);
    memset(&p->out, 0, sizeof p->out);
    p->sends_body = 0;
}
TINYI_FN void tinyi_hand_shut(tiny_ctx *ctx, tinyi_hand_post *p)
{
    while (p->first) tinyi_hand_drop_first(ctx, p);
    tiny_free(ctx, p->body);
    p->body = NULL;
    p->open = 0;
}

TINYI_FN tiny_status tinyi_hand_wrong(tiny_ctx *ctx, tinyi_hand_post *p, const char *what)
{
    const tiny_status st = tinyi_fail(ctx, TINY_E_PROTOCOL, "rank %d sent %s", p->to.rank, what);
    if (p->to.net->world == 2) (void)tinyi_net_end(ctx, p->to.net, st);
    tinyi_hand_shut(ctx, p);
    return st;
}
static tiny_status tinyi_hand_failed(tiny_ctx *ctx, tinyi_hand_post *p, tiny_status st)
{
    tinyi_hand_shut(ctx, p);
    return tinyi_fail(ctx, st, "the link to rank %d has ended: %s", p->to.rank,
                      *p->to.net->says ? p->to.net->says : "it is gone");
}

TINYI_FN void *tinyi_hand_copy(tiny_ctx *ctx, const void *bytes, size_t n)
{
    void *copy = tiny_alloc(ctx, n);
    if (copy) memcpy(copy, bytes, n);
    return copy;
}

TINYI_FN tiny_status tinyi_hand_put(tiny_ctx *ctx, tinyi_hand_post *p, const tinyi_hand_head *h, void *body, size_t n)
{
    tinyi_hand_block *b = p->open ? (tinyi_hand_block *)tiny_alloc(ctx, sizeof *b) : NULL;
    unsigned char *to;
    if (!b) {
        tiny_free(ctx, body);
        return p->open ? tiny_ctx_status(ctx) : TINY_OK;
    }
    to = b->head;
    b->next = NULL;
    b->body = body;
    b->n = n;
    tinyi_put_le(to, TINYI_HAND_WORD, 4);
    tinyi_put_le(to + 4, (uint64_t)h->kind, 2);
    tinyi_put_le(to + 6, h->flags, 2);
    tinyi_put_le(to + 8, h->id, 8);
    tinyi_put_le(to + 16, n, 8);
    tinyi_put_le(to + 24, h->seed, 8);
    tinyi_put_le(to + 32, h->a, 4);
    tinyi_put_le(to + 36, h->b, 4);
    tinyi_put_le(to + 40, h->n_most, 4);
    tinyi_put_le(to + 44, tinyi_f32_bits(h->temperature), 4);
    tinyi_put_le(to + 48, tinyi_f32_bits(h->top_p), 4);
    tinyi_put_le(to + 52, (uint32_t)h->top_k, 4);
    if (p->last) p->last->next = b;
    else p->first = b;
    p->last = b;
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_hand_send(tiny_ctx *ctx, tinyi_hand_post *p, int *moved)
{
    while (p->open && p->first) {
        tinyi_hand_block *b = p->first;
        tiny_message *m = &p->out;
        size_t before;
        tiny_status st;
        if (!m->data) {
            m->tag = TINYI_HAND_TAG + (uint64_t)p->sends_body;
            m->data = p->sends_body ? b->body : b->head;
            m->n = p->sends_body ? b->n : (size_t)TINYI_HAND_HEAD;
        }
        before = m->done;
        st = p->to.net->send(p->to.net, p->to.rank, m);
        if (st) return tinyi_hand_failed(ctx, p, st);
        if (m->done != before) *moved = 1;
        if (!m->whole) break;
        if (!p->sends_body && b->n) {
            memset(m, 0, sizeof *m);
            p->sends_body = 1;
        } else tinyi_hand_drop_first(ctx, p);
    }
    return TINY_OK;
}

/* the head that has come; 0: it is none */
static int tinyi_hand_parse(tinyi_hand_post *p)
{
    const unsigned char *x = p->head;
    tinyi_hand_head *h = &p->got;
    if (tinyi_le32(x) != TINYI_HAND_WORD) return 0;
    h->kind = (int)(tinyi_le32(x + 4) & 0xffffu);
    h->flags = tinyi_le32(x + 4) >> 16;
    h->id = tinyi_le32(x + 8) | (uint64_t)tinyi_le32(x + 12) << 32;
    h->n_body = tinyi_le32(x + 16) | (uint64_t)tinyi_le32(x + 20) << 32;
    h->seed = tinyi_le32(x + 24) | (uint64_t)tinyi_le32(x + 28) << 32;
    h->a = tinyi_le32(x + 32);
    h->b = tinyi_le32(x + 36);
    h->n_most = tinyi_le32(x + 40);
    h->temperature = tinyi_bits_f32(tinyi_le32(x + 44));
    h->top_p = tinyi_bits_f32(tinyi_le32(x + 48));
    h->top_k = (int32_t)tinyi_le32(x + 52);
    return h->kind >= TINYI_HAND_READ && h->kind <= TINYI_HAND_BYE && h->n_body <= p->most;
}

TINYI_FN tiny_status tinyi_hand_recv(tiny_ctx *ctx, tinyi_hand_post *p, int *whole)
{
    tiny_message *m = &p->in;
    tiny_status st;
    *whole = 0;
    while (p->open) {
        if (!m->data) {
            if (!p->has_head) {
                tiny_free(ctx, p->body);
                p->body = NULL;
            }
            m->tag = TINYI_HAND_TAG + (uint64_t)p->has_head;
            m->data = p->has_head ? p->body : p->head;
            m->n = p->has_head ? (size_t)p->got.n_body : (size_t)TINYI_HAND_HEAD;
        }
        st = p->to.net->recv(p->to.net, p->to.rank, m);
        if (st) return tinyi_hand_failed(ctx, p, st);
        if (!m->whole) return TINY_OK;
        memset(m, 0, sizeof *m);
        if (!p->has_head) {
            if (!tinyi_hand_parse(p)) return tinyi_hand_wrong(ctx, p, "bytes that are no message of a desk or worker");
            if (p->got.n_body) {
                p->body = tiny_alloc(ctx, (size_t)p->got.n_body);
                if (!p->body) {
                    st = tiny_ctx_status(ctx);
                    tinyi_hand_shut(ctx, p);
                    return st;
                }
                p->has_head = 1;
                continue;
            }
        }
        p->has_head = 0;
        *whole = 1;
        return TINY_OK;
    }
    return TINY_OK;
}
