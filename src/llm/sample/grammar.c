/* src/llm/sample/grammar.c
 *
 * Paper    E. Scott, A. Johnstone, "GLL Parsing", ENTCS 253 (2010), for the shared stacks; K. Thompson, "Regular
 *          Expression Search Algorithm", CACM 11 (1968), for the automaton of a rule.
 * Form     Each rule is a small automaton: read a character, split, call a rule, return. Jumps are relative, so a
 *          repetition is a copy of its body.
 * State    threads (position, frame). A frame is a rule called at one character; its edges are the return positions
 *          and their frames. All calls of one rule at one character share a frame. Only frames of the current
 *          character get edges, so trying a piece does not change older frames; the new ones are dropped by their
 *          numbers. A call at the end of a rule passes its own edges on and adds no frame to the chain.
 * Cost     of a character: its new threads and calls; constant for grammars that need one character of look-ahead.
 *          Unreachable frames are freed when the number of frames has doubled. */
#include "llm/sample/grammar.h"
#include "llm/sample/grammar_read_inside.h"
#include "core/state_inside.h"
#include <string.h>

/* go on at back in frame; frame -1: after the root */
typedef struct tinyi_gedge { int32_t back, frame, next; } tinyi_gedge;
/* heirs: frames that get its edges too; returned: at this character */
typedef struct tinyi_gframe { int32_t edges, heirs, returned; } tinyi_gframe;
typedef struct tinyi_gheir { int32_t frame, next; } tinyi_gheir;
typedef struct tinyi_gthread { int32_t at, frame; } tinyi_gthread;
/* a state to go back to */
typedef struct tinyi_gmark {
    size_t saved, n_threads, n_frames, n_edges;
    uint32_t partial;
    int missing, length, may_end;
} tinyi_gmark;
typedef struct tinyi_gseen { uint64_t turn; int32_t a, b, c; } tinyi_gseen;

struct tllm_grammar_state {
    const tllm_grammar *g;
    tinyi_gframe *frame;
    tinyi_gedge *edge;
    tinyi_gheir *heir;
    tinyi_gthread *thread, *next, *work, *saved;    /* saved: those of the marks, one after the other */
    tinyi_gmark *mark;
    tinyi_gseen *seen;                      /* what this character has met: places with frames, and edges */
    /* of each rule: turn << 32 | frame, the frame of its call at this character */
    uint64_t *called;
    size_t n_frames, frame_room, n_edges, edge_room, n_heirs, heir_room, n_threads, thread_room, n_next, next_room,
        n_work, work_room, n_seen, seen_room, saved_room, mark_room;
    size_t first_frame, swept;              /* the first frame of this character; how many stood after the last sweep */
    uint64_t turn, steps, may_steps;        /* of this call: taken, and allowed so far */
    int32_t at;                             /* the place that is worked on */
    int may_end;
    uint32_t partial;                       /* bits of a character that is not finished, and its missing bytes */
    int missing, length;
};

#define TINYI_G_ROOM(s, ctx, what, n, room, want) \
    tinyi_grammar_grow(ctx, (void **)(void *)&(s)->what, (s)->n, &(s)->room, want, sizeof *(s)->what)

/* A call begins: steps are counted from here on. */
static void tinyi_gs_start(tllm_grammar_state *s)
{
    s->steps = 0;
    s->may_steps = TLLM_GRAMMAR_FREE_STEPS;
}

static int tinyi_gs_slow(tiny_ctx *ctx, const tllm_grammar_state *s)
{
    size_t i = 0;
    while (i + 1 < s->g->n_rules && !(s->at >= s->g->rule[i].start && s->at < s->g->rule[i].end)) i++;
    (void)tinyi_fail(ctx, TINY_E_WORKSPACE,
                     "the grammar is too ambiguous: rule %.*s is reached after %llu steps, the limit is %llu",
                     (int)TINYI_MIN(s->g->rule[i].n, (size_t)60), s->g->rule[i].name, (unsigned long long)s->steps,
                     (unsigned long long)TINYI_MIN(s->may_steps, (uint64_t)TLLM_GRAMMAR_MAX_STEPS));
    return 0;
}
/* 0: n more are too many */
static int tinyi_gs_step(tiny_ctx *ctx, tllm_grammar_state *s, size_t n)
{
    s->steps += n;
    return s->steps <= s->may_steps && s->steps <= TLLM_GRAMMAR_MAX_STEPS ? 1 : tinyi_gs_slow(ctx, s);
}

/* 1: met before at this character; -1: no memory */
static int tinyi_gs_seen(tiny_ctx *ctx, tllm_grammar_state *s, int32_t a, int32_t b, int32_t c)
{
    uint64_t h;
    size_t i;
    if (s->n_seen * 2 >= s->seen_room) {
        size_t room = s->seen_room ? s->seen_room * 2 : 256;
        tinyi_gseen *fresh = (tinyi_gseen *)tinyi_alloc(ctx, room, sizeof *fresh), *old = s->seen;
        size_t k, old_room = s->seen_room;
        if (!fresh) return -1;
        memset(fresh, 0, room * sizeof *fresh);
        s->seen = fresh;
        s->seen_room = room;
        s->n_seen = 0;
        for (k = 0; k < old_room; k++)
            if (old[k].turn == s->turn) (void)tinyi_gs_seen(ctx, s, old[k].a, old[k].b, old[k].c);
        tiny_free(ctx, old);
    }
    h = ((uint64_t)(uint32_t)a * UINT64_C(0x9e3779b97f4a7c15)) ^
        ((uint64_t)(uint32_t)b * UINT64_C(0xc2b2ae3d27d4eb4f)) ^ ((uint64_t)(uint32_t)c * UINT64_C(0x165667b19e3779f9));
    h ^= h >> 29;
    for (i = (size_t)h & (s->seen_room - 1); s->seen[i].turn == s->turn; i = (i + 1) & (s->seen_room - 1))
        if (s->seen[i].a == a && s->seen[i].b == b && s->seen[i].c == c) return 1;
    s->seen[i].turn = s->turn;
    s->seen[i].a = a;
    s->seen[i].b = b;
    s->seen[i].c = c;
    s->n_seen++;
    return 0;
}

static int tinyi_gs_push(tiny_ctx *ctx, tllm_grammar_state *s, int32_t at, int32_t frame)
{
    int seen = tinyi_gs_step(ctx, s, 1) ? tinyi_gs_seen(ctx, s, at, frame, -1) : -1;
    if (seen) return seen > 0;
    if (!TINYI_G_ROOM(s, ctx, work, n_work, work_room, s->n_work + 1)) return 0;
    s->work[s->n_work].at = at;
    s->work[s->n_work++].frame = frame;
    return 1;
}

static int tinyi_gs_limit(tiny_ctx *ctx)
{
    (void)tinyi_fail(ctx, TINY_E_WORKSPACE, "the grammar is too ambiguous: more than %d open rules",
                     TLLM_GRAMMAR_MAX_WAYS);
    return 0;
}

/* An edge for the frame, and for all that inherit from it. pending: where work that this starts is kept, as an edge
 * (-2, ..). */
static int tinyi_gs_edge(tiny_ctx *ctx, tllm_grammar_state *s, int32_t frame, int32_t back, int32_t to)
{
    size_t bottom = s->n_next, h;
    int seen;
    /* the list of heirs to visit is above the threads of the next character */
    for (;;) {
        seen = tinyi_gs_step(ctx, s, 1) ? tinyi_gs_seen(ctx, s, frame, back, to >= 0 ? to : INT32_MAX) : -1;
        if (seen < 0) return 0;
        if (!seen) {
            if (s->n_edges >= TLLM_GRAMMAR_MAX_WAYS) return tinyi_gs_limit(ctx);
            if (!TINYI_G_ROOM(s, ctx, edge, n_edges, edge_room, s->n_edges + 1)) return 0;
            s->edge[s->n_edges].back = back;
            s->edge[s->n_edges].frame = to;
            s->edge[s->n_edges].next = s->frame[frame].edges;
            s->frame[frame].edges = (int32_t)s->n_edges++;
            if (s->frame[frame].returned && !tinyi_gs_push(ctx, s, back, to)) return 0;
            for (h = (size_t)(s->frame[frame].heirs + 1); h; h = (size_t)(s->heir[h - 1].next + 1)) {
                if (!TINYI_G_ROOM(s, ctx, next, n_next, next_room, s->n_next + 1)) return 0;
                s->next[s->n_next++].frame = s->heir[h - 1].frame;
            }
        }
        if (s->n_next == bottom) return 1;
        frame = s->next[--s->n_next].frame;
    }
}

/* The frame of the rule at this character; its body starts when it is new. -1: no memory. */
static int32_t tinyi_gs_called(tiny_ctx *ctx, tllm_grammar_state *s, int32_t rule)
{
    if (s->called[rule] >> 32 == (s->turn & UINT32_MAX)) return (int32_t)(s->called[rule] & UINT32_MAX);
    if (s->n_frames >= TLLM_GRAMMAR_MAX_WAYS) { (void)tinyi_gs_limit(ctx); return -1; }
    if (!TINYI_G_ROOM(s, ctx, frame, n_frames, frame_room, s->n_frames + 1)) return -1;
    s->frame[s->n_frames].edges = s->frame[s->n_frames].heirs = -1;
    s->frame[s->n_frames].returned = 0;
    s->called[rule] = (s->turn & UINT32_MAX) << 32 | s->n_frames;
    if (!tinyi_gs_push(ctx, s, s->g->rule[rule].start, (int32_t)s->n_frames)) return -1;
    return (int32_t)s->n_frames++;
}

/* From work to threads that need a character: s->next. */
static int tinyi_gs_close(tiny_ctx *ctx, tllm_grammar_state *s)
{
    int32_t e, frame;
    while (s->n_work) {
        tinyi_gthread w = s->work[--s->n_work];
        const tinyi_gop *o = &s->g->op[w.at];
        s->at = w.at;
        switch (o->op) {
        case TINYI_GO_CHAR: case TINYI_GO_NOT:
            if (!TINYI_G_ROOM(s, ctx, next, n_next, next_room, s->n_next + 1)) return 0;
            s->next[s->n_next++] = w;
            break;
        case TINYI_GO_JUMP: if (!tinyi_gs_push(ctx, s, w.at + o->a, w.frame)) return 0; break;
        case TINYI_GO_SPLIT:
            if (!tinyi_gs_push(ctx, s, w.at + o->a, w.frame) || !tinyi_gs_push(ctx, s, w.at + 1, w.frame)) return 0;
            break;
        case TINYI_GO_CALL:
            frame = tinyi_gs_called(ctx, s, o->a);
            if (frame < 0 || !tinyi_gs_edge(ctx, s, frame, w.at + 1, w.frame)) return 0;
            break;
        case TINYI_GO_TAIL:
            frame = tinyi_gs_called(ctx, s, o->a);
            if (frame < 0) return 0;
            if ((size_t)w.frame >= s->first_frame) {    /* its edges are not all there yet */
                if (!TINYI_G_ROOM(s, ctx, heir, n_heirs, heir_room, s->n_heirs + 1)) return 0;
                s->heir[s->n_heirs].frame = frame;
                s->heir[s->n_heirs].next = s->frame[w.frame].heirs;
                s->frame[w.frame].heirs = (int32_t)s->n_heirs++;
            }
            for (e = s->frame[w.frame].edges; e >= 0; e = s->edge[e].next)
                if (!tinyi_gs_edge(ctx, s, frame, s->edge[e].back, s->edge[e].frame)) return 0;
            break;
        case TINYI_GO_RETURN:
            if ((size_t)w.frame >= s->first_frame) s->frame[w.frame].returned = 1;
            for (e = s->frame[w.frame].edges; e >= 0; e = s->edge[e].next)
                if (!tinyi_gs_push(ctx, s, s->edge[e].back, s->edge[e].frame)) return 0;
            break;
        default: s->may_end = 1;
        }
    }
    return 1;
}

static void tinyi_gs_turn(tllm_grammar_state *s)
{
    size_t i;
    s->turn++;
    if ((s->turn & UINT32_MAX) == 0) {      /* a turn is never 0, so that cleared memory means never */
        s->turn++;
        for (i = 0; i < s->g->n_rules; i++) s->called[i] = 0;
    }
    s->n_seen = s->n_work = s->n_next = s->n_heirs = 0;
    s->first_frame = s->n_frames;
    s->may_end = 0;
}

/* Some character from lo to hi; the ranges are sorted and do not touch. */
static int tinyi_gs_matches(const tllm_grammar *g, int32_t at, uint32_t lo, uint32_t hi)
{
    const tinyi_gop *o = &g->op[at];
    const tinyi_grange *r = o->b ? g->range + o->a : NULL;
    int32_t first = 0, end = o->b;
    while (first < end) {                   /* the first range that does not end before lo */
        int32_t mid = first + (end - first) / 2;
        if (r[mid].hi < lo) first = mid + 1;
        else end = mid;
    }
    if (o->op == TINYI_GO_CHAR) return first < o->b && r[first].lo <= hi;
    return !(first < o->b && r[first].lo <= lo && r[first].hi >= hi);
}

static void tinyi_gs_swap(tllm_grammar_state *s)
{
    tinyi_gthread *t = s->thread;
    size_t room = s->thread_room;
    s->thread = s->next;
    s->n_threads = s->n_next;
    s->thread_room = s->next_room;
    s->next = t;
    s->next_room = room;
    s->n_next = 0;
}

/* 1 taken, 0 refused, -1 failed */
static int tinyi_gs_char(tiny_ctx *ctx, tllm_grammar_state *s, uint32_t c)
{
    const int32_t *wants;
    size_t i, k, n = 0, one = 0;
    if (s->n_threads) s->at = s->thread[0].at;
    if (!tinyi_gs_step(ctx, s, s->n_threads)) return -1;
    for (i = 0; i < s->n_threads && n < 2; i++)
        if (tinyi_gs_matches(s->g, s->thread[i].at, c, c)) { one = i; n++; }
    if (!n) return 0;
    if (n == 1 && s->g->op[s->thread[one].at].c) {      /* one way that stays in its rule: no frame is made or left */
        const int32_t frame = s->thread[one].frame;
        wants = s->g->wants + s->g->op[s->thread[one].at].c;
        if (!TINYI_G_ROOM(s, ctx, thread, n_threads, thread_room, (size_t)wants[0])) return -1;
        for (k = 0; k < (size_t)wants[0]; k++) {
            s->thread[k].at = wants[k + 1];
            s->thread[k].frame = frame;
        }
        s->n_threads = k;
        s->may_end = 0;
        return 1;
    }
    tinyi_gs_turn(s);
    for (i = 0; i < s->n_threads; i++)
        if (tinyi_gs_matches(s->g, s->thread[i].at, c, c) &&
            !tinyi_gs_push(ctx, s, s->thread[i].at + 1, s->thread[i].frame))
            return -1;
    if (!s->n_work) return 0;
    if (!tinyi_gs_close(ctx, s)) return -1;
    tinyi_gs_swap(s);
    return s->n_threads || s->may_end;
}

static const uint32_t tinyi_gs_least[5] = { 0, 0, 0x80, 0x800, 0x10000 };     /* least code of a character, by bytes */

static int tinyi_gs_byte(tiny_ctx *ctx, tllm_grammar_state *s, unsigned b)
{
    s->may_steps += TLLM_GRAMMAR_BYTE_STEPS + s->g->n_ops;
    if (s->missing) {
        if ((b & 0xc0) != 0x80) return 0;
        s->partial = s->partial << 6 | (b & 0x3f);
        s->missing--;
    } else if (b < 0x80) {
        s->partial = b;
        s->length = 1;
    } else {
        if (b < 0xc2 || b > 0xf4) return 0;
        s->length = b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
        s->missing = s->length - 1;
        s->partial = b & (0x3fu >> (s->length - 1));
    }
    if (s->missing) return 1;
    if (s->partial < tinyi_gs_least[s->length] || s->partial > 0x10ffff ||
        (s->partial >= 0xd800 && s->partial <= 0xdfff))
        return 0;
    return tinyi_gs_char(ctx, s, s->partial);
}

/* What was taken ends here: is there a character that goes on so? */
static int tinyi_gs_stops(const tllm_grammar_state *s)
{
    uint32_t lo, hi;
    size_t i;
    if (!s->missing) return 1;
    lo = s->partial << (6 * s->missing);
    hi = lo | ((1u << (6 * s->missing)) - 1);
    if (lo < tinyi_gs_least[s->length]) lo = tinyi_gs_least[s->length];
    if (hi > 0x10ffff) hi = 0x10ffff;
    for (i = 0; i < s->n_threads && lo <= hi; i++)
        if (tinyi_gs_matches(s->g, s->thread[i].at, lo, hi)) return !(lo >= 0xd800 && hi <= 0xdfff);
    return 0;
}

static int tinyi_gs_bytes(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n)
{
    size_t i;
    int ok;
    for (i = 0; i < n; i++) {
        ok = tinyi_gs_byte(ctx, s, (unsigned char)piece[i]);
        if (ok <= 0) return ok;
    }
    return tinyi_gs_stops(s);
}

/* Drops frames that no thread reaches. */
static int tinyi_gs_sweep(tiny_ctx *ctx, tllm_grammar_state *s)
{
    int32_t *to = (int32_t *)tinyi_alloc(ctx, 2 * s->n_frames + 1, sizeof *to), *stack;
    tinyi_gedge *edge = (tinyi_gedge *)tinyi_alloc(ctx, s->n_edges + 1, sizeof *edge);
    size_t i, n_frames = 0, n_edges = 0, n_stack = 0;
    int32_t e;
    if (!to || !edge) {
        tiny_free(ctx, to);
        tiny_free(ctx, edge);
        return 0;
    }
    stack = to + s->n_frames;
    for (i = 0; i < s->n_frames; i++) to[i] = -1;
    for (i = 0; i < s->n_threads; i++)
        if (to[s->thread[i].frame] < 0) { to[s->thread[i].frame] = 0; stack[n_stack++] = s->thread[i].frame; }
    while (n_stack)
        for (e = s->frame[stack[--n_stack]].edges; e >= 0; e = s->edge[e].next)
            if (s->edge[e].frame >= 0 && to[s->edge[e].frame] < 0) {
                to[s->edge[e].frame] = 0;
                stack[n_stack++] = s->edge[e].frame;
            }
    for (i = 0; i < s->n_frames; i++)
        if (to[i] >= 0) to[i] = (int32_t)n_frames++;
    for (i = 0; i < s->n_frames; i++) {
        tinyi_gframe f = s->frame[i];
        if (to[i] < 0) continue;
        e = f.edges;
        f.edges = f.heirs = -1;
        for (; e >= 0; e = s->edge[e].next) {
            edge[n_edges].back = s->edge[e].back;
            edge[n_edges].frame = s->edge[e].frame < 0 ? -1 : to[s->edge[e].frame];
            edge[n_edges].next = f.edges;
            f.edges = (int32_t)n_edges++;
        }
        s->frame[to[i]] = f;
    }
    for (i = 0; i < s->n_threads; i++) s->thread[i].frame = to[s->thread[i].frame];
    if (n_edges) memcpy(s->edge, edge, n_edges * sizeof *edge);
    s->n_frames = n_frames;
    s->n_edges = n_edges;
    s->swept = n_frames + n_edges;
    tiny_free(ctx, to);
    tiny_free(ctx, edge);
    return 1;
}

TINY_API void tllm_grammar_free(tiny_ctx *ctx, tllm_grammar_state *s)
{
    if (!s) return;
    tiny_free(ctx, s->frame);
    tiny_free(ctx, s->edge);
    tiny_free(ctx, s->heir);
    tiny_free(ctx, s->thread);
    tiny_free(ctx, s->next);
    tiny_free(ctx, s->work);
    tiny_free(ctx, s->saved);
    tiny_free(ctx, s->mark);
    tiny_free(ctx, s->seen);
    tiny_free(ctx, s->called);
    tiny_free(ctx, s);
}

static tllm_grammar_state *tinyi_gs_make(tiny_ctx *ctx, const tllm_grammar *g)
{
    tllm_grammar_state *s = (tllm_grammar_state *)tinyi_alloc(ctx, 1, sizeof *s);
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    s->g = g;
    s->called = (uint64_t *)tinyi_alloc(ctx, g->n_rules + 1, sizeof *s->called);
    if (!s->called) {
        tllm_grammar_free(ctx, s);
        return NULL;
    }
    memset(s->called, 0, (g->n_rules + 1) * sizeof *s->called);
    return s;
}

TINY_API tiny_status tllm_grammar_begin(tiny_ctx *ctx, const tllm_grammar *g, tllm_grammar_state **out)
{
    tllm_grammar_state *s;
    tiny_status st;
    int32_t frame;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "grammar state: the result pointer is NULL");
    *out = NULL;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g) return tinyi_fail(ctx, TINY_E_ARGUMENT, "grammar state: the grammar is NULL");
    s = tinyi_gs_make(ctx, g);
    if (!s) return tiny_ctx_status(ctx);
    tinyi_gs_start(s);
    tinyi_gs_turn(s);
    frame = tinyi_gs_called(ctx, s, g->root);
    if (frame < 0 || !tinyi_gs_edge(ctx, s, frame, 0, -1) || !tinyi_gs_close(ctx, s)) {
        tllm_grammar_free(ctx, s);
        return tiny_ctx_status(ctx);
    }
    tinyi_gs_swap(s);
    *out = s;
    return TINY_OK;
}

TINY_API tiny_status tllm_grammar_clone(tiny_ctx *ctx, const tllm_grammar_state *s, tllm_grammar_state **out)
{
    tllm_grammar_state *c;
    tiny_status st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "grammar state: the result pointer is NULL");
    *out = NULL;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!s) return tinyi_fail(ctx, TINY_E_ARGUMENT, "grammar state: the state to clone is NULL");
    c = tinyi_gs_make(ctx, s->g);
    if (!c) return tiny_ctx_status(ctx);
    if (!TINYI_G_ROOM(c, ctx, frame, n_frames, frame_room, s->n_frames) ||
        !TINYI_G_ROOM(c, ctx, edge, n_edges, edge_room, s->n_edges) ||
        !TINYI_G_ROOM(c, ctx, thread, n_threads, thread_room, s->n_threads)) {
        tllm_grammar_free(ctx, c);
        return tiny_ctx_status(ctx);
    }
    if (s->n_frames) memcpy(c->frame, s->frame, s->n_frames * sizeof *s->frame);
    if (s->n_edges) memcpy(c->edge, s->edge, s->n_edges * sizeof *s->edge);
    if (s->n_threads) memcpy(c->thread, s->thread, s->n_threads * sizeof *s->thread);
    c->n_frames = s->n_frames;
    c->n_edges = s->n_edges;
    c->n_threads = s->n_threads;
    c->swept = s->swept;
    c->may_end = s->may_end;
    c->partial = s->partial;
    c->missing = s->missing;
    c->length = s->length;
    *out = c;
    return TINY_OK;
}

/* Keeps the state as number i; those below stay, those above are gone. */
static int tinyi_gs_mark(tiny_ctx *ctx, tllm_grammar_state *s, size_t i)
{
    const size_t at = i ? s->mark[i - 1].saved + s->mark[i - 1].n_threads : 0;
    tinyi_gmark *m;
    if (i >= s->mark_room &&
        !tinyi_grammar_grow(ctx, (void **)(void *)&s->mark, i, &s->mark_room, i + 1, sizeof *s->mark))
        return 0;
    if (at + s->n_threads > s->saved_room &&
        !tinyi_grammar_grow(ctx, (void **)(void *)&s->saved, at, &s->saved_room, at + s->n_threads, sizeof *s->saved))
        return 0;
    m = &s->mark[i];
    m->saved = at;
    m->n_threads = s->n_threads;
    m->n_frames = s->n_frames;
    m->n_edges = s->n_edges;
    m->partial = s->partial;
    m->missing = s->missing;
    m->length = s->length;
    m->may_end = s->may_end;
    if (s->n_threads) memcpy(s->saved + at, s->thread, s->n_threads * sizeof *s->saved);
    return 1;
}

static void tinyi_gs_back(tllm_grammar_state *s, size_t i)
{
    const tinyi_gmark *m = &s->mark[i];
    /* one of the two had room for them */
    if (m->n_threads > s->thread_room) { TINY_ASSERT(s->next_room >= m->n_threads); tinyi_gs_swap(s); }
    if (m->n_threads) memcpy(s->thread, s->saved + m->saved, m->n_threads * sizeof *s->saved);
    s->n_threads = m->n_threads;
    s->n_frames = m->n_frames;
    s->n_edges = m->n_edges;
    s->partial = m->partial;
    s->missing = m->missing;
    s->length = m->length;
    s->may_end = m->may_end;
}

/* 1 may come, 0 may not, -1 failed; unless keep and 1, all is as before */
static int tinyi_gs_try(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n, int keep)
{
    int ok;
    if (!tinyi_gs_mark(ctx, s, 0)) return -1;
    tinyi_gs_start(s);
    ok = tinyi_gs_bytes(ctx, s, piece, n);
    if (ok > 0 && keep) {
        if (s->n_frames + s->n_edges > 2 * s->swept + 256) (void)tinyi_gs_sweep(ctx, s);
        return 1;
    }
    tinyi_gs_back(s, 0);
    return ok;
}

/* Walks the pieces in the order of their bytes: back to the prefix shared with the piece before, then on. Marks are
 * kept at the bytes from which a walk continues. refused: length of the refused prefix of the piece before. 0:
 * failed. */
static int tinyi_gs_walk(tiny_ctx *ctx, tllm_grammar_state *s, const tllm_pieces *pieces, unsigned char *may)
{
    const size_t n = tinyi_pieces_filled(pieces);
    size_t i, here = 0, refused = SIZE_MAX;
    for (i = 0; i < n; i++) {
        const tinyi_piece e = tinyi_pieces_at(pieces, i);
        if (e.same >= refused) continue;
        if (e.same < here || refused != SIZE_MAX) tinyi_gs_back(s, e.same);
        refused = SIZE_MAX;
        for (here = e.same; here < e.n; here++) {
            int ok = tinyi_gs_mark(ctx, s, here) ? tinyi_gs_byte(ctx, s, e.at[here]) : -1;
            if (ok < 0) return 0;
            if (ok) continue;
            refused = here + 1;
            break;
        }
        if (here == e.n) may[e.id] = (unsigned char)tinyi_gs_stops(s);
    }
    return 1;
}

TINY_API tiny_status tllm_grammar_mask(tiny_ctx *ctx, tllm_grammar_state *s, const tllm_pieces *pieces,
                                       unsigned char *may)
{
    tiny_status st = tinyi_ctx_check(ctx);
    int ok;
    if (st) return st;
    if (!s || !pieces || (!may && tllm_pieces_count(pieces)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "grammar mask: the state, the pieces or the result is NULL");
    if (tllm_pieces_count(pieces)) memset(may, 0, tllm_pieces_count(pieces));
    if (!tinyi_gs_mark(ctx, s, 0)) return tiny_ctx_status(ctx);
    tinyi_gs_start(s);
    ok = tinyi_gs_walk(ctx, s, pieces, may);
    tinyi_gs_back(s, 0);
    return ok ? TINY_OK : tiny_ctx_status(ctx);
}

TINY_API tiny_status tllm_grammar_accepts(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n, int *yes)
{
    tiny_status st = tinyi_ctx_check(ctx);
    int ok;
    if (yes) *yes = 0;
    if (st) return st;
    if (!s || !yes || (!piece && n))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "grammar accepts: the state, the piece or the result is NULL");
    ok = tinyi_gs_try(ctx, s, piece, n, 0);
    if (ok < 0) return tiny_ctx_status(ctx);
    *yes = ok;
    return TINY_OK;
}

TINY_API tiny_status tllm_grammar_advance(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n)
{
    tiny_status st = tinyi_ctx_check(ctx);
    int ok;
    if (st) return st;
    if (!s || (!piece && n)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "grammar advance: the state or the piece is NULL");
    ok = tinyi_gs_try(ctx, s, piece, n, 1);
    if (ok < 0) return tiny_ctx_status(ctx);
    return ok ? TINY_OK : tinyi_fail(ctx, TINY_E_ARGUMENT, "the piece does not follow the grammar");
}

TINY_API int tllm_grammar_may_end(const tllm_grammar_state *s) { return s && s->may_end && !s->missing; }
