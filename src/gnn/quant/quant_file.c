/* src/gnn/quant/quant_file.c - reads and writes files of integer nets
 *
 * A first walk records the position of each tensor. Then all of them are checked together: missing tensors, different
 * numbers of steps, overlaps. Memory is allocated only after that, for the tensors that the file really has. */
#include <stdio.h>
#include <string.h>
#include "gnn/layer/net_file_inside.h"
#include "gnn/quant/bits.h"
#include "gnn/quant/quant.h"
#include "core/bytes.h"
#include "core/file.h"
#include "core/safetensors.h"
#include "core/state_inside.h"

/* what stands in a file for a map, behind the name of its matrix */
enum { TINYI_QUANT_CODE, TINYI_QUANT_SCALE, TINYI_QUANT_STEP, TINYI_QUANT_BITS, TINYI_QUANT_SUM, TINYI_QUANT_PARTS };
static const char *const tinyi_quant_ending[TINYI_QUANT_PARTS] = { "", ".scale", ".step", ".bits", ".sum" };

enum { TINYI_QUANT_NAME = TGNN_NET_NAME + 40 };
#define TINYI_QUANT_PLACES (TGNN_A2Q_MAPS * TINYI_QUANT_PARTS + TGNN_NET_MOST * TGNN_LAYER_WEIGHTS)

/* a tensor that the file has, or should have */
typedef struct tinyi_quant_place {
    char name[TINYI_QUANT_NAME];
    int byte;                               /* U8; else F32 */
    int rank;
    tiny_idx dim[3];                        /* below 0: as many as there are steps */
    int optional;
    int map, part;                          /* map -1: weight `part` of stage `stage` */
    int stage;
    const unsigned char *data;              /* in the file */
    size_t bytes;
} tinyi_quant_place;

typedef struct tinyi_quant_places {
    tiny_ctx *ctx;
    const char *path;
    tinyi_quant_place *at;
    int n;
    tiny_idx n_steps;                       /* 0: not known yet */
    tiny_status st;
} tinyi_quant_places;

/* every tensor that a net of this description can have */
static void tinyi_quant_list(const tgnn_net *net, const tgnn_a2q_net *q, tinyi_quant_places *p)
{
    tinyi_net_weight w;
    int i, k, m;
    for (i = 0; i < net->n_stages; i++)
        for (k = 0; k < TGNN_LAYER_WEIGHTS; k++) {
            tinyi_quant_place *t;
            int part;
            if (!tinyi_net_wants(&net->stage[i], k, &w)) continue;
            for (m = 0; m < q->n_maps && !(q->map[m].stage == i && q->map[m].weight == k); m++) {}
            for (part = 0; part < (m < q->n_maps ? TINYI_QUANT_PARTS : 1); part++) {
                if (m < q->n_maps && ((q->map[m].raw && (part == TINYI_QUANT_STEP || part == TINYI_QUANT_BITS)) ||
                                      (part == TINYI_QUANT_SUM && (net->stage[i].kind != TGNN_STAGE_CONV || k))))
                    continue;
                t = &p->at[p->n++];
                memset(t, 0, sizeof *t);
                (void)snprintf(t->name, sizeof t->name, "%s.%s%s", net->stage[i].name, w.name,
                               tinyi_quant_ending[part]);
                t->stage = i;
                t->part = m < q->n_maps ? part : k;
                t->map = m < q->n_maps ? m : -1;
                if (t->map < 0) {
                    t->rank = w.rank;
                    memcpy(t->dim, w.dim, sizeof t->dim);
                    t->optional = w.optional;
                    continue;
                }
                t->byte = part == TINYI_QUANT_CODE || part == TINYI_QUANT_BITS;
                t->rank = part == TINYI_QUANT_CODE ? 2 : 1;
                t->dim[0] = part == TINYI_QUANT_STEP || part == TINYI_QUANT_BITS ? -1 : q->map[m].n_out;
                t->dim[1] = (q->map[m].n_in + 1) / 2;
            }
        }
}

/* ---- read */

static void tinyi_quant_take(void *arg, const tinyi_st_tensor *t)
{
    tinyi_quant_places *p = (tinyi_quant_places *)arg;
    tinyi_quant_place *at = NULL;
    char shown[TINYI_SHOW];
    int i, k, fits;
    if (p->st) return;
    (void)tinyi_show_bytes(t->name.at, t->name.n, shown);
    for (i = 0; i < p->n && !at; i++)
        if (tinyi_json_text_is(t->name, p->at[i].name)) at = &p->at[i];
    if (!at)
        p->st = tinyi_fail(p->ctx, TINY_E_FORMAT, "%s: the tensor %s belongs to no layer of the description", p->path,
                           shown);
    else if (at->data)
        p->st = tinyi_fail(p->ctx, TINY_E_FORMAT, "%s: the tensor %s occurs twice", p->path, shown);
    else if (t->type != (at->byte ? TINYI_ST_U8 : TINYI_ST_F32))
        p->st = tinyi_fail(p->ctx, TINY_E_DTYPE, "%s: the tensor %s is not of type %s", p->path, shown,
                           at->byte ? "U8" : "F32");
    if (p->st) return;
    /* eps may be of rank 0 */
    fits = t->rank == at->rank || (at->map < 0 && at->rank == 1 && at->dim[0] == 1 && t->rank == 0);
    for (k = 0; fits && k < t->rank; k++) {
        if (at->dim[k] < 0 && !p->n_steps && t->dim[k] >= 1 && t->dim[k] <= 0x7fffffff)
            p->n_steps = (tiny_idx)t->dim[k];
        fits = t->dim[k] == (uint64_t)(at->dim[k] < 0 ? p->n_steps : at->dim[k]) && t->dim[k] > 0;
    }
    if (!fits) {
        p->st = tinyi_fail(p->ctx, TINY_E_SHAPE,
                           "%s: the tensor %s does not have the shape that the description and the other steps require",
                           p->path, shown);
        return;
    }
    for (i = 0; i < p->n; i++)
        if (p->at[i].data && t->data < p->at[i].data + p->at[i].bytes && p->at[i].data < t->data + t->bytes)
            p->st = tinyi_fail(p->ctx, TINY_E_FORMAT, "%s: the tensor %s overlaps another one", p->path, shown);
    at->data = t->data;
    at->bytes = t->bytes;
}

static tiny_status tinyi_quant_floats_of(const tinyi_quant_places *p, const tinyi_quant_place *t, float *to, int above)
{
    tinyi_cursor c = tinyi_cursor_make(t->data, t->bytes);
    size_t i;
    for (i = 0; i < t->bytes / 4; i++) {
        (void)tinyi_rd_f32(&c, &to[i]);
        if (!(to[i] - to[i] == 0.0f) || (above && !(to[i] >= TGNN_A2Q_STEP)))
            return tinyi_fail(p->ctx, TINY_E_NUMERIC, "%s: number %zu of the tensor %s is %g%s", p->path, i, t->name,
                              (double)to[i], above ? "; a step is at least 1e-8" : "");
    }
    return TINY_OK;
}

static tiny_status tinyi_quant_fill(const tinyi_quant_places *p, tgnn_quant *n, const tinyi_quant_place *t)
{
    tgnn_a2q_map *m = t->map < 0 ? NULL : &n->q->map[t->map];
    tinyi_net_weight w;
    tiny_idx i, j;
    tiny_status st;
    if (!m) {
        tgnn_layer *l = &n->net->stage[t->stage].layer;
        (void)tinyi_net_wants(&n->net->stage[t->stage], t->part, &w);
        st = tinyi_net_weight_room(p->ctx, l, t->part, &w);
        return st ? st : tinyi_quant_floats_of(p, t, (float *)l->w[t->part].data, 0);
    }
    switch (t->part) {
    case TINYI_QUANT_SCALE: return tinyi_quant_floats_of(p, t, m->weight_step, 1);
    case TINYI_QUANT_STEP: return tinyi_quant_floats_of(p, t, m->step, 1);
    case TINYI_QUANT_SUM: return tinyi_quant_floats_of(p, t, m->sum_step, 1);
    case TINYI_QUANT_BITS:
        for (i = 0; i < m->n_steps; i++) {
            if (t->data[i] < 1 || t->data[i] > TGNN_A2Q_BITS)
                return tinyi_fail(p->ctx, TINY_E_FORMAT,
                                  "%s: number %td of the tensor %s is %d; it must be 1 to %d bits", p->path, i, t->name,
                                  t->data[i], TGNN_A2Q_BITS);
            m->bits[i] = (float)t->data[i];
        }
        return TINY_OK;
    default: break;
    }
    /* n_out (n_in + 1) / 2 bytes: twice that is enough */
    n->code[t->map] = (int8_t *)tinyi_alloc(p->ctx, t->bytes, 2);
    if (!n->code[t->map]) return tiny_ctx_status(p->ctx);
    for (i = 0; i < m->n_out; i++) {
        int8_t *row = n->code[t->map] + i * m->n_in;
        tgnn_bits_unpack((uint8_t *)row, t->data + i * t->dim[1], (size_t)m->n_in, TGNN_A2Q_WEIGHT_BITS);
        for (j = 0; j < m->n_in; j++) {
            if (row[j] > 14)
                return tinyi_fail(p->ctx, TINY_E_FORMAT,
                                  "%s: number %td of row %td of the tensor %s is 15; it must be 0 to 14", p->path, j, i,
                                  t->name);
            row[j] = (int8_t)(row[j] - 7);
        }
    }
    return TINY_OK;
}

TINY_API tiny_status tgnn_quant_read_memory(tiny_ctx *ctx, const char *name, const void *json, size_t n_json,
                                            const void *weights, size_t n_weights, tgnn_quant **out)
{
    tinyi_quant_places p;
    tinyi_st_sink sink;
    tgnn_quant *n;
    int i, input = 0, steps = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!name || !json || !out || (!weights && n_weights))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "quant: the name, the description, the weights or the output pointer is missing");
    memset(&p, 0, sizeof p);
    p.ctx = ctx;
    p.path = name;
    n = (tgnn_quant *)tiny_alloc(ctx, sizeof *n);
    if (!n) return tiny_ctx_status(ctx);
    memset(n, 0, sizeof *n);
    n->net = (tgnn_net *)tiny_alloc(ctx, sizeof *n->net);
    if (n->net) memset(n->net, 0, sizeof *n->net);
    n->q = n->net ? (tgnn_a2q_net *)tiny_alloc(ctx, sizeof *n->q) : NULL;
    if (n->q) memset(n->q, 0, sizeof *n->q);
    p.at = n->q ? (tinyi_quant_place *)tinyi_alloc(ctx, TINYI_QUANT_PLACES, sizeof *p.at) : NULL;
    st = p.at ? tinyi_net_describe(ctx, name, json, n_json, n->net) : tiny_ctx_status(ctx);
    if (!st && !n->net->quant)
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: the description has no \"quant\": this is not a quantized net", name);
    if (!st) {
        input = (n->net->quant - 1) / 3;
        steps = (n->net->quant - 1) % 3;
        n->q->desc.published = steps == TINYI_QUANT_PUBLISHED;
        st = tinyi_a2q_maps(ctx, n->net, input == TINYI_QUANT_RAW, input != TINYI_QUANT_SIGNED, n->q);
    }
    if (!st && !n->q->n_maps)
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: the description has no layer with weights", name);
    if (!st) {
        tinyi_quant_list(n->net, n->q, &p);
        sink.arg = &p;
        sink.meta = NULL;
        sink.tensor = tinyi_quant_take;
        st = tinyi_st_walk(ctx, name, weights, n_weights, &sink);
    }
    if (!st) st = p.st;
    for (i = 0; !st && i < p.n; i++)
        if (!p.at[i].data && !p.at[i].optional)
            st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: the tensor %s is missing", name, p.at[i].name);
    /* raw input and one layer: no steps, any graph */
    if (!st && !p.n_steps && steps == TINYI_QUANT_NODES) steps = TINYI_QUANT_GROUPS;
    if (!st) st = tinyi_a2q_room(ctx, n->net, n->q, p.n_steps);
    if (!st) {
        n->q->n_nodes = steps == TINYI_QUANT_NODES ? p.n_steps : 0;
        n->q->desc.groups = steps == TINYI_QUANT_NODES ? 0 : p.n_steps;
    }
    for (i = 0; !st && i < p.n; i++)
        if (p.at[i].data) st = tinyi_quant_fill(&p, n, &p.at[i]);
    if (!st) st = tinyi_quant_turn(ctx, n);
    tiny_free(ctx, p.at);
    if (st) tgnn_quant_free(ctx, n);
    else *out = n;
    return st;
}

static tiny_status tinyi_quant_open(tiny_ctx *ctx, const char *path, const char *ending, tiny_file *f)
{
    char *name = tinyi_net_path(ctx, path, ending);
    const tiny_status st = name ? tiny_file_open(ctx, name, f) : tiny_ctx_status(ctx);
    tiny_free(ctx, name);
    return st;
}

TINY_API tiny_status tgnn_quant_read(tiny_ctx *ctx, const char *path, tgnn_quant **out)
{
    tiny_file a, b;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "quant: the path or the output pointer is missing");
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    st = tinyi_quant_open(ctx, path, ".json", &a);
    if (!st) st = tinyi_quant_open(ctx, path, ".safetensors", &b);
    if (!st) st = tgnn_quant_read_memory(ctx, path, a.bytes, a.n_bytes, b.bytes, b.n_bytes, out);
    tiny_file_close(ctx, &a);
    tiny_file_close(ctx, &b);
    return st;
}

TINY_API tiny_status tgnn_quant_known(tiny_ctx *ctx, const char *path, int *is)
{
    tgnn_net *net;
    tiny_file f;
    tiny_status st = tinyi_ctx_check(ctx);
    if (is) *is = 0;
    if (st) return st;
    if (!path || !is) return tinyi_fail(ctx, TINY_E_ARGUMENT, "quant: the path or the output pointer is missing");
    memset(&f, 0, sizeof f);
    net = (tgnn_net *)tiny_alloc(ctx, sizeof *net);
    if (!net) return tiny_ctx_status(ctx);
    memset(net, 0, sizeof *net);
    st = tinyi_quant_open(ctx, path, ".json", &f);
    if (!st) st = tinyi_net_describe(ctx, path, f.bytes, f.n_bytes, net);
    if (!st) *is = net->quant != 0;
    tiny_file_close(ctx, &f);
    tiny_free(ctx, net);
    return st;
}

/* ---- written */

static const float *tinyi_quant_source(const tgnn_quant *n, const tinyi_quant_place *t)
{
    const tgnn_a2q_map *m;
    if (t->map < 0) return (const float *)n->net->stage[t->stage].layer.w[t->part].data;
    m = &n->q->map[t->map];
    return t->part == TINYI_QUANT_SCALE  ? m->weight_step
           : t->part == TINYI_QUANT_SUM  ? m->sum_step
           : t->part == TINYI_QUANT_STEP ? m->step
                                         : m->bits;
}

/* Sets the dims that the steps give, and the bytes; 0: the net has no such tensor. */
static int tinyi_quant_measure(const tgnn_quant *n, tinyi_quant_place *t)
{
    int k;
    if (t->map < 0 && !n->net->stage[t->stage].layer.w[t->part].data) return 0;
    t->bytes = t->byte ? 1 : 4;
    for (k = 0; k < t->rank; k++) {
        if (t->dim[k] < 0) t->dim[k] = n->q->map[t->map].n_steps;
        t->bytes *= (size_t)t->dim[k];
    }
    return 1;
}

static void tinyi_quant_emit(const tgnn_quant *n, const tinyi_quant_place *t, unsigned char *to, uint8_t *row)
{
    const float *from = tinyi_quant_source(n, t);
    size_t i, j;
    if (t->map >= 0 && t->part == TINYI_QUANT_CODE) {
        const size_t n_in = (size_t)n->q->map[t->map].n_in;
        for (i = 0; i < (size_t)t->dim[0]; i++) {
            for (j = 0; j < n_in; j++) row[j] = (uint8_t)(n->code[t->map][i * n_in + j] + 7);
            tgnn_bits_pack(to + i * (size_t)t->dim[1], row, n_in, TGNN_A2Q_WEIGHT_BITS);
        }
    } else if (t->byte)
        for (i = 0; i < t->bytes; i++) to[i] = (unsigned char)from[i];
    else
        for (i = 0; i < t->bytes / 4; i++) tinyi_net_put_f32(to + 4 * i, from + i);
}

TINY_API tiny_status tgnn_quant_write(tiny_ctx *ctx, const char *path, const tgnn_quant *n)
{
    tinyi_quant_places p;
    tinyi_st_head head;
    unsigned char *bytes = NULL, *to;
    uint8_t *row = NULL;
    char *name;
    size_t data = 0, room, wide = 1;
    int i, k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!path || !n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "quant: the path or the net is missing");
    memset(&p, 0, sizeof p);
    p.at = (tinyi_quant_place *)tinyi_alloc(ctx, TINYI_QUANT_PLACES, sizeof *p.at);
    if (!p.at) return tiny_ctx_status(ctx);
    tinyi_quant_list(n->net, n->q, &p);
    for (i = k = 0; i < p.n; i++)
        if (tinyi_quant_measure(n, &p.at[i])) {
            data += p.at[i].bytes;
            p.at[k++] = p.at[i];
        }
    p.n = k;
    for (i = 0; i < n->q->n_maps; i++) wide = TINYI_MAX(wide, (size_t)n->q->map[i].n_in);
    room = TINYI_ST_HEAD(p.n, TINYI_QUANT_NAME);
    bytes = (unsigned char *)tiny_alloc(ctx, room + data);
    row = bytes ? (uint8_t *)tiny_alloc(ctx, wide) : NULL;
    if (!row) st = tiny_ctx_status(ctx);
    else {
        tinyi_st_begin(&head, bytes, room);
        for (i = 0; i < p.n; i++)
            tinyi_st_entry(&head, p.at[i].name, p.at[i].byte ? TINYI_ST_U8 : TINYI_ST_F32, p.at[i].rank, p.at[i].dim);
        to = tinyi_st_end(&head);
        for (i = 0; i < p.n; to += p.at[i].bytes, i++) tinyi_quant_emit(n, &p.at[i], to, row);
        name = tinyi_net_path(ctx, path, ".safetensors");
        st = name ? tiny_file_write(ctx, name, bytes, (size_t)(to - bytes)) : tiny_ctx_status(ctx);
        tiny_free(ctx, name);
    }
    tiny_free(ctx, row);
    tiny_free(ctx, bytes);
    tiny_free(ctx, p.at);
    return st ? st : tinyi_net_write_json(ctx, path, n->net);
}
