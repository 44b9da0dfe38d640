/* src/core/box/checkpoint.c
 *
 * A box (core/box/box_inside.h) of sections with names. dtype, rank and dims that mean nothing are 0, so that an entry
 * has one form only.
 *
 * Left out: compression, and views of the values as numbers: on a big-endian machine there are none. */
#include "core/state_inside.h"
#include "core/box/box_inside.h"
#include "core/box/checkpoint.h"
#include <string.h>

#define TINYI_CKPT_LEAST 64                 /* bytes of an entry with the shortest name */
#define TINYI_CKPT_STAGE 512                /* bytes that are turned round at a time */

static const char *const tinyi_ckpt_kind_name[] = { "tensor", "u64", "f64", "text", "bytes" };

/* Are the bytes of numbers in memory in another order than in the file? */
static int tinyi_ckpt_turned(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first != 1;
}

void tinyi_ckpt_turn(unsigned char *to, const unsigned char *from, size_t n, size_t size, int turned)
{
    size_t i, k;
    if (!turned) {
        if (n) memcpy(to, from, n * size);
        return;
    }
    for (i = 0; i < n; i++)
        for (k = 0; k < size; k++) to[i * size + k] = from[i * size + size - 1 - k];
}

/* A name goes into sentences, so that nothing in it may move a terminal. */
static int tinyi_ckpt_name_fits(const unsigned char *name, size_t n)
{
    if (!n || n > TINY_CHECKPOINT_MAX_NAME) return 0;
    for (; n; n--, name++) if (*name < 0x20 || *name == 0x7f) return 0;
    return 1;
}

/* of element i in index order */
static unsigned char *tinyi_ckpt_element(const tiny_tensor *t, size_t i)
{
    ptrdiff_t at = 0;
    int a;
    for (a = t->rank - 1; a >= 0; a--) {
        at += (ptrdiff_t)(i % (size_t)t->dim[a]) * t->stride[a];
        i /= (size_t)t->dim[a];
    }
    return (unsigned char *)t->data + at * (ptrdiff_t)tiny_dtype_bytes(t->dtype);
}

/* Shapes and dtypes as a caller gives them; data is not read here. */
static tiny_status tinyi_ckpt_shape(tiny_ctx *ctx, const char *path, const char *name, tiny_dtype dtype, int rank,
                                    const tiny_idx *dim, size_t *count)
{
    tiny_tensor t;
    tiny_status st;
    char text[96];
    if (rank < 0 || rank > TINY_MAX_RANK || (rank && !dim))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: tensor %s: rank %d; 0 to %d are possible", path, name, rank,
                          TINY_MAX_RANK);
    t = tiny_tensor_nd(text, dtype, rank, dim);
    st = tiny_tensor_check(&t);
    if (st)
        return tinyi_fail(ctx, st, "%s: tensor %s: %s is not a valid shape", path, name, tinyi_shape_text(&t, text));
    *count = (size_t)tiny_tensor_count(&t);
    return TINY_OK;
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

/* The names so far, as a tree in the order of their checksums: about 2 ln n steps, whatever the names are. */
typedef struct tinyi_ckpt_name {
    struct tinyi_ckpt_name *side[2], *older;
    uint64_t hash;
    char *text;                             /* in the same block */
} tinyi_ckpt_name;

struct tiny_checkpoint_writer {
    tiny_status status;                     /* the first failure */
    tinyi_box box;
    tinyi_ckpt_name *root, *newest;
    uint64_t n_entries;
    size_t values_left, value_bytes;        /* of the tensor at work */
    int finished;
};

static tiny_status tinyi_ckpt_enter(tiny_ctx *ctx, const tiny_checkpoint_writer *w)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!w) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the writer of the checkpoint is NULL");
    if (w->status) return w->status;
    if (w->finished) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the checkpoint is already finished", w->box.path);
    return TINY_OK;
}

static tiny_status tinyi_ckpt_keep(tiny_checkpoint_writer *w, tiny_status st)
{
    if (st && !w->status) w->status = st;
    return st;
}

TINY_API tiny_status tiny_checkpoint_create(tiny_ctx *ctx, const tiny_checkpoint_writer_desc *desc,
                                            tiny_checkpoint_writer **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tiny_checkpoint_writer *w;
    const char *path;
    size_t n_path;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out || !desc->path == !desc->write)
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "a writer of a checkpoint needs an output pointer and either a path or a write callback");
    path = desc->path ? desc->path : "the checkpoint";
    n_path = strlen(path);
    w = (tiny_checkpoint_writer *)tinyi_alloc(ctx, sizeof *w + n_path + 1, 1);
    if (!w) return tiny_ctx_status(ctx);
    memset(w, 0, sizeof *w);
    memcpy(w + 1, path, n_path + 1);
    st = tinyi_box_begin(ctx, &w->box, (char *)(w + 1), desc->write, desc->user);
    if (st) tiny_checkpoint_writer_close(ctx, w);
    else *out = w;
    return st;
}

static tiny_status tinyi_ckpt_new_name(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name, size_t n)
{
    uint64_t hash = tinyi_hash_of(name, n);
    tinyi_ckpt_name **at = &w->root, *fresh;
    while (*at) {
        int order = hash != (*at)->hash ? (hash > (*at)->hash ? 1 : -1) : strcmp(name, (*at)->text);
        if (!order)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "%s: entry %s was put before; a name may be used once", w->box.path, name);
        at = &(*at)->side[order > 0];
    }
    fresh = (tinyi_ckpt_name *)tinyi_alloc(ctx, sizeof *fresh + n + 1, 1);
    if (!fresh) return tiny_ctx_status(ctx);
    memset(fresh, 0, sizeof *fresh);
    fresh->text = (char *)(fresh + 1);
    memcpy(fresh->text, name, n + 1);
    fresh->hash = hash;
    fresh->older = w->newest;
    w->newest = *at = fresh;
    return TINY_OK;
}

/* Everything of an entry up to its values. */
static tiny_status tinyi_ckpt_begin(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name,
                                    tiny_checkpoint_kind kind, tiny_dtype dtype, int rank, const tiny_idx *dim,
                                    uint64_t n_bytes)
{
    unsigned char head[TINYI_BOX_SECTION];
    size_t n = name ? strlen(name) : 0;
    tiny_status st;
    if (!tinyi_ckpt_name_fits((const unsigned char *)name, n))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: entry %llu: its name has %zu bytes; 1 to %d without control characters are possible",
                          w->box.path, (unsigned long long)w->n_entries, n, TINY_CHECKPOINT_MAX_NAME);
    if (w->values_left)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: entry %s: %zu values of tensor %s are still missing", w->box.path,
                          name, w->values_left, w->newest->text);
    st = tinyi_ckpt_new_name(ctx, w, name, n);
    if (st) return st;
    tinyi_box_section(head, (unsigned)kind, (unsigned)dtype, rank, n, dim, n_bytes);
    w->n_entries++;
    st = tinyi_box_add(ctx, &w->box, head, sizeof head);
    if (!st) st = tinyi_box_add(ctx, &w->box, name, n);
    if (!st) st = tinyi_box_zeros(ctx, &w->box, 1, 8);
    if (!st && kind == TINY_CHECKPOINT_TENSOR) st = tinyi_box_zeros(ctx, &w->box, 0, TINY_CHECKPOINT_ALIGN);
    return st;
}

static tiny_status tinyi_ckpt_put(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name, tiny_checkpoint_kind kind,
                                  const void *bytes, size_t n)
{
    tiny_status st = tinyi_ckpt_begin(ctx, w, name, kind, TINY_F32, 0, NULL, n);
    if (!st) st = tinyi_box_add(ctx, &w->box, bytes, n);
    if (!st) st = tinyi_box_zeros(ctx, &w->box, kind == TINY_CHECKPOINT_TEXT, 8);
    return tinyi_ckpt_keep(w, st);
}

TINY_API tiny_status tiny_checkpoint_put_u64(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name, uint64_t v)
{
    tiny_status st = tinyi_ckpt_enter(ctx, w);
    unsigned char p[8];
    tinyi_put_le(p, v, 8);
    return st ? st : tinyi_ckpt_put(ctx, w, name, TINY_CHECKPOINT_U64, p, 8);
}

TINY_API tiny_status tiny_checkpoint_put_f64(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name, double v)
{
    tiny_status st = tinyi_ckpt_enter(ctx, w);
    unsigned char p[8];
    uint64_t bits;
    memcpy(&bits, &v, 8);
    tinyi_put_le(p, bits, 8);
    return st ? st : tinyi_ckpt_put(ctx, w, name, TINY_CHECKPOINT_F64, p, 8);
}

TINY_API tiny_status tiny_checkpoint_put_text(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name,
                                              const char *text)
{
    tiny_status st = tinyi_ckpt_enter(ctx, w);
    if (st) return st;
    if (!text)
        return tinyi_ckpt_keep(
            w, tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: entry %s: the text is missing", w->box.path, name ? name : "?"));
    return tinyi_ckpt_put(ctx, w, name, TINY_CHECKPOINT_TEXT, text, strlen(text));
}

TINY_API tiny_status tiny_checkpoint_put_bytes(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name,
                                               const void *bytes, size_t n_bytes)
{
    tiny_status st = tinyi_ckpt_enter(ctx, w);
    if (st) return st;
    if (!bytes && n_bytes)
        return tinyi_ckpt_keep(w, tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: entry %s: its %zu bytes are missing",
                                             w->box.path, name ? name : "?", n_bytes));
    return tinyi_ckpt_put(ctx, w, name, TINY_CHECKPOINT_BYTES, bytes, n_bytes);
}

TINY_API tiny_status tiny_checkpoint_put_begin(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name,
                                               tiny_dtype dtype, int rank, const tiny_idx *dim)
{
    tiny_status st = tinyi_ckpt_enter(ctx, w);
    size_t count = 0;
    if (st) return st;
    st = tinyi_ckpt_shape(ctx, w->box.path, name ? name : "?", dtype, rank, dim, &count);
    if (!st)
        st = tinyi_ckpt_begin(ctx, w, name, TINY_CHECKPOINT_TENSOR, dtype, rank, dim,
                              (uint64_t)count * tiny_dtype_bytes(dtype));
    if (!st) {
        w->values_left = count;
        w->value_bytes = tiny_dtype_bytes(dtype);
    }
    return tinyi_ckpt_keep(w, st);
}

TINY_API tiny_status tiny_checkpoint_put_values(tiny_ctx *ctx, tiny_checkpoint_writer *w, const void *values,
                                                size_t n_values)
{
    tiny_status st = tinyi_ckpt_enter(ctx, w);
    const unsigned char *p = (const unsigned char *)values;
    unsigned char stage[TINYI_CKPT_STAGE];
    size_t size;
    if (st || !n_values) return st;
    if (!values || n_values > w->values_left)
        return tinyi_ckpt_keep(w,
                               tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %zu values%s come where %zu are left%s%s",
                                          w->box.path, n_values, values ? "" : " at NULL", w->values_left,
                                          w->values_left ? " of tensor " : "", w->values_left ? w->newest->text : ""));
    size = w->value_bytes;
    w->values_left -= n_values;
    if (!tinyi_ckpt_turned()) st = tinyi_box_add(ctx, &w->box, p, n_values * size);
    while (tinyi_ckpt_turned() && n_values && !st) {
        size_t n = TINYI_MIN(n_values, sizeof stage / size);
        tinyi_ckpt_turn(stage, p, n, size, 1);
        st = tinyi_box_add(ctx, &w->box, stage, n * size);
        p += n * size;
        n_values -= n;
    }
    if (!st && !w->values_left) st = tinyi_box_zeros(ctx, &w->box, 0, 8);
    return tinyi_ckpt_keep(w, st);
}

TINY_API tiny_status tiny_checkpoint_put_tensor(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name,
                                                const tiny_tensor *t)
{
    tiny_status st = tinyi_ckpt_enter(ctx, w);
    unsigned char stage[TINYI_CKPT_STAGE];
    size_t i = 0, count, size, k;
    if (st) return st;
    if (!t)
        return tinyi_ckpt_keep(
            w, tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: tensor %s is missing", w->box.path, name ? name : "?"));
    st = tiny_tensor_check(t);
    if (st)
        return tinyi_ckpt_keep(w, tinyi_fail(ctx, st, "%s: tensor %s cannot be read: %s", w->box.path,
                                             name ? name : "?", tiny_status_text(st)));
    st = tiny_checkpoint_put_begin(ctx, w, name, t->dtype, t->rank, t->dim);
    if (st) return st;
    count = (size_t)tiny_tensor_count(t);
    size = tiny_dtype_bytes(t->dtype);
    if (tiny_tensor_is_dense(t)) return tiny_checkpoint_put_values(ctx, w, t->data, count);
    while (i < count && !st) {
        size_t n = TINYI_MIN(count - i, sizeof stage / size);
        for (k = 0; k < n; k++) memcpy(stage + k * size, tinyi_ckpt_element(t, i + k), size);
        st = tiny_checkpoint_put_values(ctx, w, stage, n);
        i += n;
    }
    return st;
}

TINY_API tiny_status tiny_checkpoint_finish(tiny_ctx *ctx, tiny_checkpoint_writer *w)
{
    tiny_status st = tinyi_ckpt_enter(ctx, w);
    if (st) return st;
    if (w->values_left)
        return tinyi_ckpt_keep(w, tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %zu values of tensor %s are missing",
                                             w->box.path, w->values_left, w->newest->text));
    st = tinyi_box_finish(ctx, &w->box, w->n_entries);
    w->finished = !st;
    return tinyi_ckpt_keep(w, st);
}

TINY_API void tiny_checkpoint_writer_close(tiny_ctx *ctx, tiny_checkpoint_writer *w)
{
    if (!w) return;
    tinyi_box_abandon(ctx, &w->box);        /* nothing after finish */
    while (w->newest) {
        tinyi_ckpt_name *older = w->newest->older;
        tiny_free(ctx, w->newest);
        w->newest = older;
    }
    tiny_free(ctx, w);
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

struct tiny_checkpoint {
    char *path;
    tiny_file file;
    size_t n;
    tiny_checkpoint_entry *entry;           /* (n) in the order of the file */
    size_t *order;                          /* (n) by name */
};

/* heap sort: no memory, no bad case */
static void tinyi_ckpt_sink(size_t *order, size_t at, size_t n, const tiny_checkpoint_entry *e)
{
    size_t v = order[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && strcmp(e[order[child]].name, e[order[child + 1]].name) < 0) child++;
        if (strcmp(e[v].name, e[order[child]].name) >= 0) break;
        order[at] = order[child];
        at = child;
    }
    order[at] = v;
}

static void tinyi_ckpt_sort(size_t *order, size_t n, const tiny_checkpoint_entry *e)
{
    size_t i, top;
    for (i = 0; i < n; i++) order[i] = i;
    for (i = n / 2; i-- > 0;) tinyi_ckpt_sink(order, i, n, e);
    for (i = n; i-- > 1;) {
        top = order[0];
        order[0] = order[i];
        order[i] = top;
        tinyi_ckpt_sink(order, 0, i, e);
    }
}

/* Steps over zeros: at least least of them, up to the next multiple of align from base. */
static int tinyi_ckpt_skip(tinyi_cursor *c, const unsigned char *base, size_t least, size_t align)
{
    size_t over = ((size_t)(c->at - base) + least) % align, n = least + (over ? align - over : 0);
    const unsigned char *p;
    if (!tinyi_rd_bytes(c, n, &p)) return 0;
    for (; n; n--) if (*p++) return 0;
    return 1;
}

/* Entry i at the cursor, or its sentence. */
static tiny_status tinyi_ckpt_entry_read(tiny_ctx *ctx, const char *path, tinyi_cursor *c, const unsigned char *base,
                                         size_t i, tiny_checkpoint_entry *e)
{
    uint32_t kind = 0, dtype = 0, rank = 0, n_name = 0;
    uint64_t dim[TINY_MAX_RANK], n_bytes = 0, want = 1;
    const unsigned char *name = NULL;
    size_t at = (size_t)(c->at - base), a;
    int bad;
    bad = !tinyi_rd_u32(c, &kind) || !tinyi_rd_u32(c, &dtype) || !tinyi_rd_u32(c, &rank) || !tinyi_rd_u32(c, &n_name);
    for (a = 0; a < TINY_MAX_RANK && !bad; a++) bad = !tinyi_rd_u64(c, &dim[a]);
    if (bad || !tinyi_rd_u64(c, &n_bytes))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: entry %zu at byte %zu: %zu bytes are left, it needs %d", path, i, at,
                          c->left, TINYI_CKPT_LEAST);
    if (kind >= TINYI_COUNT(tinyi_ckpt_kind_name))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: entry %zu at byte %zu is of kind %lu, which is unknown",
                          path, i, at, (unsigned long)kind);
    if (!tinyi_rd_bytes(c, n_name, &name))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: entry %zu at byte %zu: its name has %lu bytes, and %zu are left",
                          path, i, at, (unsigned long)n_name, c->left);
    if (!tinyi_ckpt_name_fits(name, n_name))
        return tinyi_fail(
            ctx, TINY_E_FORMAT,
            "%s: entry %zu at byte %zu: its name has %lu bytes; 1 to %d without control characters are possible", path,
            i, at, (unsigned long)n_name, TINY_CHECKPOINT_MAX_NAME);
    if (!tinyi_ckpt_skip(c, base, 1, 8))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: entry %zu at byte %zu: its name must be followed by zeros", path, i,
                          at);
    memset(e, 0, sizeof *e);
    e->name = (const char *)name;           /* the 0 behind it was seen */
    e->kind = (tiny_checkpoint_kind)kind;
    if (kind == TINY_CHECKPOINT_TENSOR) {
        int empty = 0;
        if (!tiny_dtype_bytes((tiny_dtype)dtype))
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: tensor %s has data type %lu, which is unknown", path,
                              e->name, (unsigned long)dtype);
        if (rank > TINY_MAX_RANK)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tensor %s has %lu dimensions; the maximum is %d", path, e->name,
                              (unsigned long)rank, TINY_MAX_RANK);
        e->dtype = (tiny_dtype)dtype;
        e->rank = (int)rank;
        want = tiny_dtype_bytes(e->dtype);
        /* without the empty axes the product fits, so that no part of it can overflow later */
        for (a = 0; a < rank; a++) {
            if (!dim[a]) empty = 1;
            else if (dim[a] > (uint64_t)TINY_IDX_MAX || want > (uint64_t)TINY_IDX_MAX / dim[a])
                return tinyi_fail(ctx, TINY_E_OVERFLOW,
                                  "%s: tensor %s: with %llu at dimension %d it is larger than this machine can address",
                                  path, e->name, (unsigned long long)dim[a], (int)a);
            else want *= dim[a];
            e->dim[a] = (tiny_idx)dim[a];
        }
        if (empty) want = 0;
        if (!tinyi_ckpt_skip(c, base, 0, TINY_CHECKPOINT_ALIGN))
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: tensor %s: the padding before its values, up to a multiple of %d, must be zeros",
                              path, e->name, TINY_CHECKPOINT_ALIGN);
    } else {
        if (dtype || rank)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s %s must not have a data type or a rank", path,
                              tinyi_ckpt_kind_name[kind], e->name);
        want = kind == TINY_CHECKPOINT_U64 || kind == TINY_CHECKPOINT_F64 ? 8 : n_bytes;
    }
    for (a = rank; a < TINY_MAX_RANK; a++)
        if (dim[a])
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: %s %s: unused dimension %d (rank %lu) is %llu, it must be 0", path,
                              tinyi_ckpt_kind_name[kind], e->name, (int)a, (unsigned long)rank,
                              (unsigned long long)dim[a]);
    if (n_bytes != want)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s %s says it has %llu bytes; they are %llu", path,
                          tinyi_ckpt_kind_name[kind], e->name, (unsigned long long)n_bytes, (unsigned long long)want);
    if (!tinyi_count_fits(c, n_bytes, 1))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s %s needs %llu bytes at byte %zu, and %zu are left", path,
                          tinyi_ckpt_kind_name[kind], e->name, (unsigned long long)n_bytes, (size_t)(c->at - base),
                          c->left);
    e->n_bytes = (size_t)n_bytes;
    (void)tinyi_rd_bytes(c, e->n_bytes, &e->at);
    if (kind == TINY_CHECKPOINT_TEXT && e->n_bytes && memchr(e->at, 0, e->n_bytes))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: text %s has a 0 among its %zu bytes", path, e->name, e->n_bytes);
    if (!tinyi_ckpt_skip(c, base, kind == TINY_CHECKPOINT_TEXT, 8))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s %s must be followed by zeros", path,
                          tinyi_ckpt_kind_name[kind], e->name);
    return TINY_OK;
}

static tiny_status tinyi_ckpt_read(tiny_ctx *ctx, tiny_checkpoint *c, int no_checksum)
{
    const unsigned char *base = c->file.bytes;
    size_t i;
    tinyi_cursor at;
    uint64_t n_entries = 0;
    tiny_status st = tinyi_box_frame(ctx, c->path, "checkpoint", base, c->file.n_bytes, no_checksum, &at, &n_entries);
    if (st) return st;
    if (!tinyi_count_fits(&at, n_entries, TINYI_CKPT_LEAST))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: says it has %llu entries; %zu bytes can hold %zu", c->path,
                          (unsigned long long)n_entries, at.left, at.left / TINYI_CKPT_LEAST);
    c->entry = (tiny_checkpoint_entry *)tinyi_alloc(ctx, (size_t)n_entries, sizeof *c->entry);
    c->order = c->entry ? (size_t *)tinyi_alloc(ctx, (size_t)n_entries, sizeof *c->order) : NULL;
    if (!c->order) return tiny_ctx_status(ctx);
    for (i = 0; i < (size_t)n_entries && !st; i++) st = tinyi_ckpt_entry_read(ctx, c->path, &at, base, i, &c->entry[i]);
    if (st) return st;
    if (at.left)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %zu bytes follow its %zu entries", c->path, at.left, i);
    c->n = i;
    tinyi_ckpt_sort(c->order, c->n, c->entry);
    for (i = 1; i < c->n; i++)
        if (!strcmp(c->entry[c->order[i - 1]].name, c->entry[c->order[i]].name))
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: two entries have the name %s", c->path, c->entry[c->order[i]].name);
    return TINY_OK;
}

TINY_API tiny_status tiny_checkpoint_open(tiny_ctx *ctx, const tiny_checkpoint_desc *desc, tiny_checkpoint **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tiny_checkpoint *c;
    const char *path;
    size_t n_path;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out || (!desc->path && !desc->bytes))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a checkpoint needs a path or its bytes, and an output pointer");
    path = desc->path ? desc->path : "memory";
    n_path = strlen(path);
    c = (tiny_checkpoint *)tinyi_alloc(ctx, sizeof *c + n_path + 1, 1);
    if (!c) return tiny_ctx_status(ctx);
    memset(c, 0, sizeof *c);
    c->path = (char *)(c + 1);
    memcpy(c->path, path, n_path + 1);
    if (!desc->path) c->file = tiny_file_memory(desc->bytes, desc->n_bytes);
    else st = desc->copy ? tiny_file_copy(ctx, path, &c->file) : tiny_file_open(ctx, path, &c->file);
    if (!st) st = tinyi_ckpt_read(ctx, c, desc->no_checksum);
    if (st) tiny_checkpoint_close(ctx, c);
    else *out = c;
    return st;
}

TINY_API void tiny_checkpoint_close(tiny_ctx *ctx, tiny_checkpoint *c)
{
    if (!c) return;
    tiny_file_close(ctx, &c->file);
    tiny_free(ctx, c->entry);
    tiny_free(ctx, c->order);
    tiny_free(ctx, c);
}

TINY_API size_t tiny_checkpoint_count(const tiny_checkpoint *c) { return c ? c->n : 0; }

TINY_API const tiny_checkpoint_entry *tiny_checkpoint_at(const tiny_checkpoint *c, size_t i)
{
    return c && i < c->n ? &c->entry[i] : NULL;
}

TINY_API const tiny_checkpoint_entry *tiny_checkpoint_find(const tiny_checkpoint *c, const char *name)
{
    size_t lo = 0, hi = c && name ? c->n : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(name, c->entry[c->order[mid]].name);
        if (!order) return &c->entry[c->order[mid]];
        if (order < 0) hi = mid;
        else lo = mid + 1;
    }
    return NULL;
}

static tiny_status tinyi_ckpt_want(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name, tiny_checkpoint_kind kind,
                                   int place, const tiny_checkpoint_entry **e)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!c || !name || !place)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "reading %s needs a checkpoint, a name and an output",
                          name ? name : "an entry");
    *e = tiny_checkpoint_find(c, name);
    if (!*e) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: there is no entry %s among its %zu", c->path, name, c->n);
    if ((*e)->kind != kind)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: entry %s is of kind %s, but %s was requested", c->path, name,
                          tinyi_ckpt_kind_name[(*e)->kind], tinyi_ckpt_kind_name[kind]);
    return TINY_OK;
}

static uint64_t tinyi_ckpt_number(const tiny_checkpoint_entry *e)
{
    tinyi_cursor c = tinyi_cursor_make(e->at, e->n_bytes);
    uint64_t v = 0;
    (void)tinyi_rd_u64(&c, &v);             /* 8 bytes, as was checked */
    return v;
}

TINY_API tiny_status tiny_checkpoint_get_u64(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name, uint64_t *v)
{
    const tiny_checkpoint_entry *e;
    tiny_status st = tinyi_ckpt_want(ctx, c, name, TINY_CHECKPOINT_U64, v != NULL, &e);
    if (!st) *v = tinyi_ckpt_number(e);
    return st;
}

TINY_API tiny_status tiny_checkpoint_get_f64(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name, double *v)
{
    const tiny_checkpoint_entry *e;
    tiny_status st = tinyi_ckpt_want(ctx, c, name, TINY_CHECKPOINT_F64, v != NULL, &e);
    uint64_t bits;
    if (st) return st;
    bits = tinyi_ckpt_number(e);
    memcpy(v, &bits, 8);
    return TINY_OK;
}

TINY_API tiny_status tiny_checkpoint_get_text(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name,
                                              const char **text)
{
    const tiny_checkpoint_entry *e;
    tiny_status st = tinyi_ckpt_want(ctx, c, name, TINY_CHECKPOINT_TEXT, text != NULL, &e);
    if (!st) *text = (const char *)e->at;
    return st;
}

TINY_API tiny_status tiny_checkpoint_get_bytes(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name,
                                               const void **bytes, size_t *n_bytes)
{
    const tiny_checkpoint_entry *e;
    tiny_status st = tinyi_ckpt_want(ctx, c, name, TINY_CHECKPOINT_BYTES, bytes && n_bytes, &e);
    if (st) return st;
    *bytes = e->at;
    *n_bytes = e->n_bytes;
    return TINY_OK;
}

static tiny_status tinyi_ckpt_want_tensor(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name,
                                          const tiny_tensor *t, const tiny_checkpoint_entry **e)
{
    tiny_status st = tinyi_ckpt_want(ctx, c, name, TINY_CHECKPOINT_TENSOR, t != NULL, e);
    size_t count;
    int a, same;
    if (!st) st = tinyi_ckpt_shape(ctx, c->path, name, t->dtype, t->rank, t->dim, &count);
    if (st) return st;
    same = (*e)->dtype == t->dtype && (*e)->rank == t->rank;
    for (a = 0; a < t->rank && same; a++) same = (*e)->dim[a] == t->dim[a];
    if (!same) {
        tiny_tensor is = tiny_tensor_nd(NULL, (*e)->dtype, (*e)->rank, (*e)->dim);
        char has[96], want[96];
        return tinyi_fail(ctx, (*e)->dtype != t->dtype ? TINY_E_DTYPE : TINY_E_SHAPE,
                          "%s: tensor %s is %s, but %s was requested", c->path, name, tinyi_shape_text(&is, has),
                          tinyi_shape_text(t, want));
    }
    return TINY_OK;
}

TINY_API tiny_status tiny_checkpoint_expect(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name,
                                            const tiny_tensor *t)
{
    const tiny_checkpoint_entry *e;
    return tinyi_ckpt_want_tensor(ctx, c, name, t, &e);
}

TINY_API tiny_status tiny_checkpoint_get_tensor(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name,
                                                const tiny_tensor *into)
{
    const tiny_checkpoint_entry *e;
    tiny_status st = tinyi_ckpt_want_tensor(ctx, c, name, into, &e);
    size_t i, count, size;
    if (st) return st;
    st = tiny_tensor_check(into);
    if (st)
        return tinyi_fail(ctx, st, "%s: tensor %s: its output cannot be written: %s", c->path, name,
                          tiny_status_text(st));
    count = (size_t)tiny_tensor_count(into);
    size = tiny_dtype_bytes(into->dtype);
    if (tiny_tensor_is_dense(into))
        tinyi_ckpt_turn((unsigned char *)into->data, e->at, count, size, tinyi_ckpt_turned());
    else
        for (i = 0; i < count; i++)
            tinyi_ckpt_turn(tinyi_ckpt_element(into, i), e->at + i * size, 1, size, tinyi_ckpt_turned());
    return TINY_OK;
}
