/* src/gnn/graph/words.c - reads and writes words and numbers of text files */
#include <stdio.h>
#include <string.h>
#include <math.h>                           /* INFINITY; no function of it is called */
#include "gnn/graph/words_inside.h"
#include "core/bytes.h"
#include "core/half_inside.h"

TINYI_FN tinyi_text_file tinyi_text_make(tiny_ctx *ctx, const char *path, const void *bytes, size_t n)
{
    tinyi_text_file f;
    f.ctx = ctx;
    f.path = path;
    f.at = (const unsigned char *)bytes;
    f.end = n ? f.at + n : f.at;
    f.line = 0;
    return f;
}

static int tinyi_text_gap(int c) { return c == ' ' || c == '\t' || c == ',' || c == '\r'; }

TINYI_FN size_t tinyi_text_bom(const unsigned char *bytes, size_t n)
{
    return n >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? 3 : 0;
}

TINYI_FN int tinyi_text_line(tinyi_text_file *f, const char *marks, tinyi_word *line)
{
    while (f->at < f->end) {
        const unsigned char *end = (const unsigned char *)memchr(f->at, '\n', (size_t)(f->end - f->at)), *p = f->at;
        if (!end) end = f->end;
        if (!f->line) p += tinyi_text_bom(p, (size_t)(end - p));
        f->at = end < f->end ? end + 1 : end;
        f->line++;
        while (p < end && tinyi_text_gap(*p)) p++;
        if (p == end || (*p && strchr(marks, *p))) continue;
        line->at = p;
        line->n = (size_t)(end - p);
        return 1;
    }
    return 0;
}

TINYI_FN int tinyi_word_next(tinyi_word *line, tinyi_word *word)
{
    while (line->n && tinyi_text_gap(*line->at)) {
        line->at++;
        line->n--;
    }
    word->at = line->at;
    word->n = 0;
    while (line->n && !tinyi_text_gap(*line->at)) {
        line->at++;
        line->n--;
        word->n++;
    }
    return word->n > 0;
}

TINYI_FN int tinyi_word_is(tinyi_word w, const char *text)
{
    size_t i;
    for (i = 0; i < w.n && text[i]; i++)
        if ((w.at[i] >= 'A' && w.at[i] <= 'Z' ? w.at[i] + 32 : w.at[i]) != text[i]) return 0;
    return i == w.n && !text[i];
}

TINYI_FN int tinyi_word_int(tinyi_word w, int64_t *v)
{
    int minus = w.n && *w.at == '-';
    uint64_t u = 0;
    size_t i = (size_t)(w.n && (*w.at == '-' || *w.at == '+'));
    if (i == w.n) return 0;
    for (; i < w.n; i++) {
        if (w.at[i] < '0' || w.at[i] > '9' || u > (UINT64_C(0x7fffffffffffffff) - 9) / 10) return 0;
        u = u * 10 + (uint64_t)(w.at[i] - '0');
    }
    *v = minus ? -(int64_t)u : (int64_t)u;
    return 1;
}

TINYI_FN int tinyi_word_float(tinyi_word w, float *v)
{
    static const double power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    int minus = w.n && *w.at == '-', digits = 0, seen = 0, e = 0, by = 0, e_minus = 0;
    uint64_t u = 0;
    double d;
    if (w.n && (*w.at == '-' || *w.at == '+')) {
        w.at++;
        w.n--;
    }
    if (tinyi_word_is(w, "inf") || tinyi_word_is(w, "infinity")) {
        *v = minus ? -INFINITY : INFINITY;
        return 1;
    }
    if (tinyi_word_is(w, "nan")) {
        *v = tinyi_bits_f32(0x7fc00000u);
        return 1;
    }
    for (; w.n && ((*w.at >= '0' && *w.at <= '9') || (*w.at == '.' && !(seen & 2))); w.at++, w.n--) {
        if (*w.at == '.') {
            seen |= 2;
            continue;
        }
        seen |= 1;
        if (digits < 18) {                  /* the others are below the last bit of a double */
            u = u * 10 + (uint64_t)(*w.at - '0');
            if (u) digits++;
            if (seen & 2) e--;
        } else if (!(seen & 2)) e++;
        if (e > 100000 || e < -100000) return 0;
    }
    if (!(seen & 1)) return 0;
    if (w.n && (*w.at == 'e' || *w.at == 'E')) {
        w.at++;
        w.n--;
        e_minus = w.n && *w.at == '-';
        if (w.n && (*w.at == '-' || *w.at == '+')) {
            w.at++;
            w.n--;
        }
        if (!w.n) return 0;
        for (; w.n && *w.at >= '0' && *w.at <= '9'; w.at++, w.n--)
            if (by < 100000) by = by * 10 + (*w.at - '0');
        e += e_minus ? -by : by;
    }
    if (w.n) return 0;
    d = (double)u;
    for (; u && e > 0 && d <= 1e300; e -= TINYI_MIN(e, 22)) d *= power[TINYI_MIN(e, 22)];
    for (; u && e < 0 && d > 0.0; e += TINYI_MIN(-e, 22)) d /= power[TINYI_MIN(-e, 22)];
    *v = d > 3.4028235677973366e38 ? INFINITY : (float)d;      /* halfway from the largest float to the next */
    if (minus) *v = -*v;
    return 1;
}

TINYI_FN size_t tinyi_word_of_float(float v, char text[TINYI_WORD_FLOAT])
{
    int k, n = 0, n_text = snprintf(text, TINYI_WORD_FLOAT, "%.9g", (double)v);
    if (!(v - v == 0.0f)) return (size_t)n_text;            /* inf and nan have no point */
    for (k = 0; k < n_text; k++) {          /* whatever the locale takes for a point becomes one */
        const int digit = (text[k] >= '0' && text[k] <= '9') || strchr("+-e", text[k]);
        if (digit || (n && text[n - 1] != '.')) text[n++] = digit ? text[k] : '.';
    }
    text[n] = 0;
    return (size_t)n;
}

static tiny_status tinyi_text_nodes(const tinyi_text_file *f, tinyi_word line, int two_sets, int32_t nodes[2])
{
    tinyi_word word, large;
    int64_t v[2];
    size_t i;
    int n = 0, k;
    large.n = 0;
    if (!tinyi_word_next(&line, &word) || !tinyi_word_is(word, "#") || !tinyi_word_next(&line, &word) ||
        !tinyi_word_is(word, "nodes"))
        return TINY_OK;
    while (n < (two_sets ? 2 : 1) && tinyi_word_next(&line, &word)) {
        for (i = 0; i < word.n && word.at[i] >= '0' && word.at[i] <= '9'; i++) {}
        /* more digits than any integer has, too */
        if (i == word.n && (!tinyi_word_int(word, &v[n]) || v[n] > 0x7fffffff)) large = word;
        else if (!tinyi_word_int(word, &v[n]) || v[n] < 0) return TINY_OK;
        n++;
    }
    if (!n || tinyi_word_next(&line, &word)) return TINY_OK;
    if (large.n) return tinyi_text_fail(f, large, "a number of nodes, at most 2147483647");
    for (k = 0; k < 2; k++) nodes[k] = TINYI_MAX(nodes[k], (int32_t)v[n > k ? k : 0]);
    return TINY_OK;
}

TINYI_FN int tinyi_text_edge_line(tinyi_text_file *f, tinyi_word *line, int two_sets, int32_t nodes[2], tiny_status *st)
{
    while (tinyi_text_line(f, "%", line)) {
        if (*line->at != '#') return 1;
        *st = tinyi_text_nodes(f, *line, two_sets, nodes);
        if (*st) return 0;
    }
    return 0;
}

TINYI_FN tiny_status tinyi_text_edge(const tinyi_text_file *f, tinyi_word line, int *weighted, int64_t v[2], float *w)
{
    tinyi_word word;
    int k;
    *w = 1.0f;
    for (k = 0; k < 2; k++)
        if (!tinyi_word_next(&line, &word) || !tinyi_word_int(word, &v[k]) || v[k] < 0 || v[k] > 0x7ffffffe)
            return tinyi_text_fail(f, word,
                                   k ? "the number of the destination, 0 to 2147483646"
                                     : "the number of the source, 0 to 2147483646");
    k = tinyi_word_next(&line, &word);
    if (*weighted < 0) *weighted = k;
    if (*weighted && (!k || !tinyi_word_float(word, w))) return tinyi_text_fail(f, word, "a weight");
    if ((!*weighted && k) || tinyi_word_next(&line, &word)) return tinyi_text_fail(f, word, "the end of the line");
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_text_fail(const tinyi_text_file *f, tinyi_word word, const char *wanted)
{
    char shown[TINYI_SHOW];
    if (!word.n)
        return tinyi_fail(f->ctx, TINY_E_FORMAT, "%s: line %lld ends, expected %s", f->path,
                          (long long)f->line, wanted);
    return tinyi_fail(f->ctx, TINY_E_FORMAT, "%s: line %lld: \"%s\", expected %s", f->path, (long long)f->line,
                      tinyi_show_bytes(word.at, word.n, shown), wanted);
}

TINYI_FN size_t tinyi_text_lines(const tinyi_text_file *f)
{
    const unsigned char *p = f->at;
    size_t n = 0;
    while (p < f->end) {
        const unsigned char *end = (const unsigned char *)memchr(p, '\n', (size_t)(f->end - p));
        n++;
        p = end ? end + 1 : f->end;
    }
    return n;
}
