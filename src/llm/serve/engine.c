/* src/llm/serve/engine.c - the scheduler: which tokens of which requests share the next pass over the weights
 * Paper    J. Yao et al., "Flover: A Temporal Fusion Framework for Efficient Autoregressive Model Parallel Inference",
 *          2023 (arXiv 2305.13484): requests join and leave a running batch between two tokens.
 * Step     1 submitted requests join the queue, cancelled ones leave; 2 free slots are given to the first of the
 *          queue, with the longest beginning that a slot already holds; 3 one token of each request that generates, and
 *          pieces of prompts, at most `budget` tokens of them; 4 pages for all of that: from free slots, then from the
 *          newest request of the lowest priority; 5 proposals, if there is budget and room (engine_ahead.c); 6 the
 *          pass; 7 a token is drawn for each request whose tokens are all computed, and more where proposals are kept;
 *          8 what ended leaves its slot, and the window closes its holes.
 * Invariant  a request is a list of tokens, of which the first n_fed are in its slot. All that is ever to do is to
 *          compute the next ones and, when none is left, to draw one more. Prompt, text, and what is computed again
 *          after a loss of pages are not told apart.
 * Progress the oldest request of the highest priority never loses its pages, so every request ends.
 * Adapters  are attached to the whole state: a step has a pass for each different adapter of its requests.
 * Left out  threads for intake and prompts of their own, as in the paper: on a few cores a prompt's piece shares the
 *          pass over the weights with the tokens of the others, which costs less than passes of its own. */
#include "llm/serve/engine_inside.h"
#include "llm/serve/window.h"
#include "llm/model/model_inside.h"
#include "core/time.h"
#include <string.h>

TINYI_FN void tinyi_engine_lock(tllm_engine *e)
{
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_lock(&e->lock);
#else
    (void)e;
#endif
}
TINYI_FN void tinyi_engine_unlock(tllm_engine *e)
{
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_unlock(&e->lock);
#else
    (void)e;
#endif
}

/* ---- pages ------------------------------------------------------------------------------------------------------ */

static tiny_idx tinyi_engine_pages(const tllm_engine *e, size_t tokens)
{
    return ((tiny_idx)tokens + e->n_page - 1) / e->n_page;
}
static tiny_idx tinyi_engine_pages_free(const tllm_engine *e) { return tllm_pages_free(&e->state->pages); }

/* pages that `more` tokens take from the free ones; a shared last page is copied before it is written */
TINYI_FN tiny_idx tinyi_engine_takes(const tllm_engine *e, tiny_idx slot, size_t more)
{
    const tllm_pages *p = &e->state->pages;
    const tiny_idx n = tllm_pages_length(p, slot), have = tinyi_engine_pages(e, (size_t)n);
    const int copies = more && n % e->n_page && tllm_pages_holders(p, tllm_pages_table(p, slot)[have - 1]) > 1;
    return tinyi_engine_pages(e, (size_t)n + more) - have + copies;
}

TINYI_FN void tinyi_slot_empty(tllm_engine *e, tiny_idx i)
{
    tllm_seq_clear(e->state, i);
    e->slot[i].n = 0;
    e->slot[i].inexact = 0;
}

TINYI_FN int tinyi_engine_evict(tllm_engine *e, tiny_idx keep)
{
    tiny_idx i, oldest = -1;
    for (i = 0; i < e->d.slots; i++)
        if (!e->slot[i].r && !e->slot[i].kept && i != keep && e->slot[i].n &&
            (oldest < 0 || e->slot[i].used < e->slot[oldest].used))
            oldest = i;
    if (oldest >= 0) tinyi_slot_empty(e, oldest);
    return oldest >= 0;
}

/* ---- queue ------------------------------------------------------------------------------------------------------ */

/* the order of the queue and of the pass; a leader is before those that follow it, so no two wait for each other */
static int tinyi_request_before(const tinyi_request *a, const tinyi_request *b)
{
    return a->of.priority > b->of.priority || (a->of.priority == b->of.priority && a->number < b->number);
}

static void tinyi_engine_enqueue(tllm_engine *e, tinyi_request *r)
{
    tinyi_request **at = &e->queue;
    while (*at && tinyi_request_before(*at, r)) at = &(*at)->next;
    r->next = *at;
    *at = r;
}

/* Takes the request out of its slot, whose tokens stay. */
static void tinyi_engine_leave(tllm_engine *e, tinyi_request *r)
{
    tinyi_slot *s = &e->slot[r->slot];
    tiny_idx i;
    for (i = 0; i < e->d.slots; i++)
        if (e->slot[i].r && e->slot[i].r->leader == r) e->slot[i].r->leader = NULL;
    s->r = NULL;
    r->leader = NULL;
    r->waits = 0;
    s->used = ++e->clock;
    if (r->of.keep && r->over && !r->status && r->end != TLLM_END_CALLER) {
        s->kept = r->id;                    /* until tllm_engine_release */
        r->slot = -1;
        e->now.running--;
        return;
    }
    /* an adapter at the same address might be another one later */
    if (e->d.forget || r->of.adapter || s->inexact) tinyi_slot_empty(e, r->slot);
    r->slot = -1;
    e->now.running--;
}

/* back to the queue, with all that was computed lost */
static void tinyi_engine_preempt(tllm_engine *e, tinyi_request *r)
{
    const tiny_idx slot = r->slot;
    tinyi_engine_leave(e, r);
    tinyi_slot_empty(e, slot);
    r->n_fed = 0;
    r->n_again++;
    e->now.again++;
    tinyi_engine_enqueue(e, r);
    tinyi_engine_lock(e);
    e->n_waiting++;
    tinyi_engine_unlock(e);
}

/* what was submitted, and what was cancelled, since the last step */
static void tinyi_engine_intake(tllm_engine *e)
{
    tinyi_request *r, *next, *gone = NULL, **at;
    tinyi_engine_lock(e);
    r = e->inbox;
    e->inbox = e->inbox_last = NULL;
    for (; r; r = next) {
        next = r->next;
        tinyi_engine_enqueue(e, r);
    }
    for (r = e->all; r; r = r->after) r->drop = r->cancelled;
    for (at = &e->queue; *at;) {
        r = *at;
        if (!r->drop) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        r->next = gone;
        gone = r;
        e->n_waiting--;
    }
    tinyi_engine_unlock(e);
    for (; gone; gone = next) {
        next = gone->next;
        gone->end = TLLM_END_CALLER;
        tinyi_request_end(e, gone);
    }
}

/* ---- slots ------------------------------------------------------------------------------------------------------ */

/* how many tokens of a slot a request can begin with */
static size_t tinyi_slot_same(const tllm_engine *e, const tinyi_slot *s, const tinyi_request *r)
{
    size_t n = 0;
    if (!s->n || s->adapter != r->of.adapter || (s->adapter && s->weight != r->of.adapter_weight)) return 0;
    if (s->inexact && s->kept != r->id) return 0;
    if (r->n_told < r->of.n_prompt) return 0;           /* results of all its prompt are wanted */
    while (n < s->n && n + 1 < r->n_text && s->token[n] == r->text[n]) n++;
    return e->text.about.is_recurrent && n < s->n ? 0 : n;
}

/* A request whose text begins like that of one which is still reading waits until it can take that over: so the
 * prompt of several answers is computed once, also if all of them arrive together. */
static void tinyi_engine_lead(tllm_engine *e, tinyi_request *r)
{
    tiny_idx i;
    r->leader = NULL;
    r->lead = r->n_fed + TINYI_ENGINE_ALIKE - 1;
    for (i = 0; i < e->d.slots; i++) {
        tinyi_request *o = e->slot[i].r;
        size_t n = 0;
        if (!o || e->slot[i].inexact || !tinyi_request_before(o, r) || o->of.adapter != r->of.adapter ||
            o->of.adapter_weight != r->of.adapter_weight)
            continue;
        while (n < o->n_text && n + 1 < r->n_text && o->text[n] == r->text[n]) n++;
        if (n <= r->lead || n <= e->slot[i].n) continue;
        r->lead = n;
        r->leader = o;
    }
    /* results of all of its prompt are wanted, or nothing can be cut off */
    if (r->n_told < r->of.n_prompt || e->text.about.is_recurrent) r->leader = NULL;
    r->waits = r->leader != NULL;
}

/* A request that waited takes over what its leader holds by now, or, if that has left, what any other slot holds. */
static void tinyi_engine_follow(tllm_engine *e)
{
    tiny_idx i, k, source;
    for (i = 0; i < e->d.slots; i++) {
        tinyi_request *r = e->slot[i].r;
        size_t same;
        if (!r || !r->waits || (r->leader && e->slot[r->leader->slot].n < r->lead)) continue;
        r->waits = 0;
        r->leader = NULL;
        for (k = 0, source = -1, same = r->n_fed; k < e->d.slots; k++) {
            const size_t n = k == i ? 0 : tinyi_slot_same(e, &e->slot[k], r);
            if (n > same) {
                same = n;
                source = k;
            }
        }
        if (source >= 0) {
            tinyi_slot_empty(e, i);
            r->n_fed = 0;
            if (tllm_seq_copy(e->state, source, i, 0, (tiny_idx)same)) same = 0;
            if (same) memcpy(e->slot[i].token, e->slot[source].token, same * sizeof(int32_t));
            e->slot[i].n = r->n_fed = same;
            r->n_ever = TINYI_MAX(r->n_ever, same);
            if (same > r->n_cached && !r->n_again) {
                e->now.cached_tokens += same - r->n_cached;
                r->n_cached = same;
            }
        }
        tinyi_engine_lead(e, r);            /* the leader may have left early: then another one goes on */
    }
}

/* The border of the window: *lo > *hi if it is empty. */
static void tinyi_engine_window(const tllm_engine *e, tiny_idx *lo, tiny_idx *hi)
{
    tiny_idx i;
    *lo = e->d.slots;
    *hi = -1;
    for (i = 0; i < e->d.slots; i++)
        if (e->slot[i].r) {
            *lo = TINYI_MIN(*lo, i);
            *hi = i;
        }
}

/* The slot for a request that will begin as `source` does: there if it is free, else where least is lost. -1: none. In
 * the window a neighbour, and only then a hole inside. */
static tiny_idx tinyi_engine_place(const tllm_engine *e, tiny_idx source, uint64_t id)
{
    const int own = source >= 0 && !e->slot[source].r && (!e->slot[source].kept || e->slot[source].kept == id);
    tiny_idx i, lo, hi, best = -1;
    if (e->d.mode == TLLM_ENGINE_WINDOW) {
        tinyi_engine_window(e, &lo, &hi);
        if (lo <= hi) {
            if (own && (source == lo - 1 || source == hi + 1)) return source;
            if (hi + 1 < e->d.slots) return hi + 1;
            if (lo > 0) return lo - 1;
        }
    }
    if (own) return source;
    for (i = 0; i < e->d.slots; i++) {
        const tinyi_slot *s = &e->slot[i], *b = best < 0 ? NULL : &e->slot[best];
        if (!s->r && !s->kept && (!b || (s->n ? s->used : 0) < (b->n ? b->used : 0))) best = i;
    }
    return best;
}

/* the most tokens that the request can ever hold */
static size_t tinyi_engine_longest(const tllm_engine *e, const tinyi_request *r)
{
    const size_t left = e->most - r->of.n_prompt;
    return r->of.n_prompt + (r->of.prompt_only ? 0 : r->of.n_most ? TINYI_MIN(r->of.n_most, left) : left);
}

/* Are there pages for the request to begin with? Free slots other than `source` are emptied for it. With others
 * running one page for each of them stays free, so that it does not have to leave at once. */
static int tinyi_engine_fits(tllm_engine *e, const tinyi_request *r, tiny_idx source, size_t same)
{
    const tiny_idx whole = (tiny_idx)same / e->n_page;      /* a page that is held in part may have to be copied */
    tiny_idx need = tinyi_engine_pages(e, r->n_text + 1) - whole, i, promised = 0, others = 0;
    if (e->d.mode == TLLM_ENGINE_WINDOW) return 1;
    if (e->d.reserve) {
        for (i = 0; i < e->d.slots; i++)
            if (e->slot[i].r) promised += tinyi_engine_pages(e, tinyi_engine_longest(e, e->slot[i].r));
            else if (e->slot[i].kept && e->slot[i].kept != r->id) promised += tinyi_engine_pages(e, e->slot[i].n);
        if (promised + tinyi_engine_pages(e, tinyi_engine_longest(e, r)) > e->n_pages) return 0;
    }
    need += (tiny_idx)e->now.running;
    for (i = 0; i < e->d.slots; i++) others += e->slot[i].kept && e->slot[i].kept != r->id;
    for (i = promised = 0; i < e->d.slots; i++)
        if (!e->slot[i].r && !e->slot[i].kept && i != source) promised += tinyi_engine_pages(e, e->slot[i].n);
    /* nothing is emptied in vain; pages that several slots hold count too often, so some may be */
    if ((e->now.running || others) && tinyi_engine_pages_free(e) + promised < need) return 0;
    while (tinyi_engine_pages_free(e) < need && tinyi_engine_evict(e, source)) {}
    return tinyi_engine_pages_free(e) >= need || (!e->now.running && !others);
}

/* Gives slots to the first of the queue, in their order: no request overtakes another. */
static void tinyi_engine_admit(tllm_engine *e)
{
    while (e->queue) {
        tinyi_request *r = e->queue;
        tiny_idx i, source = -1, place;
        size_t same = 0;
        tiny_status st;
        for (i = 0; i < e->d.slots; i++) {
            const size_t n = tinyi_slot_same(e, &e->slot[i], r);
            /* of equals a free one: it need not be shared */
            if (n > same || (n && n == same && e->slot[source].r && !e->slot[i].r)) {
                same = n;
                source = i;
            }
        }
        for (i = 0; i < e->d.slots; i++)    /* what was put there for it */
            if (e->slot[i].kept == r->id) {
                same = tinyi_slot_same(e, &e->slot[i], r);
                source = i;
            }
        place = tinyi_engine_place(e, source, r->id);
        if (place < 0 || !tinyi_engine_fits(e, r, source, same)) return;
        e->queue = r->next;
        r->next = NULL;
        tinyi_engine_lock(e);
        e->n_waiting--;
        tinyi_engine_unlock(e);
        if (!r->started) r->started = tiny_now_ns();
        st = tinyi_request_open(e, r);
        if (!st && source != place) {
            tinyi_slot_empty(e, place);
            if (same) st = tllm_seq_copy(e->state, source, place, 0, (tiny_idx)same);
            if (st) same = 0, st = TINY_OK;             /* what cannot be copied is computed */
            if (same) memcpy(e->slot[place].token, e->slot[source].token, same * sizeof(int32_t));
        } else if (!st && same < e->slot[place].n) {
            if (tllm_seq_trim(e->state, place, (tiny_idx)same)) same = 0;
            if (!same) tinyi_slot_empty(e, place);
        }
        if (st) {
            tinyi_request_fail(e, r, st);
            tinyi_request_end(e, r);
            continue;
        }
        for (i = 0; i < e->d.slots; i++) if (e->slot[i].kept == r->id) e->slot[i].kept = 0;
        e->slot[place].n = r->n_fed = same;
        e->slot[place].r = r;
        e->slot[place].adapter = r->of.adapter;
        e->slot[place].weight = r->of.adapter_weight;
        r->slot = place;
        e->now.running++;
        if (!r->n_again) {
            r->n_cached = same;
            e->now.cached_tokens += same;
        }
        r->n_ever = TINYI_MAX(r->n_ever, same);
        tinyi_engine_lead(e, r);
    }
}

/* ---- one pass --------------------------------------------------------------------------------------------------- */

/* Requests by their place in the pass: e->row[0 .. n), the order of priority and arrival. */
static size_t tinyi_engine_running(tllm_engine *e)
{
    size_t n = 0, j;
    tiny_idx i;
    for (i = 0; i < e->d.slots; i++) {
        tinyi_request *r = e->slot[i].r;
        if (!r) continue;
        for (j = n++; j > 0 && tinyi_request_before(r, e->row[j - 1]); j--) e->row[j] = e->row[j - 1];
        e->row[j] = r;
    }
    return n;
}

/* How many tokens of each request the step computes: r->n_now. */
static void tinyi_engine_plan(tllm_engine *e, size_t n)
{
    size_t i, budget = (size_t)e->d.budget, wants = TINYI_ENGINE_WANTS;
    for (i = 0; i < n; i++) {
        tinyi_request *r = e->row[i];
        size_t left = r->n_text - r->n_fed;
        r->n_now = 0;
        if (r->over || r->waits) continue;
        if (left == 1 && r->n_made) {
            r->n_now = 1;
            continue;
        }
        if (r->n_told < r->of.n_prompt) {
            left = TINYI_MIN(left, wants);
            wants -= left;
        }
        r->n_now = TINYI_MIN(left, budget);
        budget -= r->n_now;
    }
}

/* Pages for what is planned. The newest request of the lowest priority makes room, the first one never. */
static size_t tinyi_engine_room(tllm_engine *e, size_t n)
{
    tiny_idx s;
    size_t least = 1;                       /* kept pages come back: then even the first one can wait for them */
    for (s = 0; s < e->d.slots; s++) if (e->slot[s].kept) least = 0;
    for (;;) {
        tiny_idx need = 0;
        size_t i;
        tinyi_engine_plan(e, n);
        for (i = 0; i < n; i++) need += tinyi_engine_takes(e, e->row[i]->slot, e->row[i]->n_now);
        if (e->d.mode == TLLM_ENGINE_WINDOW) need = 0;  /* a page for each slot, but free slots may share those */
        while (tinyi_engine_pages_free(e) < need && tinyi_engine_evict(e, -1)) {}
        if (tinyi_engine_pages_free(e) >= need || n <= least) return n;
        tinyi_engine_preempt(e, e->row[--n]);
    }
}

/* a NULL: none. No adapter stays attached after a step: its owner may close it when its request has ended. */
static tiny_status tinyi_engine_adapter(tllm_engine *e, const tllm_adapter *a, float weight)
{
    tiny_status st = TINY_OK;
    if (!TINYI_HAS(ADAPTERS)) return st;
    if (e->adapter && e->adapter != a) {
        st = tllm_state_attach(e->state, e->adapter, 0.0f);
        e->adapter = NULL;
    }
    if (!st && a) st = tllm_state_attach(e->state, a, weight);
    if (!st) e->adapter = a;
    return st;
}

static tllm_item tinyi_engine_item(int32_t token, tiny_idx seq, int want)
{
    tllm_item x;
    x.token = token;
    x.seq = (int32_t)seq;
    x.pos = -1;
    x.want = want;
    return x;
}

/* Computes the tokens of the requests with the adapter of e->row[first], from the first on; those done get n_now 0. */
static tiny_status tinyi_engine_pass(tllm_engine *e, size_t n, size_t first)
{
    const size_t n_vocab = (size_t)e->text.about.n_vocab;
    const tinyi_request *lead = e->row[first];
    size_t i, k, items = 0, wants = 0, holes = 0;
    tiny_idx s, lo, hi;
    uint64_t start = 0;
    tiny_status st = tinyi_engine_adapter(e, lead->of.adapter, lead->of.adapter_weight);
    for (i = first; i < n && !st; i++) {
        tinyi_request *r = e->row[i];
        r->n_want = 0;
        if (!r->n_now || r->of.adapter != lead->of.adapter || r->of.adapter_weight != lead->of.adapter_weight) continue;
        r->rows = e->logits + wants * n_vocab;
        for (k = 0; k < r->n_now; k++) {
            const size_t at = r->n_fed + k;
            const int want = at + 1 >= r->n_text || (at + 1 >= r->n_told && at + 1 < r->of.n_prompt);
            e->item[items++] = tinyi_engine_item(r->text[at], r->slot, want);
            r->n_want += (size_t)want;
        }
        wants += r->n_want;
    }
    if (e->d.mode == TLLM_ENGINE_WINDOW && e->d.holes) {    /* the window is computed as it is */
        tinyi_engine_window(e, &lo, &hi);
        for (s = lo; s <= hi && !st; s++) {
            if (e->slot[s].r) continue;
            if (e->slot[s].n + 1 > e->most || e->text.about.is_recurrent) tinyi_slot_empty(e, s);
            e->item[items++] = tinyi_engine_item(0, s, 0);
            holes++;
        }
    }
    if (e->d.draft_n) start = tiny_now_ns();
    if (!st) st = tllm_forward_batch(e->state, e->item, (tiny_idx)items, e->logits);
    if (!st && start && items == wants)     /* no prompt: those rows have no results, and cost less */
        tinyi_ahead_time(&e->pace, (double)items, 1e-9 * (double)(tiny_now_ns() - start));
    for (s = 0; s < e->d.slots && holes; s++)
        if (!e->slot[s].r && tllm_seq_length(e->state, s) > (tiny_idx)e->slot[s].n)
            (void)tllm_seq_trim(e->state, s, (tiny_idx)e->slot[s].n);
    if (!st) e->now.rows += items;
    for (i = first; i < n; i++) {
        tinyi_request *r = e->row[i];
        tinyi_slot *slot = &e->slot[r->slot];
        if (!r->n_now || r->of.adapter != lead->of.adapter || r->of.adapter_weight != lead->of.adapter_weight) continue;
        if (st) {                           /* recurrent states are lost, and computed again */
            slot->n = r->n_fed = TINYI_MIN(r->n_fed, (size_t)tllm_seq_length(e->state, r->slot));
            if (st != TINY_E_CANCELLED && st != TINY_E_MEMORY) tinyi_request_fail(e, r, st);
            continue;
        }
        memcpy(slot->token + r->n_fed, r->text + r->n_fed, r->n_now * sizeof *slot->token);
        slot->n += r->n_now;
        k = r->n_fed;
        r->n_fed += r->n_now - r->n_ahead;
        if (r->n_told < r->of.n_prompt && r->n_want) tinyi_request_prompt(e, r, k);
        if (r->n_fed == r->n_text && !r->over)
            tinyi_request_draws(e, r, r->rows + (r->n_want - r->n_ahead - 1) * n_vocab);
        if (r->n_fed > r->n_ever) {         /* for the first time */
            const size_t from = TINYI_MAX(k, r->n_ever), prompt = r->of.n_prompt;
            e->now.prompt_tokens += TINYI_MIN(r->n_fed, prompt) - TINYI_MIN(from, prompt);
            e->now.rows_useful += r->n_fed - from;
            r->n_ever = r->n_fed;
        }
        r->n_now = 0;
    }
    return st;
}

/* Moves requests so that the window has no hole. */
static void tinyi_engine_close_holes(tllm_engine *e)
{
    tllm_window w;
    size_t n, i, bytes = 0;
    for (i = 0; i < (size_t)e->d.slots; i++) e->held[i] = e->slot[i].r ? e->slot[i].n + 1 : 0;
    w.from = e->from;
    w.to = e->to;
    n = tllm_window_moves(e->held, (size_t)e->d.slots, TLLM_WINDOW_FEWEST, &w);
    for (i = 0; i < n; i++) {
        tinyi_slot *a = &e->slot[e->from[i]], *b = &e->slot[e->to[i]];
        const tinyi_slot old = *b;
        if (tinyi_lm_seq_move(e->state, (tiny_idx)e->from[i], (tiny_idx)e->to[i], &bytes)) {
            b->n = 0;                       /* no page for it: the hole stays until the next step */
            continue;
        }
        *b = *a;
        b->r->slot = (tiny_idx)e->to[i];
        *a = old;
        a->n = 0;
        e->now.moves++;
    }
    e->now.bytes_moved += bytes;
}

TINYI_FN void tinyi_engine_publish(tllm_engine *e, int *more)
{
    const uint64_t now = tiny_now_ns();
    tiny_idx i;
    tinyi_engine_lock(e);
    e->now.accepted = e->told.accepted;
    e->now.refused = e->told.refused;
    e->now.waiting = e->n_waiting;
    e->now.cells = (size_t)(e->n_pages * e->n_page);
    e->now.cells_free = (size_t)(tinyi_engine_pages_free(e) * e->n_page);
    e->told = e->now;
    for (i = 0; i < e->d.slots; i++) {
        const tinyi_request *r = e->slot[i].r;
        tllm_engine_slot *s = &e->told_slot[i];
        memset(s, 0, sizeof *s);
        s->n_held = e->slot[i].n;
        if (!r) continue;
        s->work = r->n_made ? TLLM_SLOT_WRITES : TLLM_SLOT_READS;
        s->id = r->id;
        s->n_prompt = r->of.n_prompt;
        s->n_cached = r->n_cached;
        s->n_made = r->n_made;
        s->priority = r->of.priority;
        s->seconds = 1e-9 * (double)(now - r->submitted);
    }
    if (more) *more = e->n_all > 0;
#if TINYI_HAVE_PTHREAD
    if (!e->n_all) (void)pthread_cond_broadcast(&e->rest);
#endif
    tinyi_engine_unlock(e);
}

TINYI_FN tiny_status tinyi_engine_round(tllm_engine *e, int *more)
{
    const uint64_t start = tiny_now_ns();
    tiny_status st = TINY_OK;
    size_t n, i;
    e->stepping = 1;
    tinyi_engine_intake(e);
    for (i = 0; i < (size_t)e->d.slots; i++) {
        tinyi_request *r = e->slot[i].r;
        if (!r || !r->drop) continue;
        r->over = 1;
        r->end = TLLM_END_CALLER;
        tinyi_engine_leave(e, r);
        tinyi_request_end(e, r);
    }
    if (e->d.mode == TLLM_ENGINE_WINDOW && !e->d.holes) tinyi_engine_close_holes(e);
    tinyi_engine_admit(e);
    tinyi_engine_follow(e);
    n = tinyi_engine_room(e, tinyi_engine_running(e));
    if (e->d.draft_n) st = tinyi_engine_ahead(e, n);
    for (i = 0; i < n && !st; i++)
        if (e->row[i]->n_now) st = tinyi_engine_pass(e, n, i);
    (void)tinyi_engine_adapter(e, NULL, 0.0f);
    e->now.steps += n > 0;
    for (i = 0; i < n; i++) {
        tinyi_request *r = e->row[i];
        if (!r->over) continue;
        tinyi_engine_leave(e, r);
        tinyi_request_end(e, r);
    }
    if (e->d.mode == TLLM_ENGINE_WINDOW && !e->d.holes) tinyi_engine_close_holes(e);
    e->now.busy_seconds += 1e-9 * (double)(tiny_now_ns() - start);
    tinyi_engine_publish(e, more);
    tinyi_engine_sweep(e, 0);
    e->stepping = 0;
    return st == TINY_E_CANCELLED || st == TINY_E_MEMORY ? st : TINY_OK;
}

TINY_API tiny_status tllm_engine_step(tllm_engine *e, int *more)
{
    int threaded;
    if (more) *more = 0;
    if (!e) return TINY_E_ARGUMENT;
    tinyi_engine_lock(e);
    threaded = e->threaded;
    tinyi_engine_unlock(e);
    /* without a sentence: the context belongs to the thread that steps */
    if (threaded || e->stepping) return TINY_E_UNSUPPORTED;
    return tinyi_engine_round(e, more);
}
