/* src/core/doc/json.c
 *
 * Floats are read by strtod, with the point of the locale put in. */
#include "core/bytes.h"
#include "core/doc/json.h"
#include "core/state_inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tiny_status tinyi_json_fail(const tinyi_json *j, const char *wanted)
{
    if (j->at == j->end)
        return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: %s ends, expected %s", j->path, j->what, wanted);
    return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: byte %zu of %s is 0x%02x, expected %s", j->path,
                      (size_t)(j->at - j->start), j->what, *j->at, wanted);
}

void tinyi_json_space(tinyi_json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t')) j->at++;
}

int tinyi_json_is(tinyi_json *j, int c)
{
    tinyi_json_space(j);
    if (j->at == j->end || *j->at != c) return 0;
    j->at++;
    return 1;
}

static int tinyi_json_hex(const unsigned char *p, const unsigned char *end, unsigned *v)
{
    int i;
    *v = 0;
    if (end - p < 4) return 0;
    for (i = 0; i < 4; i++) {
        unsigned c = p[i], d = c >= '0' && c <= '9'   ? c - '0'
                               : c >= 'a' && c <= 'f' ? c - 'a' + 10
                               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                      : 16;
        if (d == 16) return 0;
        *v = *v << 4 | d;
    }
    return 1;
}

tiny_status tinyi_json_string(tinyi_json *j, tinyi_json_text *t, const char *wanted)
{
    if (!tinyi_json_is(j, '"')) return tinyi_json_fail(j, wanted);
    t->at = j->at;
    t->escapes = 0;
    for (;;) {
        size_t n;
        if (j->at == j->end) return tinyi_json_fail(j, "the end of the string");
        if (*j->at == '"') break;
        if (*j->at < 0x20) return tinyi_json_fail(j, "a printable character");
        if (*j->at == '\\') {
            t->escapes = 1;
            j->at++;
            if (j->at == j->end || !*j->at || !strchr("\"\\/bfnrtu", *j->at)) return tinyi_json_fail(j, "an escape");
            if (*j->at++ == 'u') {
                unsigned v, low;
                if (!tinyi_json_hex(j->at, j->end, &v)) return tinyi_json_fail(j, "four hexadecimal digits");
                j->at += 4;
                if (v >= 0xdc00 && v <= 0xdfff) return tinyi_json_fail(j, "the first half of a surrogate pair");
                if (v >= 0xd800 && v <= 0xdbff) {
                    if (j->end - j->at < 6 || j->at[0] != '\\' || j->at[1] != 'u' ||
                        !tinyi_json_hex(j->at + 2, j->end, &low) || low < 0xdc00 || low > 0xdfff)
                        return tinyi_json_fail(j, "the second half of a surrogate pair");
                    j->at += 6;
                }
            }
            continue;
        }
        n = tinyi_utf8_char(j->at, (size_t)(j->end - j->at));
        if (!n) return tinyi_json_fail(j, "valid UTF-8");
        j->at += n;
    }
    t->n = (size_t)(j->at - t->at);
    j->at++;
    return TINY_OK;
}

size_t tinyi_json_plain(unsigned char *to, size_t room, tinyi_json_text t)
{
    const unsigned char *p = t.at, *end = t.at + t.n;
    size_t n_all = 0;
    while (p < end) {
        unsigned char utf8[4];
        unsigned v, low;
        size_t n;
        if (*p != '\\') {
            if (to && n_all < room) to[n_all] = *p;
            n_all++;
            p++;
            continue;
        }
        p += 2;
        switch (p[-1]) {
        case 'b': v = '\b'; break;
        case 'f': v = '\f'; break;
        case 'n': v = '\n'; break;
        case 'r': v = '\r'; break;
        case 't': v = '\t'; break;
        case 'u':
            (void)tinyi_json_hex(p, end, &v);
            p += 4;
            if (v >= 0xd800 && v <= 0xdbff) {
                (void)tinyi_json_hex(p + 2, end, &low);
                v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
                p += 6;
            }
            break;
        default: v = p[-1];
        }
        n = tinyi_utf8_put(v, utf8);
        if (to && n_all < room && n <= room - n_all) memcpy(to + n_all, utf8, n);
        n_all += n;
    }
    return n_all;
}

int tinyi_json_text_is(tinyi_json_text t, const char *s)
{
    return !t.escapes && strlen(s) == t.n && !memcmp(t.at, s, t.n);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* how the locale writes the point of a number; returns its bytes */
static size_t tinyi_json_point(char point[8])
{
    char half[16];
    int n = snprintf(half, sizeof half, "%.1f", 0.5);
    size_t k = n > 2 && n < 9 ? (size_t)n - 2 : 1;
    memcpy(point, half + 1, k);
    return k;
}

int tinyi_json_f64(const char *s, size_t n, double *f)
{
    char text[TINYI_JSON_NUMBER + 16], point[8], *end;
    size_t i, k = 0, n_point = tinyi_json_point(point), digits = 0;
    if (!n || n > TINYI_JSON_NUMBER) return 0;
    for (i = 0; i < n; i++) {
        char c = s[i];
        if (c >= '0' && c <= '9') digits++;
        else if (!(c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-')) return 0;
        if (c == '.') {
            if (k + n_point >= sizeof text - 1) return 0;
            memcpy(text + k, point, n_point);
            k += n_point;
        } else {
            if (k >= sizeof text - 1) return 0;
            text[k++] = c;
        }
    }
    text[k] = 0;
    if (!digits) return 0;
    *f = strtod(text, &end);
    return *end == 0;
}

/* behind the digits at *p; 0 when there are none */
static int tinyi_json_digits(const tinyi_json *j, const unsigned char **p)
{
    const unsigned char *first = *p;
    while (*p < j->end && **p >= '0' && **p <= '9') ++*p;
    return *p > first;
}

/* summed up below zero, where there is room for one more */
static int tinyi_json_whole(const unsigned char *p, const unsigned char *end, int64_t *v)
{
    const int minus = *p == '-';
    int64_t i = 0;
    for (p += minus; p < end; p++) {
        if (i < (INT64_MIN + (*p - '0')) / 10) return 0;
        i = i * 10 - (*p - '0');
    }
    if (!minus && i == INT64_MIN) return 0;
    *v = minus ? i : -i;
    return 1;
}

static tiny_status tinyi_json_number(tinyi_json *j, tinyi_json_item *item)
{
    const unsigned char *p = j->at, *first;
    item->type = TINYI_JSON_INT;
    if (p < j->end && *p == '-') p++;
    first = p;
    if (!tinyi_json_digits(j, &p) || (*first == '0' && p - first > 1)) return tinyi_json_fail(j, "a value");
    if (p < j->end && *p == '.') {
        item->type = TINYI_JSON_FLOAT;
        p++;
        if (!tinyi_json_digits(j, &p)) { j->at = p; return tinyi_json_fail(j, "a digit"); }
    }
    if (p < j->end && (*p == 'e' || *p == 'E')) {
        item->type = TINYI_JSON_FLOAT;
        p++;
        if (p < j->end && (*p == '+' || *p == '-')) p++;
        if (!tinyi_json_digits(j, &p)) { j->at = p; return tinyi_json_fail(j, "a digit"); }
    }
    if (item->type == TINYI_JSON_INT) {
        if (!tinyi_json_whole(j->at, p, &item->i)) return tinyi_json_fail(j, "a whole number of 64 bits");
    } else if (!tinyi_json_f64((const char *)j->at, (size_t)(p - j->at), &item->f)) {
        return tinyi_json_fail(j, "a number of at most 400 characters");
    }
    j->at = p;
    return TINY_OK;
}

/* ---- a walk ------------------------------------------------------------------------------------------------------ */

enum { TINYI_JSON_WANTS_VALUE, TINYI_JSON_OPENED, TINYI_JSON_AFTER };

tiny_status tinyi_json_begin(tinyi_json_walk *w, tiny_ctx *ctx, const char *path, const char *what, const void *bytes,
                             size_t n, size_t most)
{
    memset(w, 0, sizeof *w);
    w->j.ctx = ctx;
    w->j.path = path;
    w->j.what = what;
    w->j.start = w->j.at = (const unsigned char *)bytes;
    w->j.end = w->j.start + n;
    return n <= most
               ? TINY_OK
               : tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: %s has %zu bytes; the longest has %zu", path, what, n, most);
}

static int tinyi_json_word(tinyi_json *j, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(j->end - j->at) < n || memcmp(j->at, word, n)) return 0;
    j->at += n;
    return 1;
}

static tiny_status tinyi_json_value(tinyi_json_walk *w, tinyi_json_item *item)
{
    tinyi_json *j = &w->j;
    int c;
    tinyi_json_space(j);
    c = j->at < j->end ? *j->at : -1;
    w->state = TINYI_JSON_AFTER;
    if (c == '{' || c == '[') {
        j->at++;
        if (w->depth == TINYI_JSON_NEST)
            return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: byte %zu of %s: nested more than %d deep", j->path,
                              (size_t)(j->at - j->start), j->what, TINYI_JSON_NEST);
        item->type = c == '{' ? TINYI_JSON_MAP : TINYI_JSON_LIST;
        w->is_map[w->depth++] = c == '{';
        w->state = TINYI_JSON_OPENED;
        return TINY_OK;
    }
    if (c == '"') {
        item->type = TINYI_JSON_TEXT;
        return tinyi_json_string(j, &item->text, "a value");
    }
    item->i = c == 't';
    item->type = TINYI_JSON_BOOL;
    if (tinyi_json_word(j, "true") || tinyi_json_word(j, "false")) return TINY_OK;
    item->type = TINYI_JSON_NULL;
    return tinyi_json_word(j, "null") ? TINY_OK : tinyi_json_number(j, item);
}

tiny_status tinyi_json_next(tinyi_json_walk *w, tinyi_json_item *item)
{
    tinyi_json *j = &w->j;
    const int in_map = w->depth && w->is_map[w->depth - 1];
    tiny_status st = TINY_OK;
    memset(item, 0, sizeof *item);
    item->depth = w->depth;
    if (w->state == TINYI_JSON_AFTER && !w->depth) {
        tinyi_json_space(j);
        item->type = TINYI_JSON_END;
        return j->at == j->end ? TINY_OK : tinyi_json_fail(j, "the end");
    }
    if (w->state != TINYI_JSON_WANTS_VALUE && !(w->state == TINYI_JSON_AFTER && tinyi_json_is(j, ','))) {
        if (tinyi_json_is(j, in_map ? '}' : ']')) {
            item->type = TINYI_JSON_CLOSE;
            item->depth = --w->depth;
            w->state = TINYI_JSON_AFTER;
            return TINY_OK;
        }
        if (w->state == TINYI_JSON_AFTER) return tinyi_json_fail(j, in_map ? "',' or '}'" : "',' or ']'");
    }
    if (in_map) {
        st = tinyi_json_string(j, &item->key, "a key in quotes");
        if (!st && !tinyi_json_is(j, ':')) st = tinyi_json_fail(j, "':'");
    }
    return st ? st : tinyi_json_value(w, item);
}
