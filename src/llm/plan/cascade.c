/* src/llm/plan/cascade.c - cascades of Einsums: parsing, counting passes, and a slow run
 * Paper    N. Nayak, X. Wu, T. O. Odemuyiwa, M. Pellauer, J. S. Emer, C. W. Fletcher, "FuseMax: Leveraging Extended
 *          Einsums to Optimize Attention Accelerator Design", 2024 (arXiv 2406.10491), sections 3 and 4.
 * Levels   Over a fiber R with the traversal rank r (its first): an input has level 1 if it has r, else 0. An Einsum
 *          that involves r has the level max(1, l(x) for operands x with r, l(x) + 1 for operands without r and with
 *          l(x) > 0, which need a complete traversal). Any other Einsum has the largest level of its operands. A state
 *          has r. The number of passes is the number of different levels at which some operand has every rank of R.
 * Live     a tensor that is made at one level and read at a later one is kept whole; for any other, one step along r
 *          is live.
 * Run      Einsums in their order. The Einsums from the first to the last that read or write a state before its end run
 *          together, step by step along its rank. Each of them must have that rank, and none may reduce over it: that
 *          would need the whole fiber inside the loop that makes it.
 * Error    double, in index order. Sizes and counts in double: exact below 2^53.
 * Left out ranks split unevenly other than at the end, indices that are sums, more than two operands. */
#include <string.h>
#include "llm/plan/cascade.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include <math.h>

/* ---- reading */

typedef struct tinyi_cascade_reader {
    tiny_ctx *ctx;
    tllm_cascade *c;
    const char *at;
    int line;
} tinyi_cascade_reader;

static void tinyi_cascade_skip(tinyi_cascade_reader *r)
{
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') r->at++;
    if (*r->at == '#') while (*r->at && *r->at != '\n') r->at++;
}

static int tinyi_cascade_letter(char c, int first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

static int tinyi_cascade_take(tinyi_cascade_reader *r, char c)
{
    tinyi_cascade_skip(r);
    if (*r->at != c) return 0;
    r->at++;
    return 1;
}

static tiny_status tinyi_cascade_odd(tinyi_cascade_reader *r, const char *wanted)
{
    char found[2];
    tinyi_cascade_skip(r);
    found[0] = *r->at;
    found[1] = 0;
    if ((unsigned char)found[0] < 32 || (unsigned char)found[0] > 126)
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "cascade, line %d: expected %s before the %s", r->line, wanted,
                          found[0] == '\n' ? "end of the line"
                          : found[0]       ? "odd byte"
                                           : "end of the text");
    return tinyi_fail(r->ctx, TINY_E_FORMAT, "cascade, line %d: expected %s before '%s'", r->line, wanted, found);
}

static tiny_status tinyi_cascade_name(tinyi_cascade_reader *r, char name[TLLM_CASCADE_NAME])
{
    int n = 0;
    tinyi_cascade_skip(r);
    if (!tinyi_cascade_letter(*r->at, 1)) return tinyi_cascade_odd(r, "a name");
    while (tinyi_cascade_letter(*r->at, 0)) {
        if (n == TLLM_CASCADE_NAME - 1)
            return tinyi_fail(r->ctx, TINY_E_FORMAT, "cascade, line %d: a name is longer than %d bytes", r->line,
                              TLLM_CASCADE_NAME - 1);
        name[n++] = *r->at++;
    }
    name[n] = 0;
    return TINY_OK;
}

/* the next word is this one: taken */
static int tinyi_cascade_word(tinyi_cascade_reader *r, const char *word)
{
    const size_t n = strlen(word);
    tinyi_cascade_skip(r);
    if (strncmp(r->at, word, n) || tinyi_cascade_letter(r->at[n], 0)) return 0;
    r->at += n;
    return 1;
}

static int tinyi_cascade_rank_of(const tllm_cascade *c, const char *name)
{
    int i;
    for (i = 0; i < c->n_rank; i++) if (!strcmp(c->rank[i], name)) return i;
    return -1;
}

static tiny_status tinyi_cascade_rank(tinyi_cascade_reader *r, int *rank)
{
    char name[TLLM_CASCADE_NAME];
    tiny_status st = tinyi_cascade_name(r, name);
    if (st) return st;
    *rank = tinyi_cascade_rank_of(r->c, name);
    if (*rank >= 0) return TINY_OK;
    if (r->c->n_rank == TLLM_CASCADE_RANKS)
        return tinyi_fail(r->ctx, TINY_E_UNSUPPORTED, "cascade, line %d: rank %s exceeds the limit of %d ranks",
                          r->line, name, TLLM_CASCADE_RANKS);
    *rank = r->c->n_rank++;
    memcpy(r->c->rank[*rank], name, sizeof name);
    return TINY_OK;
}

TINY_API int tllm_cascade_find(const tllm_cascade *c, const char *tensor)
{
    int i;
    for (i = 0; c && tensor && i < c->n_tensor; i++) if (!strcmp(c->tensor[i].name, tensor)) return i;
    return -1;
}

/* X[ranks]; fresh: a new tensor, else a known one with the same ranks */
static tiny_status tinyi_cascade_tensor(tinyi_cascade_reader *r, int fresh, int *tensor, tllm_einsum_when *when)
{
    tllm_cascade_tensor t, *old = NULL;
    tiny_status st;
    int rank;
    memset(&t, 0, sizeof t);
    t.made_by = -1;
    *when = TLLM_WHEN_ALWAYS;
    st = tinyi_cascade_name(r, t.name);
    if (st) return st;
    *tensor = tllm_cascade_find(r->c, t.name);
    if (*tensor >= 0) old = &r->c->tensor[*tensor];
    if (fresh > 0 && old && !old->is_state)
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "cascade, line %d: there is already a tensor %s", r->line, t.name);
    if (!fresh && !old)
        return tinyi_fail(
            r->ctx, TINY_E_FORMAT,
            "cascade, line %d: unknown tensor %s: no earlier line makes it, and it is not an input; is the "
            "description cyclic, or out of order?",
            r->line, t.name);
    if (!tinyi_cascade_take(r, '[')) return tinyi_cascade_odd(r, "[ and the ranks");
    while (!tinyi_cascade_take(r, ']')) {
        if (t.n_rank && !tinyi_cascade_take(r, ',')) return tinyi_cascade_odd(r, ", or ]");
        if (old && old->is_state && !t.n_rank && tinyi_cascade_word(r, "last")) {
            rank = old->rank[0];
            *when = TLLM_WHEN_LAST;
        } else {
            st = tinyi_cascade_rank(r, &rank);
            if (st) return st;
            if (old && old->is_state && !t.n_rank) *when = TLLM_WHEN_NOW;
            if (tinyi_cascade_take(r, '+')) {
                if (*when != TLLM_WHEN_NOW || t.n_rank || !tinyi_cascade_take(r, '1'))
                    return tinyi_cascade_odd(r, "no +, or +1 after the first rank of a state,");
                *when = TLLM_WHEN_NEXT;
            }
        }
        if (t.ranks >> rank & 1)
            return tinyi_fail(r->ctx, TINY_E_FORMAT, "cascade, line %d: %s has the rank %s twice", r->line, t.name,
                              r->c->rank[rank]);
        t.ranks |= 1u << rank;
        t.rank[t.n_rank++] = (signed char)rank;
    }
    if (old && old->is_state && (!t.n_rank || t.rank[0] != old->rank[0]))
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "cascade, line %d: the first rank of the state %s must be %s", r->line,
                          t.name, r->c->rank[old->rank[0]]);
    if (old && t.ranks != old->ranks)
        return tinyi_fail(r->ctx, TINY_E_SHAPE, "cascade, line %d: %s does not have the ranks that it was made with",
                          r->line, t.name);
    if (old) return TINY_OK;
    if (r->c->n_tensor == TLLM_CASCADE_TENSORS)
        return tinyi_fail(r->ctx, TINY_E_UNSUPPORTED, "cascade, line %d: tensor %s exceeds the limit of %d tensors",
                          r->line, t.name, TLLM_CASCADE_TENSORS);
    *tensor = r->c->n_tensor++;
    r->c->tensor[*tensor] = t;
    return TINY_OK;
}

static tiny_status tinyi_cascade_number(tinyi_cascade_reader *r, double *x)
{
    double sign = 1.0, part = 1.0;
    int digits = 0;
    *x = 0.0;
    if (tinyi_cascade_take(r, '-')) sign = -1.0;
    if (tinyi_cascade_word(r, "inf")) {
        *x = sign * (double)INFINITY;
        return TINY_OK;
    }
    tinyi_cascade_skip(r);
    for (; *r->at >= '0' && *r->at <= '9'; r->at++, digits++) *x = *x * 10.0 + (*r->at - '0');
    if (*r->at == '.')
        for (r->at++; *r->at >= '0' && *r->at <= '9'; r->at++, digits++) *x += (*r->at - '0') * (part /= 10.0);
    *x *= sign;
    return digits ? TINY_OK : tinyi_cascade_odd(r, "a number");
}

static tiny_status tinyi_cascade_operand(tinyi_cascade_reader *r, tllm_einsum *e)
{
    const tllm_cascade_tensor *t;
    tiny_status st = tinyi_cascade_tensor(r, 0, &e->in[e->n_in], &e->when[e->n_in]);
    if (st) return st;
    t = &r->c->tensor[e->in[e->n_in]];
    if (!t->is_input && !t->is_state && t->made_by < 0)
        return tinyi_fail(r->ctx, TINY_E_FORMAT,
                          "cascade, line %d: %s is read by the line that makes it: the description is cyclic", r->line,
                          t->name);
    e->ranks |= r->c->tensor[e->in[e->n_in]].ranks;
    /* the end of a state is one step of its rank, not all of them */
    if (e->when[e->n_in] == TLLM_WHEN_LAST) e->ranks &= ~(1u << r->c->tensor[e->in[e->n_in]].rank[0]);
    e->n_in++;
    return TINY_OK;
}

/* two operands in brackets: max(A, B), exp(A - B) */
static tiny_status tinyi_cascade_pair(tinyi_cascade_reader *r, tllm_einsum *e, char between)
{
    tiny_status st;
    if (!tinyi_cascade_take(r, '(')) return tinyi_cascade_odd(r, "(");
    st = tinyi_cascade_operand(r, e);
    if (st) return st;
    if (!tinyi_cascade_take(r, between)) return tinyi_cascade_odd(r, between == ',' ? "," : "-");
    st = tinyi_cascade_operand(r, e);
    if (!st && !tinyi_cascade_take(r, ')')) st = tinyi_cascade_odd(r, ")");
    return st;
}

static tiny_status tinyi_cascade_reduction(tinyi_cascade_reader *r, tllm_einsum *e)
{
    const int is_sum = tinyi_cascade_word(r, "sum");
    const char *start = r->at;
    tiny_status st;
    int rank;
    if (!is_sum && !tinyi_cascade_word(r, "max")) return TINY_OK;
    tinyi_cascade_skip(r);
    if (!is_sum && *r->at == '(') {         /* the largest of two, not over a rank */
        r->at = start;
        return TINY_OK;
    }
    e->reduce = is_sum ? TLLM_REDUCE_SUM : TLLM_REDUCE_MAX;
    while (!tinyi_cascade_take(r, ':')) {
        st = tinyi_cascade_rank(r, &rank);
        if (st) return st;
        e->over |= 1u << rank;
    }
    return e->over ? TINY_OK : tinyi_cascade_odd(r, "a rank to reduce over");
}

static tiny_status tinyi_cascade_einsum(tinyi_cascade_reader *r)
{
    tllm_cascade *c = r->c;
    tllm_einsum e;
    tllm_einsum_when out_when;
    unsigned out, lost;
    tiny_status st;
    int i;
    memset(&e, 0, sizeof e);
    e.line = r->line;
    if (c->n_einsum == TLLM_CASCADE_EINSUMS)
        return tinyi_fail(r->ctx, TINY_E_UNSUPPORTED, "cascade, line %d: more than %d Einsums", r->line,
                          TLLM_CASCADE_EINSUMS);
    st = tinyi_cascade_tensor(r, 1, &e.out, &out_when);
    if (st) return st;
    if (!tinyi_cascade_take(r, '=')) return tinyi_cascade_odd(r, "=");
    st = tinyi_cascade_reduction(r, &e);
    if (st) return st;
    if (tinyi_cascade_word(r, "exp")) {
        e.map = TLLM_EINSUM_EXP;
        st = tinyi_cascade_pair(r, &e, '-');
    } else if (tinyi_cascade_word(r, "max")) {
        e.map = TLLM_EINSUM_MAX;
        st = tinyi_cascade_pair(r, &e, ',');
    } else {
        st = tinyi_cascade_operand(r, &e);
        if (!st)
            e.map = tinyi_cascade_take(r, '*')   ? TLLM_EINSUM_MUL
                    : tinyi_cascade_take(r, '/') ? TLLM_EINSUM_DIV
                    : tinyi_cascade_take(r, '+') ? TLLM_EINSUM_ADD
                                                 : TLLM_EINSUM_COPY;
        if (!st && e.map != TLLM_EINSUM_COPY) st = tinyi_cascade_operand(r, &e);
    }
    if (st) return st;
    out = c->tensor[e.out].ranks;
    lost = e.ranks & ~out & ~e.over;
    for (i = 0; i < c->n_rank; i++)
        if (lost >> i & 1)
            return tinyi_fail(r->ctx, TINY_E_SHAPE,
                              "cascade, line %d: rank %s is not in %s, and nothing reduces over it", r->line,
                              c->rank[i], c->tensor[e.out].name);
    if (out & ~e.ranks)
        return tinyi_fail(r->ctx, TINY_E_SHAPE, "cascade, line %d: %s has a rank that no operand has", r->line,
                          c->tensor[e.out].name);
    if (e.over & ~e.ranks || e.over & out)
        return tinyi_fail(r->ctx, TINY_E_SHAPE,
                          "cascade, line %d: %s is reduced over a rank that it keeps, or that no operand has", r->line,
                          c->tensor[e.out].name);
    if (c->tensor[e.out].is_state && out_when != TLLM_WHEN_NEXT)
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "cascade, line %d: the state %s is written as %s[%s+1, ...]", r->line,
                          c->tensor[e.out].name, c->tensor[e.out].name, c->rank[c->tensor[e.out].rank[0]]);
    if (c->tensor[e.out].made_by >= 0)
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "cascade, line %d: %s is made twice", r->line, c->tensor[e.out].name);
    c->tensor[e.out].made_by = c->n_einsum;
    c->einsum[c->n_einsum++] = e;
    return TINY_OK;
}

static tiny_status tinyi_cascade_statement(tinyi_cascade_reader *r)
{
    tllm_einsum_when when;
    tiny_status st;
    int i, t;
    if (tinyi_cascade_word(r, "split")) {
        if (r->c->split[0] >= 0)
            return tinyi_fail(r->ctx, TINY_E_UNSUPPORTED, "cascade, line %d: only one rank can be split", r->line);
        for (i = 0; i < 3; i++) {
            st = tinyi_cascade_rank(r, &r->c->split[i]);
            if (st) return st;
        }
        if (r->c->split[0] == r->c->split[1] || r->c->split[0] == r->c->split[2] || r->c->split[1] == r->c->split[2])
            return tinyi_fail(r->ctx, TINY_E_FORMAT, "cascade, line %d: a rank is split into itself", r->line);
        return TINY_OK;
    }
    if (tinyi_cascade_word(r, "input")) {
        do {
            st = tinyi_cascade_tensor(r, 1, &t, &when);
            if (st) return st;
            if (r->c->tensor[t].is_state)
                return tinyi_fail(r->ctx, TINY_E_FORMAT, "cascade, line %d: %s is a state and cannot be an input",
                                  r->line, r->c->tensor[t].name);
            r->c->tensor[t].is_input = 1;
            tinyi_cascade_skip(r);
        } while (*r->at && *r->at != '\n');
        return TINY_OK;
    }
    if (tinyi_cascade_word(r, "state")) {
        st = tinyi_cascade_tensor(r, 1, &t, &when);
        if (st) return st;
        if (!r->c->tensor[t].n_rank || r->c->tensor[t].is_state)
            return tinyi_fail(r->ctx, TINY_E_FORMAT,
                              "cascade, line %d: a state needs a rank along which it is passed, and one line", r->line);
        r->c->tensor[t].is_state = 1;
        if (!tinyi_cascade_take(r, '=')) return tinyi_cascade_odd(r, "= and the first value");
        return tinyi_cascade_number(r, &r->c->tensor[t].start);
    }
    return tinyi_cascade_einsum(r);
}

/* an Einsum that belongs into the loop along the states: it reads or writes one before the end */
static int tinyi_cascade_in_loop(const tllm_cascade *c, const tllm_einsum *e)
{
    int i;
    for (i = 0; i < e->n_in; i++) if (e->when[i] == TLLM_WHEN_NOW || e->when[i] == TLLM_WHEN_NEXT) return 1;
    return c->tensor[e->out].is_state;
}

/* first and one past the last Einsum of the loop, and its rank; rank -1: there is none */
static void tinyi_cascade_loop(const tllm_cascade *c, int *first, int *end, int *rank)
{
    int i;
    *first = *end = 0;
    *rank = -1;
    for (i = 0; i < c->n_tensor; i++) if (c->tensor[i].is_state) *rank = c->tensor[i].rank[0];
    for (i = c->n_einsum; i-- > 0;) if (tinyi_cascade_in_loop(c, &c->einsum[i])) *first = i;
    for (i = 0; i < c->n_einsum; i++) if (tinyi_cascade_in_loop(c, &c->einsum[i])) *end = i + 1;
}

static tiny_status tinyi_cascade_check(tiny_ctx *ctx, const tllm_cascade *c)
{
    int first, end, rank, i, j;
    if (!c->n_einsum) return tinyi_fail(ctx, TINY_E_FORMAT, "cascade: it has no Einsum");
    tinyi_cascade_loop(c, &first, &end, &rank);
    for (i = 0; i < c->n_tensor; i++) {
        const tllm_cascade_tensor *t = &c->tensor[i];
        if (!t->is_state) continue;
        if (t->rank[0] != rank)
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                              "cascade: states are passed along %s and along %s, but only one rank is allowed",
                              c->rank[t->rank[0]], c->rank[rank]);
        if (t->made_by < 0)
            return tinyi_fail(ctx, TINY_E_FORMAT, "cascade: no line makes %s[%s+1, ...]", t->name, c->rank[rank]);
    }
    for (i = 0; i < c->n_einsum; i++) {
        const tllm_einsum *e = &c->einsum[i];
        const int inside = i >= first && i < end;
        for (j = 0; j < e->n_in; j++) {
            const tllm_cascade_tensor *t = &c->tensor[e->in[j]];
            if ((e->when[j] == TLLM_WHEN_LAST && i < end) || (e->when[j] == TLLM_WHEN_NEXT && t->made_by >= i))
                return tinyi_fail(
                    ctx, TINY_E_FORMAT,
                    "cascade, line %d: %s is read here and made by line %d: the description is cyclic, or out of order",
                    e->line, t->name, c->einsum[t->made_by].line);
        }
        if (inside && (!(e->ranks >> rank & 1) || e->over >> rank & 1))
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "cascade, line %d: %s needs all of %s inside the loop along it: the description is "
                              "cyclic, or out of order",
                              e->line, c->tensor[e->out].name, c->rank[rank]);
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_cascade_parse(tiny_ctx *ctx, const char *text, tllm_cascade *c)
{
    tinyi_cascade_reader r;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!text || !c) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cascade: the text or the result pointer is NULL");
    memset(c, 0, sizeof *c);
    c->split[0] = -1;
    r.ctx = ctx;
    r.c = c;
    r.at = text;
    for (r.line = 1; !st; r.line++) {
        tinyi_cascade_skip(&r);
        if (*r.at && *r.at != '\n') st = tinyi_cascade_statement(&r);
        if (st) break;
        tinyi_cascade_skip(&r);
        if (*r.at && *r.at != '\n') st = tinyi_cascade_odd(&r, "the end of the line");
        if (!*r.at) break;
        r.at++;
    }
    if (!st) st = tinyi_cascade_check(ctx, c);
    if (st) memset(c, 0, sizeof *c);
    return st;
}

TINY_API tiny_status tllm_cascade_size(tiny_ctx *ctx, tllm_cascade *c, const char *rank, tiny_idx size)
{
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (st) return st;
    if (!c || !rank) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cascade: the cascade or the name of a rank is NULL");
    i = tinyi_cascade_rank_of(c, rank);
    if (i < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cascade: there is no rank %.15s", rank);
    if (size < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "cascade: rank %s has size %td; it must be at least 1", rank, size);
    if (c->split[0] >= 0 && i == c->split[1])
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cascade: the size of %s follows from those of %s and %s", rank,
                          c->rank[c->split[0]], c->rank[c->split[2]]);
    c->size[i] = size;
    if (c->split[0] >= 0 && c->size[c->split[0]] && c->size[c->split[2]])
        c->size[c->split[1]] = (c->size[c->split[0]] - 1) / c->size[c->split[2]] + 1;
    return TINY_OK;
}

static tiny_status tinyi_cascade_sized(tiny_ctx *ctx, const tllm_cascade *c)
{
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (st) return st;
    if (!c || !c->n_einsum) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cascade: the cascade is NULL");
    for (i = 0; i < c->n_rank; i++)
        if (c->size[i] < 1) return tinyi_fail(ctx, TINY_E_SHAPE, "cascade: rank %s has no size", c->rank[i]);
    return TINY_OK;
}

/* ---- analysis */

TINY_REF_BEGIN
double tinyi_cascade_points(const tllm_cascade *c, unsigned ranks)
{
    double n = 1.0;
    int i;
    /* the last chunk may be short */
    if (c->split[0] >= 0 && ranks >> c->split[1] & 1 && ranks >> c->split[2] & 1) {
        n = (double)c->size[c->split[0]];
        ranks &= ~(1u << c->split[1] | 1u << c->split[2]);
    }
    for (i = 0; i < c->n_rank; i++) if (ranks >> i & 1) n *= (double)c->size[i];
    return n;
}

static int tinyi_cascade_rescales(const tllm_cascade *c, const tllm_einsum *e)
{
    return e->map == TLLM_EINSUM_MUL && !c->tensor[e->in[0]].is_input && !c->tensor[e->in[1]].is_input;
}

static void tinyi_cascade_count(const tllm_cascade *c, const tllm_einsum *e, double n, tllm_cascade_ops *ops)
{
    switch (e->map) {
    case TLLM_EINSUM_MUL: ops->multiplies += n; break;
    case TLLM_EINSUM_DIV: ops->divides += n; break;
    case TLLM_EINSUM_ADD: ops->adds += n; break;
    case TLLM_EINSUM_MAX: ops->maxima += n; break;
    case TLLM_EINSUM_EXP: ops->exps += n; break;
    default: break;
    }
    if (tinyi_cascade_rescales(c, e)) ops->rescales += n;
    if (e->reduce == TLLM_REDUCE_SUM) ops->adds += n;
    if (e->reduce == TLLM_REDUCE_MAX) ops->maxima += n;
}

/* the level of one Einsum over the traversal rank, by the levels of its operands */
static int tinyi_cascade_level(const tllm_cascade *c, const tllm_einsum *e, const int *level, int rank)
{
    int involves = (int)(e->ranks >> rank & 1), l = 0, i;
    for (i = 0; i < e->n_in; i++) if (c->tensor[e->in[i]].ranks >> rank & 1) involves = 1;
    if (involves) l = 1;
    for (i = 0; i < e->n_in; i++) {
        int x = level[e->in[i]];
        if (involves && x > 0 && !(c->tensor[e->in[i]].ranks >> rank & 1)) x++;
        l = TINYI_MAX(l, x);
    }
    return l;
}

static tiny_status tinyi_cascade_fiber(tiny_ctx *ctx, const tllm_cascade *c, const char *fiber, int *traversal,
                                       unsigned *ranks)
{
    char name[TLLM_CASCADE_NAME];
    int n, rank;
    *traversal = -1;
    *ranks = 0;
    while (*fiber) {
        if (*fiber == ' ' || *fiber == ',') {
            fiber++;
            continue;
        }
        for (n = 0; *fiber && *fiber != ' ' && *fiber != ','; fiber++)
            if (n < TLLM_CASCADE_NAME - 1) name[n++] = *fiber;
        name[n] = 0;
        rank = tinyi_cascade_rank_of(c, name);
        if (rank < 0)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "cascade: the fiber names %s, but there is no such rank", name);
        if (*traversal < 0) *traversal = rank;
        *ranks |= 1u << rank;
    }
    return *ranks ? TINY_OK : tinyi_fail(ctx, TINY_E_ARGUMENT, "cascade: the fiber names no rank");
}

TINY_API tiny_status tllm_cascade_analyse(tiny_ctx *ctx, const tllm_cascade *c, const char *fiber,
                                          tllm_cascade_analysis *a)
{
    unsigned ranks, pass_levels[TLLM_CASCADE_EINSUMS + 2], read_levels[TLLM_CASCADE_TENSORS][TLLM_CASCADE_EINSUMS + 2];
    tiny_status st = tinyi_cascade_sized(ctx, c);
    int traversal, round, i, j, l;
    if (st) return st;
    if (!fiber || !a)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cascade: the fiber or the result pointer is NULL");
    st = tinyi_cascade_fiber(ctx, c, fiber, &traversal, &ranks);
    if (st) return st;
    memset(a, 0, sizeof *a);
    memset(pass_levels, 0, sizeof pass_levels);
    memset(read_levels, 0, sizeof read_levels);
    for (i = 0; i < c->n_tensor; i++)
        a->tensor_level[i] = c->tensor[i].is_input ? (int)(c->tensor[i].ranks >> traversal & 1) : 0;
    /* again until states have the level that their own step gives them; tinyi_cascade_check has seen that they come to
     * rest */
    for (round = 0; round <= c->n_einsum; round++)
        for (i = 0; i < c->n_einsum; i++) {
            a->level[i] = tinyi_cascade_level(c, &c->einsum[i], a->tensor_level, traversal);
            a->tensor_level[c->einsum[i].out] = a->level[i];
        }
    for (i = 0; i < c->n_einsum; i++) {
        const tllm_einsum *e = &c->einsum[i];
        l = TINYI_MIN(a->level[i], TLLM_CASCADE_EINSUMS + 1);
        for (j = 0; j < e->n_in; j++) {
            if (!(ranks & ~c->tensor[e->in[j]].ranks)) a->reads_fiber[i] = 1;
            if (read_levels[e->in[j]][l]) continue;
            read_levels[e->in[j]][l] = 1;
            a->reads[e->in[j]]++;
            a->kept[e->in[j]] += !c->tensor[e->in[j]].is_input && a->level[i] > a->tensor_level[e->in[j]];
        }
        if (a->reads_fiber[i]) {
            a->passes += !pass_levels[l];
            pass_levels[l] = 1;
        }
        tinyi_cascade_count(c, e, tinyi_cascade_points(c, e->ranks), &a->ops);
    }
    for (i = 0; i < c->n_tensor; i++) {
        a->live[i] = tinyi_cascade_points(c, a->kept[i] ? c->tensor[i].ranks : c->tensor[i].ranks & ~(1u << traversal));
        if (!c->tensor[i].is_input) a->live_all += a->live[i];
    }
    return TINY_OK;
}

/* ---- running */

typedef struct tinyi_cascade_place { tiny_idx stride[TLLM_CASCADE_RANKS]; size_t count; } tinyi_cascade_place;

/* Row-major as the brackets say. Chunks and their inside, one after the other, lie as the whole rank does. */
static int tinyi_cascade_lay(const tllm_cascade *c, const tllm_cascade_tensor *t, tinyi_cascade_place *p)
{
    size_t step = 1;
    int i;
    memset(p, 0, sizeof *p);
    for (i = t->n_rank - 1; i >= 0; i--) {
        const int rank = t->rank[i];
        size_t n = (size_t)c->size[rank] + (size_t)(t->is_state && i == 0);
        p->stride[rank] = (tiny_idx)step;
        if (c->split[0] >= 0 && rank == c->split[2] && i > 0 && t->rank[i - 1] == c->split[1] &&
            !(t->is_state && i == 1)) {
            p->stride[c->split[1]] = (tiny_idx)step * c->size[rank];
            n = (size_t)c->size[c->split[0]];
            i--;
        }
        if (!tinyi_size_mul(step, n, &step) || step > (size_t)TINY_IDX_MAX / sizeof(double)) return 0;
    }
    p->count = step;
    return 1;
}

typedef struct tinyi_cascade_job {
    const tllm_cascade *c;
    tinyi_cascade_place place[TLLM_CASCADE_TENSORS];
    double *data[TLLM_CASCADE_TENSORS];
    tllm_cascade_ops ops;
} tinyi_cascade_job;

static double tinyi_cascade_value(const tllm_einsum *e, double x, double y)
{
    switch (e->map) {
    case TLLM_EINSUM_MUL: return x * y;
    case TLLM_EINSUM_DIV: return x / y;
    case TLLM_EINSUM_ADD: return x + y;
    case TLLM_EINSUM_MAX: return x != x || x > y ? x : y;
    case TLLM_EINSUM_EXP: return tinyi_exp64(x - y);
    default: return x;
    }
}

/* all points of one Einsum, or those of one step of the loop rank */
static void tinyi_cascade_step(tinyi_cascade_job *job, const tllm_einsum *e, int loop, tiny_idx step)
{
    const tllm_cascade *c = job->c;
    const unsigned out = c->tensor[e->out].ranks;
    tiny_idx at[TLLM_CASCADE_RANKS] = { 0 };
    int rank[TLLM_CASCADE_RANKS], n = 0, i, r;
    for (i = 0; i < c->n_rank; i++) if (e->ranks >> i & 1 && !(e->over >> i & 1) && i != loop) rank[n++] = i;
    for (i = 0; i < c->n_rank; i++) if (e->ranks >> i & 1 && e->over >> i & 1) rank[n++] = i;     /* innermost */
    if (loop >= 0) at[loop] = step;
    for (;;) {
        const int cut = c->split[0] >= 0 && e->ranks >> c->split[1] & 1 && e->ranks >> c->split[2] & 1 &&
                        at[c->split[1]] * c->size[c->split[2]] + at[c->split[2]] >= c->size[c->split[0]];
        if (!cut) {
            double x[2] = { 0.0, 0.0 }, y, *to = job->data[e->out];
            int first = 1;
            for (i = 0; i < e->n_in; i++) {
                const tllm_cascade_tensor *t = &c->tensor[e->in[i]];
                const tiny_idx *stride = job->place[e->in[i]].stride;
                const double *from = job->data[e->in[i]];
                for (r = 0; r < c->n_rank; r++) if (t->ranks >> r & 1 && e->ranks >> r & 1) from += at[r] * stride[r];
                if (e->when[i] == TLLM_WHEN_NEXT) from += stride[t->rank[0]];
                if (e->when[i] == TLLM_WHEN_LAST) from += c->size[t->rank[0]] * stride[t->rank[0]];
                x[i] = *from;
            }
            for (r = 0; r < c->n_rank; r++) if (out >> r & 1) to += at[r] * job->place[e->out].stride[r];
            if (c->tensor[e->out].is_state) to += job->place[e->out].stride[c->tensor[e->out].rank[0]];
            for (r = 0; r < c->n_rank; r++) if (e->over >> r & 1 && at[r]) first = 0;
            y = tinyi_cascade_value(e, x[0], x[1]);
            if (e->reduce == TLLM_REDUCE_NONE || first) *to = y;
            else if (e->reduce == TLLM_REDUCE_SUM) *to += y;
            else if (y != y || y > *to) *to = y;
            tinyi_cascade_count(c, e, 1.0, &job->ops);
        }
        for (i = n - 1; i >= 0; i--) {
            if (++at[rank[i]] < c->size[rank[i]]) break;
            at[rank[i]] = 0;
        }
        if (i < 0) return;
    }
}
TINY_REF_END

TINY_API tiny_status tllm_cascade_run(tiny_ctx *ctx, const tllm_cascade *c, double *const *data, tllm_cascade_ops *ops)
{
    tinyi_cascade_job job;
    tiny_status st = tinyi_cascade_sized(ctx, c);
    int first, end, loop, i;
    tiny_idx step;
    size_t k;
    if (st) return st;
    if (!data) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cascade: the tensors are NULL");
    memset(&job, 0, sizeof job);
    job.c = c;
    for (i = 0; i < c->n_tensor && !st; i++) {
        const tllm_cascade_tensor *t = &c->tensor[i];
        if (t->is_input && !data[i]) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "cascade: the input %s is missing", t->name);
        else if (!tinyi_cascade_lay(c, t, &job.place[i]))
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "cascade: %s has more elements than this machine can address",
                            t->name);
        else {
            job.data[i] = data[i] ? data[i] : (double *)tinyi_alloc(ctx, job.place[i].count, sizeof(double));
            if (!job.data[i]) st = tiny_ctx_status(ctx);
            else if (t->is_state)
                for (k = 0; k < (size_t)job.place[i].stride[t->rank[0]]; k++) job.data[i][k] = t->start;
        }
    }
    if (!st) {
        tinyi_cascade_loop(c, &first, &end, &loop);
        for (i = 0; i < first; i++) tinyi_cascade_step(&job, &c->einsum[i], -1, 0);
        for (step = 0; loop >= 0 && step < c->size[loop]; step++)
            for (i = first; i < end; i++) tinyi_cascade_step(&job, &c->einsum[i], loop, step);
        for (i = end; i < c->n_einsum; i++) tinyi_cascade_step(&job, &c->einsum[i], -1, 0);
        if (ops) *ops = job.ops;
    }
    for (i = 0; i < c->n_tensor; i++) if (!data[i]) tiny_free(ctx, job.data[i]);
    return st;
}
