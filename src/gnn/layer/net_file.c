/* src/gnn/layer/net_file.c - the weights of a net: reads them from safetensors, draws initial ones, writes them to
 * safetensors
 *
 * The walk of core/safetensors.h reports each tensor once. It is looked up among the weights of the description, so
 * memory is allocated only for tensors that the file really has. Two tensors over the same bytes are an error: the
 * format does not allow that. */
#include <stdio.h>
#include <string.h>
#include "gnn/layer/net_file_inside.h"
#include "gnn/graph/words_inside.h"
#include "core/bytes.h"
#include "core/file.h"
#include "core/rng.h"
#include "core/safetensors.h"
#include "core/state_inside.h"
#include "math/optim.h"
#include "math/init.h"

typedef struct tinyi_net_fill {
    tiny_ctx *ctx;
    const char *path;
    tgnn_net *net;
    const unsigned char *from[TGNN_NET_MOST * TGNN_LAYER_WEIGHTS];  /* where in the file each weight came from */
    tiny_status st;
} tinyi_net_fill;

/* weight k of the stage, also one that its class saves and does not use */
static int tinyi_net_saves(const tgnn_stage *stage, int k, tinyi_net_weight *w)
{
    tgnn_stage s = *stage;
    s.no_root = 0;
    return tinyi_net_wants(&s, k, w);
}

/* is the tensor weight w of the stage? */
static int tinyi_net_named(const tgnn_stage *s, const tinyi_net_weight *w, tinyi_json_text t)
{
    const size_t a = strlen(s->name), b = strlen(w->name);
    return a && !t.escapes && t.n == a + 1 + b && !memcmp(t.at, s->name, a) && t.at[a] == '.' &&
           !memcmp(t.at + a + 1, w->name, b);
}

/* as it is described, or without dimensions of 1 before it: att (heads, c), eps of rank 0 */
static int tinyi_net_fits(const tinyi_net_weight *w, const tinyi_st_tensor *t)
{
    int skip = 0, k;
    while (skip < w->rank && w->rank - skip > t->rank && w->dim[skip] == 1) skip++;
    if (w->rank - skip != t->rank) return 0;
    for (k = 0; k < t->rank; k++)
        if (t->dim[k] != (uint64_t)w->dim[skip + k]) return 0;
    return 1;
}

static const char *tinyi_net_shape_text(int rank, const uint64_t *dim, char text[96])
{
    int k, n = 0;
    text[0] = 0;
    if (!rank) (void)snprintf(text, 96, "one number");
    for (k = 0; k < rank && n >= 0 && n < 60; k++)
        n += snprintf(text + n, 96 - (size_t)n, k ? " x %llu" : "%llu", (unsigned long long)dim[k]);
    return text;
}

tiny_status tinyi_net_weight_room(tiny_ctx *ctx, tgnn_layer *l, int i, const tinyi_net_weight *w)
{
    size_t n = 1;
    int k;
    for (k = 0; k < w->rank; k++)
        if (!tinyi_size_mul(n, (size_t)w->dim[k], &n))
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "net: the weight %s is larger than this machine can address",
                              w->name);
    l->owned[i] = tinyi_alloc(ctx, n, sizeof(float));
    if (!l->owned[i]) return tiny_ctx_status(ctx);
    l->w[i] = tiny_tensor_nd(l->owned[i], TINY_F32, w->rank, w->dim);
    return TINY_OK;
}

static void tinyi_net_take_tensor(void *arg, const tinyi_st_tensor *t)
{
    tinyi_net_fill *f = (tinyi_net_fill *)arg;
    char shown[TINYI_SHOW], has[96], wants[96];
    tinyi_net_weight w;
    tinyi_cursor c;
    uint64_t dim[3];
    int i, k, a;
    tiny_idx n;
    if (f->st) return;
    (void)tinyi_show_bytes(t->name.at, t->name.n, shown);
    for (i = 0, k = TGNN_LAYER_WEIGHTS; i < f->net->n_stages; i++) {
        for (k = 0; k < TGNN_LAYER_WEIGHTS; k++)
            if (tinyi_net_saves(&f->net->stage[i], k, &w) && tinyi_net_named(&f->net->stage[i], &w, t->name)) break;
        if (k < TGNN_LAYER_WEIGHTS) break;
    }
    if (i == f->net->n_stages)
        f->st = tinyi_fail(f->ctx, TINY_E_FORMAT, "%s: the tensor %s belongs to no layer of the description", f->path,
                           shown);
    else if (f->net->stage[i].layer.w[k].data)
        f->st = tinyi_fail(f->ctx, TINY_E_FORMAT, "%s: the tensor %s occurs twice", f->path, shown);
    else if (t->type != TINYI_ST_F32)
        f->st = tinyi_fail(f->ctx, TINY_E_DTYPE, "%s: the tensor %s is not of type F32", f->path, shown);
    else if (!tinyi_net_fits(&w, t)) {
        for (a = 0; a < w.rank; a++) dim[a] = (uint64_t)w.dim[a];
        f->st = tinyi_fail(f->ctx, TINY_E_SHAPE, "%s: the tensor %s is %s, but the description says %s", f->path, shown,
                           tinyi_net_shape_text(t->rank, t->dim, has), tinyi_net_shape_text(w.rank, dim, wants));
    }
    for (a = 0; !f->st && a < TGNN_NET_MOST * TGNN_LAYER_WEIGHTS; a++) {
        const tgnn_layer *l = &f->net->stage[a / TGNN_LAYER_WEIGHTS].layer;
        const size_t bytes = f->from[a] ? (size_t)tiny_tensor_count(&l->w[a % TGNN_LAYER_WEIGHTS]) * sizeof(float) : 0;
        if (bytes && t->data < f->from[a] + bytes && f->from[a] < t->data + t->bytes)
            f->st = tinyi_fail(f->ctx, TINY_E_FORMAT, "%s: the tensor %s overlaps another one", f->path, shown);
    }
    if (!f->st && !tinyi_net_wants(&f->net->stage[i], k, &w)) return;
    if (!f->st) f->st = tinyi_net_weight_room(f->ctx, &f->net->stage[i].layer, k, &w);
    if (f->st) return;
    f->from[i * TGNN_LAYER_WEIGHTS + k] = t->data;
    c = tinyi_cursor_make(t->data, t->bytes);
    for (n = 0; n < tiny_tensor_count(&f->net->stage[i].layer.w[k]); n++) {
        float v = 0.0f;
        (void)tinyi_rd_f32(&c, &v);
        if (!(v - v == 0.0f)) {
            f->st =
                tinyi_fail(f->ctx, TINY_E_NUMERIC, "%s: number %td of the tensor %s is not finite", f->path, n, shown);
            return;
        }
        ((float *)f->net->stage[i].layer.w[k].data)[n] = v;
    }
}

TINY_API void tgnn_net_free(tiny_ctx *ctx, tgnn_net *net)
{
    int i;
    if (!net) return;
    for (i = 0; i < TGNN_NET_MOST; i++) tgnn_layer_free(ctx, &net->stage[i].layer);
    tiny_free(ctx, net);
}

static tiny_status tinyi_net_begin(tiny_ctx *ctx, const char *name, const void *json, size_t n_json, tgnn_net **out)
{
    tgnn_net *net;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!name || !json || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "net: the name, the description or the output pointer is missing");
    net = (tgnn_net *)tiny_alloc(ctx, sizeof *net);
    if (!net) return tiny_ctx_status(ctx);
    memset(net, 0, sizeof *net);
    st = tinyi_net_describe(ctx, name, json, n_json, net);
    if (!st && net->quant)
        st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: the net is quantized: read it with tgnn_quant_read", name);
    if (st) tgnn_net_free(ctx, net);
    else *out = net;
    return st;
}

TINY_API tiny_status tgnn_net_read_memory(tiny_ctx *ctx, const char *name, const void *json, size_t n_json,
                                          const void *weights, size_t n_weights, tgnn_net **out)
{
    tinyi_net_fill *f;
    tinyi_net_weight w;
    tinyi_st_sink sink;
    tgnn_net *net = NULL;
    int i, k;
    tiny_status st = tinyi_net_begin(ctx, name, json, n_json, out);
    if (st) return st;
    net = *out;
    *out = NULL;
    f = (tinyi_net_fill *)tiny_alloc(ctx, sizeof *f);
    if (!f) {
        tgnn_net_free(ctx, net);
        return tiny_ctx_status(ctx);
    }
    memset(f, 0, sizeof *f);
    f->ctx = ctx;
    f->path = name;
    f->net = net;
    sink.arg = f;
    sink.meta = NULL;
    sink.tensor = tinyi_net_take_tensor;
    st = weights || !n_weights ? tinyi_st_walk(ctx, name, weights, n_weights, &sink)
                               : tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the bytes of the weights are missing", name);
    if (!st) st = f->st;
    for (i = 0; !st && i < net->n_stages; i++)
        for (k = 0; !st && k < TGNN_LAYER_WEIGHTS; k++)
            if (tinyi_net_wants(&net->stage[i], k, &w) && !w.optional && !net->stage[i].layer.w[k].data)
                st =
                    tinyi_fail(ctx, TINY_E_FORMAT, "%s: the tensor %s.%s is missing", name, net->stage[i].name, w.name);
    tiny_free(ctx, f);
    if (st) tgnn_net_free(ctx, net);
    else *out = net;
    return st;
}

/* path without its ending, and with another; one block of the context */
char *tinyi_net_path(tiny_ctx *ctx, const char *path, const char *ending)
{
    static const char *const known[] = { ".safetensors", ".json" };
    size_t n = strlen(path), i;
    char *to;
    for (i = 0; i < 2; i++) {
        const size_t m = strlen(known[i]);
        if (n > m && !strcmp(path + n - m, known[i])) {
            n -= m;
            break;
        }
    }
    to = (char *)tiny_alloc(ctx, n + strlen(ending) + 1);
    if (!to) return NULL;
    memcpy(to, path, n);
    memcpy(to + n, ending, strlen(ending) + 1);
    return to;
}

TINY_API tiny_status tgnn_net_read(tiny_ctx *ctx, const char *path, tgnn_net **out)
{
    char *json = NULL, *weights = NULL;
    tiny_file a, b;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "net: the path or the output pointer is missing");
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    json = tinyi_net_path(ctx, path, ".json");
    weights = json ? tinyi_net_path(ctx, path, ".safetensors") : NULL;
    st = weights ? tiny_file_open(ctx, json, &a) : tiny_ctx_status(ctx);
    if (!st) st = tiny_file_open(ctx, weights, &b);
    if (!st) st = tgnn_net_read_memory(ctx, path, a.bytes, a.n_bytes, b.bytes, b.n_bytes, out);
    tiny_file_close(ctx, &a);
    tiny_file_close(ctx, &b);
    tiny_free(ctx, json);
    tiny_free(ctx, weights);
    return st;
}

/* ---- drawn */

static int tinyi_net_is_eps(const tgnn_stage *s, int k)
{
    return s->kind == TGNN_STAGE_CONV && (s->layer.kind == TGNN_LAYER_GIN || s->layer.kind == TGNN_LAYER_GINE) &&
           k == 4;
}

TINY_API tiny_status tgnn_net_draw(tiny_ctx *ctx, tgnn_net *net, uint64_t seed)
{
    tiny_rng rng = tiny_rng_make(seed, 0x6e6574);
    int i, k;
    tiny_idx a;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net) return tinyi_fail(ctx, TINY_E_ARGUMENT, "net: the net is missing");
    for (i = 0; !st && i < net->n_stages; i++)
        for (k = 0; !st && k < TGNN_LAYER_WEIGHTS; k++) {
            tiny_tensor *w = &net->stage[i].layer.w[k], part;
            if (!w->data) continue;
            if (w->rank < 2)
                st = tiny_init_constant(ctx, w,
                                        tinyi_net_is_eps(&net->stage[i], k) ? (double)net->stage[i].layer.eps : 0.0);
            else if (w->rank == 2) st = tiny_init_xavier(ctx, &rng, w);
            else
                for (a = 0; !st && a < w->dim[0]; a++) {
                    part = tiny_tensor_2d((float *)w->data + a * w->dim[1] * w->dim[2], TINY_F32, w->dim[1], w->dim[2]);
                    st = tiny_init_xavier(ctx, &rng, &part);
                }
        }
    return st;
}

TINY_API tiny_status tgnn_net_make(tiny_ctx *ctx, const char *name, const void *json, size_t n_json, uint64_t seed,
                                   tgnn_net **out)
{
    tinyi_net_weight w;
    int i, k;
    tiny_status st = tinyi_net_begin(ctx, name, json, n_json, out);
    for (i = 0; !st && i < (*out)->n_stages; i++)
        for (k = 0; !st && k < TGNN_LAYER_WEIGHTS; k++)
            if (tinyi_net_wants(&(*out)->stage[i], k, &w))
                st = tinyi_net_weight_room(ctx, &(*out)->stage[i].layer, k, &w);
    if (!st) st = tgnn_net_draw(ctx, *out, seed);
    if (st && out) {
        tgnn_net_free(ctx, *out);
        *out = NULL;
    }
    return st;
}

/* ---- text */

enum { TINYI_NET_STAGE_TEXT = 640, TINYI_NET_TENSOR_NAME = TGNN_NET_NAME + 40 };  /* bytes at most */

typedef struct tinyi_net_text { char *at; size_t n, room; } tinyi_net_text;

static void tinyi_net_say(tinyi_net_text *t, const char *key, const char *value, int quoted)
{
    t->n += (size_t)snprintf(t->at + t->n, t->room - t->n, quoted ? ", \"%s\": \"%s\"" : ", \"%s\": %s", key, value);
}

static void tinyi_net_say_whole(tinyi_net_text *t, const char *key, tiny_idx v)
{
    t->n += (size_t)snprintf(t->at + t->n, t->room - t->n, ", \"%s\": %td", key, v);
}

static void tinyi_net_say_real(tinyi_net_text *t, const char *key, float v)
{
    char text[TINYI_WORD_FLOAT];
    (void)tinyi_word_of_float(v, text);
    tinyi_net_say(t, key, text, 0);
}

/* ---- the usual ones */

TINY_API tiny_status tgnn_net_usual(tiny_ctx *ctx, const tgnn_net_desc *d, uint64_t seed, tgnn_net **out)
{
    tinyi_net_text t;
    int k, depth, attends, elu, heads;
    tiny_idx hidden, width;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!d || !out || d->n_in < 1 || d->n_out < 1 || d->hidden < 0 || d->heads < 0 || d->depth < 0 ||
        d->depth > TGNN_NET_MOST - 2 || d->hidden > TGNN_NET_WIDTH || d->heads > 1024 ||
        !(d->dropout >= 0.0f && d->dropout <= 0.999f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "net: n_in and n_out are at least 1, hidden at most %td, heads 1024, depth %d, dropout 0 to "
                          "0.999, and no value may be negative",
                          TGNN_NET_WIDTH, TGNN_NET_MOST - 2);
    elu = d->kind == TGNN_LAYER_GAT || d->kind == TGNN_LAYER_GATV2;
    attends = elu || d->kind == TGNN_LAYER_TRANSFORMER;
    if (!(attends || d->kind == TGNN_LAYER_GCN || d->kind == TGNN_LAYER_SAGE || d->kind == TGNN_LAYER_GIN))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "net: %s needs a description: use tgnn_net_make", tgnn_layer_name(d->kind));
    heads = attends ? d->heads ? d->heads : 8 : 1;
    hidden = d->hidden ? d->hidden : attends ? 8 : 16;
    depth = d->depth ? d->depth : d->readout ? 4 : 2;
    t.room = 512 + (size_t)depth * TINYI_NET_STAGE_TEXT;
    t.at = (char *)tiny_alloc(ctx, t.room);
    if (!t.at) return tiny_ctx_status(ctx);
    t.n = (size_t)snprintf(t.at, t.room, "{ \"format\": \"tgnn-net 1\", \"rows\": %s, \"layers\": [",
                           d->rows ? "true" : "false");
    for (k = 0, width = d->n_in; k < depth; k++) {
        const int last = !d->readout && k + 1 == depth;
        t.n += (size_t)snprintf(t.at + t.n, t.room - t.n, "%s{ \"kind\": \"%s\", \"name\": \"conv%d\"", k ? ", " : "",
                                tgnn_layer_name(d->kind), k + 1);
        tinyi_net_say_whole(&t, "in", width);
        tinyi_net_say_whole(&t, "out", last ? d->n_out : hidden);
        if (attends) tinyi_net_say_whole(&t, "heads", last ? 1 : heads);
        if (!last) tinyi_net_say(&t, "act", elu ? "elu" : "relu", 1);
        if (!d->readout) tinyi_net_say_real(&t, "dropout", d->dropout);
        if (!d->readout && elu) tinyi_net_say_real(&t, "dropout_edges", d->dropout);
        t.at[t.n++] = '}';
        width = hidden * heads;
    }
    if (d->readout) {
        t.n +=
            (size_t)snprintf(t.at + t.n, t.room - t.n,
                             ", { \"kind\": \"readout\", \"all\": true }, { \"kind\": \"linear\", \"name\": \"lin\"");
        tinyi_net_say_whole(&t, "out", d->n_out);
        tinyi_net_say_real(&t, "dropout", d->dropout);
        t.at[t.n++] = '}';
    }
    t.at[t.n++] = ']';
    t.at[t.n++] = '}';
    st = tgnn_net_make(ctx, "net", t.at, t.n, seed, out);
    tiny_free(ctx, t.at);
    return st;
}

/* ---- written */

static void tinyi_net_say_stage(tinyi_net_text *t, const tgnn_stage *s, int first)
{
    const tgnn_layer *l = &s->layer;
    const int kind = s->kind == TGNN_STAGE_CONV ? (int)l->kind : -1,
              attends = kind == TGNN_LAYER_GAT || kind == TGNN_LAYER_GATV2 || kind == TGNN_LAYER_TRANSFORMER;
    const int spread = kind == TGNN_LAYER_GCN || kind == TGNN_LAYER_SGC || kind == TGNN_LAYER_APPNP;
    t->n += (size_t)snprintf(t->at + t->n, t->room - t->n, "%s    { \"kind\": \"%s\"", first ? "" : ",\n",
                             kind >= 0                      ? tgnn_layer_name(l->kind)
                             : s->kind == TGNN_STAGE_LINEAR ? "linear"
                                                            : "readout");
    if (s->name[0]) tinyi_net_say(t, "name", s->name, 1);
    tinyi_net_say_whole(t, "in", s->n_in);
    if (kind != TGNN_LAYER_APPNP && s->kind != TGNN_STAGE_READOUT) tinyi_net_say_whole(t, "out", s->out);
    if (attends) tinyi_net_say_whole(t, "heads", l->heads);
    if (attends && l->average) tinyi_net_say(t, "concat", "false", 0);
    if (l->no_loops) tinyi_net_say(t, "add_self_loops", "false", 0);
    if (spread && l->weighted) tinyi_net_say(t, "edge_weight", "true", 0);
    if (l->slope != 0.0f) tinyi_net_say_real(t, "negative_slope", l->slope);
    if (kind == TGNN_LAYER_SAGE || s->kind == TGNN_STAGE_READOUT)
        tinyi_net_say(t, "aggr", tinyi_net_aggr_name(s->aggr), 1);
    if (s->all) tinyi_net_say(t, "all", "true", 0);
    if (s->no_root) tinyi_net_say(t, "root_weight", "false", 0);
    if (l->normalize) tinyi_net_say(t, "normalize", "true", 0);
    if (kind == TGNN_LAYER_GIN || kind == TGNN_LAYER_GINE) tinyi_net_say_whole(t, "hidden", s->hidden);
    if (l->eps != 0.0f) tinyi_net_say_real(t, "eps", l->eps);
    if (s->edge) tinyi_net_say_whole(t, "edge", s->edge);
    if (s->relations) tinyi_net_say_whole(t, "relations", s->relations);
    if (s->bases) tinyi_net_say_whole(t, "bases", s->bases);
    if ((kind == TGNN_LAYER_SGC || kind == TGNN_LAYER_APPNP) && l->steps) tinyi_net_say_whole(t, "K", l->steps);
    if (l->alpha != 0.0f) tinyi_net_say_real(t, "alpha", l->alpha);
    if (s->act) tinyi_net_say(t, "act", tinyi_net_act_name(s->act), 1);
    if (s->dropout != 0.0f) tinyi_net_say_real(t, "dropout", s->dropout);
    if (s->dropout_edges != 0.0f) tinyi_net_say_real(t, "dropout_edges", s->dropout_edges);
    t->n += (size_t)snprintf(t->at + t->n, t->room - t->n, " }");
}

void tinyi_net_put_f32(unsigned char *to, const float *v)
{
    uint32_t bits;
    memcpy(&bits, v, 4);
    tinyi_put_le32(to, bits);
}

/* the whole file of weights into one block */
static tiny_status tinyi_net_pack(tiny_ctx *ctx, const tgnn_net *net, unsigned char **out, size_t *n_out)
{
    tinyi_st_head head;
    tinyi_net_weight w;
    size_t data = 0, room;
    tiny_idx n;
    int i, k, tensors = 0;
    char name[TINYI_NET_TENSOR_NAME];
    unsigned char *bytes, *to;
    for (i = 0; i < net->n_stages; i++)
        for (k = 0; k < TGNN_LAYER_WEIGHTS; k++)
            if (tinyi_net_wants(&net->stage[i], k, &w) && net->stage[i].layer.w[k].data) {
                data += (size_t)tiny_tensor_count(&net->stage[i].layer.w[k]) * 4;
                tensors++;
            }
    room = TINYI_ST_HEAD(tensors, sizeof name);
    bytes = (unsigned char *)tiny_alloc(ctx, room + data);
    if (!bytes) return tiny_ctx_status(ctx);
    tinyi_st_begin(&head, bytes, room);
    for (i = 0; i < net->n_stages; i++)
        for (k = 0; k < TGNN_LAYER_WEIGHTS; k++) {
            if (!tinyi_net_wants(&net->stage[i], k, &w) || !net->stage[i].layer.w[k].data) continue;
            (void)snprintf(name, sizeof name, "%s.%s", net->stage[i].name, w.name);
            tinyi_st_entry(&head, name, TINYI_ST_F32, w.rank, w.dim);
        }
    to = tinyi_st_end(&head);
    for (i = 0; i < net->n_stages; i++)
        for (k = 0; k < TGNN_LAYER_WEIGHTS; k++) {
            const tiny_tensor *m = &net->stage[i].layer.w[k];
            if (!tinyi_net_wants(&net->stage[i], k, &w) || !m->data) continue;
            for (n = 0; n < tiny_tensor_count(m); n++, to += 4) tinyi_net_put_f32(to, (const float *)m->data + n);
        }
    *n_out = (size_t)(to - bytes);
    *out = bytes;
    return TINY_OK;
}

tiny_status tinyi_net_write_json(tiny_ctx *ctx, const char *path, const tgnn_net *net)
{
    tinyi_net_text t;
    char *name;
    int i;
    tiny_status st;
    t.room = 192 + (size_t)net->n_stages * TINYI_NET_STAGE_TEXT;
    t.at = (char *)tiny_alloc(ctx, t.room);
    if (!t.at) return tiny_ctx_status(ctx);
    t.n = (size_t)snprintf(t.at, t.room, "{ \"format\": \"tgnn-net 1\",%s", net->rows ? "\n  \"rows\": true," : "");
    if (net->quant)
        t.n += (size_t)snprintf(t.at + t.n, t.room - t.n, "\n  \"quant\": \"%s\",", tinyi_net_quant_name(net->quant));
    t.n += (size_t)snprintf(t.at + t.n, t.room - t.n, "\n  \"layers\": [\n");
    for (i = 0; i < net->n_stages; i++) tinyi_net_say_stage(&t, &net->stage[i], i == 0);
    t.n += (size_t)snprintf(t.at + t.n, t.room - t.n, "\n  ] }\n");
    name = tinyi_net_path(ctx, path, ".json");
    st = name ? tiny_file_write(ctx, name, t.at, t.n) : tiny_ctx_status(ctx);
    tiny_free(ctx, name);
    tiny_free(ctx, t.at);
    return st;
}

TINY_API tiny_status tgnn_net_write(tiny_ctx *ctx, const char *path, const tgnn_net *net)
{
    char *name;
    unsigned char *bytes = NULL;
    size_t n = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!path || !net) return tinyi_fail(ctx, TINY_E_ARGUMENT, "net: the path or the net is missing");
    st = tinyi_net_pack(ctx, net, &bytes, &n);
    if (st) return st;
    name = tinyi_net_path(ctx, path, ".safetensors");
    st = name ? tiny_file_write(ctx, name, bytes, n) : tiny_ctx_status(ctx);
    tiny_free(ctx, name);
    tiny_free(ctx, bytes);
    return st ? st : tinyi_net_write_json(ctx, path, net);
}
