/* src/llm/serve/speculate_tree.c - trees of proposals
 *
 * Rule     at a token with candidates x_1 .. x_k, drawn from q without replacement: accept x_i with probability
 *          min(1, p(x_i) / q(x_i)); if it is refused, p = max(p - q, 0) and q(x_i) = 0, both scaled to a sum of 1. If
 *          all are refused, the token is drawn from what p is then.
 * Nodes    node 0 is the last token of the text. Children of a node are neighbours, in the order of their draw.
 * State    sequence 0 of the model is always the text. Path i is sequence 1 + i while its tree is in use. A kept token
 *          makes sequence 0 a copy of its path up to there, which shares the pages and copies nothing. */
#include "llm/serve/speculate_tree.h"
#include "llm/serve/speculate_inside.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <string.h>

enum { TINYI_DTREE_NODES = TLLM_DRAFT_TOKENS + 1 };

typedef struct tinyi_dtree_node {
    int32_t token;
    int parent, first, n_child, level;
    int seq;                                /* of the draft, for a token that gets candidates */
    int slot;                               /* of its q; -1: none */
    int leaf, item;                         /* first path through it; place in the pass, -1: not yet */
    double score;                           /* logarithm of the probability of its path in the draft */
} tinyi_dtree_node;

typedef struct tinyi_dtree_draft {
    tinyi_draft_base b;                     /* first; a slot for each token that gets candidates */
    tllm_draft_tree_size size;
    size_t width;
    tinyi_dtree_node node[TINYI_DTREE_NODES];
    int n_node, at;                         /* node whose results come next; n_node 0: there is no tree */
    int n_leaf, n_draft_seq;                /* sequences in use, without sequence 0 */
    float *level;                           /* (parents of a level, n_vocab) of the draft */
    size_t n_slot;
    tllm_item item[TINYI_DTREE_NODES];
    tinyi_lm_twin twin[TINYI_DTREE_NODES * TINYI_DTREE_NODES];
    double tree, kept;                      /* of a tree: seconds with its draft, 0: not measured; tokens kept */
    double reading;                         /* seconds of this tree in which the draft read a text that was new to it */
    int run;                                /* tokens kept of this tree */
} tinyi_dtree_draft;

/* of a path, in pages of its own: the end of the text's last page, the path, and a page that it begins */
static tiny_idx tinyi_dtree_cells(int levels, tiny_idx block) { return ((levels + 1) / block + 2) * block; }

TINY_API int tllm_draft_tree_sizes(int levels, int width, int most, tllm_draft_tree_size *out)
{
    int k, before = 1, inner = 0;
    if (out) memset(out, 0, sizeof *out);
    if (!most) most = TLLM_DRAFT_TOKENS;
    if (!out || levels < 1 || levels > TLLM_DRAFT_TOKENS || width < 1 || width > TLLM_DRAFT_TOKENS || most < 1 ||
        most > TLLM_DRAFT_TOKENS)
        return 0;
    for (k = 0; k < levels && out->n_node < most; k++) {
        const int left = most - out->n_node, share = left / (levels - k) / width;
        const int n = TINYI_MIN(before, TINYI_MAX(share, 1));
        out->parents[k] = n;
        if (k) inner += n;
        before = TINYI_MIN(n * width, left);
        out->n_node += before;
    }
    out->n_leaf = out->n_node - inner;
    out->n_seq = 1 + out->n_leaf;
    out->n_seq_draft = 1 + inner;
    out->n_more = out->n_leaf * tinyi_dtree_cells(levels, 16);
    out->n_more_draft = out->n_seq_draft * tinyi_dtree_cells(levels, 16);
    return 1;
}

/* ---- the rule --------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
TINY_API int32_t tllm_draft_tree_choose(const int32_t *token, double *p, size_t n, double *q, const int32_t *x,
                                        size_t n_x, const double *u, double v)
{
    double left = 1.0, sum = 1.0;           /* what is left of q, and the sum of p */
    size_t i, k, last;
    if (!token || !p || !q || !x || !u) return -1;
    for (k = 0; k < n_x; k++) {
        const double out = x[k] >= 0 ? q[x[k]] : 0.0, scale = left > out ? sum / left : sum / TINYI_MAX(out, 1e-300);
        double of = 0.0;
        if (!(out > 0.0)) continue;         /* the draft could not have drawn it: refused, and q stays as it is */
        for (i = 0; i < n; i++) if (token[i] == x[k]) of = p[i];
        if (u[k] * out * scale < of) return x[k];
        for (i = 0, of = 0.0; i < n; i++) {
            p[i] -= q[token[i]] * scale;
            if (!(p[i] > 0.0)) p[i] = 0.0;
            of += p[i];
        }
        sum = of;
        left -= out;
        q[x[k]] = 0.0;
    }
    for (i = 0, last = n; i < n; i++) if (p[i] > 0.0) last = i;
    if (last == n) return -1;
    for (i = 0, v *= sum; i < last; i++)
        if ((v -= p[i]) < 0.0) break;
    return token[i];
}

/* The next candidate: drawn in proportion to q (n), which is 0 for those that were taken. -1: none is left. */
static int tinyi_dtree_draw(double *q, size_t n, double u)
{
    double sum = 0.0;
    size_t i, last = n;
    for (i = 0; i < n; i++) {
        sum += q[i];
        if (q[i] > 0.0) last = i;
    }
    if (last == n) return -1;
    for (i = 0, u *= sum; i < last; i++)
        if ((u -= q[i]) < 0.0) break;
    return (int)i;
}

/* the logarithm of the softmax's denominator */
static double tinyi_dtree_denominator(const float *x, size_t n)
{
    double most = (double)x[0], sum = 0.0;
    size_t i;
    for (i = 1; i < n; i++) if ((double)x[i] > most) most = (double)x[i];
    for (i = 0; i < n; i++) sum += (double)tinyi_exp_ref((float)((double)x[i] - most));
    return most + (double)tinyi_log_ref((float)sum);
}
TINY_REF_END

/* ---- the draft -------------------------------------------------------------------------------------------------- */

static void tinyi_dtree_child(tinyi_dtree_draft *a, int of, int32_t token, double score)
{
    tinyi_dtree_node *c = &a->node[a->n_node];
    memset(c, 0, sizeof *c);
    c->token = token;
    c->parent = of;
    c->level = a->node[of].level + 1;
    c->item = c->slot = -1;
    c->score = a->node[of].score + score;
    if (!a->node[of].n_child++) a->node[of].first = a->n_node;
    a->n_node++;
}

/* the candidates after a node, from the draft's logits; scored: their probabilities are needed */
static tiny_status tinyi_dtree_children(tinyi_dtree_draft *a, int of, const float *logits, int scored)
{
    const size_t most = TINYI_MIN(a->width, (size_t)(1 + a->size.n_node - a->n_node));
    size_t i, j, k, n = 0;
    if (a->b.weighs) {
        int32_t x = 0, *token = a->b.q_token + a->n_slot * a->b.n_vocab;
        double *q = a->b.q + a->n_slot * a->b.n_vocab, taken[TLLM_DRAFT_TOKENS];
        int which[TLLM_DRAFT_TOKENS];
        const tiny_status st = tllm_sample(a->b.sampler, logits, &x);
        if (st) return st;
        tinyi_draft_keep(&a->b, a->n_slot);
        for (k = 0; k < most; k++) {
            const int at = tinyi_dtree_draw(q, a->b.q_n[a->n_slot], tiny_rng_uniform64(&a->b.rng));
            if (at < 0) break;
            which[k] = at;
            taken[k] = q[at];
            q[at] = 0.0;
            tinyi_dtree_child(a, of, token[at], scored ? (double)tinyi_log_ref((float)taken[k]) : 0.0);
        }
        while (k-- > 0) q[which[k]] = taken[k];
        a->node[of].slot = (int)a->n_slot++;
    } else {
        int32_t best[TLLM_DRAFT_TOKENS];
        const double all = scored ? tinyi_dtree_denominator(logits, a->b.n_vocab) : 0.0;
        for (i = 0; i < a->b.n_vocab; i++) {
            if (!(logits[i] == logits[i]))
                return tinyi_fail(a->b.ctx, TINY_E_NUMERIC, "draft: the logit of token %zu is nan", i);
            if (n == most && !(logits[i] > logits[best[n - 1]])) continue;
            if (n < most) n++;
            for (j = n - 1; j > 0 && logits[i] > logits[best[j - 1]]; j--) best[j] = best[j - 1];
            best[j] = (int32_t)i;
        }
        for (k = 0; k < n; k++) tinyi_dtree_child(a, of, best[k], scored ? (double)logits[best[k]] - all : 0.0);
    }
    return TINY_OK;
}

static void tinyi_dtree_clear(tllm_state *state, int *n)
{
    while (*n > 0) tllm_seq_clear(state, (*n)--);
}

/* Grows a tree of at most `levels` levels after the text t (held). */
static tiny_status tinyi_dtree_grow(tinyi_dtree_draft *a, const int32_t *t, size_t held, int levels)
{
    tllm_session *m = a->b.d.model;
    const float *logits = NULL;
    const int other = tinyi_draft_other(&a->b);
    size_t fresh;
    double start;
    int level, from = 0, to, i, j, n_parent;
    tiny_status st;
    memset(&a->node[0], 0, sizeof a->node[0]);
    a->node[0].token = t[held - 1];
    a->node[0].item = a->node[0].slot = -1;
    a->n_node = 1;
    a->n_slot = 0;
    start = tinyi_draft_clock();
    st = tinyi_draft_read(&a->b, t, held, &logits, &fresh);
    a->reading = fresh > TLLM_DRAFT_TOKENS ? tinyi_draft_clock() - start : 0.0;
    if (!st) st = tinyi_dtree_children(a, 0, logits, levels > 1 && a->size.parents[1] < (int)a->width);
    tinyi_draft_order(m, other);
    for (level = 1; level < levels && !st && a->size.parents[level]; level++) {
        int parent[TLLM_DRAFT_TOKENS];
        from = TINYI_MAX(from, 1);
        to = a->n_node;
        for (i = from, n_parent = 0; i < to; i++) {     /* the best ones, in the order of their numbers */
            if (tllm_vocab_is_end(m->vocab, a->node[i].token)) continue;
            if (n_parent == a->size.parents[level]) {
                int worst = 0;
                for (j = 1; j < n_parent; j++) if (a->node[parent[j]].score <= a->node[parent[worst]].score) worst = j;
                if (!(a->node[i].score > a->node[parent[worst]].score)) continue;
                for (j = worst; j + 1 < n_parent; j++) parent[j] = parent[j + 1];
                n_parent--;
            }
            parent[n_parent++] = i;
        }
        if (!n_parent) break;
        for (i = 0; i < n_parent && !st; i++) {
            tinyi_dtree_node *x = &a->node[parent[i]];
            x->seq = ++a->n_draft_seq;
            st = tllm_seq_fork(m->state, a->node[x->parent].seq, x->seq);
            a->item[i].token = x->token;
            a->item[i].seq = x->seq;
            a->item[i].pos = (int64_t)held + x->level - 1;
            a->item[i].want = 1;
        }
        start = tinyi_draft_clock();
        if (!st) st = tllm_forward_batch(m->state, a->item, n_parent, a->level);
        tinyi_draft_took(&a->b.pick, other, tinyi_draft_clock() - start);
        for (i = 0; i < n_parent && !st; i++)
            st = tinyi_dtree_children(a, parent[i], a->level + (size_t)i * a->b.n_vocab,
                                     level + 1 < levels && a->size.parents[level + 1] < n_parent * (int)a->width);
        from = to;
    }
    tinyi_draft_order(m, 0);
    tinyi_dtree_clear(m->state, &a->n_draft_seq);
    return st;
}

/* ---- the pass over the model ------------------------------------------------------------------------------------ */

/* Path `leaf` up to node x: its sequence, cells for what other paths compute, and items for what is its own. */
static tiny_status tinyi_dtree_path(tinyi_dtree_draft *a, int x, int leaf, int *n_item, int *n_twin)
{
    tllm_state *state = a->b.s->state;
    const tiny_idx base = (tiny_idx)a->b.s->n, seq = 1 + leaf, block = state->pages.block;
    int path[TINYI_DTREE_NODES], n = 0, shared = 0, i;
    tllm_page_copy copy;
    tiny_status st = tllm_seq_fork(state, 0, seq);
    a->n_leaf = leaf + 1;
    for (i = x;; i = a->node[i].parent) {
        path[n++] = i;
        shared += a->node[i].item >= 0;
        if (!i) break;
    }
    if (!st && shared) {
        st = tllm_pages_append(&state->pages, seq, shared, &copy);
        if (!st) st = tinyi_lm_page_copy(state, &copy);
    }
    for (i = 0; i < n && !st; i++) {
        tinyi_dtree_node *y = &a->node[path[n - 1 - i]];
        const tiny_idx at = base + i;
        if (y->item >= 0) {
            tinyi_lm_twin *w = &a->twin[(*n_twin)++];
            w->item = y->item;
            w->page = tllm_pages_table(&state->pages, seq)[at / block];
            w->in = (int32_t)(at % block);
            state->pos[seq * state->n_ctx + at] = (int32_t)at;
            tllm_pages_note(&state->pages, seq, at, &y->token, 1);
        } else {
            tllm_item *w = &a->item[*n_item];
            y->item = (*n_item)++;
            y->leaf = leaf;
            w->token = y->token;
            w->seq = (int32_t)seq;
            w->pos = (int64_t)at;
            w->want = 1;
        }
    }
    return st;
}

/* The text is that of node x from here on. */
static tiny_status tinyi_dtree_take(tinyi_dtree_draft *a, int x)
{
    tllm_session *s = a->b.s;
    tiny_status st;
    s->token[s->n] = a->node[x].token;
    st = tllm_seq_fork(s->state, 1 + a->node[x].leaf, 0);
    if (!st) st = tllm_seq_trim(s->state, 0, (tiny_idx)s->n + 1);
    if (!st) s->n++;
    a->at = x;
    return st;
}

static tiny_status tinyi_dtree_pass(tinyi_dtree_draft *a)
{
    tllm_state *state = a->b.s->state;
    int stack[TINYI_DTREE_NODES], n_stack = 0, n_item = 0, n_twin = 0, n_leaf = 0, i;
    tiny_status st = TINY_OK;
    stack[n_stack++] = 0;
    while (n_stack && !st) {                /* depth first: neighbours share the most */
        const int x = stack[--n_stack];
        for (i = a->node[x].n_child; i-- > 0;) stack[n_stack++] = a->node[x].first + i;
        if (!a->node[x].n_child) st = tinyi_dtree_path(a, x, n_leaf++, &n_item, &n_twin);
    }
    state->twin = a->twin;
    state->n_twin = n_twin;
    if (!st) st = tllm_forward_batch(state, a->item, n_item, a->b.rows);
    state->twin = NULL;
    state->n_twin = 0;
    return st ? st : tinyi_dtree_take(a, 0);
}

/* ---- what tllm_generate calls ----------------------------------------------------------------------------------- */

static tiny_status tinyi_dtree_settle(tllm_draft *draft)
{
    tinyi_dtree_draft *a = (tinyi_dtree_draft *)draft;
    tinyi_dtree_clear(a->b.s->state, &a->n_leaf);
    a->n_node = 0;
    return TINY_OK;
}

static tiny_status tinyi_dtree_begin(tllm_draft *draft, const tllm_session *s, const tllm_step *chain, size_t n_steps,
                                    uint64_t seed, int guided)
{
    tinyi_dtree_draft *a = (tinyi_dtree_draft *)draft;
    (void)tinyi_dtree_settle(draft);
    return tinyi_draft_start(&a->b, s, chain, n_steps, seed, guided, 0x74726565u, 0);
}

static tiny_status tinyi_dtree_sample(tllm_draft *draft, tllm_sampler *sampler, const float *logits, int32_t *token)
{
    tinyi_dtree_draft *a = (tinyi_dtree_draft *)draft;
    tinyi_draft_base *b = &a->b;
    const tinyi_dtree_node *x = &a->node[a->at];
    int32_t child[TLLM_DRAFT_TOKENS], chosen;
    double u[TLLM_DRAFT_TOKENS];
    size_t i, n;
    const tiny_status st = tllm_sample(sampler, logits, token);
    if (st || !b->weighs || !a->n_node || !x->n_child) return st;
    tinyi_draft_weigh(b, (size_t)x->slot, sampler, &n);
    for (i = 0; i < (size_t)x->n_child; i++) {
        child[i] = a->node[x->first + (int)i].token;
        u[i] = tiny_rng_uniform64(&b->rng);
    }
    chosen = tllm_draft_tree_choose(b->p_token, b->p, n, b->dense, child, (size_t)x->n_child, u,
                                    tiny_rng_uniform64(&b->rng));
    if (chosen >= 0) *token = chosen;
    tinyi_draft_weighed(b, (size_t)x->slot);
    return TINY_OK;
}

/* How many levels to propose: all that are allowed, or none where the trees so far gave fewer tokens a second. */
static int tinyi_dtree_many(tinyi_dtree_draft *a, int levels)
{
    tinyi_draft_next next;
    if (a->b.d.always) return levels;
    next = tinyi_draft_turn(&a->b.pace);
    if (next != TINYI_DRAFT_AS_MEASURED) return next == TINYI_DRAFT_PROPOSE ? levels : 0;
    if (a->tree > 0.0 && (1.0 + a->kept) * a->b.pace.plain <= a->tree) return 0;
    tinyi_draft_gained(&a->b.pace);
    return levels;
}

/* levels for which context, pages and piece suffice */
static int tinyi_dtree_room(const tinyi_dtree_draft *a, size_t most)
{
    const tllm_session *s = a->b.s, *m = a->b.d.model;
    const tllm_state *state = s->state;
    const tiny_idx block = state->pages.block, d_block = m->state->pages.block;
    size_t n = TINYI_MIN(TINYI_MIN((size_t)a->b.d.n, (size_t)s->n_ctx - s->n - 1), most);
    n = TINYI_MIN(n, (size_t)m->n_ctx > s->n + 1 ? (size_t)m->n_ctx - s->n - 1 : 0);
    if (state->ctx->recording ||
        tllm_pages_free(&state->pages) * block < a->size.n_leaf * tinyi_dtree_cells((int)n, block) ||
        tllm_pages_free(&m->state->pages) * d_block < a->size.n_seq_draft * tinyi_dtree_cells((int)n, d_block))
        return 0;
    return (int)n;
}

static tiny_status tinyi_dtree_feed(tllm_draft *draft, int32_t token, size_t most, const float **logits)
{
    tinyi_dtree_draft *a = (tinyi_dtree_draft *)draft;
    tinyi_draft_base *b = &a->b;
    tllm_session *s = b->s;
    int levels = 0, i;
    double start, drafted;
    tiny_status st = TINY_OK;
    *logits = NULL;
    for (i = 0; a->n_node && i < a->node[a->at].n_child; i++) {
        const int x = a->node[a->at].first + i;
        if (a->node[x].token != token) continue;
        st = tinyi_dtree_take(a, x);
        if (st) return st;
        b->count.kept++;
        a->run++;
        *logits = b->rows + (size_t)a->node[x].item * b->n_vocab;
        return TINY_OK;
    }
    if (a->n_node) a->kept += 0.1 * (a->run - a->kept);
    (void)tinyi_dtree_settle(draft);
    if (s->n < (size_t)s->n_ctx) {
        s->token[s->n] = token;             /* the text with this token, which is not computed yet */
        levels = tinyi_dtree_room(a, most);
        if (levels) levels = tinyi_dtree_many(a, levels);
    }
    start = tinyi_draft_clock();
    if (levels) st = tinyi_dtree_grow(a, s->token, s->n + 1, levels);
    drafted = tinyi_draft_clock() - start;
    if (st) {
        (void)tinyi_dtree_settle(draft);
        return st;
    }
    b->count.draft_seconds += drafted;
    start = tinyi_draft_clock();
    a->run = 0;
    if (a->n_node > 1) {
        st = tinyi_dtree_pass(a);
        if (!st) *logits = b->rows + (size_t)a->node[0].item * b->n_vocab;
        else (void)tinyi_dtree_settle(draft);
    } else {                                /* the same call as without a draft */
        a->n_node = 0;
        st = tllm_session_feed(s, &token, 1, logits);
    }
    if (st) return st;
    start = tinyi_draft_clock() - start;
    if (a->n_node) tinyi_draft_time(&a->tree, start + drafted - a->reading);
    tinyi_draft_passed(b, a->n_node ? (size_t)a->n_node - 1 : 0, start);
    return TINY_OK;
}

static void tinyi_dtree_close(tllm_draft *draft)
{
    tinyi_dtree_draft *a = (tinyi_dtree_draft *)draft;
    tinyi_draft_empty(&a->b);
    tiny_free(a->b.ctx, a->level);
    tiny_free(a->b.ctx, a);
}

/* layers of attention over pages alone, whose cells are written by one function */
static tiny_status tinyi_dtree_may(const tllm_session *s, const char *what, tiny_idx n_seq, int batch)
{
    const tllm_model *m = s->model;
    tiny_idx i;
    int ok = !s->ctx->desc.accel && m->world == 1;
    for (i = 0; i < m->n_layer && ok; i++)
        ok = (m->layer[i].mix == TINYI_LM_ATTN || m->layer[i].mix == TINYI_LM_MLA) &&
             m->layer[i].mix2 == TINYI_LM_NO_MIX && m->layer[i].kv_from <= i;
    if (!ok)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "%s: the %s is not attention over pages on one processor, which "
                          "trees of proposals need", m->path, what);
    if (s->state->n_seq < n_seq)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the session of the %s has %td sequences, but trees of this size "
                          "need %td (tllm_state_desc.n_seq)", what, s->state->n_seq, n_seq);
    if (s->state->n_batch < batch)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the session of the %s computes %td tokens at once, but trees of "
                          "this size need %d (tllm_state_desc.n_batch)", what, s->state->n_batch, batch);
    return TINY_OK;
}

TINY_API tiny_status tllm_draft_tree_open(tllm_session *s, const tllm_draft_desc *desc, int width, int most,
                                          tllm_draft **out)
{
    tllm_draft_tree_size size;
    tllm_draft_desc d;
    tinyi_dtree_draft *a;
    size_t parents = 1, i;
    tiny_status st = tinyi_session_text(s, 1);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "tllm_draft_tree_open: the result pointer is NULL");
    st = tinyi_draft_desc(s, desc, &d);
    if (st) return st;
    if (!d.model) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "a tree of proposals needs a draft model");
    if (!tllm_draft_tree_sizes(d.n, width ? width : 2, most, &size))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "a tree has 1 to %d %s, not %d", TLLM_DRAFT_TOKENS,
                          most < 0 || most > TLLM_DRAFT_TOKENS ? "tokens" : "candidates after a token",
                          most < 0 || most > TLLM_DRAFT_TOKENS ? most : width);
    st = tinyi_dtree_may(s, "model", size.n_seq, 1 + size.n_node);
    if (!st) st = tinyi_dtree_may(d.model, "draft", size.n_seq_draft, 1);
    if (st) return st;
    for (i = 0; i < TLLM_DRAFT_TOKENS; i++) parents = TINYI_MAX(parents, (size_t)size.parents[i]);
    a = (tinyi_dtree_draft *)tinyi_alloc(s->ctx, 1, sizeof *a);
    if (!a) return tiny_ctx_status(s->ctx);
    memset(a, 0, sizeof *a);
    a->b.calls.begin = tinyi_dtree_begin;
    a->b.calls.sample = tinyi_dtree_sample;
    a->b.calls.feed = tinyi_dtree_feed;
    a->b.calls.settle = tinyi_dtree_settle;
    a->b.calls.close = tinyi_dtree_close;
    a->size = size;
    a->width = (size_t)(width ? width : 2);
    a->kept = tllm_draft_gain(0.8, d.n, 0.0) - 1.0;     /* until trees were measured */
    st = tinyi_draft_fill(&a->b, s, &d, (size_t)(1 + size.n_node), (size_t)size.n_seq_draft);
    if (!st) {
        a->level = (float *)tinyi_alloc(s->ctx, parents * a->b.n_vocab, sizeof *a->level);
        if (!a->level) st = tiny_ctx_status(s->ctx);
    }
    if (st) tinyi_dtree_close(&a->b.calls);
    else *out = &a->b.calls;
    return st;
}
