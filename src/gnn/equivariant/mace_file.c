/* src/gnn/equivariant/mace_file.c - potentials in safetensors: the description as a line of "__metadata__", weights and
 * couplings as tensors
 *
 *   "mace": {"elements":[1,8],"channels":16,"l_max":2,"hidden":1,"last":0,"layers":2,"correlation":[3,3],"kind":[0,1],
 *            "density":[0,0],"bessel":8,"power":5,"late":0,"zbl":0,"agnesi":0,"radial":[64,64,64],"readout":16,
 *            "r_max":5,"average":10,"scale":1,"shift":0}
 *   energies (Z), bessel (n), embed (Z, C); with zbl or agnesi radii (Z), zbl (exponent, factor), agnesi (a, q, p)
 *   for layer t, degree l, factors nu = 1 to 3:
 *   layer.t.up.l (C, C), layer.t.radial.i (in, out), layer.t.mix.l (couplings * C, C), layer.t.skip.l (Z, C, C),
 *   layer.t.density (n), layer.t.product.l.nu (Z, polynomials, C), layer.t.out.l (C, C), layer.t.readin (C, width),
 *   layer.t.readout (C or width)
 *   couple.l.nu.index (terms, 5) i32 and couple.l.nu.value (terms): U, as in tinyi_mace_basis; without them it is made
 *
 * Rows are inputs: y = x W. Couplings are sorted by degree of the message, then of the features, then of the harmonics.
 * Numbers are f32 or f64. */
#include <stdio.h>
#include <string.h>
#include "gnn/equivariant/mace_inside.h"
#include "core/state_inside.h"
#include "core/bytes.h"
#include "core/file.h"
#include "core/safetensors.h"
#include "math/elem.h"

#define TINYI_MACE_LINE 8192                /* bytes of the description */
#define TINYI_MACE_TENSORS 4096

typedef struct tinyi_mace_reader {
    tiny_ctx *ctx;
    const char *path;
    unsigned char line[TINYI_MACE_LINE];
    size_t n_line, n_lines;
    tinyi_st_tensor *tensor;
    unsigned char *used;
    size_t n_tensors;
    tinyi_mace_basis basis[TINYI_MACE_SIDE][3];
} tinyi_mace_reader;

static void tinyi_mace_meta(void *arg, tinyi_json_text key, tinyi_json_text value)
{
    tinyi_mace_reader *r = (tinyi_mace_reader *)arg;
    if (!tinyi_json_text_is(key, "mace")) return;
    r->n_lines++;
    r->n_line = value.n <= sizeof r->line ? tinyi_json_plain(r->line, sizeof r->line, value) : 0;
}

static void tinyi_mace_collect(void *arg, const tinyi_st_tensor *t)
{
    tinyi_mace_reader *r = (tinyi_mace_reader *)arg;
    if (r->tensor) r->tensor[r->n_tensors] = *t;
    r->n_tensors++;
}

/* ---- description */

static int *tinyi_mace_whole(tgnn_mace_desc *d, tinyi_json_text key)
{
    static const char *const names[] = { "channels", "l_max", "hidden",  "last", "layers", "bessel",
                                         "power",    "late",  "readout", "zbl",  "agnesi" };
    int *const at[] = { &d->channels, &d->l_max, &d->hidden,  &d->last, &d->layers, &d->n_bessel,
                        &d->power,    &d->late,  &d->readout, &d->zbl,  &d->agnesi };
    size_t i;
    for (i = 0; i < TINYI_COUNT(names); i++) if (tinyi_json_text_is(key, names[i])) return at[i];
    return NULL;
}
static double *tinyi_mace_real(tgnn_mace_desc *d, tinyi_json_text key)
{
    static const char *const names[] = { "r_max", "average", "scale", "shift" };
    double *const at[] = { &d->r_max, &d->average, &d->scale, &d->shift };
    size_t i;
    for (i = 0; i < TINYI_COUNT(names); i++) if (tinyi_json_text_is(key, names[i])) return at[i];
    return NULL;
}

enum { TINYI_MACE_LISTS = 5 };
static const char *const tinyi_mace_lists[TINYI_MACE_LISTS] = { "elements", "correlation", "kind", "density",
                                                               "radial" };
static const int tinyi_mace_room[TINYI_MACE_LISTS] = { TGNN_MACE_ELEMENTS, TGNN_MACE_LAYERS, TGNN_MACE_LAYERS,
                                                       TGNN_MACE_LAYERS, TGNN_MACE_RADIAL };
static int *tinyi_mace_list_at(tgnn_mace_desc *d, int i)
{
    return i == 0 ? d->elements : i == 1 ? d->correlation : i == 2 ? d->kind : i == 3 ? d->density : d->radial;
}

static tiny_status tinyi_mace_parse(tiny_ctx *ctx, const char *path, const unsigned char *text, size_t n,
                                    tgnn_mace_desc *d)
{
    tinyi_json_walk w;
    tinyi_json_item it;
    int list = -1, filled[TINYI_MACE_LISTS], k, ok;
    tiny_status st = tinyi_json_begin(&w, ctx, path, "the description of the potential", text, n, n);
    memset(d, 0, sizeof *d);
    memset(filled, 0, sizeof filled);
    while (!st && !(st = tinyi_json_next(&w, &it)) && it.type != TINYI_JSON_END) {
        int *whole = it.key.at ? tinyi_mace_whole(d, it.key) : NULL;
        double *real = it.key.at ? tinyi_mace_real(d, it.key) : NULL;
        ok = 1;
        if (it.type == TINYI_JSON_MAP) ok = it.depth == 0;
        else if (it.type == TINYI_JSON_CLOSE) list = -1;
        else if (it.type == TINYI_JSON_LIST) {
            for (k = 0; k < TINYI_MACE_LISTS && !(it.key.at && tinyi_json_text_is(it.key, tinyi_mace_lists[k])); k++) {}
            ok = k < TINYI_MACE_LISTS && list < 0 && !filled[k];
            list = k;
        } else if (it.type == TINYI_JSON_INT && list >= 0) {
            ok = filled[list] < tinyi_mace_room[list] && it.i >= 0 && it.i <= 1 << 20;
            if (ok) tinyi_mace_list_at(d, list)[filled[list]++] = (int)it.i;
        } else if (it.type == TINYI_JSON_INT && whole && it.i >= 0 && it.i <= 1 << 20) *whole = (int)it.i;
        else if (it.type == TINYI_JSON_INT && real) *real = (double)it.i;
        else if (it.type == TINYI_JSON_FLOAT && real) *real = it.f;
        else ok = 0;
        if (!ok) {
            char key[64];
            (void)tiny_plain(key, sizeof key, it.key.at, it.key.at ? it.key.n : 0);
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: the description of the potential has \"%s\" with an unknown value", path, key);
        }
    }
    d->n_elements = filled[0];
    d->kinds = filled[2] > 0;
    d->n_radial = filled[4];
    for (k = 1; !st && k <= 3; k++)
        if (filled[k] && filled[k] != d->layers)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: the description of the potential has %d numbers in \"%s\" for %d layers", path,
                              filled[k], tinyi_mace_lists[k], d->layers);
    return st ? st : tinyi_mace_check(ctx, path, d);
}

/* ---- tensors */

static const tinyi_st_tensor *tinyi_mace_tensor(tinyi_mace_reader *r, const char *name)
{
    size_t i;
    for (i = 0; i < r->n_tensors; i++)
        if (!r->used[i] && tinyi_json_text_is(r->tensor[i].name, name)) {
            r->used[i] = 1;
            return &r->tensor[i];
        }
    return NULL;
}

static void tinyi_mace_shape(char text[96], int rank, const uint64_t *dim)
{
    size_t at = 0;
    int i;
    text[0] = 0;
    for (i = 0; i < rank && at < 80; i++)
        at += (size_t)snprintf(text + at, 96 - at, "%s%llu", i ? "x" : "", (unsigned long long)dim[i]);
}

static tiny_status tinyi_mace_numbers(tinyi_mace_reader *r, const tinyi_st_tensor *t, const char *name, size_t n,
                                      double *to)
{
    const int wide = t->type == TINYI_ST_F64;
    size_t i;
    if (!wide && t->type != TINYI_ST_F32)
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: tensor %s must be F32 or F64", r->path, name);
    for (i = 0; i < n; i++) {
        to[i] = wide ? tinyi_bits_f64(tinyi_le64(t->data + 8 * i))
                     : (double)tinyi_bits_f32(tinyi_le32(t->data + 4 * i));
        if (to[i] - to[i] != 0.0)
            return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: tensor %s has a number that is not finite", r->path, name);
    }
    return TINY_OK;
}

static tiny_status tinyi_mace_fill(tinyi_mace_reader *r, tinyi_mace_param *p)
{
    const tinyi_st_tensor *t = tinyi_mace_tensor(r, p->name);
    uint64_t dim[3];
    char have[96], want[96];
    size_t n = 1;
    int i, same;
    if (!t) return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: tensor %s is missing", r->path, p->name);
    for (i = 0, same = t->rank == p->rank; i < p->rank; i++) {
        dim[i] = (uint64_t)p->dim[i];
        same = same && t->dim[i] == dim[i];
        n *= (size_t)p->dim[i];
    }
    if (!same) {
        tinyi_mace_shape(have, t->rank, t->dim);
        tinyi_mace_shape(want, p->rank, dim);
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: tensor %s has the shape %s, the description needs %s", r->path,
                          p->name, have, want);
    }
    return tinyi_mace_numbers(r, t, p->name, n, p->value);
}

/* couple.l.nu of the file, where it is there; the polynomials are counted by the weights of a layer that uses them */
static tiny_status tinyi_mace_basis_read(tinyi_mace_reader *r, const tgnn_mace_desc *d, int l, int nu)
{
    tinyi_mace_basis *b = &r->basis[l][nu];
    const int side = (d->l_max + 1) * (d->l_max + 1);
    const tinyi_st_tensor *t, *v;
    char name[TINYI_MACE_NAME];
    size_t i, q;
    uint64_t n_k = 0;
    int k, f;
    tiny_status st;
    (void)snprintf(name, sizeof name, "couple.%d.%d.index", l, nu + 1);
    t = tinyi_mace_tensor(r, name);
    (void)snprintf(name, sizeof name, "couple.%d.%d.value", l, nu + 1);
    v = tinyi_mace_tensor(r, name);
    if (!t && !v) return TINY_OK;
    if (!t || !v || t->type != TINYI_ST_I32 || t->rank != 2 || t->dim[1] != 5 || v->rank != 1 ||
        v->dim[0] != t->dim[0] || t->dim[0] > 1 << 24)
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: couple.%d.%d needs an index of n x 5 whole numbers (I32) and n "
                          "values", r->path, l, nu + 1);
    for (k = 0; k < d->layers && !n_k; k++) {
        (void)snprintf(name, sizeof name, "layer.%d.product.%d.%d", k, l, nu + 1);
        for (i = 0; i < r->n_tensors; i++)
            if (tinyi_json_text_is(r->tensor[i].name, name) && r->tensor[i].rank == 3) n_k = r->tensor[i].dim[1];
    }
    b->n = (int)t->dim[0];
    b->term = (int32_t(*)[5])tinyi_alloc(r->ctx, (size_t)b->n + 1, sizeof *b->term);
    b->value = (double *)tinyi_alloc(r->ctx, (size_t)b->n + 1, sizeof *b->value);
    if (!b->term || !b->value) return tiny_ctx_status(r->ctx);
    for (i = 0; i < (size_t)b->n; i++) {
        int32_t *e = b->term[i];
        int ok;
        for (q = 0; q < 5; q++) {
            const uint32_t u = tinyi_le32(t->data + 4 * (5 * i + q));
            e[q] = u <= 0x7fffffff ? (int32_t)u : -1;
        }
        ok = e[0] >= 0 && e[0] <= 2 * l && e[4] >= 0 && (uint64_t)e[4] < n_k;
        for (f = 1; f <= 3; f++)
            ok = ok && (f <= nu + 1 ? e[f] >= (f > 1 ? e[f - 1] : 0) && e[f] < side : e[f] == -1);
        if (!ok)
            return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: term %zu of couple.%d.%d is not a component, rising factors "
                              "below %d and a polynomial that has weights", r->path, i, l, nu + 1, side);
    }
    b->n_k = (int)n_k;
    (void)snprintf(name, sizeof name, "couple.%d.%d.value", l, nu + 1);
    st = tinyi_mace_numbers(r, v, name, (size_t)b->n, b->value);
    return st;
}

static tiny_status tinyi_mace_load(tinyi_mace_reader *r, const tiny_file *file, tgnn_mace **out)
{
    tinyi_st_sink sink;
    tgnn_mace_desc desc;
    size_t i;
    int l, nu;
    tiny_status st;
    memset(&sink, 0, sizeof sink);
    sink.arg = r;
    sink.meta = tinyi_mace_meta;
    sink.tensor = tinyi_mace_collect;
    st = tinyi_st_walk(r->ctx, r->path, file->bytes, file->n_bytes, &sink);
    if (!st && (r->n_lines != 1 || !r->n_line))
        st = tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: \"__metadata__\" must have one \"mace\", the description of the "
                        "potential, of at most %d bytes", r->path, TINYI_MACE_LINE);
    if (!st && r->n_tensors > TINYI_MACE_TENSORS)
        st = tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: %zu tensors, a potential has at most %d", r->path, r->n_tensors,
                        TINYI_MACE_TENSORS);
    if (!st) st = tinyi_mace_parse(r->ctx, r->path, r->line, r->n_line, &desc);
    if (st) return st;
    r->used = (unsigned char *)tinyi_alloc(r->ctx, r->n_tensors + 1, 1);
    r->tensor = (tinyi_st_tensor *)tinyi_alloc(r->ctx, r->n_tensors + 1, sizeof *r->tensor);
    if (!r->used || !r->tensor) return tiny_ctx_status(r->ctx);
    memset(r->used, 0, r->n_tensors + 1);
    r->n_tensors = 0;
    sink.meta = NULL;
    st = tinyi_st_walk(r->ctx, r->path, file->bytes, file->n_bytes, &sink);
    for (l = 0; !st && l <= desc.l_max; l++)
        for (nu = 0; !st && nu < 3; nu++) st = tinyi_mace_basis_read(r, &desc, l, nu);
    if (!st) st = tinyi_mace_make(r->ctx, &desc, r->basis, r->path, (double)file->n_bytes / 4.0, out);
    for (i = 0; !st && i < (size_t)(*out)->n_params; i++) st = tinyi_mace_fill(r, &(*out)->param[i]);
    for (i = 0; !st && i < r->n_tensors; i++)
        if (!r->used[i]) {
            char name[64];
            (void)tiny_plain(name, sizeof name, r->tensor[i].name.at, r->tensor[i].name.n);
            st = tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: tensor %s is not part of the potential that is described",
                            r->path, name);
        }
    return st;
}

TINY_API tiny_status tgnn_mace_load(tiny_ctx *ctx, const char *path, tgnn_mace **out)
{
    tinyi_mace_reader *r;
    tiny_file file;
    tiny_status st = tinyi_ctx_check(ctx);
    int l, nu;
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "mace: a path and an output are needed");
    st = tiny_file_open(ctx, path, &file);
    if (st) return st;
    r = (tinyi_mace_reader *)tinyi_alloc(ctx, 1, sizeof *r);
    if (r) {
        memset(r, 0, sizeof *r);
        r->ctx = ctx;
        r->path = path;
        st = tinyi_mace_load(r, &file, out);
        for (l = 0; l < TINYI_MACE_SIDE; l++)
            for (nu = 0; nu < 3; nu++) tinyi_mace_basis_free(ctx, &r->basis[l][nu]);
        tiny_free(ctx, r->used);
        tiny_free(ctx, r->tensor);
    } else st = tiny_ctx_status(ctx);
    tiny_free(ctx, r);
    tiny_file_close(ctx, &file);
    if (st) {
        tgnn_mace_close(*out);
        *out = NULL;
    }
    return st;
}

/* ---- writing */

static size_t tinyi_mace_put_list(char *to, size_t room, const char *name, const int *x, int n)
{
    size_t at = (size_t)snprintf(to, room, "\\\"%s\\\":[", name);
    int i;
    for (i = 0; i < n; i++) at += (size_t)snprintf(to + at, room - at, "%s%d", i ? "," : "", x[i]);
    return at + (size_t)snprintf(to + at, room - at, "],");
}

static size_t tinyi_mace_describe(char *to, size_t room, const tgnn_mace_desc *d)
{
    size_t at = (size_t)snprintf(to, room, "\"__metadata__\":{\"mace\":\"{");
    at += tinyi_mace_put_list(to + at, room - at, "elements", d->elements, d->n_elements);
    at += tinyi_mace_put_list(to + at, room - at, "correlation", d->correlation, d->layers);
    at += tinyi_mace_put_list(to + at, room - at, "kind", d->kind, d->layers);
    at += tinyi_mace_put_list(to + at, room - at, "density", d->density, d->layers);
    at += tinyi_mace_put_list(to + at, room - at, "radial", d->radial, d->n_radial);
    at += (size_t)snprintf(to + at, room - at,
                           "\\\"channels\\\":%d,\\\"l_max\\\":%d,\\\"hidden\\\":%d,\\\"last\\\":%d,\\\"layers\\\":%d,"
                           "\\\"bessel\\\":%d,\\\"power\\\":%d,\\\"late\\\":%d,\\\"zbl\\\":%d,\\\"agnesi\\\":%d,"
                           "\\\"readout\\\":%d,\\\"r_max\\\":%.17g,"
                           "\\\"average\\\":%.17g,\\\"scale\\\":%.17g,\\\"shift\\\":%.17g}\"}",
                           d->channels, d->l_max, d->hidden, d->last, d->layers, d->n_bessel, d->power, d->late != 0,
                           d->zbl, d->agnesi != 0, d->readout, d->r_max, d->average, d->scale, d->shift);
    return at;
}

TINY_API tiny_status tgnn_mace_save(tiny_ctx *ctx, const tgnn_mace *m, const char *path)
{
    tinyi_st_head head;
    unsigned char *bytes, *to;
    char name[TINYI_MACE_NAME];
    size_t room, n_terms = 0, i, k;
    int l, nu, f;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!m || !path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "mace: a model and a path are needed");
    for (l = 0; l < TINYI_MACE_SIDE; l++)
        for (nu = 0; nu < 3; nu++) n_terms += (size_t)m->basis[l][nu].n;
    room = TINYI_ST_HEAD(m->n_params + 6 * TINYI_MACE_SIDE, TINYI_MACE_NAME) + TINYI_MACE_LINE;
    if (!tinyi_size_add(room, (size_t)m->n_values * 8, &room) || !tinyi_size_add(room, n_terms * 28, &room))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "mace: the file would be larger than this machine can address");
    bytes = (unsigned char *)tiny_alloc(ctx, room);
    if (!bytes) return tiny_ctx_status(ctx);
    tinyi_st_begin(&head, bytes, room);
    head.n += tinyi_mace_describe((char *)bytes + head.n, TINYI_MACE_LINE, &m->desc);
    for (i = 0; i < (size_t)m->n_params; i++)
        tinyi_st_entry(&head, m->param[i].name, TINYI_ST_F64, m->param[i].rank, m->param[i].dim);
    for (f = 0; f < 2; f++)                 /* values first: their places are multiples of 8 */
        for (l = 0; l < TINYI_MACE_SIDE; l++)
            for (nu = 0; nu < 3; nu++) {
                tiny_idx dim[2] = { m->basis[l][nu].n, 5 };
                if (!m->basis[l][nu].term) continue;
                (void)snprintf(name, sizeof name, "couple.%d.%d.%s", l, nu + 1, f ? "index" : "value");
                tinyi_st_entry(&head, name, f ? TINYI_ST_I32 : TINYI_ST_F64, f ? 2 : 1, dim);
            }
    to = tinyi_st_end(&head);
    for (i = 0; i < (size_t)m->n_values; i++, to += 8) tinyi_put_le(to, tinyi_f64_bits(m->values[i]), 8);
    for (f = 0; f < 2; f++)
        for (l = 0; l < TINYI_MACE_SIDE; l++)
            for (nu = 0; nu < 3; nu++) {
                const tinyi_mace_basis *b = &m->basis[l][nu];
                for (i = 0; b->term && i < (size_t)b->n; i++) {
                    if (!f) {
                        tinyi_put_le(to, tinyi_f64_bits(b->value[i]), 8);
                        to += 8;
                    }
                    for (k = 0; f && k < 5; k++, to += 4) tinyi_put_le32(to, (uint32_t)b->term[i][k]);
                }
            }
    st = tiny_file_write(ctx, path, bytes, (size_t)(to - bytes));
    tiny_free(ctx, bytes);
    return st;
}
