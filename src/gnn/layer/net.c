/* src/gnn/layer/net.c - parses a description, knows the shape of each weight, and runs the layers
 *
 * The members of a layer are collected first and checked when its JSON object ends, because "kind" may come last. Every
 * width is known and bounded before a weight is read. net_file.c reads and writes the files. */
#include <stdio.h>
#include <string.h>
#include "gnn/layer/net.h"
#include "gnn/graph/graph_inside.h"
#include "core/bytes.h"
#include "core/doc/json.h"
#include "math/elem.h"
#include "math/ops.h"
#include "gnn/layer/net_file_inside.h"

/* ---- shapes */

static int tinyi_net_attends(tgnn_layer_kind kind)
{
    return kind == TGNN_LAYER_GAT || kind == TGNN_LAYER_GATV2 || kind == TGNN_LAYER_TRANSFORMER;
}

static int tinyi_net_matrix(tinyi_net_weight *w, tiny_idx a, tiny_idx b)
{
    w->rank = 2;
    w->dim[0] = a;
    w->dim[1] = b;
    return 1;
}

static int tinyi_net_bias(tinyi_net_weight *w, tiny_idx n)
{
    w->rank = 1;
    w->dim[0] = n;
    w->optional = 1;
    return 1;
}

int tinyi_net_wants(const tgnn_stage *s, int i, tinyi_net_weight *w)
{
    const tgnn_layer *l = &s->layer;
    const tiny_idx heads = l->heads > 0 ? l->heads : 1, all = heads * s->out, in = s->n_in;
    memset(w, 0, sizeof *w);
    if (s->kind == TGNN_STAGE_READOUT || i < 0 || i >= TGNN_LAYER_WEIGHTS) return 0;
    if (s->kind == TGNN_STAGE_LINEAR) {
        w->name = i == 0 ? "weight" : "bias";
        return i == 0 ? tinyi_net_matrix(w, s->out, in) : i == 1 ? tinyi_net_bias(w, s->out) : 0;
    }
    w->name = tgnn_layer_weight(l->kind, i);
    if (!w->name) return 0;
    switch (l->kind) {
    case TGNN_LAYER_SAGE:
        w->optional = i == 2;
        return i == 1 ? tinyi_net_bias(w, s->out) : tinyi_net_matrix(w, s->out, in);
    case TGNN_LAYER_GAT: case TGNN_LAYER_GATV2: {
        const int att = l->kind == TGNN_LAYER_GAT ? i == 1 || i == 2 : i == 4;
        if (att) {
            w->rank = 3;
            w->dim[0] = 1;
            w->dim[1] = heads;
            w->dim[2] = s->out;
            return 1;
        }
        if (i == (l->kind == TGNN_LAYER_GAT ? 3 : 5)) return tinyi_net_bias(w, s->n_out);
        return i & 1 ? tinyi_net_bias(w, all) : tinyi_net_matrix(w, all, in);
    }
    case TGNN_LAYER_GIN: case TGNN_LAYER_GINE:
        switch (i) {
        case 0: return tinyi_net_matrix(w, s->hidden, in);
        case 1: return tinyi_net_bias(w, s->hidden);
        case 2: return tinyi_net_matrix(w, s->out, s->hidden);
        case 3: return tinyi_net_bias(w, s->out);
        case 4: return tinyi_net_bias(w, 1);
        case 5: return tinyi_net_matrix(w, in, s->edge);
        default: return tinyi_net_bias(w, in);
        }
    case TGNN_LAYER_RGCN:
        if (i == 0) {
            w->rank = 3;
            w->dim[0] = s->bases ? s->bases : s->relations;
            w->dim[1] = in;
            w->dim[2] = s->out;
            return 1;
        }
        w->optional = i == 1;
        return i == 2     ? tinyi_net_bias(w, s->out)
               : i == 1   ? tinyi_net_matrix(w, in, s->out)
               : s->bases ? tinyi_net_matrix(w, s->relations, s->bases)
                          : 0;
    case TGNN_LAYER_TRANSFORMER:
        if (i >= 7 && s->no_root) return 0;
        if (i == 6) return s->edge ? tinyi_net_matrix(w, all, s->edge) : 0;
        w->optional = i == 7;
        if (i >= 7) return i == 7 ? tinyi_net_matrix(w, s->n_out, in) : tinyi_net_bias(w, s->n_out);
        return i & 1 ? tinyi_net_bias(w, all) : tinyi_net_matrix(w, all, in);
    case TGNN_LAYER_GCN: case TGNN_LAYER_SGC:
        return i == 1 ? tinyi_net_bias(w, s->out) : tinyi_net_matrix(w, s->out, in);
    default: return 0;
    }
}

/* ---- the description */

enum {
    TINYI_NET_KIND,
    TINYI_NET_NAMED,
    TINYI_NET_ACT,
    TINYI_NET_IN,
    TINYI_NET_OUT,
    TINYI_NET_HEADS,
    TINYI_NET_CONCAT,
    TINYI_NET_LOOPS,
    TINYI_NET_SLOPE,
    TINYI_NET_AGGR,
    TINYI_NET_NORMALIZE,
    TINYI_NET_HIDDEN,
    TINYI_NET_EPS,
    TINYI_NET_EDGE,
    TINYI_NET_RELATIONS,
    TINYI_NET_BASES,
    TINYI_NET_STEPS,
    TINYI_NET_ALPHA,
    TINYI_NET_WEIGHTED,
    TINYI_NET_ALL,
    TINYI_NET_DROP,
    TINYI_NET_DROP_EDGES,
    TINYI_NET_ROOT,
    TINYI_NET_MEMBERS
};

#define TINYI_NET_LINEAR TGNN_LAYER_COUNT   /* the bits of kinds: those of the layers, then these two */
#define TINYI_NET_READOUT (TGNN_LAYER_COUNT + 1)
#define TINYI_NET_B(k) (1u << (k))
#define TINYI_NET_ANY (TINYI_NET_B(TINYI_NET_READOUT + 1) - 1)
#define TINYI_NET_SPREAD (TINYI_NET_B(TGNN_LAYER_GCN) | TINYI_NET_B(TGNN_LAYER_SGC) | TINYI_NET_B(TGNN_LAYER_APPNP))
#define TINYI_NET_GATS (TINYI_NET_B(TGNN_LAYER_GAT) | TINYI_NET_B(TGNN_LAYER_GATV2))
#define TINYI_NET_GINS (TINYI_NET_B(TGNN_LAYER_GIN) | TINYI_NET_B(TGNN_LAYER_GINE))

/* name, type, kinds that have it, least and most of a number */
static const struct tinyi_net_member {
    const char *name;
    tinyi_json_type type;
    unsigned kinds;
    double least, most;
} tinyi_net_member[TINYI_NET_MEMBERS] = {
    { "kind", TINYI_JSON_TEXT, TINYI_NET_ANY, 0, 0 },
    { "name", TINYI_JSON_TEXT, TINYI_NET_ANY, 0, 0 },
    { "act", TINYI_JSON_TEXT, TINYI_NET_ANY, 0, 0 },
    { "in", TINYI_JSON_INT, TINYI_NET_ANY, 1, (double)TGNN_NET_WIDTH },
    { "out", TINYI_JSON_INT, TINYI_NET_ANY & ~(TINYI_NET_B(TGNN_LAYER_APPNP) | TINYI_NET_B(TINYI_NET_READOUT)), 1,
      (double)TGNN_NET_WIDTH },
    { "heads", TINYI_JSON_INT, TINYI_NET_GATS | TINYI_NET_B(TGNN_LAYER_TRANSFORMER), 1, 1024 },
    { "concat", TINYI_JSON_BOOL, TINYI_NET_GATS | TINYI_NET_B(TGNN_LAYER_TRANSFORMER), 0, 0 },
    { "add_self_loops", TINYI_JSON_BOOL, TINYI_NET_GATS | TINYI_NET_SPREAD, 0, 0 },
    { "negative_slope", TINYI_JSON_FLOAT, TINYI_NET_GATS, 1e-6, 1 },
    { "aggr", TINYI_JSON_TEXT, TINYI_NET_B(TGNN_LAYER_SAGE) | TINYI_NET_B(TINYI_NET_READOUT), 0, 0 },
    { "normalize", TINYI_JSON_BOOL, TINYI_NET_B(TGNN_LAYER_SAGE), 0, 0 },
    { "hidden", TINYI_JSON_INT, TINYI_NET_GINS, 1, (double)TGNN_NET_WIDTH },
    { "eps", TINYI_JSON_FLOAT, TINYI_NET_GINS, -1e6, 1e6 },
    { "edge", TINYI_JSON_INT, TINYI_NET_B(TGNN_LAYER_GINE) | TINYI_NET_B(TGNN_LAYER_TRANSFORMER), 1,
      (double)TGNN_NET_WIDTH },
    { "relations", TINYI_JSON_INT, TINYI_NET_B(TGNN_LAYER_RGCN), 1, (double)TGNN_NET_WIDTH },
    { "bases", TINYI_JSON_INT, TINYI_NET_B(TGNN_LAYER_RGCN), 1, (double)TGNN_NET_WIDTH },
    { "K", TINYI_JSON_INT, TINYI_NET_SPREAD & ~TINYI_NET_B(TGNN_LAYER_GCN), 1, 1000 },
    { "alpha", TINYI_JSON_FLOAT, TINYI_NET_B(TGNN_LAYER_APPNP), 1e-6, 1 },
    { "edge_weight", TINYI_JSON_BOOL, TINYI_NET_SPREAD, 0, 0 },
    { "all", TINYI_JSON_BOOL, TINYI_NET_B(TINYI_NET_READOUT), 0, 0 },
    { "dropout", TINYI_JSON_FLOAT, TINYI_NET_ANY & ~TINYI_NET_B(TINYI_NET_READOUT), 0, 0.999 },
    { "dropout_edges", TINYI_JSON_FLOAT, TINYI_NET_GATS, 0, 0.999 },
    { "root_weight", TINYI_JSON_BOOL, TINYI_NET_B(TGNN_LAYER_TRANSFORMER), 0, 0 }
};

static const char *const tinyi_net_acts[TGNN_ACT_COUNT] = { "none", "relu", "elu", "tanh" };
static const char *const tinyi_net_quants[TINYI_NET_QUANTS] = {
    "a2q raw nodes",          "a2q raw groups",   "a2q raw published", "a2q positive nodes",  "a2q positive groups",
    "a2q positive published", "a2q signed nodes", "a2q signed groups", "a2q signed published"
};
static const char *const tinyi_net_aggrs[] = { "sum", "mean", "max", "min", "add" };

typedef struct tinyi_net_read {
    tiny_ctx *ctx;
    const char *path;
    tgnn_net *net;
    unsigned seen;
    int64_t whole[TINYI_NET_MEMBERS];
    double number[TINYI_NET_MEMBERS];
    tinyi_json_text text[TINYI_NET_MEMBERS];
} tinyi_net_read;

/* Numbers are kept as floats: a bound is met by what rounds to it, so that what is written can be read. */
static int tinyi_net_within(const struct tinyi_net_member *m, double v)
{
    if (m->type != TINYI_JSON_FLOAT || !(v > -1e30 && v < 1e30)) return v >= m->least && v <= m->most;
    return (float)v >= (float)m->least && (float)v <= (float)m->most;
}

static tiny_status tinyi_net_take(tinyi_net_read *r, const tinyi_json_item *it)
{
    char shown[TINYI_SHOW];
    const struct tinyi_net_member *m = tinyi_net_member;
    const int number = r->net->n_stages + 1;
    double v;
    int k;
    for (k = 0; k < TINYI_NET_MEMBERS && !tinyi_json_text_is(it->key, m[k].name); k++) {}
    if (k == TINYI_NET_MEMBERS)
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d: no layer has a member %s", r->path, number,
                          tinyi_show_bytes(it->key.at, it->key.n, shown));
    if (r->seen & TINYI_NET_B(k))
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d: %s occurs twice", r->path, number, m[k].name);
    r->seen |= TINYI_NET_B(k);
    if (it->type != m[k].type && !(m[k].type == TINYI_JSON_FLOAT && it->type == TINYI_JSON_INT))
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d: %s must be %s", r->path, number, m[k].name,
                          m[k].type == TINYI_JSON_TEXT   ? "a text"
                          : m[k].type == TINYI_JSON_BOOL ? "true or false"
                          : m[k].type == TINYI_JSON_INT  ? "a whole number"
                                                         : "a number");
    v = it->type == TINYI_JSON_FLOAT ? it->f : (double)it->i;
    if ((m[k].type == TINYI_JSON_INT || m[k].type == TINYI_JSON_FLOAT) && !tinyi_net_within(&m[k], v))
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d: %s is %g, it must be %g to %g", r->path, number,
                          m[k].name, v, m[k].least, m[k].most);
    r->whole[k] = it->i;
    r->number[k] = v;
    r->text[k] = it->text;
    return TINY_OK;
}

static int tinyi_net_has(const tinyi_net_read *r, int k) { return (r->seen & TINYI_NET_B(k)) != 0; }

/* number of the text among n words, or -1 */
static int tinyi_net_word(tinyi_json_text t, const char *const *word, int n)
{
    int k;
    for (k = 0; k < n; k++)
        if (tinyi_json_text_is(t, word[k])) return k;
    return -1;
}

static tiny_status tinyi_net_name(tinyi_net_read *r, tgnn_stage *s)
{
    const tinyi_json_text t = r->text[TINYI_NET_NAMED];
    char shown[TINYI_SHOW];
    size_t i;
    int k;
    if (!tinyi_net_has(r, TINYI_NET_NAMED)) return TINY_OK;
    for (i = 0; i < t.n && i < TGNN_NET_NAME; i++)
        if (!((t.at[i] >= 'a' && t.at[i] <= 'z') || (t.at[i] >= 'A' && t.at[i] <= 'Z') ||
              (t.at[i] >= '0' && t.at[i] <= '9') || strchr("_.-", t.at[i])) ||
            !t.at[i])
            break;
    if (i < t.n || i >= TGNN_NET_NAME || !i)
        return tinyi_fail(r->ctx, TINY_E_FORMAT,
                          "%s: layer %d: the name %s; names have 1 to %d letters, digits, points, - and _", r->path,
                          r->net->n_stages + 1, tinyi_show_bytes(t.at, t.n, shown), TGNN_NET_NAME - 1);
    memcpy(s->name, t.at, t.n);
    for (k = 0; k < r->net->n_stages; k++)
        if (!strcmp(r->net->stage[k].name, s->name))
            return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layers %d and %d are both named %s", r->path, k + 1,
                              r->net->n_stages + 1, s->name);
    return TINY_OK;
}

/* the map of a layer is closed: its members become a stage */
static tiny_status tinyi_net_stage(tinyi_net_read *r)
{
    const int number = r->net->n_stages + 1;
    tgnn_stage *s = &r->net->stage[r->net->n_stages];
    tgnn_layer *l = &s->layer;
    char shown[TINYI_SHOW];
    int k, bit;
    tiny_status st;
    memset(s, 0, sizeof *s);
    for (bit = 0;
         bit < TGNN_LAYER_COUNT && !tinyi_json_text_is(r->text[TINYI_NET_KIND], tgnn_layer_name((tgnn_layer_kind)bit));
         bit++) {}
    if (bit == TGNN_LAYER_COUNT)
        bit = tinyi_json_text_is(r->text[TINYI_NET_KIND], "linear")    ? TINYI_NET_LINEAR
              : tinyi_json_text_is(r->text[TINYI_NET_KIND], "readout") ? TINYI_NET_READOUT
                                                                       : -1;
    if (!tinyi_net_has(r, TINYI_NET_KIND))
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d has no kind", r->path, number);
    if (bit < 0)
        return tinyi_fail(r->ctx, TINY_E_UNSUPPORTED, "%s: layer %d: the kind %s is unknown", r->path, number,
                          tinyi_show_bytes(r->text[TINYI_NET_KIND].at, r->text[TINYI_NET_KIND].n, shown));
    for (k = 0; k < TINYI_NET_MEMBERS; k++)
        if (tinyi_net_has(r, k) && !(tinyi_net_member[k].kinds & TINYI_NET_B(bit)))
            return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d: %s has no %s", r->path, number,
                              bit < TGNN_LAYER_COUNT    ? tgnn_layer_name((tgnn_layer_kind)bit)
                              : bit == TINYI_NET_LINEAR ? "linear"
                                                        : "readout",
                              tinyi_net_member[k].name);
    s->kind = bit < TGNN_LAYER_COUNT    ? TGNN_STAGE_CONV
              : bit == TINYI_NET_LINEAR ? TGNN_STAGE_LINEAR
                                        : TGNN_STAGE_READOUT;
    if (s->kind == TGNN_STAGE_CONV) l->kind = (tgnn_layer_kind)bit;
    st = tinyi_net_name(r, s);
    if (st) return st;
    if (!s->name[0] && bit != TINYI_NET_READOUT && bit != TGNN_LAYER_APPNP)
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d has no name; its weights are found by it", r->path,
                          number);
    if (tinyi_net_has(r, TINYI_NET_ACT))
        s->act = tinyi_net_word(r->text[TINYI_NET_ACT], tinyi_net_acts, TGNN_ACT_COUNT);
    if (s->act < 0)
        return tinyi_fail(r->ctx, TINY_E_UNSUPPORTED, "%s: layer %d: act is %s; it must be none, relu, elu or tanh",
                          r->path, number,
                          tinyi_show_bytes(r->text[TINYI_NET_ACT].at, r->text[TINYI_NET_ACT].n, shown));
    s->aggr = bit == TGNN_LAYER_SAGE ? TINY_EDGE_MEAN : TINY_EDGE_SUM;
    if (tinyi_net_has(r, TINYI_NET_AGGR)) s->aggr = tinyi_net_word(r->text[TINYI_NET_AGGR], tinyi_net_aggrs, 5);
    if (s->aggr < 0)
        return tinyi_fail(r->ctx, TINY_E_UNSUPPORTED, "%s: layer %d: aggr is %s; it must be sum, add, mean, max or min",
                          r->path, number,
                          tinyi_show_bytes(r->text[TINYI_NET_AGGR].at, r->text[TINYI_NET_AGGR].n, shown));
    if (s->aggr == 4) s->aggr = TINY_EDGE_SUM;
    l->aggr = s->aggr;
    l->normalize = (int)r->whole[TINYI_NET_NORMALIZE];
    l->heads = tinyi_net_has(r, TINYI_NET_HEADS) ? (int)r->whole[TINYI_NET_HEADS] : 1;
    l->average = tinyi_net_has(r, TINYI_NET_CONCAT) && !r->whole[TINYI_NET_CONCAT];
    l->no_loops = tinyi_net_has(r, TINYI_NET_LOOPS) && !r->whole[TINYI_NET_LOOPS];
    l->weighted = (int)r->whole[TINYI_NET_WEIGHTED];
    l->slope = (float)r->number[TINYI_NET_SLOPE];
    l->eps = (float)r->number[TINYI_NET_EPS];
    l->alpha = (float)r->number[TINYI_NET_ALPHA];
    l->steps = tinyi_net_has(r, TINYI_NET_STEPS) ? (int)r->whole[TINYI_NET_STEPS] : bit == TGNN_LAYER_SGC ? 1 : 0;
    s->n_in = (tiny_idx)r->whole[TINYI_NET_IN];
    s->out = (tiny_idx)r->whole[TINYI_NET_OUT];
    s->hidden = tinyi_net_has(r, TINYI_NET_HIDDEN) ? (tiny_idx)r->whole[TINYI_NET_HIDDEN] : s->out;
    s->edge = (tiny_idx)r->whole[TINYI_NET_EDGE];
    s->relations = (tiny_idx)r->whole[TINYI_NET_RELATIONS];
    s->bases = (tiny_idx)r->whole[TINYI_NET_BASES];
    s->all = (int)r->whole[TINYI_NET_ALL];
    s->no_root = tinyi_net_has(r, TINYI_NET_ROOT) && !r->whole[TINYI_NET_ROOT];
    s->dropout = (float)r->number[TINYI_NET_DROP];
    s->dropout_edges = (float)r->number[TINYI_NET_DROP_EDGES];
    if (!s->out && bit != TINYI_NET_READOUT && bit != TGNN_LAYER_APPNP)
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d (%s) has no out", r->path, number, s->name);
    if (bit == TGNN_LAYER_GINE && !s->edge)
        return tinyi_fail(r->ctx, TINY_E_FORMAT,
                          "%s: layer %d (%s): gine needs edge, the number of features of an edge", r->path,
                          number, s->name);
    if (bit == TGNN_LAYER_RGCN && !s->relations)
        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d (%s): rgcn needs relations", r->path, number, s->name);
    r->net->n_stages++;
    return TINY_OK;
}

/* Layers a and a.lin might both have a tensor a.lin.weight: a file has one. */
static tiny_status tinyi_net_tensors(tinyi_net_read *r)
{
    char name[2][TGNN_NET_NAME + 32];
    tinyi_net_weight w[2];
    int i, j, k, l;
    for (i = 0; i < r->net->n_stages; i++)
        for (j = 0; j < r->net->n_stages; j++) {
            const tgnn_stage *a = &r->net->stage[i], *b = &r->net->stage[j];
            const size_t n = strlen(a->name);
            if (!n || strncmp(a->name, b->name, n) != 0 || b->name[n] != '.') continue;
            for (k = 0; k < TGNN_LAYER_WEIGHTS; k++)
                for (l = 0; l < TGNN_LAYER_WEIGHTS; l++) {
                    if (!tinyi_net_wants(a, k, &w[0]) || !tinyi_net_wants(b, l, &w[1])) continue;
                    (void)snprintf(name[0], sizeof name[0], "%s.%s", a->name, w[0].name);
                    (void)snprintf(name[1], sizeof name[1], "%s.%s", b->name, w[1].name);
                    if (!strcmp(name[0], name[1]))
                        return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layers %d and %d both have a tensor %s", r->path,
                                          i + 1, j + 1, name[0]);
                }
        }
    return TINY_OK;
}

/* widths from layer to layer */
static tiny_status tinyi_net_chain(tinyi_net_read *r)
{
    tgnn_net *net = r->net;
    tiny_idx width = 0, all = 0;
    int i, read_out = 0;
    if (!net->n_stages) return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: there are no layers", r->path);
    for (i = 0; i < net->n_stages; i++) {
        tgnn_stage *s = &net->stage[i];
        if (!s->n_in) s->n_in = width;
        if (!s->n_in) return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer 1 has no in", r->path);
        if (!i) all = s->n_in;
        if (s->kind == TGNN_STAGE_READOUT && s->all) {
            if (width && s->n_in != width && s->n_in != all)
                return tinyi_fail(r->ctx, TINY_E_FORMAT,
                                  "%s: layer %d: in is %td, all layers before it together give %td", r->path,
                                  i + 1, s->n_in, all);
            s->n_in = width ? width : s->n_in;
        } else if (width && s->n_in != width)
            return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d: in is %td, the layer before it gives %td", r->path,
                              i + 1, s->n_in, width);
        if (read_out && s->kind != TGNN_STAGE_LINEAR)
            return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d: only linear layers can follow a readout",
                              r->path, i + 1);
        read_out |= s->kind == TGNN_STAGE_READOUT;
        if (s->kind == TGNN_STAGE_READOUT) s->n_out = s->all ? all : s->n_in;
        else if (s->kind == TGNN_STAGE_CONV && s->layer.kind == TGNN_LAYER_APPNP) s->n_out = s->out = s->n_in;
        else
            s->n_out = s->out * (s->kind == TGNN_STAGE_CONV && tinyi_net_attends(s->layer.kind) && !s->layer.average
                                     ? s->layer.heads
                                     : 1);
        if (s->n_out > TGNN_NET_WIDTH || s->out * s->layer.heads > TGNN_NET_WIDTH)
            return tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: layer %d is %td wide, the maximum is %td", r->path, i + 1,
                              TINYI_MAX(s->n_out, s->out * s->layer.heads), TGNN_NET_WIDTH);
        all += s->n_out;
        width = s->n_out;
    }
    net->n_in = net->stage[0].n_in;
    net->n_out = width;
    return tinyi_net_tensors(r);
}

tiny_status tinyi_net_describe(tiny_ctx *ctx, const char *path, const void *json, size_t n_json, tgnn_net *net)
{
    char shown[TINYI_SHOW];
    tinyi_json_walk w;
    tinyi_json_item it;
    tinyi_net_read *r;
    int format = 0, layers = 0, rows = 0, quant = 0;
    tiny_status st = tinyi_json_begin(&w, ctx, path, "the description", json, n_json, TINYI_NET_MAX_JSON);
    if (st) return st;
    r = (tinyi_net_read *)tiny_alloc(ctx, sizeof *r);
    if (!r) return tiny_ctx_status(ctx);
    memset(r, 0, sizeof *r);
    r->ctx = ctx;
    r->path = path;
    r->net = net;
    while (!st && !(st = tinyi_json_next(&w, &it)) && it.type != TINYI_JSON_END) {
        if (it.type == TINYI_JSON_CLOSE) {
            if (it.depth == 2) st = tinyi_net_stage(r);
        } else if (it.depth == 0) {
            if (it.type != TINYI_JSON_MAP) st = tinyi_fail(ctx, TINY_E_FORMAT,
                                                           "%s: the description must be a map", path);
        } else if (it.depth == 1) {
            if (tinyi_json_text_is(it.key, "format") && !format++) {
                if (it.type != TINYI_JSON_TEXT || !tinyi_json_text_is(it.text, "tgnn-net 1"))
                    st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: format must be \"tgnn-net 1\"", path);
            } else if (tinyi_json_text_is(it.key, "rows") && !rows++) {
                if (it.type != TINYI_JSON_BOOL)
                    st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: rows must be true or false", path);
                net->rows = (int)it.i;
            } else if (tinyi_json_text_is(it.key, "quant") && !quant++) {
                for (net->quant = 1;
                     net->quant <= TINYI_NET_QUANTS &&
                     !(it.type == TINYI_JSON_TEXT && tinyi_json_text_is(it.text, tinyi_net_quant_name(net->quant)));
                     net->quant++) {}
                if (net->quant > TINYI_NET_QUANTS)
                    st = tinyi_fail(
                        ctx, TINY_E_UNSUPPORTED,
                        "%s: quant must be \"a2q\", then raw, positive or signed, then nodes, groups or published",
                        path);
            } else if (tinyi_json_text_is(it.key, "layers") && !layers++) {
                if (it.type != TINYI_JSON_LIST) st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: layers must be a list", path);
            } else
                st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s is not a member of a description, or occurs twice", path,
                                tinyi_show_bytes(it.key.at, it.key.n, shown));
        } else if (it.depth == 2) {
            if (it.type != TINYI_JSON_MAP)
                st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: layer %d must be a map", path, net->n_stages + 1);
            else if (net->n_stages == TGNN_NET_MOST)
                st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: more than %d layers", path, TGNN_NET_MOST);
            r->seen = 0;
            memset(r->whole, 0, sizeof r->whole);
            memset(r->number, 0, sizeof r->number);
            memset(r->text, 0, sizeof r->text);
        } else st = tinyi_net_take(r, &it);
    }
    if (!st && !format) st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: there is no \"format\": \"tgnn-net 1\"", path);
    if (!st) st = tinyi_net_chain(r);
    tiny_free(ctx, r);
    return st;
}

const char *tinyi_net_act_name(int act) { return tinyi_net_acts[act]; }
const char *tinyi_net_aggr_name(int aggr) { return tinyi_net_aggrs[aggr]; }
const char *tinyi_net_quant_name(int quant) { return tinyi_net_quants[quant - 1]; }

/* ---- running */

/* what the stage wants of a graph, as a number: equal numbers share one */
static tiny_idx tinyi_net_wish(const tgnn_stage *s)
{
    const tgnn_layer *l = &s->layer;
    switch (l->kind) {
    case TGNN_LAYER_GCN: case TGNN_LAYER_SGC: case TGNN_LAYER_APPNP: return 1 + !!l->no_loops + 2 * !!l->weighted;
    case TGNN_LAYER_GAT: case TGNN_LAYER_GATV2: return 5 + !!l->no_loops;
    case TGNN_LAYER_RGCN: return 7 + s->relations;
    default: return 0;
    }
}

tiny_status tinyi_net_graphs_open(tiny_ctx *ctx, const tgnn_net *net, const tgnn_graph *g, const int32_t *relation,
                                  int64_t n_relation, tinyi_net_graphs *out)
{
    int i, k;
    tiny_status st = TINY_OK;
    memset(out, 0, sizeof *out);
    for (i = 0; !st && i < net->n_stages; i++) {
        if (net->stage[i].kind != TGNN_STAGE_CONV) continue;
        for (k = 0; k < i; k++)
            if (net->stage[k].kind == TGNN_STAGE_CONV &&
                tinyi_net_wish(&net->stage[k]) == tinyi_net_wish(&net->stage[i]))
                break;
        out->shared[i] = k < i;
        if (k < i) out->of[i] = out->of[k];
        else st = tgnn_layer_graph(ctx, &net->stage[i].layer, g, relation, n_relation, &out->of[i]);
    }
    if (st) tinyi_net_graphs_close(ctx, out);
    return st;
}

void tinyi_net_graphs_close(tiny_ctx *ctx, tinyi_net_graphs *g)
{
    int i;
    for (i = 0; i < TGNN_NET_MOST; i++)
        if (!g->shared[i]) tgnn_graph_close(ctx, g->of[i]);
    memset(g, 0, sizeof *g);
}

TINY_REF_BEGIN
void tinyi_net_rows(const tiny_tensor *x, float *y)
{
    tiny_idx i, k;
    for (i = 0; i < x->dim[0]; i++) {
        const float *row = (const float *)x->data + i * x->stride[0];
        double sum = 0.0;
        for (k = 0; k < x->dim[1]; k++) sum += row[k * x->stride[1]];
        for (k = 0; k < x->dim[1]; k++)
            y[i * x->dim[1] + k] = sum == 0.0 ? row[k * x->stride[1]] : (float)(row[k * x->stride[1]] / sum);
    }
}

static void tinyi_net_elu(float *y, tiny_idx n)
{
    tiny_idx i;
    for (i = 0; i < n; i++)
        if (y[i] < 0.0f) y[i] = (float)(tinyi_exp64((double)y[i]) - 1.0);
}
TINY_REF_END

static tiny_status tinyi_net_act(tiny_ctx *ctx, int act, const tiny_tensor *y)
{
    switch (act) {
    case TGNN_ACT_RELU: return tiny_relu(ctx, y, y);
    case TGNN_ACT_TANH: return tiny_tanh(ctx, y, y);
    case TGNN_ACT_ELU: tinyi_net_elu((float *)y->data, tiny_tensor_count(y)); return TINY_OK;
    default: return TINY_OK;
    }
}

/* h[k] is what stage k is given; y what stage i makes */
static tiny_status tinyi_net_step(tiny_ctx *ctx, const tgnn_net *net, int i, const tgnn_net_input *in,
                                  const tgnn_graph *g, const tiny_tensor *h, const tiny_tensor *y,
                                  tinyi_net_stage_fn by, void *arg)
{
    const tgnn_stage *s = &net->stage[i];
    const tiny_tensor *x = &h[i];
    tiny_status st = TINY_OK;
    if (by && s->kind != TGNN_STAGE_READOUT) st = by(arg, i, g, x, y);
    else if (s->kind == TGNN_STAGE_CONV) {
        if (s->edge && !in->e)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "net: layer %d (%s) needs features of the edges", i + 1, s->name);
        if (s->edge && (in->e->rank != 2 || in->e->dim[1] != s->edge))
            return tinyi_fail(ctx, TINY_E_SHAPE, "net: layer %d (%s) needs %td features of an edge", i + 1, s->name,
                              s->edge);
        st = tgnn_layer_run(ctx, &s->layer, g, x, s->edge ? in->e : NULL, y, NULL);
    } else if (s->kind == TGNN_STAGE_LINEAR) {
        tiny_tensor turned = tiny_tensor_swap(s->layer.w[0], 0, 1);
        st = tiny_matmul(ctx, x, &turned, s->layer.w[1].data ? &s->layer.w[1] : NULL, TINY_ACT_NONE, y);
    } else {
        int64_t whole[2];
        tiny_tensor offset = tiny_tensor_1d(in->graph_at ? (void *)(uintptr_t)in->graph_at : whole, TINY_I64,
                                            (in->graph_at ? in->n_graphs : 1) + 1),
                    part = *y;
        tiny_spmm_params p;
        int k = s->all ? 0 : i;
        memset(&p, 0, sizeof p);
        p.reduce = s->aggr;
        whole[0] = 0;
        whole[1] = (int64_t)x->dim[0];
        for (; !st && k <= i; k++) {
            part.dim[1] = h[k].dim[1];
            st = tiny_spmm(ctx, &offset, &h[k], NULL, NULL, NULL, &p, &part);
            part.data = (float *)part.data + h[k].dim[1];
        }
    }
    return st ? st : tinyi_net_act(ctx, s->act, y);
}

TINY_API tiny_status tgnn_net_run(tiny_ctx *ctx, const tgnn_net *net, const tgnn_net_input *in, const tiny_tensor *y,
                                  const tiny_tensor *before)
{
    return tinyi_net_run_by(ctx, net, in, y, before, NULL, NULL);
}

tiny_status tinyi_net_run_by(tiny_ctx *ctx, const tgnn_net *net, const tgnn_net_input *in, const tiny_tensor *y,
                             const tiny_tensor *before, tinyi_net_stage_fn by, void *arg)
{
    tinyi_net_graphs graphs;
    tiny_tensor h[TGNN_NET_MOST + 1];
    void *held[TGNN_NET_MOST + 1] = { NULL };
    tiny_idx rows, n;
    int i, keep = 0;
    char text[96];
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !in || !in->graph || !in->x || !y || net->n_stages < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "net: the net, the graph, x or y is missing");
    n = tgnn_graph_nodes(in->graph);
    if (tiny_tensor_check(in->x) || in->x->dtype != TINY_F32 || in->x->rank != 2 || in->x->dim[0] != n ||
        in->x->dim[1] != net->n_in)
        return tinyi_fail(ctx, TINY_E_SHAPE, "net: x is %s, it must be %td x %td f32: nodes, features",
                          tiny_tensor_check(in->x) ? "no tensor" : tinyi_shape_text(in->x, text), n, net->n_in);
    rows = n;
    for (i = 0; i < net->n_stages; i++) {
        if (net->stage[i].kind == TGNN_STAGE_READOUT) {
            rows = in->graph_at ? in->n_graphs : 1;
            keep |= net->stage[i].all;
        }
    }
    if (rows != n && in->graph_at && (rows < 0 || in->graph_at[0] != 0 || in->graph_at[rows] != (int64_t)n))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "net: graph_at must begin with 0 and end with the %td nodes", n);
    if (tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 2 || !tiny_tensor_is_dense(y) || y->dim[0] != rows ||
        y->dim[1] != net->n_out)
        return tinyi_fail(ctx, TINY_E_SHAPE, "net: y is %s, it must be %td x %td f32, dense",
                          tiny_tensor_check(y) ? "no tensor" : tinyi_shape_text(y, text), rows, net->n_out);
    st = tinyi_net_graphs_open(ctx, net, in->graph, in->relation, in->n_relation, &graphs);
    if (st) return st;
    h[0] = *in->x;
    if (net->rows) {
        held[0] = tinyi_alloc(ctx, (size_t)(n * net->n_in), sizeof(float));
        if (!held[0]) st = tiny_ctx_status(ctx);
        else {
            tinyi_net_rows(in->x, (float *)held[0]);
            h[0] = tiny_tensor_2d(held[0], TINY_F32, n, net->n_in);
        }
    }
    rows = n;
    for (i = 0; !st && i < net->n_stages; i++) {
        const tgnn_stage *s = &net->stage[i];
        size_t count;
        if (s->kind == TGNN_STAGE_READOUT) rows = in->graph_at ? in->n_graphs : 1;
        if (i + 1 == net->n_stages) {
            if (before) st = tiny_copy(ctx, &h[i], before);
            h[i + 1] = *y;
        } else {
            if (!tinyi_size_mul((size_t)rows, (size_t)s->n_out, &count))
                st = tinyi_fail(ctx, TINY_E_OVERFLOW, "net: layer %d: %td x %td numbers", i + 1, rows, s->n_out);
            else {
                held[i + 1] = tinyi_alloc(ctx, count, sizeof(float));
                if (!held[i + 1]) st = tiny_ctx_status(ctx);
                h[i + 1] = tiny_tensor_2d(held[i + 1], TINY_F32, rows, s->n_out);
            }
        }
        if (!st) st = tinyi_net_step(ctx, net, i, in, graphs.of[i], h, &h[i + 1], by, arg);
        if (!keep) {
            tiny_free(ctx, held[i]);
            held[i] = NULL;
        }
    }
    for (i = 0; i <= TGNN_NET_MOST; i++) tiny_free(ctx, held[i]);
    tinyi_net_graphs_close(ctx, &graphs);
    return st;
}
