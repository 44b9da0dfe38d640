/* src/core/safetensors.c
 *
 * The form has a fixed depth, so that the reader needs neither recursion nor a stack.
 *
 * Left out: F4, F6, F8_E8M0 and complex types; unknown members of a tensor are refused. */
#include "core/safetensors.h"
#include "core/bytes.h"
#include "core/state_inside.h"
#include <stdio.h>
#include <string.h>

/* a whole number below 2^63, as safetensors writes them */
static tiny_status tinyi_st_count(tinyi_json *j, uint64_t *v)
{
    const unsigned char *first;
    tinyi_json_space(j);
    first = j->at;
    *v = 0;
    while (j->at < j->end && *j->at >= '0' && *j->at <= '9') {
        unsigned d = (unsigned)(*j->at - '0');
        if (*v > ((uint64_t)INT64_MAX - d) / 10) return tinyi_json_fail(j, "a number below 2^63");
        *v = *v * 10 + d;
        j->at++;
    }
    if (j->at == first) return tinyi_json_fail(j, "a whole number");
    if (*first == '0' && j->at - first > 1) {
        j->at = first;
        return tinyi_json_fail(j, "a number without leading zeros");
    }
    return TINY_OK;
}

/* [1, 2, ...]: at most most of them */
static tiny_status tinyi_st_counts(tinyi_json *j, uint64_t *v, int most, int *n)
{
    tiny_status st;
    *n = 0;
    if (!tinyi_json_is(j, '[')) return tinyi_json_fail(j, "'['");
    if (tinyi_json_is(j, ']')) return TINY_OK;
    for (;;) {
        if (*n == most)
            return tinyi_fail(j->ctx, TINY_E_UNSUPPORTED, "%s: byte %zu of the header: a list of more than %d numbers",
                              j->path, (size_t)(j->at - j->start), most);
        st = tinyi_st_count(j, &v[*n]);
        if (st) return st;
        ++*n;
        if (tinyi_json_is(j, ']')) return TINY_OK;
        if (!tinyi_json_is(j, ',')) return tinyi_json_fail(j, "',' or ']'");
    }
}

typedef struct tinyi_st_state {
    tinyi_json j;
    const tinyi_st_sink *sink;
    const unsigned char *data;
    size_t data_bytes, n_tensors;
    uint64_t sum;
} tinyi_st_state;

static tiny_status tinyi_st_metadata(tinyi_st_state *w)
{
    tinyi_json *j = &w->j;
    tinyi_json_text key, text;
    tiny_status st;
    if (!tinyi_json_is(j, '{')) return tinyi_json_fail(j, "'{'");
    if (tinyi_json_is(j, '}')) return TINY_OK;
    for (;;) {
        st = tinyi_json_string(j, &key, "a key in quotes");
        if (!st && !tinyi_json_is(j, ':')) st = tinyi_json_fail(j, "':'");
        if (!st) st = tinyi_json_string(j, &text, "a text in quotes (all values of __metadata__ are texts)");
        if (st) return st;
        if (w->sink->meta) w->sink->meta(w->sink->arg, key, text);
        if (tinyi_json_is(j, '}')) return TINY_OK;
        if (!tinyi_json_is(j, ',')) return tinyi_json_fail(j, "',' or '}'");
    }
}

#define TINYI_SAFETENSORS_ROW(name, bytes) { #name, bytes },
static const struct {
    const char *name;
    size_t bytes;
} tinyi_st_row[] = { TINYI_SAFETENSORS_TYPES(TINYI_SAFETENSORS_ROW) };
#undef TINYI_SAFETENSORS_ROW

/* Bytes of the tensor by its type and shape; a dimension of 0 makes them 0. */
static tiny_status tinyi_st_size(const tinyi_st_state *w, tinyi_st_tensor *t, const char *shown)
{
    const size_t each = tinyi_st_row[t->type].bytes;
    uint64_t n = 1;
    int a;
    t->bytes = 0;
    for (a = 0; a < t->rank; a++)
        if (!t->dim[a]) return TINY_OK;
    for (a = 0; a < t->rank; a++) {         /* counted from the innermost, as everywhere in our sentences */
        uint64_t d = t->dim[t->rank - 1 - a];
        if (n > (uint64_t)INT64_MAX / d)
            return tinyi_fail(w->j.ctx, TINY_E_FORMAT,
                              "%s: tensor %s: the product of its dimensions 0 to %d is above 2^63", w->j.path, shown,
                              a);
        n *= d;
    }
    if (n > SIZE_MAX / each)
        return tinyi_fail(w->j.ctx, TINY_E_OVERFLOW,
                          "%s: tensor %s: %llu values of type %s are more bytes than this machine can address",
                          w->j.path, shown, (unsigned long long)n, tinyi_st_row[t->type].name);
    t->bytes = (size_t)n * each;
    return TINY_OK;
}

/* { "dtype": ..., "shape": ..., "data_offsets": ... } in any order, each once */
static tiny_status tinyi_st_members(tinyi_json *j, const char *shown, tinyi_json_text *dtype, tinyi_st_tensor *t,
                                    uint64_t offset[2])
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    char shown_word[TINYI_SHOW];
    tinyi_json_text word;
    tiny_status st;
    int seen = 0, n = 0;
    if (!tinyi_json_is(j, '{')) return tinyi_json_fail(j, "'{'");
    for (;;) {
        int member;
        st = tinyi_json_string(j, &word, "dtype, shape or data_offsets in quotes");
        if (st) return st;
        member = tinyi_json_text_is(word, "dtype")          ? DTYPE
                 : tinyi_json_text_is(word, "shape")        ? SHAPE
                 : tinyi_json_text_is(word, "data_offsets") ? OFFSETS
                                                            : 0;
        if (!member || (seen & member))
            return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: tensor %s: %s %s", j->path, shown,
                              tinyi_show_bytes(word.at, word.n, shown_word),
                              member ? "occurs twice" : "is no member of a tensor");
        seen |= member;
        if (!tinyi_json_is(j, ':')) return tinyi_json_fail(j, "':'");
        if (member == DTYPE) st = tinyi_json_string(j, dtype, "the name of a type in quotes");
        else if (member == SHAPE) st = tinyi_st_counts(j, t->dim, TINYI_SAFETENSORS_MAX_RANK, &t->rank);
        else {
            st = tinyi_st_counts(j, offset, 2, &n);
            if (!st && n != 2)
                st = tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: tensor %s: data_offsets are %d numbers, not 2", j->path,
                                shown, n);
        }
        if (st) return st;
        if (tinyi_json_is(j, '}')) break;
        if (!tinyi_json_is(j, ',')) return tinyi_json_fail(j, "',' or '}'");
    }
    if (seen == (DTYPE | SHAPE | OFFSETS)) return TINY_OK;
    return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: tensor %s has no %s", j->path, shown,
                      !(seen & DTYPE)   ? "dtype"
                      : !(seen & SHAPE) ? "shape"
                                        : "data_offsets");
}

static tiny_status tinyi_st_one(tinyi_st_state *w, tinyi_json_text name)
{
    tinyi_json *j = &w->j;
    tinyi_st_tensor t;
    tinyi_json_text dtype = { NULL, 0, 0 };
    uint64_t offset[2] = { 0 };
    char shown[TINYI_SHOW], shown_type[TINYI_SHOW];
    tiny_status st;
    size_t i;
    memset(&t, 0, sizeof t);
    t.name = name;
    (void)tinyi_show_bytes(name.at, name.n, shown);
    if (!name.n) return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: tensor %zu has an empty name", j->path, w->n_tensors);
    if (name.n > TINYI_SAFETENSORS_MAX_NAME)
        return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: the name of tensor %s has %zu bytes; the longest has %d", j->path,
                          shown, name.n, TINYI_SAFETENSORS_MAX_NAME);
    st = tinyi_st_members(j, shown, &dtype, &t, offset);
    if (st) return st;
    for (i = 0; i < TINYI_COUNT(tinyi_st_row) && !tinyi_json_text_is(dtype, tinyi_st_row[i].name); i++) {}
    if (i == TINYI_COUNT(tinyi_st_row))
        return tinyi_fail(j->ctx, TINY_E_UNSUPPORTED, "%s: tensor %s has dtype %s, which is unknown", j->path,
                          shown, tinyi_show_bytes(dtype.at, dtype.n, shown_type));
    t.type = (tinyi_st_type)i;
    st = tinyi_st_size(w, &t, shown);
    if (st) return st;
    if (offset[0] > offset[1] || offset[1] > w->data_bytes)
        return tinyi_fail(j->ctx, TINY_E_FORMAT,
                          "%s: tensor %s: data_offsets %llu to %llu are not valid for %zu bytes of data",
                          j->path, shown, (unsigned long long)offset[0], (unsigned long long)offset[1], w->data_bytes);
    if (offset[1] - offset[0] != t.bytes)
        return tinyi_fail(j->ctx, TINY_E_FORMAT,
                          "%s: tensor %s: its shape and dtype make %zu bytes, its data_offsets %llu", j->path, shown,
                          t.bytes, (unsigned long long)(offset[1] - offset[0]));
    t.data = w->data + offset[0];
    if (w->sink->tensor) w->sink->tensor(w->sink->arg, &t);
    w->n_tensors++;
    w->sum += t.bytes;                      /* each is at most the file: a sum of 2^32 of them has room */
    return TINY_OK;
}

static tiny_status tinyi_st_all(tinyi_st_state *w)
{
    tinyi_json *j = &w->j;
    tinyi_json_text name;
    tiny_status st;
    int metadata = 0;
    if (!tinyi_json_is(j, '{')) return tinyi_json_fail(j, "'{'");
    if (!tinyi_json_is(j, '}')) {
        for (;;) {
            st = tinyi_json_string(j, &name, "the name of a tensor in quotes");
            if (!st && !tinyi_json_is(j, ':')) st = tinyi_json_fail(j, "':'");
            if (st) return st;
            if (!tinyi_json_text_is(name, "__metadata__")) st = tinyi_st_one(w, name);
            else if (metadata++) st = tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: __metadata__ occurs twice", j->path);
            else st = tinyi_st_metadata(w);
            if (st) return st;
            if (tinyi_json_is(j, '}')) break;
            if (!tinyi_json_is(j, ',')) return tinyi_json_fail(j, "',' or '}'");
        }
    }
    tinyi_json_space(j);
    if (j->at != j->end) return tinyi_json_fail(j, "the end");
    if (w->sum != w->data_bytes)
        return tinyi_fail(
            j->ctx, TINY_E_FORMAT,
            "%s: the tensors are %llu bytes, the data after the header %zu: they must be equal", j->path,
            (unsigned long long)w->sum, w->data_bytes);
    return TINY_OK;
}

tiny_status tinyi_st_walk(tiny_ctx *ctx, const char *path, const void *bytes, size_t n_bytes, const tinyi_st_sink *sink)
{
    tinyi_cursor c = tinyi_cursor_make(bytes, n_bytes);
    tinyi_st_state w;
    uint64_t n = 0;
    if (!tinyi_rd_u64(&c, &n))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: has %zu bytes, too few for the length of a safetensors header", path,
                          n_bytes);
    if (n > c.left || n > TINYI_SAFETENSORS_MAX_HEADER)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: says its header has %llu bytes, %zu are left; the maximum is %d", path,
                          (unsigned long long)n, c.left, TINYI_SAFETENSORS_MAX_HEADER);
    memset(&w, 0, sizeof w);
    w.sink = sink;
    w.j.ctx = ctx;
    w.j.path = path;
    w.j.what = "the header";
    w.j.start = w.j.at = c.at;
    w.j.end = w.data = c.at + (size_t)n;
    w.data_bytes = c.left - (size_t)n;
    return tinyi_st_all(&w);
}

void tinyi_st_begin(tinyi_st_head *h, void *to, size_t room)
{
    h->to = (unsigned char *)to;
    h->room = room;
    h->n = 9;                               /* the length of the header, and its brace */
    h->data = 0;
    h->to[8] = '{';
}

/* as snprintf, at the end of the header */
#define TINYI_ST_SAY(h, ...) ((h)->n += (size_t)snprintf((char *)(h)->to + (h)->n, (h)->room - (h)->n, __VA_ARGS__))

void tinyi_st_entry(tinyi_st_head *h, const char *name, tinyi_st_type type, int rank, const tiny_idx *dim)
{
    size_t bytes = tinyi_st_row[type].bytes;
    int i;
    TINYI_ST_SAY(h, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", h->n > 9 ? "," : "", name, tinyi_st_row[type].name);
    for (i = 0; i < rank; i++) {
        TINYI_ST_SAY(h, i ? ",%td" : "%td", dim[i]);
        bytes *= (size_t)dim[i];
    }
    TINYI_ST_SAY(h, "],\"data_offsets\":[%zu,%zu]}", h->data, h->data + bytes);
    h->data += bytes;
}

unsigned char *tinyi_st_end(tinyi_st_head *h)
{
    h->to[h->n++] = '}';
    while (h->n % 8) h->to[h->n++] = ' ';
    tinyi_put_le(h->to, (uint64_t)(h->n - 8), 8);
    return h->to + h->n;
}
