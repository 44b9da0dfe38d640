/* src/llm/chat/words.c - words inside tags: names, strings, numbers, marks */
#include "llm/chat/parse_inside.h"
#include "llm/chat/builtin_inside.h"
#include "core/doc/json.h"
#include "llm/token/unicode.h"
#include <string.h>

static int tinyi_parse_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static int tinyi_parse_digit(int c) { return c >= '0' && c <= '9'; }
TINYI_FN int tinyi_parse_blank(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
TINYI_FN int tinyi_parse_peek(const tinyi_tparse *p, size_t i) { return i < p->n ? (unsigned char)p->s[i] : -1; }

static unsigned tinyi_parse_hex(const char *s, size_t n, int *ok)
{
    unsigned v = 0, d;
    for (; n; n--, s++) {
        unsigned c = (unsigned char)*s;
        d = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : 16;
        if (d == 16) *ok = 0;
        v = v << 4 | d;
    }
    return v;
}

static int tinyi_parse_string(tinyi_tparse *p)
{
    char quote = p->s[p->at];
    size_t from = p->at + 1, i = from, start = p->m->n_out;
    int escapes = 0;
    while (i < p->n && p->s[i] != quote) {
        if (p->s[i] == '\\') { escapes = 1; i++; }
        i++;
    }
    if (i >= p->n) return tinyi_parse_fail_at(p, p->at, "a string without its closing quote");
    p->tok.kind = TINYI_TOKEN_STRING;
    p->tok.n = i + 1 - p->at;
    p->at = i + 1;
    p->tok.v = tinyi_tv_view(p->s + from, i - from);
    if (!escapes) return 1;
    for (; from < i; from++) {
        static const char plain[] = "n\nt\tr\rb\bf\fv\va\a\\\\''\"\"";
        unsigned char utf8[4];
        const char *f;
        char c = p->s[from];
        size_t hex;
        if (c != '\\') { (void)tinyi_doc_put(p->m, &c, 1); continue; }
        c = p->s[++from];
        if (c == '\n') continue;
        hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        for (f = plain; *f && *f != c; f += 2) {}
        if (*f && c) {
            (void)tinyi_doc_put(p->m, f + 1, 1);
        } else if (hex || (c >= '0' && c <= '7')) {
            int ok = 1;
            uint32_t code = 0;
            if (hex) {
                if (i - from - 1 < hex) ok = 0;
                else code = tinyi_parse_hex(p->s + from + 1, hex, &ok);
                from += ok ? hex : 0;
            } else {
                size_t k;
                for (k = 0; k < 3 && from + k < i && p->s[from + k] >= '0' && p->s[from + k] <= '7'; k++)
                    code = code * 8 + (uint32_t)(p->s[from + k] - '0');
                from += k - 1;
            }
            if (!ok || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
                return tinyi_parse_fail_at(p, p->tok.pos, "a string with an invalid escape");
            (void)tinyi_doc_put(p->m, (const char *)utf8, tinyi_utf8_put(code, utf8));
        } else {
            (void)tinyi_doc_put(p->m, "\\", 1);
            (void)tinyi_doc_put(p->m, &c, 1);
        }
    }
    p->tok.v = tinyi_doc_take(p->m, start);
    return !p->m->status;
}

static int tinyi_parse_number(tinyi_tparse *p)
{
    size_t i = p->at, k = 0;
    char text[420];
    int whole = 1, base = 10;
    int c = tinyi_parse_peek(p, i + 1);
    uint64_t v = 0;
    p->tok.kind = TINYI_TOKEN_NUMBER;
    if (p->s[i] == '0' && (c == 'x' || c == 'X' || c == 'b' || c == 'B' || c == 'o' || c == 'O')) {
        base = c == 'x' || c == 'X' ? 16 : c == 'o' || c == 'O' ? 8 : 2;
        i += 2;
    }
    for (; i < p->n && k < sizeof text - 1; i++) {
        c = (unsigned char)p->s[i];
        if (c == '_' && i > p->at) continue;
        if (base == 10 && whole && c == '.' && tinyi_parse_digit(tinyi_parse_peek(p, i + 1))) whole = 0;
        else if (base == 10 && (c == 'e' || c == 'E') && !memchr(text, 'e', k)) {
            int next = tinyi_parse_peek(p, i + 1), sign = next == '+' || next == '-';
            if (!tinyi_parse_digit(sign ? tinyi_parse_peek(p, i + 2) : next)) break;
            whole = 0;
            text[k++] = 'e';
            if (sign && k < sizeof text - 1) text[k++] = (char)p->s[++i];
            continue;
        } else if (!(base == 16 ? tinyi_parse_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f')
                                : c >= '0' && c < '0' + base))
            break;
        text[k++] = (char)c;
    }
    p->tok.n = i - p->at;
    p->at = i;
    if (!whole) {
        double f = 0;
        if (!tinyi_json_f64(text, k, &f))
            return tinyi_parse_fail_at(p, p->tok.pos, "a number of more than 400 characters");
        p->tok.v = tinyi_tv_float(f);
        return 1;
    }
    for (i = 0; i < k; i++) {
        unsigned d = tinyi_parse_digit(text[i]) ? (unsigned)(text[i] - '0') : (unsigned)((text[i] | 32) - 'a' + 10);
        if (v > ((uint64_t)INT64_MAX - d) / (unsigned)base)
            return tinyi_parse_fail_at(p, p->tok.pos, "a whole number of 2^63 or more");
        v = v * (unsigned)base + d;
    }
    p->tok.v = tinyi_tv_int((int64_t)v);
    return 1;
}

/* Takes the next word; the end of the tag is one, after which p->at is after it and after what its sign takes. */
TINYI_FN int tinyi_parse_next(tinyi_tparse *p)
{
    int c, c2;
    char closing = p->variable ? '}' : '%';
    if (p->m->status) return 0;
    while (p->at < p->n && tinyi_parse_blank((unsigned char)p->s[p->at])) p->at++;
    p->tok.pos = p->at;
    p->tok.s = p->s + p->at;
    p->tok.n = 0;
    p->tok.mark = p->tok.trim = 0;
    p->m->pos = p->at;
    if (p->at >= p->n)
        return tinyi_parse_fail_at(
            p, p->n, p->variable ? "the template ends inside {{ }}" : "the template ends inside {% %}");
    c = (unsigned char)p->s[p->at];
    c2 = tinyi_parse_peek(p, p->at + 1);
    if (!p->brackets) {
        size_t i = p->at + ((c == '-' || (c == '+' && !p->variable)) ? 1 : 0);
        if (tinyi_parse_peek(p, i) == closing && tinyi_parse_peek(p, i + 1) == '}') {
            p->tok.kind = TINYI_TOKEN_END;
            p->tok.trim = i > p->at ? c : 0;
            p->tok.n = i + 2 - p->at;
            p->at = i + 2;
            if (p->tok.trim == '-') while (p->at < p->n && tinyi_parse_blank((unsigned char)p->s[p->at])) p->at++;
            else if (!p->tok.trim && !p->variable && tinyi_parse_peek(p, p->at) == '\n') p->at++;
            p->line_start = p->s[p->at - 1] == '\n';
            return 1;
        }
    }
    if (tinyi_parse_letter(c) || c >= 0x80) {
        while (p->at < p->n && (tinyi_parse_letter((unsigned char)p->s[p->at]) || tinyi_parse_digit(p->s[p->at]) ||
                                (unsigned char)p->s[p->at] >= 0x80))
            p->at++;
        p->tok.kind = TINYI_TOKEN_NAME;
        p->tok.n = p->at - p->tok.pos;
        return tinyi_doc_work(p->m, 1);
    }
    if (tinyi_parse_digit(c)) return tinyi_parse_number(p);
    if (c == '"' || c == '\'') return tinyi_parse_string(p);
    p->tok.kind = TINYI_TOKEN_MARK;
    p->tok.n = 1;
    p->tok.mark = c;
    if ((c == '/' || c == '*') && c2 == c) p->tok.n = 2;
    if ((c == '=' || c == '!' || c == '<' || c == '>') && c2 == '=') p->tok.n = 2;
    if (p->tok.n == 2) p->tok.mark = c | c2 << 8;
    else if (!c || !strchr("+-*/%~<>=.:|,()[]{}", c)) return tinyi_parse_unexpected(p, "a word of the language");
    if (c == '(' || c == '[' || c == '{') p->brackets++;
    if ((c == ')' || c == ']' || c == '}') && p->brackets) p->brackets--;
    p->at += p->tok.n;
    return 1;
}

TINYI_FN int tinyi_parse_is(const tinyi_tparse *p, const char *word)
{
    return !p->m->status && p->tok.kind == TINYI_TOKEN_NAME && strlen(word) == p->tok.n &&
           !memcmp(p->tok.s, word, p->tok.n);
}
TINYI_FN int tinyi_parse_mark(const tinyi_tparse *p, int mark)
{
    return !p->m->status && p->tok.kind == TINYI_TOKEN_MARK && p->tok.mark == mark;
}
TINYI_FN int tinyi_parse_take(tinyi_tparse *p, int mark, const char *wanted)
{
    if (!tinyi_parse_mark(p, mark)) return tinyi_parse_unexpected(p, wanted);
    return tinyi_parse_next(p);
}
