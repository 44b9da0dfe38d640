/* src/llm/serve/engine_ahead.c - requests of an engine that put proposals into the pass, and what is kept of them
 * Papers   those of speculate.h. Proposals are repetitions in the text, or come from a draft model (engine_draft.c).
 * Rule     TLLM_DRAFT_SAME: the request's sampler draws after each place in order, as it would without proposals. It
 *          goes on as long as it draws what was proposed. The first other token is the next one of the text, and the
 *          places after it are cut off the slot. No random number is used for a proposal, so a seeded text stays what
 *          it is.
 * Place    proposals stand in r->text after its n_text tokens until the pass is over, and in the pages of the slot.
 * Bounds   proposals take what prompts leave of the budget, and pages that are free after all tokens have theirs: no
 *          request loses pages to proposals of another one, and nothing that is cached is dropped for them.
 * Gain     with a share `keep` of the proposals kept, the i-th one is worth keep^i tokens, and costs the time of a row.
 *          It is put into the pass if that raises the tokens per second of all requests together:
 *              keep^i / row > tokens / seconds
 *          A pass takes base + rows * row seconds: least squares over the last passes, in which older ones count
 *          less. keep is measured at no cost: also a request without proposals in the pass compares the token that it
 *          draws with the one that would have been proposed. */
#include "llm/serve/engine_inside.h"
#include "llm/serve/speculate_inside.h"
#include <string.h>

#define TINYI_AHEAD_LEARN 0.125             /* weight of a new proposal in that share */
#define TINYI_AHEAD_LEAST 0.125             /* a proposal that is kept more rarely never pays */
#define TINYI_AHEAD_FADE 0.95               /* weight of a pass after the next one */

TINYI_FN void tinyi_ahead_time(tinyi_ahead_pace *p, double rows, double seconds)
{
    double base, row, most;
    if (p->w > 0.0) {                       /* another program had the processor: such a time counts as a long one */
        if (tinyi_ahead_known(p, &base, &row)) most = base + row * rows;
        else most = TINYI_MAX(1.0, rows * p->w / p->x) * p->y / p->w;
        seconds = TINYI_MIN(seconds, 3.0 * most);
    }
    p->w = TINYI_AHEAD_FADE * p->w + 1.0;
    p->x = TINYI_AHEAD_FADE * p->x + rows;
    p->y = TINYI_AHEAD_FADE * p->y + seconds;
    p->xx = TINYI_AHEAD_FADE * p->xx + rows * rows;
    p->xy = TINYI_AHEAD_FADE * p->xy + rows * seconds;
}

TINYI_FN int tinyi_ahead_known(const tinyi_ahead_pace *p, double *base, double *row)
{
    const double spread = p->w * p->xx - p->x * p->x;
    *base = *row = 0.0;
    if (!(spread > 0.01 * p->w * p->w)) return 0;       /* all passes had the same number of rows */
    *row = TINYI_MAX(0.0, (p->w * p->xy - p->x * p->y) / spread);
    *base = (p->y - *row * p->x) / p->w;
    if (*base >= 0.0) return 1;
    *base = 0.0;                            /* no part of the time is there without rows */
    *row = p->y / p->x;
    return 1;
}

TINYI_FN size_t tinyi_ahead_pays(const tinyi_ahead_pace *p, double keep, size_t most, tinyi_ahead_sum *sum)
{
    double base, row, worth = keep;
    const int known = tinyi_ahead_known(p, &base, &row);
    size_t n = 0;
    if (!known && keep < 0.5) most = 0;     /* else they are tried, and measured */
    for (; n < most && worth >= TINYI_AHEAD_LEAST; n++) {
        const double seconds = base + row * sum->rows + sum->draft * (sum->rows - sum->plain);
        if (known && worth * seconds <= (row + sum->draft) * sum->tokens) break;
        sum->tokens += worth;
        sum->rows += 1.0;
        worth *= keep;
    }
    return n;
}

/* A draft costs a pass of its own, so nothing is measured without it: a request that gets none tries it again after
 * some steps, then after twice as many. */
static size_t tinyi_ahead_again(tinyi_request *r, size_t k, size_t most)
{
    if (k) {
        r->patience = TINYI_DRAFT_TRY;
        r->without = 0;
    } else if (most && ++r->without >= r->patience) {
        r->patience = TINYI_MIN(2 * r->patience, TINYI_DRAFT_TRY_MOST);
        r->without = 0;
        k = 1;
    }
    return k;
}

TINYI_FN tiny_status tinyi_engine_ahead(tllm_engine *e, size_t n)
{
    tiny_status st = TINY_OK;
    tiny_idx spare = tllm_pages_free(&e->state->pages);
    size_t i, left = (size_t)e->d.budget;
    tinyi_ahead_sum sum;
    memset(&sum, 0, sizeof sum);
    sum.draft = e->draft_seconds;
    for (i = 0; i < n; i++) {
        tinyi_request *r = e->row[i];
        r->n_ahead = 0;
        r->guess = -1;
        r->writes = r->n_now == 1 && r->n_made && r->n_fed + 1 == r->n_text;
        spare -= tinyi_engine_takes(e, r->slot, r->n_now);
        if (r->writes) sum.tokens += 1.0;
        else left -= TINYI_MIN(left, r->n_now);
    }
    sum.rows = sum.plain = sum.tokens;
    for (i = 0; i < n; i++) {
        tinyi_request *r = e->row[i];
        size_t most = (size_t)e->d.draft_n, k;
        if (!r->writes) continue;
        /* the last token of a request is not computed, and the context holds those before it */
        most = TINYI_MIN(most, e->most - r->n_text);
        if (r->of.n_most) most = TINYI_MIN(most, r->of.n_most - r->n_made - 1);
        if (e->draft) {
            k = r->n_text < e->draft_most ? TINYI_MIN(most, e->draft_most - r->n_text) : 0;
        } else {
            k = tinyi_draft_repeat(r->text, r->n_text, (size_t)e->d.draft_match, r->text + r->n_text, most);
            if (k) r->guess = r->text[r->n_text];
        }
        most = k = TINYI_MIN(k, left);
        if (!e->d.draft_always) {
            k = tinyi_ahead_pays(&e->pace, r->keep, k, &sum);
            if (e->draft) k = tinyi_ahead_again(r, k, most);
        }
        for (; k; k--) {
            const tiny_idx more = tinyi_engine_takes(e, r->slot, 1 + k) - tinyi_engine_takes(e, r->slot, 1);
            if (more > 0 && more > spare) continue;
            spare -= more;
            break;
        }
        left -= k;
        r->n_ahead = k;
    }
    if (e->draft) st = tinyi_engine_draft(e, n);
    for (i = 0; i < n; i++) e->row[i]->n_now += e->row[i]->n_ahead;
    return st;
}

/* cancelled by a callback or another thread, while the request draws what one pass has computed */
static int tinyi_request_cancelled(tllm_engine *e, const tinyi_request *r)
{
    int yes;
    tinyi_engine_lock(e);
    yes = r->cancelled;
    tinyi_engine_unlock(e);
    return yes;
}

TINYI_FN void tinyi_request_draws(tllm_engine *e, tinyi_request *r, const float *logits)
{
    const size_t n = r->n_ahead, n_vocab = (size_t)e->text.about.n_vocab;
    tinyi_slot *slot = &e->slot[r->slot];
    size_t i;
    tiny_status st = TINY_OK;
    for (i = 0; i <= n; i++) {
        const size_t at = r->n_text;
        const int32_t x = i < n ? r->text[at] : i ? -1 : r->guess;  /* -1: nothing was proposed */
        tinyi_request_draw(e, r, logits + i * n_vocab);
        if (x >= 0 && r->n_text > at) r->keep += TINYI_AHEAD_LEARN * ((r->text[at] == x) - r->keep);
        if (i == n || r->over || r->text[at] != x || tinyi_request_cancelled(e, r)) break;
        r->n_fed++;                         /* the token at `at` is in the slot already */
    }
    r->guess = -1;
    if (!n) return;
    r->n_proposed += n;
    r->n_kept += i;
    e->now.proposed += n;
    e->now.kept += i;
    r->n_ahead = 0;
    if (slot->n > r->n_fed) st = tllm_seq_trim(e->state, r->slot, (tiny_idx)r->n_fed);
    slot->n = r->n_fed;
    if (!st) return;
    tinyi_slot_empty(e, r->slot);
    tinyi_request_fail(e, r, st);
}
