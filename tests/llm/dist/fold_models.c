/* tests/llm/dist/fold_models.c - the mixture layers of model files over ranks, on what the model itself gives them
 *
 * Truth    the model's own forward, of which oracle.c holds the logits against golden numbers: a watch collects what
 *          its matrices read, so the stream before and behind each mixture layer is known, and the layer over ranks
 *          must lead from one to the other; the layer in plain loops on one rank, sums in double. */
#include "llm/dist/net.h"

enum { TOKENS = 41, LAYERS = 2, WIDEST = 64 };
static const char *const models[] = { "mixtral", "olmoe", "qwen3moe", "granitemoe" };

/* what a model reads and writes at its mixture layers */
typedef struct seen {
    tiny_ctx *ctx;
    tllm_gguf *file;
    char arch[40];
    int width, n_layers;
    float *in[LAYERS];                      /* (TOKENS, width): of the router */
    float *attention[LAYERS];               /* (TOKENS, heads): before the last matrix of the attention */
    float *next[LAYERS];                    /* (TOKENS, width): the next matrix behind the layer */
} seen;

static double number(const seen *s, const char *name, double missing)
{
    char key[100];
    double v = missing;
    const tllm_meta *m;
    (void)snprintf(key, sizeof key, "%s.%s", s->arch, name);
    m = tllm_gguf_find(s->file, key);
    if (m) T_TRUE(tllm_meta_f64(m, 0, &v));
    return v;
}
static const tllm_gguf_tensor *named(const seen *s, int layer, const char *what)
{
    char name[100];
    if (layer < 0) (void)snprintf(name, sizeof name, "%s", what);
    else (void)snprintf(name, sizeof name, "blk.%d.%s", layer, what);
    return tllm_gguf_tensor_find(s->file, name);
}
/* the numbers of a tensor of floats */
static const float *numbers(const seen *s, int layer, const char *what)
{
    const tllm_gguf_tensor *t = named(s, layer, what);
    return T_TRUE(t && t->type == TLLM_FORMAT_F32) ? (const float *)(const void *)t->data : NULL;
}
static float *samples(const tllm_watch *w, const tllm_gguf_tensor *t)
{
    const tllm_calib *c = tllm_watch_of(w, t, 0);
    const float *x = NULL;
    float *to = t_guarded(TOKENS * (size_t)t->dim[0]);
    if (T_TRUE(c != NULL) && T_EQ_INT(tllm_calib_samples(c, &x), TOKENS))
        memcpy(to, x, TOKENS * (size_t)t->dim[0] * sizeof *to);
    return to;
}

/* Runs the model over some tokens under a watch. 0: it failed. */
static int look(seen *s, const char *path, int32_t *token)
{
    tiny_ctx_desc rd = t_desc(TINY_TARGET_AUTO, 1);
    const tllm_gguf_tensor *pick[3 * LAYERS];
    tllm_state_desc room;
    tllm_watch *watch = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_about about;
    tllm_text arch;
    tiny_ctx *run = NULL;
    tiny_status st;
    int i, l;
    memset(s, 0, sizeof *s);
    memset(&room, 0, sizeof room);
    s->ctx = t_ctx(TINY_TARGET_AUTO, 1);
    if (!T_OK(tllm_gguf_open(s->ctx, path, &s->file))) return 0;
    if (!T_TRUE(tllm_meta_text(tllm_gguf_find(s->file, "general.architecture"), 0, &arch))) return 0;
    (void)snprintf(s->arch, sizeof s->arch, "%.*s", (int)arch.n, arch.at);
    s->width = (int)number(s, "embedding_length", 0);
    s->n_layers = (int)number(s, "block_count", 0);
    if (!T_TRUE(s->width <= WIDEST && s->n_layers == LAYERS)) return 0;
    T_OK(tllm_watch_open(s->ctx, s->file, &watch));
    for (l = 0; l < LAYERS; l++) {
        pick[3 * l] = named(s, l, "ffn_gate_inp.weight");
        pick[3 * l + 1] = named(s, l, "attn_output.weight");
        pick[3 * l + 2] = l + 1 < LAYERS ? named(s, l + 1, "attn_q.weight") : named(s, -1, "output.weight");
        for (i = 0; i < 3; i++) T_OK(tllm_watch_pick(watch, pick[3 * l + i], TLLM_CALIB_SAMPLES));
    }
    rd.accel = tllm_watch_hook(watch);
    st = tiny_ctx_open(&rd, &run);
    if (!st) st = tllm_model_open(run, s->file, &model);
    room.n_ctx = room.n_batch = 64;
    if (!st) st = tllm_state_open(run, model, &room, &state);
    if (!st) {
        float *logits;
        tllm_model_about(model, &about);
        logits = t_guarded(TOKENS * (size_t)about.n_out);
        for (i = 0; i < TOKENS; i++) token[i] = (int32_t)((i * 37 + 5) % about.n_vocab);
        st = tllm_forward(state, token, TOKENS, 0, TOKENS, logits);
    }
    T_EQ_INT(st, TINY_OK);
    T_EQ_INT(tllm_watch_status(watch), TINY_OK);
    for (l = 0; l < LAYERS && !st; l++) {
        s->in[l] = samples(watch, pick[3 * l]);
        s->attention[l] = samples(watch, pick[3 * l + 1]);
        s->next[l] = samples(watch, pick[3 * l + 2]);
    }
    tllm_state_close(run, state);
    tllm_model_close(run, model);
    tiny_ctx_close(run);
    tllm_watch_close(watch);
    return !st;
}
static void leave(seen *s)
{
    tllm_gguf_close(s->ctx, s->file);
    t_close(s->ctx);
}

/* The stream of the model with y in the place of its mixture layers: what it reads behind each layer is the norm of
 * that stream. The largest difference, in units of the largest number. */
static double apart(const seen *s, const int32_t *token, float *const *y)
{
    const double residual = number(s, "residual_scale", 1.0), scale = number(s, "embedding_scale", 1.0),
                 eps = number(s, "attention.layer_norm_rms_epsilon", 0.0);
    const float *embed = numbers(s, -1, "token_embd.weight");
    const int d = s->width;
    double most = 0.0, off = 0.0, x[WIDEST];
    int t, l, i, k;
    for (t = 0; t < TOKENS; t++) {
        for (i = 0; i < d; i++) x[i] = scale * (double)embed[token[t] * d + i];
        for (l = 0; l < LAYERS; l++) {
            const int heads = (int)named(s, l, "attn_output.weight")->dim[0];
            const float *w = numbers(s, l, "attn_output.weight");
            const float *norm = l + 1 < LAYERS ? numbers(s, l + 1, "attn_norm.weight")
                                               : numbers(s, -1, "output_norm.weight");
            double sum = 0.0;
            for (i = 0; i < d; i++) {
                double o = 0.0;
                for (k = 0; k < heads; k++) o += (double)w[i * heads + k] * (double)s->attention[l][t * heads + k];
                x[i] += residual * (o + (double)y[l][t * d + i]);
                sum += x[i] * x[i];
            }
            for (i = 0; i < d; i++) {
                const double want = x[i] / sqrt(sum / d + eps) * (double)norm[i];
                const double difference = fabs(want - (double)s->next[l][t * d + i]);
                most = fmax(most, fabs(want));
                if (!(difference <= off)) off = difference;
            }
        }
    }
    return off / most;
}

typedef struct over {
    const seen *s;
    tllm_folding f;
    int drop, whole;
    float *y[LAYERS];
    unsigned char *keep[LAYERS];            /* (TOKENS, experts) */
    int experts;
    tiny_idx pairs[T_NETS], kept[T_NETS], rows[T_NETS];     /* of all layers */
} over;

/* tokens of a rank: uneven */
static int first_of(int rank, int world) { return rank ? TOKENS * rank / world + (rank < world && rank % 2) : 0; }

static void body(t_net *n, int rank, tiny_ctx *ctx, tiny_net *net)
{
    over *o = (over *)n->arg;
    const int from = first_of(rank, n->world), many = first_of(rank + 1, n->world) - from, d = o->s->width;
    tllm_moe_desc desc;
    tllm_moe_weights w;
    tllm_moe_plan p;
    tllm_moe *moe = NULL;
    tiny_idx k;
    int l;
    memset(&desc, 0, sizeof desc);
    desc.net = net;
    desc.folding = &o->f;
    desc.drop = o->drop;
    desc.whole_sequence = o->whole;
    desc.timeout_ns = UINT64_C(60000000000);
    n->st[rank] = tllm_moe_describe(ctx, o->s->file, 0, &desc);
    if (!n->st[rank]) n->st[rank] = tllm_moe_open(ctx, &desc, &moe);
    for (l = 0; l < LAYERS && !n->st[rank]; l++) {
        n->st[rank] = tllm_moe_read(moe, o->s->file, l, &w);
        if (!n->st[rank]) n->st[rank] = tllm_moe_layer(moe, &w, o->s->in[l] + from * d, many, o->y[l] + from * d);
        p = tllm_moe_plan_of(moe);
        o->pairs[rank] += p.pairs;
        o->kept[rank] += p.kept;
        o->rows[rank] += p.rows;
        for (k = 0; k < p.pairs && !n->st[rank]; k++)
            o->keep[l][(from + (int)(k / desc.k)) * o->experts + p.expert[k]] = p.keep[k];
    }
    tllm_moe_close(moe);
}

/* One process, by the kernels and in plain loops, over tokens from .. from + many of layer l */
static int alone(const seen *s, int l, int drop, int from, int many, float *y, float *ref, unsigned char *keep)
{
    tllm_moe_desc d;
    tllm_moe_weights w;
    tllm_moe *moe = NULL;
    int ok;
    memset(&d, 0, sizeof d);
    d.drop = drop;
    ok = T_OK(tllm_moe_describe(s->ctx, s->file, l, &d)) && T_OK(tllm_moe_open(s->ctx, &d, &moe)) &&
         T_OK(tllm_moe_read(moe, s->file, l, &w)) &&
         T_OK(tllm_moe_layer(moe, &w, s->in[l] + from * s->width, many, y + from * s->width)) &&
         T_OK(tllm_moe_layer_ref(s->ctx, &d, &w, s->in[l] + from * s->width, many, ref + from * s->width,
                                 keep + from * d.n_expert));
    tllm_moe_close(moe);
    return ok;
}

static void test_models(void)
{
    static const struct { int world, tcp, tp, cp, dp, ep, etp, drop; } of[] = {
        { 4, 0, 1, 1, 4, 4, 1, TLLM_MOE_DROPLESS },    { 4, 0, 2, 1, 2, 2, 2, TLLM_MOE_DROPLESS },
        { 8, 0, 2, 2, 2, 4, 2, TLLM_MOE_DROPLESS },    { 8, 0, 2, 1, 4, 4, 1, TLLM_MOE_DROPLESS },
        { 4, 1, 2, 1, 2, 4, 1, TLLM_MOE_DROPLESS },    { 4, 0, 1, 1, 4, 4, 1, TLLM_MOE_DROP_PROBS },
        { 8, 0, 2, 2, 2, 4, 2, TLLM_MOE_DROP_PROBS },  { 4, 1, 1, 1, 4, 2, 2, TLLM_MOE_DROP_POSITION },
        { 4, 0, 2, 2, 1, 4, 1, TLLM_MOE_DROP_PROBS } /* over the whole sequence */ };
    size_t m, k;
    for (m = 0; m < T_COUNT(models); m++) {
        char path[80];
        const char *at;
        int32_t token[TOKENS];
        seen s;
        (void)snprintf(path, sizeof path, "oracle/llm/%s.gguf", models[m]);
        at = t_one_of(path);
        if (!at || !look(&s, at, token)) continue;
        for (k = 0; k < T_COUNT(of); k++) {
            const size_t n = (size_t)(TOKENS * s.width);
            float *one[LAYERS], *ref[LAYERS];
            unsigned char *kept[LAYERS];
            tiny_idx pairs = 0, stay = 0, rows = 0, truly = 0;
            const int whole = of[k].cp == 2 && of[k].dp == 1, world = of[k].world;
            t_net net;
            over o;
            int l, r;
            size_t i;
            memset(&net, 0, sizeof net);
            memset(&o, 0, sizeof o);
            o.s = &s;
            o.f.tp = of[k].tp;
            o.f.cp = of[k].cp;
            o.f.dp = of[k].dp;
            o.f.ep = of[k].ep;
            o.f.etp = of[k].etp;
            o.drop = of[k].drop;
            o.whole = whole;
            o.experts = (int)number(&s, "expert_count", 0);
            for (l = 0; l < LAYERS; l++) {
                o.y[l] = t_guarded(n);
                one[l] = t_guarded(n);
                ref[l] = t_guarded(n);
                o.keep[l] = (unsigned char *)t_keep((size_t)(TOKENS * o.experts));
                kept[l] = (unsigned char *)t_keep((size_t)(TOKENS * o.experts));
                memset(o.keep[l], 0, (size_t)(TOKENS * o.experts));
                /* each rank drops for itself, or all of them for the sequence */
                for (r = 0; r < (whole ? 1 : world); r++) {
                    const int from = whole ? 0 : first_of(r, world), to = whole ? TOKENS : first_of(r + 1, world);
                    if (!alone(&s, l, o.drop, from, to - from, one[l], ref[l], kept[l])) return;
                }
            }
            net.body = body;
            net.arg = &o;
            net.tcp = of[k].tcp;
            if (!t_net_run(&net, world)) return;
            t_net_ok(&net);
            for (l = 0; l < LAYERS; l++) {
                T_WALLS(o.y[l], n);
                T_SAME(o.keep[l], kept[l], TOKENS * o.experts);
                if (of[k].etp == 1) T_SAME(o.y[l], one[l], (int)n);
                for (i = 0; i < n; i++)
                    if (!T_CLOSE(o.y[l][i], ref[l][i], 1e-6 * (1.0 + fabs((double)ref[l][i])))) break;
                for (i = 0; i < (size_t)(TOKENS * o.experts); i++) truly += kept[l][i];
            }
            for (r = 0; r < world; r++) {
                pairs += o.pairs[r];
                stay += o.kept[r];
                rows += o.rows[r];
            }
            T_EQ_INT(pairs, LAYERS * TOKENS * 2);           /* two experts for each token */
            T_EQ_INT(stay, truly);
            T_EQ_INT(rows, stay * of[k].etp);
            if (of[k].drop) T_TRUE(stay < pairs);
            else {
                const double off = apart(&s, token, o.y);
                T_EQ_INT(stay, pairs);
                if (!T_TRUE(off <= 2e-6))
                    printf("  %s, case %d: %g from the model's own layers\n", models[m], (int)k, off);
            }
        }
        leave(&s);
        t_free_blocks();
    }
    T_PROOF("distributed 5", "routers and experts of four kinds of model files, 4 and 8 ranks: the model's own layers");
    T_PROOF("distributed 5", "layers of model files with dropping: pairs and results of the formula");
}

/* ---- files that are refused -------------------------------------------------------------------------------------- */

static void put(tiny_ctx *ctx, tllm_writer *w, const char *name, int rank, uint64_t in, uint64_t out, uint64_t many)
{
    uint64_t dim[3];
    tllm_text text;
    dim[0] = in;
    dim[1] = out;
    dim[2] = many;
    text.at = name;
    text.n = strlen(name);
    T_OK(tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, rank, dim,
                                t_rand((size_t)(in * out * many), -1.0f, 1.0f)));
}
typedef struct wrong { const char *arch, *key; uint32_t value, used; const char *extra, *without; int shape; } wrong;
/* a layer of 4 experts, 6 wide, 10 hidden numbers, with what is wrong in it */
static tllm_writer *make(tiny_ctx *ctx, const wrong *is)
{
    static const struct { const char *name; int rank; uint64_t dim[3]; } of[] = {
        { "blk.0.ffn_gate_inp.weight", 2, { 6, 4, 1 } },    { "blk.0.ffn_gate_exps.weight", 3, { 6, 10, 4 } },
        { "blk.0.ffn_up_exps.weight", 3, { 6, 10, 4 } },    { "blk.0.ffn_down_exps.weight", 3, { 10, 6, 4 } } };
    char key[100];
    tllm_writer_desc d;
    tllm_writer *w = NULL;
    size_t i;
    memset(&d, 0, sizeof d);
    if (!T_OK(tllm_writer_open(ctx, &d, &w))) return NULL;
    if (is->arch) T_OK(tllm_writer_put_text(ctx, w, "general.architecture", is->arch));
    (void)snprintf(key, sizeof key, "%s.expert_used_count", is->arch ? is->arch : "x");
    if (is->used) T_OK(tllm_writer_put_u32(ctx, w, key, is->used));
    (void)snprintf(key, sizeof key, "%s.%s", is->arch ? is->arch : "x", is->key ? is->key : "block_count");
    T_OK(tllm_writer_put_u32(ctx, w, key, is->key ? is->value : 1));
    for (i = 0; i < T_COUNT(of); i++) {
        const int other = is->shape == (int)i + 1;
        if (is->without && strstr(of[i].name, is->without)) continue;
        put(ctx, w, of[i].name, of[i].rank, of[i].dim[0], of[i].dim[1] + (uint64_t)(other && i), of[i].dim[2]);
    }
    if (is->extra) put(ctx, w, is->extra, 1, 4, 1, 1);
    T_OK(tllm_writer_finish(ctx, w));
    return w;
}
static tllm_gguf *made(tiny_ctx *ctx, const wrong *is, tllm_writer **w)
{
    tllm_gguf *g = NULL;
    size_t n = 0;
    const void *at;
    *w = make(ctx, is);
    at = tllm_writer_memory(*w, &n);
    T_OK(tllm_gguf_open_memory(ctx, at, n, &g));
    return g;
}

static void test_refused(void)
{
    static const struct { wrong is; tiny_status st; const char *says; } of[] = {
        { { "llama", NULL, 0, 2, NULL, NULL, 0 }, TINY_OK, "" },
        { { "olmoe", "expert_gating_func", 1, 4, NULL, NULL, 0 }, TINY_OK, "" },
        { { NULL, NULL, 0, 2, NULL, NULL, 0 }, TINY_E_FORMAT, "does not name its architecture" },
        { { "deepseek2", NULL, 0, 2, NULL, NULL, 0 }, TINY_E_UNSUPPORTED, "mixture layers of deepseek2 are not known" },
        { { "llama", NULL, 0, 2, NULL, "gate_inp", 0 }, TINY_E_UNSUPPORTED, "layer 0 is no mixture layer: it has" },
        { { "llama", NULL, 0, 2, NULL, "down_exps", 0 }, TINY_E_UNSUPPORTED, "it has no ffn_down_exps.weight" },
        { { "llama", NULL, 0, 2, "blk.0.exp_probs_b.bias", NULL, 0 }, TINY_E_UNSUPPORTED, "layer 0 has exp_probs_b" },
        { { "llama", NULL, 0, 2, "blk.0.ffn_up_shexp.weight", NULL, 0 }, TINY_E_UNSUPPORTED, "has ffn_up_shexp" },
        { { "qwen3moe", "expert_gating_func", 2, 2, NULL, NULL, 0 }, TINY_E_UNSUPPORTED, "gating_func is not 1" },
        { { "llama", NULL, 0, 0, NULL, NULL, 0 }, TINY_E_FORMAT, "expert_used_count is missing, or not 1 to 65536" },
        { { "llama", NULL, 0, 70000, NULL, NULL, 0 }, TINY_E_FORMAT, "expert_used_count is missing, or not 1 to" },
        { { "llama", NULL, 0, 5, NULL, NULL, 0 }, TINY_E_ARGUMENT, "a token goes to 5 of 4 experts" },
        { { "llama", NULL, 0, 2, NULL, NULL, 2 }, TINY_E_SHAPE, "does not fit the other matrices of the experts" },
        { { "llama", NULL, 0, 2, NULL, NULL, 3 }, TINY_E_SHAPE, "ffn_up_exps.weight does not fit the other" },
        { { "llama", NULL, 0, 2, NULL, NULL, 4 }, TINY_E_SHAPE, "ffn_down_exps.weight does not fit the other" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_moe_weights w;
    tllm_moe_desc d;
    tllm_moe *moe = NULL;
    tllm_writer *writer = NULL;
    tllm_gguf *g;
    size_t i;
    for (i = 0; i < T_COUNT(of); i++) {
        g = made(ctx, &of[i].is, &writer);
        memset(&d, 0, sizeof d);
        d.width = 77;
        if (of[i].st) {
            T_STATUS(tllm_moe_describe(ctx, g, 0, &d), of[i].st, of[i].says);
            T_EQ_INT(d.width, 77);          /* nothing was said */
        } else {
            T_OK(tllm_moe_describe(ctx, g, 0, &d));
            T_TRUE(d.n_expert == 4 && d.k == (tiny_idx)of[i].is.used && d.width == 6 && d.hidden == 10);
            T_EQ_INT(d.plain_gates, i == 1);
        }
        tllm_gguf_close(ctx, g);
        tllm_writer_close(ctx, writer);
        t_use(ctx);
    }
    g = made(ctx, &of[0].is, &writer);
    T_STATUS(tllm_moe_describe(ctx, g, 1, &d), TINY_E_UNSUPPORTED, "layer 1 is no mixture layer");
    T_STATUS(tllm_moe_describe(ctx, g, -1, &d), TINY_E_ARGUMENT, "a file, a layer and a description");
    T_STATUS(tllm_moe_describe(ctx, NULL, 0, &d), TINY_E_ARGUMENT, "a file, a layer and a description");
    T_STATUS(tllm_moe_describe(ctx, g, 0, NULL), TINY_E_ARGUMENT, "a file, a layer and a description");
    memset(&d, 0, sizeof d);
    T_OK(tllm_moe_describe(ctx, g, 0, &d));
    d.hidden = 12;                          /* the ranks were opened for something else */
    T_OK(tllm_moe_open(ctx, &d, &moe));
    T_STATUS(tllm_moe_read(moe, g, 0, &w), TINY_E_SHAPE, "layer 0 has 2 of 4 experts of 6 x 10; the ranks were opened");
    T_STATUS(tllm_moe_read(moe, g, 3, &w), TINY_E_UNSUPPORTED, "layer 3 is no mixture layer");
    T_STATUS(tllm_moe_read(moe, NULL, 0, &w), TINY_E_ARGUMENT, "a file, a layer and room for its weights");
    T_STATUS(tllm_moe_read(moe, g, 0, NULL), TINY_E_ARGUMENT, "a file, a layer and room for its weights");
    T_EQ_INT(tllm_moe_read(NULL, g, 0, &w), TINY_E_ARGUMENT);
    tllm_moe_close(moe);
    tllm_gguf_close(ctx, g);
    tllm_writer_close(ctx, writer);
    t_close(ctx);
}

/* a block format: the numbers that its unpack gives, turned around; each of four ranks has half of an expert */
static void test_parts(void)
{
    enum { D = 64, FF = 96, E = 2 };
    static const char *const name[3] = { "blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight",
                                         "blk.0.ffn_down_exps.weight" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tllm_format *q = tllm_format_of(TLLM_FORMAT_Q8_0);
    float *x[3], *router = t_rand(D * E, -1.0f, 1.0f);
    tiny_local_desc ld;
    tiny_local *local = NULL;
    tllm_writer_desc wd;
    tllm_writer *w = NULL;
    tllm_gguf *g = NULL;
    tllm_folding f;
    const void *at;
    uint64_t dim[3];
    tllm_text text;
    size_t n = 0;
    int i, rank, wrong_ones = 0;
    memset(&wd, 0, sizeof wd);
    memset(&ld, 0, sizeof ld);
    memset(&f, 0, sizeof f);
    if (!T_OK(tllm_writer_open(ctx, &wd, &w))) return;
    T_OK(tllm_writer_put_text(ctx, w, "general.architecture", "llama"));
    T_OK(tllm_writer_put_u32(ctx, w, "llama.expert_used_count", 1));
    dim[0] = D;
    dim[1] = E;
    text.at = "blk.0.ffn_gate_inp.weight";
    text.n = strlen(text.at);
    T_OK(tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, 2, dim, router));
    for (i = 0; i < 3; i++) {
        void *data = t_keep(tllm_format_bytes(q, D * FF * E));
        x[i] = t_rand(D * FF * E, -1.0f, 1.0f);
        q->pack(x[i], data, D * FF * E, NULL);
        q->unpack(data, x[i], D * FF * E);
        dim[0] = i < 2 ? D : FF;
        dim[1] = i < 2 ? FF : D;
        dim[2] = E;
        text.at = name[i];
        text.n = strlen(text.at);
        T_OK(tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_Q8_0, 3, dim, data));
    }
    T_OK(tllm_writer_finish(ctx, w));
    at = tllm_writer_memory(w, &n);
    if (!T_OK(tllm_gguf_open_memory(ctx, at, n, &g))) return;
    ld.world = 4;
    T_OK(tiny_local_open(ctx, &ld, &local));
    f.dp = 4;
    f.ep = f.etp = 2;
    for (rank = 0; rank < 4; rank++) {
        tllm_moe_desc d;
        tllm_moe_weights part;
        tllm_moe *moe = NULL;
        const int e = rank / 2, h0 = rank % 2 * FF / 2;
        int a, b;
        memset(&d, 0, sizeof d);
        d.net = tiny_local_net(local, rank);
        d.folding = &f;
        if (!T_OK(tllm_moe_describe(ctx, g, 0, &d)) || !T_OK(tllm_moe_open(ctx, &d, &moe)) ||
            !T_OK(tllm_moe_read(moe, g, 0, &part)))
            return;
        for (a = 0; a < D; a++) {
            for (b = 0; b < E; b++) wrong_ones += part.router[a * E + b] != router[b * D + a];
            for (b = 0; b < FF / 2; b++)
                wrong_ones += part.gate[a * (FF / 2) + b] != x[0][(e * FF + h0 + b) * D + a] ||
                              part.up[a * (FF / 2) + b] != x[1][(e * FF + h0 + b) * D + a] ||
                              part.down[b * D + a] != x[2][(e * D + a) * FF + h0 + b];
        }
        tllm_moe_close(moe);
    }
    T_EQ_INT(wrong_ones, 0);
    tiny_local_close(ctx, local);
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *c = NULL;
        tllm_moe_desc d;
        tllm_moe_weights part;
        tllm_moe *moe = NULL;
        tiny_status st = tiny_ctx_open(&desc, &c);
        memset(&d, 0, sizeof d);
        if (!st) st = tllm_moe_describe(c, g, 0, &d);
        if (!st) st = tllm_moe_open(c, &d, &moe);
        if (!st) st = tllm_moe_read(moe, g, 0, &part);
        if (!st) st = tllm_moe_read(moe, g, 0, &part);
        T_TRUE(!st || st == TINY_E_MEMORY);
        tllm_moe_close(moe);
        tiny_ctx_close(c);
    })
    tllm_gguf_close(ctx, g);
    tllm_writer_close(ctx, w);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_models);
    T_RUN(test_refused);
    T_RUN(test_parts);
    return t_done();
}
