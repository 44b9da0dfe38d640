/* src/llm/round/pattern.c - patterns for the names of tensors
 * Paper    K. Thompson, "Regular expression search algorithm", CACM 11 (6), 1968
 * Formula  The pattern becomes a program of steps. A match follows all steps that the name may have led to at once.
 * Cost     at most the steps of the program times the bytes of the name, whatever the pattern */
#include <string.h>
#include "core/state_inside.h"
#include "llm/round/pattern_inside.h"

enum {
    TINYI_STEP_CHARACTER,
    TINYI_STEP_ANY,
    TINYI_STEP_SET,
    TINYI_STEP_START,
    TINYI_STEP_END,
    TINYI_STEP_EITHER,
    TINYI_STEP_GO
};

/* Inserts a step before step `at`. Jumps between the steps that move stay right: they count from their own place. */
static void tinyi_pattern_put(tinyi_pattern *p, int at, int what, int a, int b)
{
    if (p->n == TINYI_PATTERN_STEPS && !p->wrong) p->wrong = "it is too long";
    if (p->wrong) return;
    memmove(p->at + at + 1, p->at + at, (size_t)(p->n++ - at) * sizeof *p->at);
    p->at[at].what = what;
    p->at[at].a = a;
    p->at[at].b = b;
}

static const char *tinyi_pattern_alternatives(tinyi_pattern *p, const char *re, int depth);

/* A character, a set or a group; returns what follows it. */
static const char *tinyi_pattern_piece(tinyi_pattern *p, const char *re, int depth)
{
    const char *const first = re;
    if (*re == '(') {
        if (depth == TINYI_PATTERN_DEPTH) p->wrong = "its brackets stand too deep within each other";
        else re = tinyi_pattern_alternatives(p, re + 1, depth + 1);
        if (re == p->end && !p->wrong) p->wrong = "a bracket is not closed";
    } else if (*re == '[') {
        re += re + 1 < p->end && re[1] == '^' ? 2 : 1;
        for (re += re < p->end; re < p->end && *re != ']'; re++) {}     /* the first one may be a ] */
        if (re == p->end) p->wrong = "a bracket is not closed";
        tinyi_pattern_put(p, p->n, TINYI_STEP_SET, (int)(first + 1 - p->text), (int)(re - p->text));
    } else {
        if (*re == '\\' && ++re == p->end) p->wrong = "nothing stands behind its last \\";
        tinyi_pattern_put(p, p->n,
                          re > first   ? TINYI_STEP_CHARACTER
                          : *re == '.' ? TINYI_STEP_ANY
                          : *re == '^' ? TINYI_STEP_START
                          : *re == '$' ? TINYI_STEP_END
                                       : TINYI_STEP_CHARACTER,
                          re < p->end ? (unsigned char)*re : 0, 0);
    }
    return re + 1;
}

static void tinyi_pattern_repeat(tinyi_pattern *p, int piece, char how)
{
    const int n = p->n - piece;
    if (how == '+') tinyi_pattern_put(p, p->n, TINYI_STEP_EITHER, -n, 1);
    else tinyi_pattern_put(p, piece, TINYI_STEP_EITHER, 1, n + (how == '*' ? 2 : 1));
    if (how == '*') tinyi_pattern_put(p, p->n, TINYI_STEP_GO, -n - 1, 0);
}

/* Up to the closing bracket or the end of the pattern; returns that place. */
static const char *tinyi_pattern_alternatives(tinyi_pattern *p, const char *re, int depth)
{
    const int first = p->n;
    int jump = -1, piece = -1;              /* piece: what * + or ? would repeat; -1: nothing */
    while (re < p->end && !p->wrong && (*re != ')' || !depth)) {
        if (*re == ')') p->wrong = "a bracket is closed that was never opened";
        else if (*re == '*' || *re == '+' || *re == '?') {
            if (piece < 0) p->wrong = "nothing stands before * + or ?";
            else tinyi_pattern_repeat(p, piece, *re++);
            /* a lazy repeat matches in the same names */
            if (re < p->end && *re == '?') re++;
            piece = -1;
        } else if (*re == '|') {            /* the steps so far are one side, those that follow the other one */
            if (jump >= 0) p->at[jump].a = p->n - jump;
            tinyi_pattern_put(p, first, TINYI_STEP_EITHER, 1, p->n - first + 2);
            jump = p->n;
            tinyi_pattern_put(p, jump, TINYI_STEP_GO, 1, 0);
            piece = -1;
            re++;
        } else {
            piece = *re == '^' || *re == '$' ? -1 : p->n;
            re = tinyi_pattern_piece(p, re, depth);
        }
    }
    if (jump >= 0 && !p->wrong) p->at[jump].a = p->n - jump;
    return re;
}

const char *tinyi_pattern_compile(tinyi_pattern *p, const char *text, const char *end)
{
    p->n = 0;
    p->text = text;
    p->end = end;
    p->wrong = NULL;
    (void)tinyi_pattern_alternatives(p, text, 0);
    return p->wrong;
}

static int tinyi_pattern_takes(const tinyi_pattern *p, const tinyi_pattern_step *s, unsigned char c)
{
    const char *at = p->text + s->a, *const end = p->text + s->b;
    const int no = s->what == TINYI_STEP_SET && *at == '^';
    int in = 0;
    if (s->what != TINYI_STEP_SET) return s->what == TINYI_STEP_ANY || s->a == c;
    for (at += no; at < end; at++) {
        if (at + 2 < end && at[1] == '-') {
            in |= c >= (unsigned char)at[0] && c <= (unsigned char)at[2];
            at += 2;
        } else in |= c == (unsigned char)*at;
    }
    return in != no;
}

/* Adds the steps that take a character and can be reached from `from`, each once. 1: the end is one of them. */
static int tinyi_pattern_reach(const tinyi_pattern *p, int from, size_t at, size_t n_text, tinyi_pattern_places *w)
{
    const size_t side = at % 2;
    size_t *seen = w->seen[side];
    int k = 0, i, next[2];
    if (seen[from] == at + 1) return 0;
    seen[from] = at + 1;
    w->todo[k++] = from;
    while (k) {
        const int here = w->todo[--k];
        const tinyi_pattern_step *s = &p->at[here];
        if (here == p->n) return 1;
        next[0] = next[1] = -1;
        if (s->what == TINYI_STEP_EITHER || s->what == TINYI_STEP_GO) next[0] = here + s->a;
        if (s->what == TINYI_STEP_EITHER) next[1] = here + s->b;
        if ((s->what == TINYI_STEP_START && at == 0) || (s->what == TINYI_STEP_END && at == n_text)) next[0] = here + 1;
        if (s->what <= TINYI_STEP_SET) w->list[side][w->n[side]++] = here;
        for (i = 0; i < 2; i++)
            if (next[i] >= 0 && seen[next[i]] != at + 1) {
                seen[next[i]] = at + 1;
                w->todo[k++] = next[i];
            }
    }
    return 0;
}

int tinyi_pattern_matches(const tinyi_pattern *p, tllm_text name, tinyi_pattern_places *w)
{
    size_t at;
    int k;
    for (k = 0; k < 2; k++) memset(w->seen[k], 0, ((size_t)p->n + 1) * sizeof *w->seen[k]);
    w->n[0] = w->n[1] = 0;
    for (at = 0; at <= name.n; at++) {
        const size_t now = at % 2, then = 1 - now;
        if (tinyi_pattern_reach(p, 0, at, name.n, w)) return 1;
        w->n[then] = 0;
        for (k = 0; k < w->n[now] && at < name.n; k++)
            if (tinyi_pattern_takes(p, &p->at[w->list[now][k]], (unsigned char)name.at[at]) &&
                tinyi_pattern_reach(p, w->list[now][k] + 1, at + 1, name.n, w))
                return 1;
    }
    return 0;
}
