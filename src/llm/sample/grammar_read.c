/* src/llm/sample/grammar_read.c - from the text of a grammar to its automata
 *
 * Each rule becomes a small automaton in one pass over the text. For alternatives and repetitions the operations
 * already written are moved and a split is put before them. Then tinyi_gp_check finds undefined rules and left
 * recursion. No function here calls itself: the check uses explicit lists, and the depth of groups has a limit. */
#include "llm/sample/grammar_read_inside.h"
#include "core/state_inside.h"
#include "llm/token/unicode.h"
#include <string.h>

int tinyi_grammar_grow(tiny_ctx *ctx, void **p, size_t n, size_t *room, size_t want, size_t each)
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

/* ends: chain of jumps after the group */
typedef struct tinyi_gopen { size_t alternative, pos; int32_t ends; } tinyi_gopen;
typedef struct tinyi_gparse {
    tiny_ctx *ctx;
    tllm_grammar *g;
    const char *s;
    size_t n, at, work;                     /* work: operations written, and moved ones by 16 */
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
    if (name)
        p->st = tinyi_fail(p->ctx, TINY_E_FORMAT, "grammar line %zu, column %zu: rule %.*s %s", line, column,
                           (int)TINYI_MIN(n_name, 60), name, what);
    else p->st = tinyi_fail(p->ctx, TINY_E_FORMAT, "grammar line %zu, column %zu: %s", line, column, what);
    return 0;
}
static int tinyi_gp_peek(const tinyi_gparse *p) { return p->at < p->n ? (unsigned char)p->s[p->at] : -1; }
static int tinyi_gp_word(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

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
    if (g->n_ops >= TLLM_GRAMMAR_MAX_SIZE)
        return tinyi_gp_fail(p, p->at, "with its repetitions expanded, the grammar has more than 200000 operations",
                             NULL, 0);
    if (++p->work > TLLM_GRAMMAR_MAX_COPIES)
        return tinyi_gp_fail(p, p->at, "nested repetitions expand to more than 12800000 operations", NULL, 0);
    if (!tinyi_grammar_grow(p->ctx, &ops, g->n_ops, &g->op_room, g->n_ops + 1, sizeof *g->op)) {
        p->st = tiny_ctx_status(p->ctx);
        return 0;
    }
    g->op = (tinyi_gop *)ops;
    g->op[g->n_ops].op = op;
    g->op[g->n_ops].a = a;
    g->op[g->n_ops].c = 0;
    g->op[g->n_ops++].b = b;
    return 1;
}
/* One operation before what stands from there on. */
static int tinyi_gp_insert(tinyi_gparse *p, size_t from, int op, int32_t a)
{
    tllm_grammar *g = p->g;
    if (!tinyi_gp_emit(p, op, a, 0)) return 0;
    memmove(g->op + from + 1, g->op + from, (g->n_ops - 1 - from) * sizeof *g->op);
    p->work += (g->n_ops - 1 - from) / 16;
    g->op[from].op = op;
    g->op[from].a = a;
    g->op[from].b = g->op[from].c = 0;
    return 1;
}

static int tinyi_gp_range(tinyi_gparse *p, uint32_t lo, uint32_t hi)
{
    tllm_grammar *g = p->g;
    void *ranges = g->range;
    if (p->st) return 0;
    if (!tinyi_grammar_grow(p->ctx, &ranges, g->n_ranges, &g->range_room, g->n_ranges + 1, sizeof *g->range)) {
        p->st = tiny_ctx_status(p->ctx);
        return 0;
    }
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
    if (!tinyi_grammar_grow(p->ctx, &rules, g->n_rules, &g->rule_room, g->n_rules + 1, sizeof *g->rule)) {
        p->st = tiny_ctx_status(p->ctx);
        return 0;
    }
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
    if (p->at >= p->n || p->s[p->at] == '\n')
        return tinyi_gp_fail(p, pos, "the line ends inside a literal or a class", NULL, 0);
    if (p->s[p->at] != '\\') {
        n = tinyi_utf8_get((const unsigned char *)p->s + p->at, p->n - p->at, c);
        if (*c == TINYI_REPLACEMENT && n == 1) return tinyi_gp_fail(p, pos, "invalid UTF-8", NULL, 0);
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
        if (*c > 0x10ffff || (*c >= 0xd800 && *c <= 0xdfff))
            return tinyi_gp_fail(p, pos, "an escape of an invalid character", NULL, 0);
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
            if (hi < lo) return tinyi_gp_fail(p, pos, "a range of a class ends before it starts", NULL, 0);
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

/* n copies of the n_ops operations at from, at the end; optional: each may be skipped, together with those after it */
static void tinyi_gp_copies(tinyi_gparse *p, size_t from, size_t n_ops, long n, int optional)
{
    long k;
    size_t i;
    for (k = 0; k < n && !p->st; k++) {
        if (optional)
            (void)tinyi_gp_emit(p, TINYI_GO_SPLIT,
                                (int32_t)TINYI_MIN((size_t)(n - k) * (n_ops + 1), (size_t)TLLM_GRAMMAR_MAX_SIZE + 1),
                                0);
        for (i = 0; i < n_ops && !p->st; i++)
            (void)tinyi_gp_emit(p, p->g->op[from + i].op, p->g->op[from + i].a, p->g->op[from + i].b);
    }
}

/* reads the operators after the item: * + ? {..}; item is copied after itself as often as needed */
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
            if (!tinyi_gp_number(p, &least))
                return tinyi_gp_fail(p, pos, "a repetition is {m}, {m,} or {m,n}", NULL, 0);
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
            if (most >= 0 && most < least)
                return tinyi_gp_fail(p, pos, "a repetition with a maximum below its minimum", NULL, 0);
        }
        if (!n) continue;
        if (least == 0) {
            if (most == 0) { g->n_ops = from; continue; }
            if (most < 0) {                 /* L: split over; item; jump L */
                (void)tinyi_gp_insert(p, from, TINYI_GO_SPLIT, (int32_t)n + 2);
                (void)tinyi_gp_emit(p, TINYI_GO_JUMP, -(int32_t)n - 1, 0);
            } else {
                (void)tinyi_gp_insert(p, from, TINYI_GO_SPLIT,
                                      (int32_t)TINYI_MIN((size_t)most * (n + 1), (size_t)TLLM_GRAMMAR_MAX_SIZE + 1));
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
                if (tinyi_gp_char(p, &u) && tinyi_gp_range(p, u, u))
                    (void)tinyi_gp_emit(p, TINYI_GO_CHAR, (int32_t)g->n_ranges - 1, 1);
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
            if (p->depth == TLLM_GRAMMAR_MAX_DEPTH)
                return tinyi_gp_fail(p, pos, "groups nested more than 200 deep", NULL, 0);
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
            if (p->depth) return tinyi_gp_fail(p, pos, "the grammar ends inside a group", NULL, 0);
            tinyi_gp_space(p, 1);
            if (tinyi_gp_peek(p) == '|') continue;
            p->at = line;
            tinyi_gp_alternative(p, 1);
            return tinyi_gp_emit(p, TINYI_GO_RETURN, 0, 0);
        } else {
            return tinyi_gp_fail(p, pos,
                                 c == '*' || c == '+' || c == '?' || c == '{' ? "a repetition of nothing"
                                                                              : "a character that means nothing here",
                                 NULL, 0);
        }
        if (!tinyi_gp_repeat(p, from)) return 0;
    }
}

/* Marks calls that end their rule; finds what is missing, and rules that come back to themselves before a character. */
static int tinyi_gp_check(tinyi_gparse *p)
{
    tllm_grammar *g = p->g;
    size_t n = g->n_ops + 1, i, n_work = 0, n_edges = 0;
    int32_t *memory = (int32_t *)tinyi_alloc(p->ctx, 6 * n + 5 * (g->n_rules + 1), sizeof *memory), *work, *rule_of,
            *waits, *edge_to, *edge_next, *first_wait, *first_edge, *mark, *stack, *nullable;
    uint8_t *seen;
    if (!memory) { p->st = tiny_ctx_status(p->ctx); return 0; }
    work = memory;
    rule_of = work + 2 * n;
    waits = rule_of + n;
    edge_to = waits + n;
    edge_next = edge_to + n;
    first_wait = edge_next + n;
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
        while (g->op[k].op == TINYI_GO_JUMP && hops++ < 2 * TLLM_GRAMMAR_MAX_DEPTH)
            k = (size_t)((int32_t)k + g->op[k].a);
        if (g->op[k].op == TINYI_GO_RETURN) g->op[i].op = TINYI_GO_TAIL;
    }
    /* every place that is reached from its rule's start without a character, once */
    while (n_work) {
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
                (void)tinyi_gp_fail(p, g->rule[r].pos,
                                    "calls itself before it reads a character (left recursion)",
                                    g->rule[r].name, g->rule[r].n);
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

/* Where a character leads to a few places of its own rule and to no call and no return, as inside of a string, they are
 * written down: then taking it looks nothing up. At most 16 places, found in 64 steps, so that the lists stay linear in
 * the grammar. */
static void tinyi_gp_wants(tinyi_gparse *p)
{
    enum { STEPS = 64, PLACES = 16 };
    tllm_grammar *g = p->g;
    size_t i;
    for (i = 0; i < g->n_ops && !p->st; i++) {
        int32_t met[STEPS], n_met = 1, done = 0, k;
        size_t n = g->n_wants ? g->n_wants : 1, first = n;
        void *wants = g->wants;
        if (g->op[i].op != TINYI_GO_CHAR && g->op[i].op != TINYI_GO_NOT) continue;
        if (!tinyi_grammar_grow(p->ctx, &wants, g->n_wants, &g->wants_room, n + 1 + PLACES, sizeof *g->wants)) {
            p->st = tiny_ctx_status(p->ctx);
            return;
        }
        g->wants = (int32_t *)wants;
        met[0] = (int32_t)i + 1;
        for (; done < n_met; done++) {
            const tinyi_gop *o = &g->op[met[done]];
            int32_t to[2], n_to = 0;
            if (o->op == TINYI_GO_CHAR || o->op == TINYI_GO_NOT) {
                if (n - first == PLACES) break;
                g->wants[++n] = met[done];
                continue;
            }
            if (o->op != TINYI_GO_JUMP && o->op != TINYI_GO_SPLIT) break;
            to[n_to++] = met[done] + o->a;
            if (o->op == TINYI_GO_SPLIT) to[n_to++] = met[done] + 1;
            while (n_to--) {
                for (k = 0; k < n_met && met[k] != to[n_to]; k++) {}
                if (k < n_met) continue;
                if (n_met == STEPS) break;
                met[n_met++] = to[n_to];
            }
            if (n_to >= 0) break;
        }
        if (done < n_met || n == first) continue;       /* too many, or it leaves the rule */
        g->wants[first] = (int32_t)(n - first);
        g->op[i].c = (int32_t)first;
        g->n_wants = n + 1;
    }
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
        if (end == pos) { (void)tinyi_gp_fail(p, pos, "expected the name of a rule", NULL, 0); return; }
        rule = tinyi_gp_rule(p, p->s + pos, end - pos);
        if (p->st) return;
        p->at = end;
        tinyi_gp_space(p, 0);
        if (p->n - p->at < 3 || memcmp(p->s + p->at, "::=", 3)) {
            (void)tinyi_gp_fail(p, p->at, "expected ::=", NULL, 0);
            return;
        }
        p->at += 3;
        tinyi_gp_space(p, 1);
        if (g->rule[rule].start >= 0) {
            (void)tinyi_gp_fail(p, pos, "is defined a second time", p->s + pos, end - pos);
            return;
        }
        g->rule[rule].pos = pos;
        g->rule[rule].start = (int32_t)g->n_ops;
        if (!tinyi_gp_body(p)) return;
        g->rule[rule].end = (int32_t)g->n_ops;
    }
    if (p->st) return;
    g->root = -1;
    for (i = 0; i < g->n_rules; i++)
        if (g->rule[i].n == strlen(root) && !memcmp(g->rule[i].name, root, g->rule[i].n) && g->rule[i].start >= 0)
            g->root = (int32_t)i;
    if (g->root < 0) {
        p->st = tinyi_fail(p->ctx, TINY_E_FORMAT, "the grammar has no rule %.60s, which was named as its root", root);
        return;
    }
    if (tinyi_gp_check(p)) tinyi_gp_wants(p);
}

TINY_API tiny_status tllm_grammar_open(tiny_ctx *ctx, const char *text, size_t n, const char *root, tllm_grammar **out)
{
    tinyi_gparse *p;
    tllm_grammar *g;
    tiny_status st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "grammar: the result pointer is NULL");
    *out = NULL;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if ((!text && n) || !root)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "grammar: the text or the name of its root rule is NULL");
    if (n > TLLM_GRAMMAR_MAX_BYTES)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "the grammar has %zu bytes; the limit is %zu", n,
                          TLLM_GRAMMAR_MAX_BYTES);
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
    tiny_free(ctx, g->wants);
    tiny_free(ctx, g);
}
