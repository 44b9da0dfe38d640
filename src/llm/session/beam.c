/* src/llm/session/beam.c - beam search and parallel drawing over forks of a sequence
 * Formula  beam: each of the width kept texts is extended by one token, and the width extensions with the highest log p
 *          are kept. Each kept text is also ended where it is and ranked by log p / length^a (Y. Wu et al., 2016,
 *          arXiv 1609.08144, section 7, plain form). The search stops when no open text can overtake the worst of the
 *          n_best finished ones: log p only falls, so log p / n_most^a (a > 0) bounds its final score. At n_most
 *          tokens the open texts are ranked as they are. */
#include "llm/session/beam.h"
#include "llm/session/session_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include <math.h>                           /* INFINITY; no function of it is called */
#include <string.h>

TINY_API void tllm_continuations_free(tiny_ctx *ctx, tllm_continuation *list, size_t n)
{
    size_t i;
    for (i = 0; list && i < n; i++) {
        tiny_free(ctx, list[i].token);
        memset(&list[i], 0, sizeof list[i]);
    }
}

TINY_REF_BEGIN
/* ln of the sum of exp: log p of token t is logits[t] - this */
static double tinyi_beam_norm(const float *logits, tiny_idx n)
{
    double top = (double)logits[0], sum = 0.0;
    tiny_idx i;
    for (i = 1; i < n; i++) if ((double)logits[i] > top) top = (double)logits[i];
    for (i = 0; i < n; i++) sum += tinyi_exp64((double)logits[i] - top);
    return top + tinyi_log64(sum);
}
static double tinyi_beam_score(double logp, size_t n, double penalty)
{
    return penalty == 0.0 || n == 0 ? logp : logp / tinyi_exp64(penalty * tinyi_log64((double)n));
}
TINY_REF_END

/* The state holds the prompt in sequence 0, nothing else; *logits are those after it. */
static tiny_status tinyi_beam_begin(tllm_session *s, const char *call, const int32_t *prompt, size_t n, size_t width,
                                    size_t n_most, const float **logits)
{
    tiny_status st = tinyi_session_text(s, 1);
    if (st) return st;
    if (!n || !prompt) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: the prompt has no tokens", call);
    if (width > (size_t)tllm_state_sequences(s->state))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                          "%s: %zu texts at once, but the session was opened for %td sequences", call, width,
                          tllm_state_sequences(s->state));
    if (n_most > (size_t)s->n_ctx || (s->about.has_decoder ? 1 : n) > (size_t)s->n_ctx - n_most)
        return tinyi_fail(s->ctx, TINY_E_WORKSPACE,
                          "%s: a prompt of %zu tokens and %zu more do not fit into a context of %td", call, n, n_most,
                          s->n_ctx);
    tllm_state_clear(s->state);
    s->n = 0;
    if (s->about.has_decoder) {
        const int32_t first = (int32_t)s->about.first_token;
        if (first < 0)
            return tinyi_fail(s->ctx, TINY_E_FORMAT, "the file does not name the token that a decoder starts with");
        st = tllm_forward_all(s->state, prompt, (tiny_idx)n, NULL);
        if (!st) st = tllm_session_feed(s, &first, 1, logits);
    } else st = tllm_session_feed(s, prompt, n, logits);
    return st;
}

/* at: row of its tokens */
typedef struct tinyi_beam_live { double logp; tiny_idx seq; size_t at; } tinyi_beam_live;
typedef struct tinyi_beam_next { double logp; size_t from; int32_t token; } tinyi_beam_next;
typedef struct tinyi_beam {
    size_t width, n_best, n_most, n_live, n_done, n;        /* n: tokens of the living */
    double penalty;
    tinyi_beam_live *live, *born;           /* (width) */
    tinyi_beam_next *next;                  /* (width) best continuations, in order */
    int32_t *token, *spare;                 /* (width, n_most) */
    float *logits;                          /* (width, n_vocab) */
    tllm_item *item;                        /* (width) */
    unsigned char *used;                    /* (width) sequences that a child lives in */
} tinyi_beam;

static tiny_status tinyi_beam_done(tllm_session *s, tinyi_beam *b, tllm_continuation *out, const int32_t *token,
                                   size_t n, double logp, int ended)
{
    /* the end counts as a token, as it does in log p */
    tllm_continuation c;
    size_t i;
    c.logp = logp;
    c.score = tinyi_beam_score(logp, n + (ended ? 1 : 0), b->penalty);
    c.n = n;
    c.ended = ended;
    if (b->n_done == b->n_best && !(c.score > out[b->n_done - 1].score)) return TINY_OK;
    c.token = (int32_t *)tinyi_alloc(s->ctx, n ? n : 1, sizeof *c.token);
    if (!c.token) return tiny_ctx_status(s->ctx);
    memcpy(c.token, token, n * sizeof *token);
    if (b->n_done == b->n_best) tiny_free(s->ctx, out[--b->n_done].token);
    for (i = b->n_done++; i > 0 && out[i - 1].score < c.score; i--) out[i] = out[i - 1];
    out[i] = c;
    return TINY_OK;
}

/* Ends every living text into out; the width best of the others go to next, in order. */
static tiny_status tinyi_beam_rank(tllm_session *s, tinyi_beam *b, tllm_continuation *out, size_t *n_next)
{
    const tiny_idx V = s->about.n_vocab;
    tiny_status st = TINY_OK;
    size_t n = 0, k, i;
    tiny_idx t;
    for (k = 0; k < b->n_live && !st; k++) {
        const float *x = b->logits + k * (size_t)V;
        const double norm = tinyi_beam_norm(x, V);
        if (!(norm - norm == 0.0))
            return tinyi_fail(s->ctx, TINY_E_NUMERIC, "beam: the logits of the model are not finite");
        for (t = 0; t < V && !st; t++) {
            const double logp = b->live[k].logp + ((double)x[t] - norm);
            if (!(logp > -INFINITY)) continue;
            if (tllm_vocab_is_end(s->vocab, (int32_t)t)) {
                st = tinyi_beam_done(s, b, out, b->token + b->live[k].at * b->n_most, b->n, logp, 1);
                continue;
            }
            if (n == b->width && !(logp > b->next[n - 1].logp)) continue;
            if (n < b->width) n++;
            for (i = n - 1; i > 0 && b->next[i - 1].logp < logp; i--) b->next[i] = b->next[i - 1];
            b->next[i].logp = logp;
            b->next[i].from = k;
            b->next[i].token = (int32_t)t;
        }
    }
    *n_next = n;
    return st;
}

static tiny_status tinyi_beam_step(tllm_session *s, tinyi_beam *b, tllm_continuation *out)
{
    size_t i, k, born = 0;
    int32_t *swap;
    tiny_status st = tinyi_beam_rank(s, b, out, &born);
    if (st) return st;
    memset(b->used, 0, b->width);
    for (i = 0; i < born; i++) {
        const tinyi_beam_next *x = &b->next[i];
        memcpy(b->spare + i * b->n_most, b->token + b->live[x->from].at * b->n_most, b->n * sizeof *b->spare);
        b->spare[i * b->n_most + b->n] = x->token;
        b->born[i].logp = x->logp;
        b->born[i].at = x->from;            /* the parent, until it is known where it lives */
    }
    /* the first child lives on in the sequence of its parent, the others in forks; all before anything is written */
    for (i = 0; i < born; i++) b->born[i].seq = -1;
    for (i = 0; i < born; i++) {
        const tiny_idx seq = b->live[b->born[i].at].seq;
        if (b->used[seq]) continue;
        b->used[seq] = 1;
        b->born[i].seq = seq;
    }
    for (i = 0; i < born && !st; i++) {
        if (b->born[i].seq >= 0) continue;
        for (k = 0; b->used[k]; k++) { }    /* born <= width: there is one */
        b->used[k] = 1;
        b->born[i].seq = (tiny_idx)k;
        st = tllm_seq_fork(s->state, b->live[b->born[i].at].seq, (tiny_idx)k);
    }
    for (k = 0; k < b->width; k++) if (!b->used[k]) tllm_seq_clear(s->state, (tiny_idx)k);
    for (i = 0; i < born; i++) {
        b->born[i].at = i;
        b->live[i] = b->born[i];
    }
    b->n_live = born;
    swap = b->token;
    b->token = b->spare;
    b->spare = swap;
    b->n++;
    return st;
}

static int tinyi_beam_may_stop(const tinyi_beam *b, const tllm_continuation *out)
{
    size_t i;
    if (b->n_done < b->n_best) return 0;
    for (i = 0; i < b->n_live; i++) {
        const double most = b->penalty > 0.0 ? tinyi_beam_score(b->live[i].logp, b->n_most + 1, b->penalty)
                                             : tinyi_beam_score(b->live[i].logp, b->n + 1, b->penalty);
        if (most > out[b->n_done - 1].score) return 0;
    }
    return 1;
}

static tiny_status tinyi_beam_loop(tllm_session *s, tinyi_beam *b, tllm_continuation *out)
{
    tiny_status st = TINY_OK;
    size_t i;
    while (!st && b->n_live) {
        st = tinyi_beam_step(s, b, out);
        if (st || !b->n_live || tinyi_beam_may_stop(b, out)) break;
        if (b->n == b->n_most) {
            for (i = 0; i < b->n_live && !st; i++)
                st = tinyi_beam_done(s, b, out, b->token + b->live[i].at * b->n_most, b->n, b->live[i].logp, 0);
            break;
        }
        for (i = 0; i < b->n_live; i++) {
            b->item[i].token = b->token[b->live[i].at * b->n_most + b->n - 1];
            b->item[i].seq = (int32_t)b->live[i].seq;
            b->item[i].pos = -1;
            b->item[i].want = 1;
        }
        st = tllm_forward_batch(s->state, b->item, (tiny_idx)b->n_live, b->logits);
    }
    return st;
}

TINY_API tiny_status tllm_beam(tllm_session *s, const int32_t *prompt, size_t n, const tllm_beam_desc *desc,
                               tllm_continuation *out, size_t *n_found)
{
    tinyi_beam b;
    const float *logits = NULL;
    size_t rows, cells;
    tiny_status st;
    memset(&b, 0, sizeof b);
    if (n_found) *n_found = 0;
    if (!s) return TINY_E_ARGUMENT;
    b.width = desc && desc->width ? desc->width : 4;
    b.n_best = desc && desc->n_best ? desc->n_best : 1;
    b.n_most = desc && desc->n_most ? desc->n_most : 64;
    b.penalty = desc ? desc->length_penalty : 0.0;
    if (!out || !n_found || b.n_best > b.width || b.width > 4096 || !(b.penalty >= -8.0 && b.penalty <= 8.0))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                          "beam: width %zu, n_best %zu, length penalty %g: the limits are 4096, the width, -8 to 8; "
                          "out and n_found must be given",
                          b.width, b.n_best, b.penalty);
    memset(out, 0, b.n_best * sizeof *out);
    st = tinyi_beam_begin(s, "beam", prompt, n, b.width, b.n_most, &logits);
    if (st) return st;
    if (!tinyi_size_mul(b.width, (size_t)s->about.n_vocab, &rows) || !tinyi_size_mul(b.width, b.n_most, &cells))
        return tinyi_fail(s->ctx, TINY_E_OVERFLOW, "beam: %zu texts do not fit", b.width);
    b.live = (tinyi_beam_live *)tinyi_alloc(s->ctx, b.width, sizeof *b.live);
    b.born = (tinyi_beam_live *)tinyi_alloc(s->ctx, b.width, sizeof *b.born);
    b.next = (tinyi_beam_next *)tinyi_alloc(s->ctx, b.width, sizeof *b.next);
    b.token = (int32_t *)tinyi_alloc(s->ctx, cells, sizeof *b.token);
    b.spare = (int32_t *)tinyi_alloc(s->ctx, cells, sizeof *b.spare);
    b.logits = (float *)tinyi_alloc(s->ctx, rows, sizeof *b.logits);
    b.item = (tllm_item *)tinyi_alloc(s->ctx, b.width, sizeof *b.item);
    b.used = (unsigned char *)tinyi_alloc(s->ctx, b.width, 1);
    if (!b.live || !b.born || !b.next || !b.token || !b.spare || !b.logits || !b.item || !b.used)
        st = tiny_ctx_status(s->ctx);
    else {
        memcpy(b.logits, logits, (size_t)s->about.n_vocab * sizeof *logits);
        b.live[0].logp = 0.0;
        b.live[0].seq = 0;
        b.live[0].at = 0;
        b.n_live = 1;
        st = tinyi_beam_loop(s, &b, out);
    }
    if (st) tllm_continuations_free(s->ctx, out, b.n_done);
    else *n_found = b.n_done;
    tiny_free(s->ctx, b.live);
    tiny_free(s->ctx, b.born);
    tiny_free(s->ctx, b.next);
    tiny_free(s->ctx, b.token);
    tiny_free(s->ctx, b.spare);
    tiny_free(s->ctx, b.logits);
    tiny_free(s->ctx, b.item);
    tiny_free(s->ctx, b.used);
    tllm_state_clear(s->state);
    s->n = 0;
    return st;
}

/* ---- drawing side by side --------------------------------------------------------------------------------------- */

typedef struct tinyi_texts { tllm_sampler **sampler; float *logits; tllm_item *item; size_t *of; } tinyi_texts;

static tiny_status tinyi_parallel_loop(tllm_session *s, const tllm_parallel_desc *d, tinyi_texts *p,
                                       tllm_continuation *out)
{
    const size_t V = (size_t)s->about.n_vocab;
    size_t i, live = d->n_texts, left;
    tiny_status st = TINY_OK;
    for (i = 0; i < live; i++) p->of[i] = i;
    for (i = 1; i < live && !st; i++) {
        st = tllm_seq_fork(s->state, 0, (tiny_idx)i);
        memcpy(p->logits + i * V, p->logits, V * sizeof *p->logits);
    }
    while (live && !st) {
        for (i = left = 0; i < live && !st; i++) {
            tllm_continuation *c = &out[p->of[i]];
            tllm_sampler *sampler = p->sampler[p->of[i]];
            const float *x = p->logits + i * V;
            int32_t token = 0;
            st = tllm_sample(sampler, x, &token);
            if (st) break;
            c->logp += (double)x[token] - tinyi_beam_norm(x, s->about.n_vocab);
            c->score = c->logp;
            if (tllm_vocab_is_end(s->vocab, token)) c->ended = 1;
            else {
                st = tllm_sampler_accept(sampler, token);
                c->token[c->n++] = token;
            }
            if (c->ended || c->n == d->n_most) { tllm_seq_clear(s->state, (tiny_idx)p->of[i]); continue; }
            p->item[left].token = token;
            p->item[left].seq = (int32_t)p->of[i];
            p->item[left].pos = -1;
            p->item[left].want = 1;
            p->of[left++] = p->of[i];
        }
        live = left;
        if (live && !st) st = tllm_forward_batch(s->state, p->item, (tiny_idx)live, p->logits);
    }
    return st;
}

TINY_API tiny_status tllm_parallel(tllm_session *s, const int32_t *prompt, size_t n, const tllm_parallel_desc *desc,
                                   tllm_continuation *out)
{
    const tllm_step warm = tllm_step_temperature(1.0f);
    tllm_parallel_desc d;
    tinyi_texts p;
    const float *logits = NULL;
    size_t i, k, rows;
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&p, 0, sizeof p);
    if (desc) d = *desc;
    if (!d.n_texts) d.n_texts = 1;
    if (!d.n_most) d.n_most = 64;
    if (!d.chain) {
        d.chain = &warm;
        d.n_steps = 1;
    }
    if (!s) return TINY_E_ARGUMENT;
    if (!out || d.n_texts > 65536)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "parallel: %zu texts: at most 65536; out must be given", d.n_texts);
    memset(out, 0, d.n_texts * sizeof *out);
    st = tinyi_beam_begin(s, "parallel", prompt, n, d.n_texts, d.n_most, &logits);
    if (st) return st;
    if (!tinyi_size_mul(d.n_texts, (size_t)s->about.n_vocab, &rows))
        return tinyi_fail(s->ctx, TINY_E_OVERFLOW, "parallel: %zu texts do not fit", d.n_texts);
    p.sampler = (tllm_sampler **)tinyi_alloc(s->ctx, d.n_texts, sizeof *p.sampler);
    if (p.sampler) memset(p.sampler, 0, d.n_texts * sizeof *p.sampler);
    p.logits = (float *)tinyi_alloc(s->ctx, rows, sizeof *p.logits);
    p.item = (tllm_item *)tinyi_alloc(s->ctx, d.n_texts, sizeof *p.item);
    p.of = (size_t *)tinyi_alloc(s->ctx, d.n_texts, sizeof *p.of);
    if (!p.sampler || !p.logits || !p.item || !p.of) st = tiny_ctx_status(s->ctx);
    for (i = 0; i < d.n_texts && !st; i++) {
        st = tllm_sampler_open(s->ctx, d.chain, d.n_steps, (int32_t)s->about.n_vocab, d.seed + i, &p.sampler[i]);
        for (k = 0; k < n && !st; k++) st = tllm_sampler_accept(p.sampler[i], prompt[k]);
        if (st) break;
        out[i].token = (int32_t *)tinyi_alloc(s->ctx, d.n_most, sizeof *out[i].token);
        if (!out[i].token) st = tiny_ctx_status(s->ctx);
    }
    if (!st) {
        memcpy(p.logits, logits, (size_t)s->about.n_vocab * sizeof *logits);
        st = tinyi_parallel_loop(s, &d, &p, out);
    }
    if (st) tllm_continuations_free(s->ctx, out, d.n_texts);
    for (i = 0; i < d.n_texts && p.sampler; i++) tllm_sampler_close(p.sampler[i]);
    tiny_free(s->ctx, p.sampler);
    tiny_free(s->ctx, p.logits);
    tiny_free(s->ctx, p.item);
    tiny_free(s->ctx, p.of);
    tllm_state_clear(s->state);
    s->n = 0;
    return st;
}
