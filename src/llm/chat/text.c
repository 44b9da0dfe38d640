/* src/llm/chat/text.c
 *
 * upper, lower, title and capitalize handle the Unicode letters with exactly one counterpart, and the German sharp s.
 * Searches compare byte by byte; their work counts against the step limit. */
#include "llm/chat/text_inside.h"
#include "llm/token/unicode.h"
#include <stdio.h>
#include <string.h>

size_t tinyi_string_char(const tinyi_tv *v, size_t i, uint32_t *c)
{
    return tinyi_utf8_get((const unsigned char *)v->u.s + i, v->n - i, c);
}
int tinyi_string_space(uint32_t c)
{
    return (c >= 0x1c && c <= 0x1f) || c == 0x85 || (tinyi_unicode_class(c) & TINYI_UC_SPACE) != 0;
}
static uint32_t tinyi_string_upper(uint32_t c)
{
    static const short off[] = { 32, 1, 80, 48, 26, 16, -8, 8, 37, 38, 63, 64, -121, 743 };
    size_t i;
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
    if (c == 0xb5) return 0x39c;
    if (c == 0x3c2) return 0x3a3;
    for (i = 0; i < TINYI_COUNT(off); i++) {
        uint32_t u = (uint32_t)((int32_t)c - off[i]);
        if (u < 0x110000 && u != c && tinyi_unicode_lower(u) == c) return u;
    }
    return c;
}
static void tinyi_string_put(tinyi_doc *m, uint32_t c, const char *as_it_is, size_t n, int up)
{
    unsigned char utf8[4];
    uint32_t to = up > 0 ? tinyi_string_upper(c) : up < 0 ? tinyi_unicode_lower(c) : c;
    if (up > 0 && c == 0xdf) (void)tinyi_doc_put(m, "SS", 2);
    else if (to == c) (void)tinyi_doc_put(m, as_it_is, n);
    else (void)tinyi_doc_put(m, (const char *)utf8, tinyi_utf8_put(to, utf8));
}
int tinyi_string_cased(uint32_t c)
{
    return tinyi_unicode_lower(c) != c ? 1 : tinyi_string_upper(c) != c || c == 0xdf ? -1 : 0;
}

tinyi_tv tinyi_string_case(tinyi_doc *m, const tinyi_tv *v, int how)
{
    size_t i, n, start = m->n_out;
    int first = 1;
    if (!tinyi_doc_work(m, v->n)) return tinyi_tv_view("", 0);
    for (i = 0; i < v->n && !m->status; i += n) {
        uint32_t c;
        n = tinyi_string_char(v, i, &c);
        tinyi_string_put(m, c, v->u.s + i, n,
                         how == TINYI_CASE_UPPER   ? 1
                         : how == TINYI_CASE_LOWER ? -1
                         : first                   ? 1
                                                   : -1);
        if (how == TINYI_CASE_CAPITALIZE) first = 0;
        else if (how == TINYI_CASE_TITLE) first = !tinyi_string_cased(c);
        else first = c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || tinyi_string_space(c);
    }
    return tinyi_doc_take(m, start);
}

static int tinyi_string_has(const tinyi_tv *set, uint32_t c)
{
    size_t i, n;
    for (i = 0; i < set->n; i += n) {
        uint32_t x;
        n = tinyi_string_char(set, i, &x);
        if (x == c) return 1;
    }
    return 0;
}
/* side: 1 left, 2 right, 3 both; set NULL: white space */
tinyi_tv tinyi_string_strip(tinyi_doc *m, tinyi_tv v, const tinyi_tv *set, int side)
{
    uint32_t c;
    size_t n;
    while ((side & 1) && v.n) {
        n = tinyi_string_char(&v, 0, &c);
        if (!(set ? tinyi_string_has(set, c) : tinyi_string_space(c)) || !tinyi_doc_work(m, 1 + (set ? set->n : 0)))
            break;
        v.u.s += n;
        v.n -= n;
    }
    while ((side & 2) && v.n) {
        size_t at = v.n - 1;
        while (at && v.n - at < 4 && ((unsigned char)v.u.s[at] & 0xc0) == 0x80) at--;
        n = tinyi_string_char(&v, at, &c);
        if (at + n != v.n) { at = v.n - 1; c = TINYI_REPLACEMENT; }
        if (!(set ? tinyi_string_has(set, c) : tinyi_string_space(c)) || !tinyi_doc_work(m, 1 + (set ? set->n : 0)))
            break;
        v.n = at;
    }
    return v;
}

size_t tinyi_string_length(tinyi_doc *m, const tinyi_tv *v)
{
    size_t i, count = 0;
    uint32_t c;
    (void)tinyi_doc_work(m, v->n / 8);
    for (i = 0; i < v->n; count++) i += (unsigned char)v->u.s[i] < 0x80 ? 1 : tinyi_string_char(v, i, &c);
    return count;
}
size_t tinyi_string_words(tinyi_doc *m, const tinyi_tv *v)
{
    size_t i, n, words = 0;
    int inside = 0;
    (void)tinyi_doc_work(m, v->n);
    for (i = 0; i < v->n; i += n) {
        uint32_t c;
        unsigned kind;
        int word;
        n = tinyi_string_char(v, i, &c);
        kind = tinyi_unicode_class(c) & (TINYI_UC_SPACE - 1u);
        word = kind == TINYI_UC_L || kind == TINYI_UC_N || c == '_';
        words += word && !inside;
        inside = word;
    }
    return words;
}
/* where character number k starts */
size_t tinyi_string_place(const tinyi_tv *v, size_t k)
{
    size_t i;
    uint32_t c;
    for (i = 0; i < v->n && k; k--) i += (unsigned char)v->u.s[i] < 0x80 ? 1 : tinyi_string_char(v, i, &c);
    return i;
}

/* the place of b in a from there on, or a->n + 1 */
size_t tinyi_string_find(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b, size_t from)
{
    size_t i = from;
    if (!b->n) return from <= a->n ? from : a->n + 1;
    (void)tinyi_doc_work(m, 1);
    while (i < a->n && b->n <= a->n - i) {
        const char *p = (const char *)memchr(a->u.s + i, b->u.s[0], a->n - i - b->n + 1);
        if (!p || !tinyi_doc_work(m, 1 + b->n / 16 + (size_t)(p - a->u.s - (ptrdiff_t)i) / 16)) break;
        i = (size_t)(p - a->u.s);
        if (!memcmp(p, b->u.s, b->n)) return i;
        i++;
    }
    return a->n + 1;
}
size_t tinyi_string_find_last(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b, size_t end)
{
    size_t i;
    if (b->n > end) return a->n + 1;
    for (i = end - b->n + 1; i-- > 0;)
        if (!tinyi_doc_work(m, 1 + b->n / 16)) break;
        else if (!memcmp(a->u.s + i, b->u.s, b->n)) return i;
    return a->n + 1;
}

tinyi_tv tinyi_string_part(const tinyi_tv *v, size_t from, size_t to)
{
    return tinyi_tv_view(v->u.s + from, to - from);
}

tinyi_tv tinyi_string_split(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *sep, int64_t most)
{
    tinyi_tv list = tinyi_tv_list(m, 0);
    size_t i = 0, n, from;
    uint32_t c;
    if (m->status || !tinyi_doc_work(m, v->n / 8)) return list;
    if (sep) {
        if (!sep->n) { (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "split by an empty string"); return list; }
        for (from = 0; !m->status && most != 0; most -= most > 0) {
            i = tinyi_string_find(m, v, sep, from);
            if (i > v->n) break;
            (void)tinyi_list_add(m, list.u.list, tinyi_string_part(v, from, i));
            from = i + sep->n;
        }
        (void)tinyi_list_add(m, list.u.list, tinyi_string_part(v, from, v->n));
        return list;
    }
    while (!m->status) {
        while (i < v->n && (n = tinyi_string_char(v, i, &c), tinyi_string_space(c))) i += n;
        if (i >= v->n) break;
        if (most == 0) {
            tinyi_tv rest = tinyi_string_part(v, i, v->n);
            (void)tinyi_list_add(m, list.u.list, rest);
            break;
        }
        most -= most > 0;
        from = i;
        while (i < v->n && (n = tinyi_string_char(v, i, &c), !tinyi_string_space(c))) i += n;
        (void)tinyi_list_add(m, list.u.list, tinyi_string_part(v, from, i));
    }
    return list;
}
tinyi_tv tinyi_string_rsplit(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *sep, int64_t most)
{
    tinyi_tv list = tinyi_tv_list(m, 0);
    size_t end = v->n, i;
    if (m->status) return list;
    if (!sep || most < 0) return tinyi_string_split(m, v, sep, sep ? most : -1);
    if (!sep->n) { (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "split by an empty string"); return list; }
    for (; most > 0 && !m->status; most--) {
        i = tinyi_string_find_last(m, v, sep, end);
        if (i > v->n) break;
        (void)tinyi_list_add(m, list.u.list, tinyi_string_part(v, i + sep->n, end));
        end = i;
    }
    (void)tinyi_list_add(m, list.u.list, tinyi_string_part(v, 0, end));
    for (i = 0; !m->status && i < list.u.list->n / 2; i++) {
        tinyi_tv t = list.u.list->item[i];
        list.u.list->item[i] = list.u.list->item[list.u.list->n - 1 - i];
        list.u.list->item[list.u.list->n - 1 - i] = t;
    }
    return list;
}

tinyi_tv tinyi_string_replace(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *old, const tinyi_tv *with, int64_t most)
{
    size_t start = m->n_out, from = 0, i;
    uint32_t c;
    if (most == 0) return *v;
    if (!old->n) {
        for (i = 0; !m->status; most -= most > 0) {
            size_t n;
            if (most) (void)tinyi_doc_put(m, with->u.s, with->n);
            if (i >= v->n || !tinyi_doc_work(m, 1)) break;
            n = tinyi_string_char(v, i, &c);
            if (!most) n = v->n - i;
            (void)tinyi_doc_put(m, v->u.s + i, n);
            i += n;
            if (!most) break;
        }
        return tinyi_doc_take(m, start);
    }
    for (; !m->status && most != 0; most -= most > 0) {
        i = tinyi_string_find(m, v, old, from);
        if (i > v->n) break;
        (void)tinyi_doc_put(m, v->u.s + from, i - from);
        (void)tinyi_doc_put(m, with->u.s, with->n);
        from = i + old->n;
    }
    if (!from) return *v;
    (void)tinyi_doc_put(m, v->u.s + from, v->n - from);
    return tinyi_doc_take(m, start);
}

tinyi_tv tinyi_string_join(tinyi_doc *m, const tinyi_tv *mark, const tinyi_tlist *list)
{
    size_t start = m->n_out, i;
    for (i = 0; i < list->n && !m->status; i++) {
        if (i) (void)tinyi_doc_put(m, mark->u.s, mark->n);
        (void)tinyi_tv_put(m, &list->item[i]);
        (void)tinyi_doc_work(m, 1);
    }
    return tinyi_doc_take(m, start);
}

tinyi_tv tinyi_string_pad(tinyi_doc *m, const tinyi_tv *v, int64_t width, const char *fill, size_t n_fill, int side)
{
    size_t start = m->n_out, n = tinyi_string_length(m, v), more, left, i;
    if (width <= 0 || (uint64_t)width <= n) return *v;
    if ((uint64_t)width > m->max_out) {
        (void)tinyi_doc_fail(m, TINY_E_WORKSPACE, "a string of %lld characters; the limit is %zu bytes",
                             (long long)width, m->max_out);
        return *v;
    }
    more = (size_t)width - n;
    left = side == 0 ? 0 : side == 1 ? more : more / 2 + (more & (size_t)width & 1);
    if (side == 3) {                        /* zfill: after the sign */
        size_t sign = v->n && (v->u.s[0] == '-' || v->u.s[0] == '+');
        (void)tinyi_doc_put(m, v->u.s, sign);
        for (i = 0; i < more && !m->status; i++) (void)tinyi_doc_put(m, "0", 1);
        (void)tinyi_doc_put(m, v->u.s + sign, v->n - sign);
        return tinyi_doc_take(m, start);
    }
    for (i = 0; i < left && tinyi_doc_work(m, 1); i++) (void)tinyi_doc_put(m, fill, n_fill);
    (void)tinyi_doc_put(m, v->u.s, v->n);
    for (i = left; i < more && tinyi_doc_work(m, 1); i++) (void)tinyi_doc_put(m, fill, n_fill);
    return tinyi_doc_take(m, start);
}

tinyi_tv tinyi_template_repeat(tinyi_doc *m, const tinyi_tv *v, int64_t times)
{
    size_t start = m->n_out, n = v->type == TINYI_DOC_STRING ? v->n : v->u.list->n, i;
    tinyi_tv list;
    if (times < 0) times = 0;
    if (n && (uint64_t)times > (v->type == TINYI_DOC_STRING ? m->max_out : m->max_held / sizeof *v) / n) {
        (void)tinyi_doc_fail(
            m, TINY_E_WORKSPACE, "%s of %zu items repeated %lld times exceeds the limit of %zu bytes",
            tinyi_tv_type_name(v), n, (long long)times, v->type == TINYI_DOC_STRING ? m->max_out : m->max_held);
        return *v;
    }
    if (v->type == TINYI_DOC_STRING) {
        for (; n && times > 0 && tinyi_doc_work(m, 1); times--) (void)tinyi_doc_put(m, v->u.s, n);
        return tinyi_doc_take(m, start);
    }
    list = tinyi_tv_list(m, n * (size_t)times);
    list.id = v->id;
    for (; n && times > 0 && !m->status; times--)
        for (i = 0; i < n && !m->status; i++) (void)tinyi_list_add(m, list.u.list, v->u.list->item[i]);
    return list;
}

/* %s %d %i %r %f %x %%, with -, 0, a width and a precision */
tinyi_tv tinyi_template_format(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *arg, size_t n)
{
    size_t start = m->n_out, i = 0, k = 0, mark;
    tinyi_tv made;
    for (i = 0; i < v->n && tinyi_doc_work(m, 1); i++) {
        const char *p = (const char *)memchr(v->u.s + i, '%', v->n - i);
        size_t at = p ? (size_t)(p - v->u.s) : v->n;
        int left = 0, zero = 0, digits = -1, width = 0;
        char text[480], form[24];
        (void)tinyi_doc_put(m, v->u.s + i, at - i);
        if (!p) break;
        for (i = at + 1; i < v->n && (v->u.s[i] == '-' || v->u.s[i] == '0'); i++)
            *(v->u.s[i] == '-' ? &left : &zero) = 1;
        for (; i < v->n && v->u.s[i] >= '0' && v->u.s[i] <= '9' && width < 1000; i++)
            width = width * 10 + (v->u.s[i] - '0');
        if (i < v->n && v->u.s[i] == '.')
            for (digits = 0, i++; i < v->n && v->u.s[i] >= '0' && v->u.s[i] <= '9' && digits < 10; i++)
                digits = digits * 10 + (v->u.s[i] - '0');
        if (i < v->n && v->u.s[i] == '%') { (void)tinyi_doc_put(m, "%", 1); continue; }
        if (i >= v->n || !strchr("sdirfx", v->u.s[i])) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%% must be followed by one of s d i r f x %%");
            break;
        }
        if (k >= n) { (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "a format with more fields than values"); break; }
        mark = m->n_out;
        if (v->u.s[i] == 's') (void)tinyi_tv_put(m, &arg[k]);
        else if (v->u.s[i] == 'r') (void)tinyi_tv_put_repr(m, &arg[k]);
        else {
            double f = 0;
            if (!tinyi_tv_number(&arg[k], &f)) {
                (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%%%c formats numbers, not %s", v->u.s[i],
                                     tinyi_tv_type_name(&arg[k]));
                break;
            }
            if (v->u.s[i] == 'f') {
                (void)snprintf(form, sizeof form, "%%.%df", digits < 0 ? 6 : digits);
                (void)snprintf(text, sizeof text, form, f);
            } else {
                int64_t whole = arg[k].type == TINYI_DOC_FLOAT ? (f > -9e18 && f < 9e18 ? (int64_t)f : 0) : arg[k].u.i;
                (void)snprintf(text, sizeof text, v->u.s[i] == 'x' ? "%llx" : "%lld", (long long)whole);
            }
            (void)tinyi_doc_put(m, text, strlen(text));
        }
        made = tinyi_doc_take(m, mark);
        made = tinyi_string_pad(m, &made, width, " ", 1,
                                left                                           ? 0
                                : zero && v->u.s[i] != 's' && v->u.s[i] != 'r' ? 3
                                                                               : 1);
        (void)tinyi_doc_put(m, made.u.s, made.n);
        k++;
    }
    return tinyi_doc_take(m, start);
}

/* "{} {0} {name}".format(...) without forms after a colon */
tinyi_tv tinyi_string_braces(tinyi_doc *m, const tinyi_tv *v, tinyi_targs *a)
{
    size_t start = m->n_out, i, from = 0;
    int turn = 0, k;
    for (i = 0; i < v->n && tinyi_doc_work(m, 1); i++) {
        char c = v->u.s[i];
        size_t end;
        tinyi_tv x = tinyi_tv_of(TINYI_DOC_UNDEFINED), name;
        if (c != '{' && c != '}') continue;
        (void)tinyi_doc_put(m, v->u.s + from, i - from);
        if (i + 1 < v->n && v->u.s[i + 1] == c) { (void)tinyi_doc_put(m, &c, 1); from = ++i + 1; continue; }
        end = i + 1;
        while (end < v->n && v->u.s[end] != '}') end++;
        name = tinyi_string_part(v, i + 1, end < v->n ? end : i + 1);
        if (c == '}' || end >= v->n || memchr(name.u.s, ':', name.n) || memchr(name.u.s, '!', name.n) ||
            memchr(name.u.s, '.', name.n) || memchr(name.u.s, '[', name.n)) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "format takes {}, {0} and {name} only");
            break;
        }
        if (!name.n || (name.u.s[0] >= '0' && name.u.s[0] <= '9')) {
            size_t d = 0;
            int at = name.n ? 0 : turn++;
            for (d = 0; d < name.n && at < 1000 && name.u.s[d] >= '0' && name.u.s[d] <= '9'; d++)
                at = at * 10 + (name.u.s[d] - '0');
            if ((name.n && d < name.n) || at >= a->n) {
                (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "a format with more fields than values");
                break;
            }
            x = a->arg[at];
        } else {
            for (k = 0; k < a->n_named; k++)
                if (a->named[2 * k].n == name.n && !memcmp(a->named[2 * k].u.s, name.u.s, name.n)) {
                    x = a->named[2 * k + 1];
                    break;
                }
            if (k == a->n_named) {
                (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "a format with a name that has no value");
                break;
            }
        }
        (void)tinyi_tv_put(m, &x);
        from = end + 1;
        i = end;
    }
    for (k = 0; k < a->n_named; k++) a->used[k / 32] |= 1u << k % 32;
    if (!m->status) (void)tinyi_doc_put(m, v->u.s + from, v->n - from);
    return tinyi_doc_take(m, start);
}
