/* src/llm/sample/grammar.c
 *
 * Paper    E. Scott, A. Johnstone, "GLL Parsing", ENTCS 253 (2010), for the shared stacks; K. Thompson, "Regular Expression
 *          Search Algorithm", CACM 11 (1968), for what happens inside of a rule.
 * Form     Each rule is a small automaton: take a character, go on at two places, call a rule, return. Jumps are relative, so
 *          that a repetition copies what it repeats.
 * State    threads (place, frame). A frame is a rule that was called at one character; its edges say where to go on, and in
 *          which frame, when it returns: calls of one rule at one character share a frame, whoever made them. Only frames of
 *          the present character get edges, so that trying a piece leaves the older ones as they are: what was added is
 *          dropped by its number. A call at the end of a rule hands its own edges on instead of adding a frame to the chain.
 * Cost     of a character: threads and calls that are new; constant for grammars that one character of look-ahead decides.
 *          Frames that nothing reaches are swept out when their number has doubled.                                       */
#include "llm/sample/grammar.h"
#include "core/state.h"
#include "llm/token/unicode.h"
#include <string.h>

enum { TINYI_GO_CHAR, TINYI_GO_NOT, TINYI_GO_JUMP, TINYI_GO_SPLIT, TINYI_GO_CALL, TINYI_GO_TAIL, TINYI_GO_RETURN, TINYI_GO_ACCEPT };

/* CHAR, NOT: ranges a .. a + b - 1; JUMP: by a; SPLIT: to the next and by a; CALL, TAIL: rule a */
typedef struct tinyi_gop { int32_t op, a, b; } tinyi_gop;
typedef struct tinyi_grange { uint32_t lo, hi; } tinyi_grange;
typedef struct tinyi_grule { const char *name; size_t n, pos; uint32_t hash; int32_t start, end; } tinyi_grule;     /* start -1: not defined */

struct tllm_grammar {
    char *text;
    size_t n_text;
    tinyi_gop *op;
    tinyi_grange *range;
    tinyi_grule *rule;
    uint32_t *slot;
    size_t n_ops, op_room, n_ranges, range_room, n_rules, rule_room, n_slots;
    int32_t root;
};

/* room for want; the first n stay */
static int tinyi_grammar_grow(tiny_ctx *ctx, void **p, size_t n, size_t *room, size_t want, size_t each)
{
    size_t more = *room ? *room : 16;
    void *fresh;
    if (want <= *room) return 1;
    while (more < want) more *= 2;
    fresh = tinyi_alloc(ctx, more, each);
    if (!fresh) return 0;
    if (n) memcpy(fresh, *p, n * each);
    tiny_free(ctx, *p);
    *p = fresh;
    *room = more;
    return 1;
}

/* ---- reading ---------------------------------------------------------------------------------------------------------- */

typedef struct tinyi_gopen { size_t alternative, pos; int32_t ends; } tinyi_gopen;     /* ends: chain of jumps behind the group */
typedef struct tinyi_gparse {
    tiny_ctx *ctx;
    tllm_grammar *g;
    const char *s;
    size_t n, at;
    tiny_status st;
    tinyi_gopen open[TLLM_GRAMMAR_MAX_DEPTH + 1];
    int depth;
} tinyi_gparse;

static int tinyi_gp_fail(tinyi_gparse *p, size_t pos, const char *what, const char *name, size_t n_name)
{
    size_t line = 1, column = 1, i;
    if (p->st) return 0;
    for (i = 0; i < pos && i < p->n; i++)
        if (p->s[i] == '\n') { line++; column = 1; }
        else if (((unsigned char)p->s[i] & 0xc0) != 0x80) column++;
    if (name) p->st = tinyi_fail(p->ctx, TINY_E_FORMAT, "grammar line %zu, column %zu: rule %.*s %s", line, column, (int)TINYI_MIN(n_name, 60), name, what);
    else p->st = tinyi_fail(p->ctx, TINY_E_FORMAT, "grammar line %zu, column %zu: %s", line, column, what);
    return 0;
}
static int tinyi_gp_peek(const tinyi_gparse *p) { return p->at < p->n ? (unsigned char)p->s[p->at] : -1; }
static int tinyi_gp_word(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }

static void tinyi_gp_space(tinyi_gparse *p, int lines)
{
    for (;;) {
        int c = tinyi_gp_peek(p);
        if (c == '#') while (p->at < p->n && p->s[p->at] != '\n' && p->s[p->at] != '\r') p->at++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) p->at++;
        else return;
    }
}

static int tinyi_gp_emit(tinyi_gparse *p, int op, int32_t a, int32_t b)
{
    tllm_grammar *g = p->g;
    void *ops = g->op;
    if (p->st) return 0;
    if (g->n_ops >= TLLM_GRAMMAR_MAX_SIZE) return tinyi_gp_fail(p, p->at, "with its repetitions written out, the grammar grows past 200000 operations", NULL, 0);
    if (!tinyi_grammar_grow(p->ctx, &ops, g->n_ops, &g->op_room, g->n_ops + 1, sizeof *g->op)) { p->st = tiny_ctx_status(p->ctx); return 0; }
    g->op = (tinyi_gop *)ops;
    g->op[g->n_ops].op = op;
    g->op[g->n_ops].a = a;
    g->op[g->n_ops++].b = b;
    return 1;
}
/* One operation before what stands from there on. */
static int tinyi_gp_insert(tinyi_gparse *p, size_t from, int op, int32_t a)
{
    tllm_grammar *g = p->g;
    if (!tinyi_gp_emit(p, op, a, 0)) return 0;
    memmove(g->op + from + 1, g->op + from, (g->n_ops - 1 - from) * sizeof *g->op);
    g->op[from].op = op;
    g->op[from].a = a;
    g->op[from].b = 0;
    return 1;
}

static int tinyi_gp_range(tinyi_gparse *p, uint32_t lo, uint32_t hi)
{
    tllm_grammar *g = p->g;
    void *ranges = g->range;
    if (p->st) return 0;
    if (!tinyi_grammar_grow(p->ctx, &ranges, g->n_ranges, &g->range_room, g->n_ranges + 1, sizeof *g->range)) { p->st = tiny_ctx_status(p->ctx); return 0; }
    g->range = (tinyi_grange *)ranges;
    g->range[g->n_ranges].lo = lo;
    g->range[g->n_ranges++].hi = hi;
    return 1;
}

static int32_t tinyi_gp_rule(tinyi_gparse *p, const char *s, size_t n)
{
    tllm_grammar *g = p->g;
    uint32_t h = 2166136261u;
    size_t i, k;
    void *rules = g->rule;
    if (p->st) return 0;
    for (i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    h ^= h >> 15;
    if ((g->n_rules + 1) * 2 > g->n_slots) {
        size_t n_slots = g->n_slots ? g->n_slots * 2 : 64;
        uint32_t *slot = (uint32_t *)tinyi_alloc(p->ctx, n_slots, sizeof *slot);
        if (!slot) { p->st = tiny_ctx_status(p->ctx); return 0; }
        memset(slot, 0, n_slots * sizeof *slot);
        for (i = 0; i < g->n_rules; i++) {
            for (k = g->rule[i].hash & (n_slots - 1); slot[k]; k = (k + 1) & (n_slots - 1)) {}
            slot[k] = (uint32_t)i + 1;
        }
        tiny_free(p->ctx, g->slot);
        g->slot = slot;
        g->n_slots = n_slots;
    }
    for (k = h & (g->n_slots - 1); g->slot[k]; k = (k + 1) & (g->n_slots - 1)) {
        const tinyi_grule *r = &g->rule[g->slot[k] - 1];
        if (r->hash == h && r->n == n && !memcmp(r->name, s, n)) return (int32_t)g->slot[k] - 1;
    }
    if (!tinyi_grammar_grow(p->ctx, &rules, g->n_rules, &g->rule_room, g->n_rules + 1, sizeof *g->rule)) { p->st = tiny_ctx_status(p->ctx); return 0; }
    g->rule = (tinyi_grule *)rules;
    memset(&g->rule[g->n_rules], 0, sizeof *g->rule);
    g->rule[g->n_rules].name = s;
    g->rule[g->n_rules].n = n;
    g->rule[g->n_rules].hash = h;
    g->rule[g->n_rules].pos = p->at;
    g->rule[g->n_rules].start = -1;
    g->slot[k] = (uint32_t)++g->n_rules;
    return (int32_t)g->n_rules - 1;
}

/* a character of a literal or a class */
static int tinyi_gp_char(tinyi_gparse *p, uint32_t *c)
{
    size_t pos = p->at, i, n;
    if (p->at >= p->n || p->s[p->at] == '\n') return tinyi_gp_fail(p, pos, "the line ends inside of a literal or a class", NULL, 0);
    if (p->s[p->at] != '\\') {
        n = tinyi_utf8_get((const unsigned char *)p->s + p->at, p->n - p->at, c);
        if (*c == TINYI_REPLACEMENT && n == 1) return tinyi_gp_fail(p, pos, "a byte that is no UTF-8", NULL, 0);
        p->at += n;
        return 1;
    }
    p->at++;
    switch (tinyi_gp_peek(p)) {
    case 'n': *c = '\n'; break;
    case 'r': *c = '\r'; break;
    case 't': *c = '\t'; break;
    case '\\': case '"': case '[': case ']': case '^': case '-': case '/': *c = (uint32_t)tinyi_gp_peek(p); break;
    case 'x': case 'u': case 'U':
        n = p->s[p->at] == 'x' ? 2 : p->s[p->at] == 'u' ? 4 : 8;
        *c = 0;
        for (i = 0; i < n; i++) {
            int h = p->at + 1 + i < p->n ? (unsigned char)p->s[p->at + 1 + i] : 0;
            int d = h >= '0' && h <= '9' ? h - '0' : (h | 32) >= 'a' && (h | 32) <= 'f' ? (h | 32) - 'a' + 10 : -1;
            if (d < 0) return tinyi_gp_fail(p, pos, "an escape with too few hexadecimal digits", NULL, 0);
            *c = *c << 4 | (uint32_t)d;
        }
        if (*c > 0x10ffff || (*c >= 0xd800 && *c <= 0xdfff)) return tinyi_gp_fail(p, pos, "an escape of what is no character", NULL, 0);
        p->at += n;
        break;
    default: return tinyi_gp_fail(p, pos, "an unknown escape", NULL, 0);
    }
    p->at++;
    return 1;
}

/* Sorts the ranges from first on (by heap) and joins those that touch. */
static void tinyi_gp_sort(tllm_grammar *g, size_t first)
{
    tinyi_grange *r = g->range + first, t;
    size_t n = g->n_ranges - first, i, k, end;
    for (i = n / 2, end = n; end > 1;) {
        if (i) {
            t = r[--i];
        } else {
            t = r[--end];
            r[end] = r[0];
        }
        for (k = i; 2 * k + 1 < end;) {
            size_t c = 2 * k + 1;
            if (c + 1 < end && r[c + 1].lo > r[c].lo) c++;
            if (r[c].lo <= t.lo) break;
            r[k] = r[c];
            k = c;
        }
        r[k] = t;
    }
    for (i = k = 0; i < n; i++) {
        if (k && r[i].lo <= r[k - 1].hi + 1) { if (r[i].hi > r[k - 1].hi) r[k - 1].hi = r[i].hi; }
        else r[k++] = r[i];
    }
    g->n_ranges = first + k;
}

static int tinyi_gp_class(tinyi_gparse *p)
{
    size_t pos = p->at++, first = p->g->n_ranges;
    int op = TINYI_GO_CHAR;
    if (tinyi_gp_peek(p) == '^') { op = TINYI_GO_NOT; p->at++; }
    while (!p->st && tinyi_gp_peek(p) != ']') {
        uint32_t lo, hi;
        if (p->at >= p->n) return tinyi_gp_fail(p, pos, "a class without its ]", NULL, 0);
        if (!tinyi_gp_char(p, &lo)) return 0;
        hi = lo;
        if (tinyi_gp_peek(p) == '-' && p->at + 1 < p->n && p->s[p->at + 1] != ']') {
            p->at++;
            if (!tinyi_gp_char(p, &hi)) return 0;
            if (hi < lo) return tinyi_gp_fail(p, pos, "a range of a class runs backwards", NULL, 0);
        }
        (void)tinyi_gp_range(p, lo, hi);
    }
    p->at++;
    if (!p->st && p->g->n_ranges > first) tinyi_gp_sort(p->g, first);
    return tinyi_gp_emit(p, op, (int32_t)first, (int32_t)(p->g->n_ranges - first));
}

static int tinyi_gp_number(tinyi_gparse *p, long *v)
{
    if (tinyi_gp_peek(p) < '0' || tinyi_gp_peek(p) > '9') return 0;
    for (*v = 0; tinyi_gp_peek(p) >= '0' && tinyi_gp_peek(p) <= '9'; p->at++)
        if (*v < TLLM_GRAMMAR_MAX_SIZE + 1L) *v = *v * 10 + (p->s[p->at] - '0');
    return 1;
}

/* n copies of the n_ops operations at from, at the end; optional: each may be left out, and those behind it with it */
static void tinyi_gp_copies(tinyi_gparse *p, size_t from, size_t n_ops, long n, int optional)
{
    long k;
    size_t i;
    for (k = 0; k < n && !p->st; k++) {
        if (optional) (void)tinyi_gp_emit(p, TINYI_GO_SPLIT, (int32_t)TINYI_MIN((size_t)(n - k) * (n_ops + 1), (size_t)TLLM_GRAMMAR_MAX_SIZE + 1), 0);
        for (i = 0; i < n_ops && !p->st; i++) (void)tinyi_gp_emit(p, p->g->op[from + i].op, p->g->op[from + i].a, p->g->op[from + i].b);
    }
}

/* what stands behind the item from there on: * + ? {..}; item moves behind itself as often as needed */
static int tinyi_gp_repeat(tinyi_gparse *p, size_t from)
{
    tllm_grammar *g = p->g;
    for (;;) {
        size_t pos = p->at, n = g->n_ops - from;
        int c = tinyi_gp_peek(p);
        long least = c == '+' ? 1 : 0, most = c == '?' ? 1 : -1;
        if (p->st) return 0;
        if (c != '*' && c != '+' && c != '?' && c != '{') return 1;
        p->at++;
        if (c == '{') {
            tinyi_gp_space(p, 0);
            if (!tinyi_gp_number(p, &least)) return tinyi_gp_fail(p, pos, "a repetition is {m}, {m,} or {m,n}", NULL, 0);
            tinyi_gp_space(p, 0);
            most = least;
            if (tinyi_gp_peek(p) == ',') {
                p->at++;
                tinyi_gp_space(p, 0);
                if (!tinyi_gp_number(p, &most)) most = -1;
                tinyi_gp_space(p, 0);
            }
            if (tinyi_gp_peek(p) != '}') return tinyi_gp_fail(p, pos, "a repetition is {m}, {m,} or {m,n}", NULL, 0);
            p->at++;
            if (most >= 0 && most < least) return tinyi_gp_fail(p, pos, "a repetition with a maximum below its minimum", NULL, 0);
        }
        if (!n) continue;
        if (least == 0) {
            if (most == 0) { g->n_ops = from; continue; }
            if (most < 0) {                 /* L: split over; item; jump L */
                (void)tinyi_gp_insert(p, from, TINYI_GO_SPLIT, (int32_t)n + 2);
                (void)tinyi_gp_emit(p, TINYI_GO_JUMP, -(int32_t)n - 1, 0);
            } else {
                (void)tinyi_gp_insert(p, from, TINYI_GO_SPLIT, (int32_t)TINYI_MIN((size_t)most * (n + 1), (size_t)TLLM_GRAMMAR_MAX_SIZE + 1));
                tinyi_gp_copies(p, from + 1, n, most - 1, 1);
            }
        } else {
            tinyi_gp_copies(p, from, n, least - 1, 0);
            if (most < 0) {                 /* L: item; split back to L */
                (void)tinyi_gp_emit(p, TINYI_GO_SPLIT, -(int32_t)n, 0);
            } else {
                tinyi_gp_copies(p, from, n, most - least, 1);
            }
        }
    }
}

/* | or the end of a group or of a rule: what stood since the last | becomes an alternative */
static void tinyi_gp_alternative(tinyi_gparse *p, int last)
{
    tinyi_gopen *o = &p->open[p->depth];
    tllm_grammar *g = p->g;
    if (p->st) return;
    if (!last) {
        size_t n = g->n_ops - o->alternative;
        (void)tinyi_gp_insert(p, o->alternative, TINYI_GO_SPLIT, (int32_t)n + 2);
        (void)tinyi_gp_emit(p, TINYI_GO_JUMP, o->ends, 0);
        o->ends = (int32_t)g->n_ops - 1;
        o->alternative = g->n_ops;
        return;
    }
    while (o->ends >= 0) {
        int32_t next = g->op[o->ends].a;
        g->op[o->ends].a = (int32_t)g->n_ops - o->ends;
        o->ends = next;
    }
}

/* The right side of a rule. */
static int tinyi_gp_body(tinyi_gparse *p)
{
    tllm_grammar *g = p->g;
    p->depth = 0;
    p->open[0].alternative = g->n_ops;
    p->open[0].ends = -1;
    for (;;) {
        size_t from = g->n_ops, pos;
        int c;
        tinyi_gp_space(p, p->depth > 0);
        pos = p->at;
        c = tinyi_gp_peek(p);
        if (p->st) return 0;
        if (c == '"') {
            p->at++;
            while (!p->st && tinyi_gp_peek(p) != '"') {
                uint32_t u;
                if (p->at >= p->n) return tinyi_gp_fail(p, pos, "a literal without its closing quote", NULL, 0);
                if (tinyi_gp_char(p, &u) && tinyi_gp_range(p, u, u)) (void)tinyi_gp_emit(p, TINYI_GO_CHAR, (int32_t)g->n_ranges - 1, 1);
            }
            p->at++;
        } else if (c == '[') {
            if (!tinyi_gp_class(p)) return 0;
        } else if (c == '.') {
            p->at++;
            (void)tinyi_gp_emit(p, TINYI_GO_NOT, 0, 0);
        } else if (tinyi_gp_word(c)) {
            while (tinyi_gp_word(tinyi_gp_peek(p))) p->at++;
            {
                size_t end = p->at;
                int32_t rule;
                p->at = pos;
                rule = tinyi_gp_rule(p, p->s + pos, end - pos);
                p->at = end;
                (void)tinyi_gp_emit(p, TINYI_GO_CALL, rule, 0);
            }
        } else if (c == '(') {
            if (p->depth == TLLM_GRAMMAR_MAX_DEPTH) return tinyi_gp_fail(p, pos, "groups nested more than 200 deep", NULL, 0);
            p->at++;
            p->depth++;
            p->open[p->depth].alternative = g->n_ops;
            p->open[p->depth].pos = g->n_ops;
            p->open[p->depth].ends = -1;
            continue;
        } else if (c == ')') {
            if (!p->depth) return tinyi_gp_fail(p, pos, "a ) without its (", NULL, 0);
            tinyi_gp_alternative(p, 1);
            from = p->open[p->depth].pos;
            p->depth--;
            p->at++;
        } else if (c == '|') {
            tinyi_gp_alternative(p, 0);
            p->at++;
            tinyi_gp_space(p, 1);
            continue;
        } else if (c == '\n' || c == '\r' || c < 0) {
            size_t line = p->at;
            if (p->depth) return tinyi_gp_fail(p, pos, "the grammar ends inside of a group", NULL, 0);
            tinyi_gp_space(p, 1);
            if (tinyi_gp_peek(p) == '|') continue;
            p->at = line;
            tinyi_gp_alternative(p, 1);
            return tinyi_gp_emit(p, TINYI_GO_RETURN, 0, 0);
        } else {
            return tinyi_gp_fail(p, pos, c == '*' || c == '+' || c == '?' || c == '{' ? "a repetition of nothing" : "a character that means nothing here", NULL, 0);
        }
        if (!tinyi_gp_repeat(p, from)) return 0;
    }
}

/* Marks calls that end their rule; finds what is missing, and rules that come back to themselves before a character. */
static int tinyi_gp_check(tinyi_gparse *p)
{
    tllm_grammar *g = p->g;
    size_t n = g->n_ops + 1, i, n_work = 0, n_edges = 0;
    int32_t *memory = (int32_t *)tinyi_alloc(p->ctx, 6 * n + 5 * (g->n_rules + 1), sizeof *memory), *work = memory, *rule_of = work + 2 * n, *waits = rule_of + n, *edge_to = waits + n,
            *edge_next = edge_to + n, *first_wait = edge_next + n, *first_edge, *mark, *stack, *nullable;
    uint8_t *seen;
    if (!memory) { p->st = tiny_ctx_status(p->ctx); return 0; }
    first_edge = first_wait + g->n_rules;
    mark = first_edge + g->n_rules;
    stack = mark + g->n_rules;
    nullable = stack + g->n_rules + 1;
    seen = (uint8_t *)tinyi_alloc(p->ctx, n, 1);
    if (!seen) { p->st = tiny_ctx_status(p->ctx); tiny_free(p->ctx, memory); return 0; }
    memset(seen, 0, n);
    for (i = 0; i < g->n_rules; i++) {
        const tinyi_grule *r = &g->rule[i];
        first_wait[i] = first_edge[i] = -1;
        mark[i] = nullable[i] = 0;
        if (r->start < 0) {
            (void)tinyi_gp_fail(p, r->pos, "is not defined", r->name, r->n);
            goto done;
        }
        for (n = (size_t)r->start; n < (size_t)r->end; n++) rule_of[n] = (int32_t)i;
        work[n_work++] = r->start;
    }
    for (i = 0; i < g->n_ops; i++) {
        size_t k = i + 1, hops = 0;
        if (g->op[i].op != TINYI_GO_CALL) continue;
        while (g->op[k].op == TINYI_GO_JUMP && hops++ < 2 * TLLM_GRAMMAR_MAX_DEPTH) k = (size_t)((int32_t)k + g->op[k].a);
        if (g->op[k].op == TINYI_GO_RETURN) g->op[i].op = TINYI_GO_TAIL;
    }
    while (n_work) {                        /* every place that is reached from its rule's start without a character, once */
        int32_t at = work[--n_work], to, w;
        const tinyi_gop *o = &g->op[at];
        if (seen[at]) continue;
        seen[at] = 1;
        switch (o->op) {
        case TINYI_GO_JUMP: work[n_work++] = at + o->a; break;
        case TINYI_GO_SPLIT: work[n_work++] = at + 1; work[n_work++] = at + o->a; break;
        case TINYI_GO_CALL: case TINYI_GO_TAIL:
            to = o->a;
            edge_to[n_edges] = to;
            edge_next[n_edges] = first_edge[rule_of[at]];
            first_edge[rule_of[at]] = (int32_t)n_edges++;
            if (nullable[to]) work[n_work++] = at + 1;
            else { waits[at] = first_wait[to]; first_wait[to] = at; }
            break;
        case TINYI_GO_RETURN:
            to = rule_of[at];
            if (nullable[to]) break;
            nullable[to] = 1;
            for (w = first_wait[to]; w >= 0; w = waits[w]) work[n_work++] = w + 1;
            break;
        default: break;
        }
    }
    for (i = 0; i < g->n_rules && !p->st; i++) {
        size_t n_stack = 0;
        if (mark[i]) continue;
        stack[n_stack++] = (int32_t)i;
        mark[i] = 1;                        /* 1: on the way, 2: done */
        while (n_stack) {
            int32_t r = stack[n_stack - 1], e = first_edge[r];
            if (e < 0) { mark[r] = 2; n_stack--; continue; }
            first_edge[r] = edge_next[e];
            r = edge_to[e];
            if (mark[r] == 1) {
                (void)tinyi_gp_fail(p, g->rule[r].pos, "comes back to itself before it takes a character (left recursion)", g->rule[r].name, g->rule[r].n);
                break;
            }
            if (!mark[r]) { mark[r] = 1; stack[n_stack++] = r; }
        }
    }
done:
    tiny_free(p->ctx, seen);
    tiny_free(p->ctx, memory);
    return !p->st;
}

static void tinyi_gp_all(tinyi_gparse *p, const char *root)
{
    tllm_grammar *g = p->g;
    int32_t rule;
    size_t i;
    if (!tinyi_gp_emit(p, TINYI_GO_ACCEPT, 0, 0)) return;
    for (;;) {
        size_t pos, end;
        tinyi_gp_space(p, 1);
        if (p->st || p->at >= p->n) break;
        pos = end = p->at;
        while (end < p->n && tinyi_gp_word((unsigned char)p->s[end])) end++;
        if (end == pos) { (void)tinyi_gp_fail(p, pos, "the name of a rule should stand here", NULL, 0); return; }
        rule = tinyi_gp_rule(p, p->s + pos, end - pos);
        if (p->st) return;
        p->at = end;
        tinyi_gp_space(p, 0);
        if (p->n - p->at < 3 || memcmp(p->s + p->at, "::=", 3)) { (void)tinyi_gp_fail(p, p->at, "::= should stand here", NULL, 0); return; }
        p->at += 3;
        tinyi_gp_space(p, 1);
        if (g->rule[rule].start >= 0) { (void)tinyi_gp_fail(p, pos, "is defined a second time", p->s + pos, end - pos); return; }
        g->rule[rule].pos = pos;
        g->rule[rule].start = (int32_t)g->n_ops;
        if (!tinyi_gp_body(p)) return;
        g->rule[rule].end = (int32_t)g->n_ops;
    }
    if (p->st) return;
    g->root = -1;
    for (i = 0; i < g->n_rules; i++)
        if (g->rule[i].n == strlen(root) && !memcmp(g->rule[i].name, root, g->rule[i].n) && g->rule[i].start >= 0) g->root = (int32_t)i;
    if (g->root < 0) { p->st = tinyi_fail(p->ctx, TINY_E_FORMAT, "the grammar has no rule %.60s, where texts start", root); return; }
    (void)tinyi_gp_check(p);
}

TINY_API tiny_status tllm_grammar_open(tiny_ctx *ctx, const char *text, size_t n, const char *root, tllm_grammar **out)
{
    tinyi_gparse *p;
    tllm_grammar *g;
    tiny_status st;
    if (!out) return TINY_E_ARGUMENT;
    *out = NULL;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if ((!text && n) || !root) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a grammar wants its text and the name of its first rule");
    if (n > TLLM_GRAMMAR_MAX_BYTES) return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "the grammar has %zu bytes; the longest has %zu", n, TLLM_GRAMMAR_MAX_BYTES);
    g = (tllm_grammar *)tinyi_alloc(ctx, 1, sizeof *g);
    if (!g) return tiny_ctx_status(ctx);
    memset(g, 0, sizeof *g);
    g->text = (char *)tinyi_alloc(ctx, n + 1, 1);
    p = g->text ? (tinyi_gparse *)tinyi_alloc(ctx, 1, sizeof *p) : NULL;
    if (!p) {
        st = tiny_ctx_status(ctx);
        tllm_grammar_close(ctx, g);
        return st;
    }
    if (n) memcpy(g->text, text, n);
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    p->g = g;
    p->s = g->text;
    p->n = g->n_text = n;
    tinyi_gp_all(p, root);
    st = p->st;
    tiny_free(ctx, p);
    if (st) tllm_grammar_close(ctx, g);
    else *out = g;
    return st;
}

TINY_API void tllm_grammar_close(tiny_ctx *ctx, tllm_grammar *g)
{
    if (!g) return;
    tiny_free(ctx, g->text);
    tiny_free(ctx, g->op);
    tiny_free(ctx, g->range);
    tiny_free(ctx, g->rule);
    tiny_free(ctx, g->slot);
    tiny_free(ctx, g);
}

/* ---- states ------------------------------------------------------------------------------------------------------------ */

typedef struct tinyi_gedge { int32_t back, frame, next; } tinyi_gedge;         /* go on at back in frame; frame -1: behind the root */
typedef struct tinyi_gframe { int32_t edges, heirs, returned; } tinyi_gframe;  /* heirs: frames that get its edges too; returned: at this character */
typedef struct tinyi_gheir { int32_t frame, next; } tinyi_gheir;
typedef struct tinyi_gthread { int32_t at, frame; } tinyi_gthread;
typedef struct tinyi_gseen { uint64_t turn; int32_t a, b, c; } tinyi_gseen;

struct tllm_grammar_state {
    const tllm_grammar *g;
    tinyi_gframe *frame;
    tinyi_gedge *edge;
    tinyi_gheir *heir;
    tinyi_gthread *thread, *next, *work, *saved;
    tinyi_gseen *seen;                      /* what this character has met: places with frames, and edges */
    uint64_t *called;                       /* of each rule: turn << 32 | frame, the frame of its call at this character */
    size_t n_frames, frame_room, n_edges, edge_room, n_heirs, heir_room, n_threads, thread_room, n_next, next_room, n_work, work_room, n_seen, seen_room, saved_room;
    size_t first_frame, swept;              /* the first frame of this character; how many stood after the last sweep */
    uint64_t turn;
    int may_end;
    uint32_t partial;                       /* bits of a character that is not finished, and its missing bytes */
    int missing, length;
};

#define TINYI_G_ROOM(s, ctx, what, n, room, want) tinyi_grammar_grow(ctx, (void **)(void *)&(s)->what, (s)->n, &(s)->room, want, sizeof *(s)->what)

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
    h = ((uint64_t)(uint32_t)a * UINT64_C(0x9e3779b97f4a7c15)) ^ ((uint64_t)(uint32_t)b * UINT64_C(0xc2b2ae3d27d4eb4f)) ^ ((uint64_t)(uint32_t)c * UINT64_C(0x165667b19e3779f9));
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
    int seen = tinyi_gs_seen(ctx, s, at, frame, -1);
    if (seen) return seen > 0;
    if (!TINYI_G_ROOM(s, ctx, work, n_work, work_room, s->n_work + 1)) return 0;
    s->work[s->n_work].at = at;
    s->work[s->n_work++].frame = frame;
    return 1;
}

static int tinyi_gs_limit(tiny_ctx *ctx)
{
    (void)tinyi_fail(ctx, TINY_E_WORKSPACE, "the grammar leaves too many ways: more than %d open rules", TLLM_GRAMMAR_MAX_WAYS);
    return 0;
}

/* An edge for the frame, and for all that inherit from it. pending: where work that this starts is kept, as an edge (-2, ..). */
static int tinyi_gs_edge(tiny_ctx *ctx, tllm_grammar_state *s, int32_t frame, int32_t back, int32_t to)
{
    size_t bottom = s->n_next, h;
    int seen;
    /* the list of heirs to visit lies above the threads of the next character */
    for (;;) {
        seen = tinyi_gs_seen(ctx, s, frame, back, to >= 0 ? to : INT32_MAX);
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

/* From work to threads that want a character: s->next. */
static int tinyi_gs_close(tiny_ctx *ctx, tllm_grammar_state *s)
{
    int32_t e, frame;
    while (s->n_work) {
        tinyi_gthread w = s->work[--s->n_work];
        const tinyi_gop *o = &s->g->op[w.at];
        switch (o->op) {
        case TINYI_GO_CHAR: case TINYI_GO_NOT:
            if (!TINYI_G_ROOM(s, ctx, next, n_next, next_room, s->n_next + 1)) return 0;
            s->next[s->n_next++] = w;
            break;
        case TINYI_GO_JUMP: if (!tinyi_gs_push(ctx, s, w.at + o->a, w.frame)) return 0; break;
        case TINYI_GO_SPLIT: if (!tinyi_gs_push(ctx, s, w.at + o->a, w.frame) || !tinyi_gs_push(ctx, s, w.at + 1, w.frame)) return 0; break;
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
    size_t i;
    tinyi_gs_turn(s);
    for (i = 0; i < s->n_threads; i++)
        if (tinyi_gs_matches(s->g, s->thread[i].at, c, c) && !tinyi_gs_push(ctx, s, s->thread[i].at + 1, s->thread[i].frame)) return -1;
    if (!s->n_work) return 0;
    if (!tinyi_gs_close(ctx, s)) return -1;
    tinyi_gs_swap(s);
    return s->n_threads || s->may_end;
}

static int tinyi_gs_bytes(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t i;
    uint32_t lo, hi;
    int ok;
    for (i = 0; i < n; i++) {
        unsigned b = (unsigned char)piece[i];
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
        if (s->missing) continue;
        if (s->partial < least[s->length] || s->partial > 0x10ffff || (s->partial >= 0xd800 && s->partial <= 0xdfff)) return 0;
        ok = tinyi_gs_char(ctx, s, s->partial);
        if (ok <= 0) return ok;
    }
    if (!s->missing) return 1;
    lo = s->partial << (6 * s->missing);
    hi = lo | ((1u << (6 * s->missing)) - 1);
    if (lo < least[s->length]) lo = least[s->length];
    if (hi > 0x10ffff) hi = 0x10ffff;
    for (i = 0; i < s->n_threads && lo <= hi; i++)
        if (tinyi_gs_matches(s->g, s->thread[i].at, lo, hi)) return !(lo >= 0xd800 && hi <= 0xdfff);
    return 0;
}

/* Drops frames that no thread reaches. */
static int tinyi_gs_sweep(tiny_ctx *ctx, tllm_grammar_state *s)
{
    int32_t *to = (int32_t *)tinyi_alloc(ctx, 2 * s->n_frames + 1, sizeof *to), *stack = to + s->n_frames;
    tinyi_gedge *edge = (tinyi_gedge *)tinyi_alloc(ctx, s->n_edges + 1, sizeof *edge);
    size_t i, n_frames = 0, n_edges = 0, n_stack = 0;
    int32_t e;
    if (!to || !edge) {
        tiny_free(ctx, to);
        tiny_free(ctx, edge);
        return 0;
    }
    for (i = 0; i < s->n_frames; i++) to[i] = -1;
    for (i = 0; i < s->n_threads; i++)
        if (to[s->thread[i].frame] < 0) { to[s->thread[i].frame] = 0; stack[n_stack++] = s->thread[i].frame; }
    while (n_stack)
        for (e = s->frame[stack[--n_stack]].edges; e >= 0; e = s->edge[e].next)
            if (s->edge[e].frame >= 0 && to[s->edge[e].frame] < 0) { to[s->edge[e].frame] = 0; stack[n_stack++] = s->edge[e].frame; }
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
    if (!out) return TINY_E_ARGUMENT;
    *out = NULL;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a state wants its grammar");
    s = tinyi_gs_make(ctx, g);
    if (!s) return tiny_ctx_status(ctx);
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
    if (!out) return TINY_E_ARGUMENT;
    *out = NULL;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!s) return tinyi_fail(ctx, TINY_E_ARGUMENT, "no state is given to clone");
    c = tinyi_gs_make(ctx, s->g);
    if (!c) return tiny_ctx_status(ctx);
    if (!TINYI_G_ROOM(c, ctx, frame, n_frames, frame_room, s->n_frames) || !TINYI_G_ROOM(c, ctx, edge, n_edges, edge_room, s->n_edges) ||
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

/* 1 may come, 0 may not, -1 failed; unless keep and 1, all is as before */
static int tinyi_gs_try(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n, int keep)
{
    size_t n_frames = s->n_frames, n_edges = s->n_edges, n_threads = s->n_threads;
    int may_end = s->may_end, missing = s->missing, length = s->length, ok;
    uint32_t partial = s->partial;
    if (!tinyi_grammar_grow(ctx, (void **)(void *)&s->saved, 0, &s->saved_room, n_threads, sizeof *s->saved)) return -1;
    if (n_threads) memcpy(s->saved, s->thread, n_threads * sizeof *s->saved);
    ok = tinyi_gs_bytes(ctx, s, piece, n);
    if (ok > 0 && keep) {
        if (s->n_frames + s->n_edges > 2 * s->swept + 256) (void)tinyi_gs_sweep(ctx, s);
        return 1;
    }
    if (n_threads > s->thread_room) { TINY_ASSERT(s->next_room >= n_threads); tinyi_gs_swap(s); }     /* one of the two had room for them */
    if (n_threads) memcpy(s->thread, s->saved, n_threads * sizeof *s->saved);
    s->n_threads = n_threads;
    s->n_frames = n_frames;
    s->n_edges = n_edges;
    s->may_end = may_end;
    s->missing = missing;
    s->length = length;
    s->partial = partial;
    return ok;
}

TINY_API tiny_status tllm_grammar_accepts(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n, int *yes)
{
    tiny_status st = tinyi_ctx_check(ctx);
    int ok;
    if (yes) *yes = 0;
    if (st) return st;
    if (!s || !yes || (!piece && n)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a piece is asked about without state, piece or place for the answer");
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
    if (!s || (!piece && n)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a grammar goes on with a state and a piece");
    ok = tinyi_gs_try(ctx, s, piece, n, 1);
    if (ok < 0) return tiny_ctx_status(ctx);
    return ok ? TINY_OK : tinyi_fail(ctx, TINY_E_ARGUMENT, "the piece does not follow the grammar");
}

TINY_API int tllm_grammar_may_end(const tllm_grammar_state *s) { return s && s->may_end && !s->missing; }
