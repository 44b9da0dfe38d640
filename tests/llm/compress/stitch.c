/* tests/llm/compress/stitch.c - SN-Net: plans, costs, least squares, choices; files of two models, sessions that switch
 *
 * Truth    the worked lists of the paper's rules; the authors' published file of 71 networks, exactly; conditions of a
 *          least squares solution; the two models before; models of repeated layers, where the linear layer is the
 *          identity; numpy in double (tests/golden/make/snnet.py) */
#include "t.h"

#ifdef TINYLLM_NO_JOIN
int main(void) { return t_done(); }
#else

static const char small_path[] = "examples/models/story-small.gguf", large_path[] = "examples/models/story.gguf";

/* ---- plans and costs */

static void test_plan(void)
{
    static const int l4[10][3] = { { 0, 0, 0 }, { 0, 1, 0 }, { 1, 0, 0 }, { 1, 1, 0 }, { 1, 2, 1 },
                                   { 2, 1, 1 }, { 2, 2, 1 }, { 2, 3, 2 }, { 3, 2, 2 }, { 3, 3, 2 } };
    static const int l24[3][3] = { { 0, 1, 0 }, { 1, 2, 1 }, { 1, 3, 1 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int depth[3] = { 4, 4, 4 }, f;
    tllm_stitch s[80];
    size_t n = 0, i;
    T_OK(tllm_stitch_plan(ctx, depth, 2, s, 80, &n));
    T_EQ_INT(n, 12);
    T_TRUE(s[0].front == 0 && s[0].back == 0 && s[1].front == 1 && s[1].back == 1 && s[1].f == -1 && s[1].layer == -1);
    for (i = 0; i < 10; i++)
        T_TRUE(s[i + 2].f == l4[i][0] && s[i + 2].e == l4[i][1] && s[i + 2].layer == l4[i][2] && s[i + 2].front == 0 &&
               s[i + 2].back == 1);
    depth[0] = depth[1] = depth[2] = 12;
    T_OK(tllm_stitch_plan(ctx, depth, 3, NULL, 0, &n));
    T_EQ_INT(n, 71);
    T_EQ_INT(tllm_stitch_layers(12, 12), 11);
    depth[0] = 2;
    depth[1] = 4;
    T_OK(tllm_stitch_plan(ctx, depth, 2, s, 80, &n));
    T_EQ_INT(n, 5);
    T_EQ_INT(tllm_stitch_layers(2, 4), 2);
    for (i = 0; i < 3; i++) T_TRUE(s[i + 2].f == l24[i][0] && s[i + 2].e == l24[i][1] && s[i + 2].layer == l24[i][2]);
    for (f = 3; f < 12; f++) {              /* every block but the first of a deeper back is entered once */
        depth[0] = 3;
        depth[1] = f;
        T_OK(tllm_stitch_plan(ctx, depth, 2, NULL, 0, &n));
        T_EQ_INT(n, f == 3 ? 9 : f + 1);
    }
    T_STATUS(tllm_stitch_plan(ctx, depth, 2, s, 4, &n), TINY_E_ARGUMENT, "do not fit into a list of 4");
    depth[0] = 1;
    T_STATUS(tllm_stitch_plan(ctx, depth, 2, s, 80, &n), TINY_E_ARGUMENT, "anchor 0 has the depth 1");
    depth[0] = 13;
    T_STATUS(tllm_stitch_plan(ctx, depth, 2, s, 80, &n), TINY_E_ARGUMENT, "fewer than the 13 of the cheaper");
    T_STATUS(tllm_stitch_plan(ctx, depth, 9, s, 80, &n), TINY_E_ARGUMENT, "1 to 8 anchors");
    T_EQ_INT(tllm_stitch_layers(1, 4), 0);
    T_EQ_INT(tllm_stitch_layers(4, 3), 0);
    t_close(ctx);
    T_PROOF("compression 7", "counts: L = 4, L = 12, 2 against 4 blocks, 71 networks of three anchors");
    T_PROOF("compression 7", "bad input: depth 1");
}

/* DeiT: 197 tokens, 16 x 16 patches, 1000 classes. As the authors count: a product with its sum is one operation, a
 * norm 5 for each number; stitched networks without position and class tokens (parameters) and without the last norm
 * (operations). */
static void test_deit(void)
{
    static const double width[3] = { 192, 384, 768 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    FILE *in = fopen("tests/golden/snnet.tsv", "r");
    tllm_stitch_size size[3];
    tllm_stitch s[71];
    const int depth[3] = { 12, 12, 12 };
    double ops, params, want_ops, want_params;
    const double N = 197;
    size_t n = 0, i;
    memset(size, 0, sizeof size);
    for (i = 0; i < 3; i++) {
        const double D = width[i];
        double *p = size[i].params, *o = size[i].ops;
        size[i].width = (tiny_idx)D;
        size[i].depth = 12;
        size[i].tokens = 197;
        p[TLLM_STITCH_FIRST] = 768 * D + D;
        p[TLLM_STITCH_BLOCK] = 12 * D * D + 13 * D;
        p[TLLM_STITCH_LAST] = 1000 * D + 1000 + 2 * D;
        p[TLLM_STITCH_ALONE] = D + N * D;
        o[TLLM_STITCH_FIRST] = 196 * 768 * D;
        o[TLLM_STITCH_BLOCK] = N * 12 * D * D + 2 * N * N * D + 2 * 5 * N * D;
        o[TLLM_STITCH_LAST] = 1000 * D;
        o[TLLM_STITCH_ALONE] = 5 * N * D;
    }
    T_OK(tllm_stitch_plan(ctx, depth, 3, s, 71, &n));
    for (i = 0; T_TRUE(in != NULL) && i < n; i++) {
        if (!T_TRUE(fscanf(in, "deit %lf %lf\n", &want_ops, &want_params) == 2)) break;
        tllm_stitch_cost(size, &s[i], &params, &ops);
        if (!T_TRUE(params == want_params && ops == want_ops)) printf("  network %d: %.0f %.0f\n", (int)i, ops, params);
    }
    if (in) fclose(in);
    t_close(ctx);
    T_PROOF("compression 7", "the authors' 71 networks of DeiT: operations and parameters exactly");
    T_PROOF("compression 7", "parameter count per network = sum of its parts");
}

/* ---- least squares */

static void test_solve(tiny_target target)
{
    enum { N = 40, D1 = 5, D2 = 7 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *a = t_rand(N * D1, -1.0f, 1.0f), *b = t_rand(N * D2, -2.0f, 2.0f);
    double w[D2 * D1], bias[D2], left, sum, ridge = N, size = 0.0;
    tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, N, D1), tb = tiny_tensor_2d(b, TINY_F32, N, D2);
    tiny_tensor tw = tiny_tensor_2d(w, TINY_F64, D2, D1), tc = tiny_tensor_1d(bias, TINY_F64, D2);
    tiny_tensor bad;
    int i, j, k;
    T_OK(tllm_stitch_solve(ctx, &ta, &tb, &tw, &tc, &left));
    T_TRUE(left > 0.0 && left < 1.0);
    for (i = 0; i < N * D1; i++) ridge += (double)a[i] * (double)a[i];
    ridge *= 1e-6 / (D1 + 1);
    for (j = 0; j < D2; j++)                /* [a 1]^T residual = -ridge (w, bias) */
        for (k = 0; k <= D1; k++) {
            for (i = 0, sum = 0.0; i < N; i++) {
                double r = bias[j] - (double)b[i * D2 + j];
                int m;
                for (m = 0; m < D1; m++) r += w[j * D1 + m] * (double)a[i * D1 + m];
                sum += r * (k < D1 ? (double)a[i * D1 + k] : 1.0);
            }
            size = fmax(size, fabs(sum));
            T_CLOSE(sum, -ridge * (k < D1 ? w[j * D1 + k] : bias[j]), 1e-12 * N);
        }
    T_TRUE(size < 1e-4);
    /* a = b: the identity; a channel of zeros has no part in it */
    for (i = 0; i < N; i++) a[i * D1 + 3] = 0.0f;
    tw = tiny_tensor_2d(w, TINY_F64, D1, D1);
    tc = tiny_tensor_1d(bias, TINY_F64, D1);
    T_OK(tllm_stitch_solve(ctx, &ta, &ta, &tw, &tc, &left));
    for (j = 0; j < D1; j++) {
        for (k = 0; k < D1; k++) T_CLOSE(w[j * D1 + k], j == k && j != 3 ? 1.0 : 0.0, 1e-5);
        T_CLOSE(bias[j], 0.0, 1e-5);
    }
    T_TRUE(left < 1e-9);
    bad = ta;
    bad.dim[0] = N - 1;
    T_STATUS(tllm_stitch_solve(ctx, &bad, &ta, &tw, &tc, NULL), TINY_E_SHAPE, "their numbers of tokens differ");
    bad.dim[0] = D1;
    T_STATUS(tllm_stitch_solve(ctx, &bad, &bad, &tw, &tc, NULL), TINY_E_ARGUMENT, "more vectors than numbers");
    T_STATUS(tllm_stitch_solve(ctx, &ta, &tb, &tw, &tc, NULL), TINY_E_SHAPE, "cannot map 5 numbers to 7");
    T_STATUS(tllm_stitch_solve(ctx, &ta, NULL, &tw, &tc, NULL), TINY_E_ARGUMENT, "features, weights");
    a[7] = INFINITY;
    T_STATUS(tllm_stitch_solve(ctx, &ta, &ta, &tw, &tc, NULL), TINY_E_NUMERIC, NULL);
    t_close(ctx);
    T_PROOF("compression 7", "LS residual is orthogonal to A, up to the ridge, exactly");
    T_PROOF("compression 7", "bad input: different token counts, fewer samples than D1");
}

static void test_choice(void)
{
    static const double cost[6] = { 4, 1, 2, 2, 3, 4 }, score[6] = { 9, 5, 7, 7, 6, 9 };
    static const unsigned char want[6] = { 1, 1, 1, 0, 0, 0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const double nan[1] = { NAN };
    unsigned char keep[6];
    size_t n, best;
    T_OK(tllm_stitch_pareto(ctx, cost, score, 6, keep, &n));
    T_SAME(keep, want, 6);
    T_EQ_INT(n, 3);
    T_OK(tllm_stitch_select(ctx, cost, score, 6, 3.5, &best));
    T_EQ_INT(best, 2);
    T_OK(tllm_stitch_select(ctx, cost, score, 6, 100, &best));
    T_EQ_INT(best, 0);
    T_STATUS(tllm_stitch_select(ctx, cost, score, 6, 0.5, &best), TINY_E_ARGUMENT,
             "a budget of 0.5 is below the cheapest network, which costs 1");
    T_STATUS(tllm_stitch_select(ctx, cost, score, 6, NAN, &best), TINY_E_ARGUMENT, "below the cheapest");
    T_STATUS(tllm_stitch_select(ctx, cost, nan, 1, 1, &best), TINY_E_NUMERIC, "network 0");
    T_STATUS(tllm_stitch_pareto(ctx, cost, score, 0, keep, NULL), TINY_E_ARGUMENT, "at least one network");
    t_close(ctx);
    T_PROOF("compression 7", "bad input: budget below the cheapest");
}

/* ---- files */

typedef struct joined { tllm_gguf *file; tllm_writer *w; unsigned char *bytes; } joined;

static void congruent(uint32_t seed, int32_t *token, int n)
{
    int i;
    for (i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345u;
        token[i] = (int32_t)((seed >> 16) % 544u);
    }
}

/* identity: the linear layers are I. The file is a copy in memory that t_keep frees. */
static int join(tiny_ctx *ctx, const tllm_gguf *front, const tllm_gguf *back, const double *bits, int identity,
                joined *j, tllm_join_about *about)
{
    tllm_join_desc d;
    tllm_join *open = NULL;
    int32_t token[512];
    size_t n = 0, i;
    int ok;
    memset(&d, 0, sizeof d);
    memset(j, 0, sizeof *j);
    d.window = 64;
    congruent(7, token, 512);
    ok = T_OK(tllm_join_open(ctx, front, back, &d, &open)) && T_OK(tllm_join_fit(ctx, open, token, 512)) &&
         T_OK(tllm_writer_open(ctx, NULL, &j->w)) && T_OK(tllm_join_put(ctx, open, bits, j->w)) &&
         T_OK(tllm_writer_finish(ctx, j->w));
    if (about) *about = tllm_join_what(open);
    tllm_join_close(ctx, open);
    if (!ok) return 0;
    (void)tllm_writer_memory(j->w, &n);
    j->bytes = (unsigned char *)t_keep(n);
    memcpy(j->bytes, tllm_writer_memory(j->w, &n), n);
    tllm_writer_close(ctx, j->w);
    if (!T_OK(tllm_gguf_open_memory(ctx, j->bytes, n, &j->file))) return 0;
    for (i = 0; identity && i < tllm_gguf_n_tensors(j->file); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(j->file, i);
        float *x = (float *)(void *)(j->bytes + tllm_gguf_offset(j->file, t));
        uint64_t k;
        if (memcmp(t->name.at, "stitch.", 7)) continue;
        memset(x, 0, t->bytes);
        for (k = 0; t->rank == 2 && k < t->dim[0]; k++) x[k * t->dim[0] + k] = 1.0f;
    }
    return 1;
}

/* logits (24, 544) of 24 tokens */
static float *logits_of(tiny_ctx *ctx, const tllm_gguf *g)
{
    float *y = (float *)t_keep(24 * 544 * sizeof *y);
    int32_t token[24];
    tllm_model *m = NULL;
    tllm_state *s = NULL;
    tllm_state_desc d;
    memset(&d, 0, sizeof d);
    d.n_ctx = d.n_batch = 24;
    congruent(11, token, 24);
    memset(y, 0, 24 * 544 * sizeof *y);
    if (T_OK(tllm_model_open(ctx, g, &m)) && T_OK(tllm_state_open(ctx, m, &d, &s)))
        T_OK(tllm_forward(s, token, 24, 0, 24, y));
    tllm_state_close(ctx, s);
    tllm_model_close(ctx, m);
    return y;
}

static float *logits_at(tiny_ctx *ctx, const tllm_gguf *file, size_t k)
{
    tllm_gguf *view = NULL;
    float *y = NULL;
    if (T_OK(tllm_stitched_view(ctx, file, k, &view))) y = logits_of(ctx, view);
    tllm_gguf_close(ctx, view);
    return y;
}

/* The model with layers 0 .. f and then e .. : an ordinary file, which shares no path with stitched ones. */
static float *logits_repeated(tiny_ctx *ctx, const tllm_gguf *g, int f, int e)
{
    tllm_writer *w = NULL;
    tllm_gguf *made = NULL;
    char name[80];
    const void *bytes;
    float *y = NULL;
    size_t i, n;
    int side, layer, ok = T_OK(tllm_writer_open(ctx, NULL, &w));
    for (i = 0; ok && i < tllm_gguf_n_meta(g); i++) ok = T_OK(tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(g, i)));
    ok = ok && T_OK(tllm_writer_put_u32(ctx, w, "llama.block_count", (uint32_t)(f + 1 + 4 - e)));
    for (side = 0; ok && side < 2; side++)
        for (i = 0; ok && i < tllm_gguf_n_tensors(g); i++) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
            tllm_text text = t->name;
            if (t->name.n > 6 && !memcmp(t->name.at, "blk.", 4)) {
                layer = t->name.at[4] - '0';
                if (side ? layer < e : layer > f) continue;
                if (side) layer += f + 1 - e;
                (void)snprintf(name, sizeof name, "blk.%d%.*s", layer, (int)(t->name.n - 5), t->name.at + 5);
                text.at = name;
                text.n = strlen(name);
            } else if (side) continue;
            ok = T_OK(tllm_writer_put_tensor(ctx, w, text, t->type, t->rank, t->dim, t->data));
        }
    if (ok && T_OK(tllm_writer_finish(ctx, w)) && (bytes = tllm_writer_memory(w, &n)) != NULL &&
        T_OK(tllm_gguf_open_memory(ctx, bytes, n, &made)))
        y = logits_of(ctx, made);
    tllm_gguf_close(ctx, made);
    tllm_writer_close(ctx, w);
    return y;
}

/* The file with floats in place of Q8_0, whose products round activations to 8 bits on some targets. */
static tllm_gguf *floats(tiny_ctx *ctx, const tllm_gguf *g, tllm_writer **w)
{
    tllm_gguf *made = NULL;
    const void *bytes;
    size_t i, n;
    int ok = T_OK(tllm_writer_open(ctx, NULL, w));
    for (i = 0; ok && i < tllm_gguf_n_meta(g); i++) ok = T_OK(tllm_writer_put_meta(ctx, *w, tllm_gguf_meta_at(g, i)));
    for (i = 0; ok && i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const size_t count = (size_t)(t->dim[0] * t->dim[1]);
        float *x = (float *)t_keep(count * sizeof *x);
        tllm_format_of(t->type)->unpack(t->data, x, count);
        ok = T_OK(tllm_writer_put_tensor(ctx, *w, t->name, TLLM_FORMAT_F32, t->rank, t->dim, x));
    }
    if (ok && T_OK(tllm_writer_finish(ctx, *w)) && (bytes = tllm_writer_memory(*w, &n)) != NULL)
        T_OK(tllm_gguf_open_memory(ctx, bytes, n, &made));
    return made;
}

/* The lines of numpy: three networks. */
static void compare(tiny_target target, const joined *j, size_t n_bytes, double left)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    FILE *in = fopen("tests/golden/snnet.tsv", "r");
    static char line[4096];
    tllm_gguf *file = NULL;
    float *y = NULL;
    long k = -1, p, i;
    int rows = 0;
    if (!T_TRUE(in != NULL) || !T_OK(tllm_gguf_open_memory(ctx, j->bytes, n_bytes, &file))) return;
    while (fgets(line, sizeof line, in)) {
        double most = 0.0;
        char *at;
        if (!strncmp(line, "left", 4)) T_CLOSE(left, strtod(line + 5, NULL), 1e-4);
        if (strncmp(line, "logit", 5)) continue;
        if (target == TINY_TARGET_REFERENCE && line[6] != '5') continue;        /* one network: it takes its time */
        if (strtol(line + 6, &at, 10) != k) y = logits_at(ctx, file, (size_t)(k = strtol(line + 6, &at, 10)));
        p = strtol(at, &at, 10);
        for (i = 0; y && i < 34; i++) most = fmax(most, fabs((double)y[p * 544 + 16 * i] - strtod(at, &at)));
        if (!T_TRUE(y && most < 1e-4))
            printf("  network %ld, position %ld: %g apart\n", k, p, most);
        if (getenv("T_SAY")) printf("  network %ld, position %ld: %g apart\n", k, p, most);
        rows++;
    }
    T_EQ_INT(rows, target == TINY_TARGET_REFERENCE ? 3 : 9);
    fclose(in);
    tllm_gguf_close(ctx, file);
    t_close(ctx);
}

static void test_files(void)
{
    static const size_t once[3] = { 3, 6, 9 }, twice[3] = { 4, 8, 10 };     /* (f, f + 1); (1, 0) (2, 2) (3, 2) */
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_gguf *small = NULL, *large = NULL, *view = NULL, *f[2];
    tllm_writer *w[2] = { NULL, NULL };
    tllm_join_about about;
    tllm_stitched_about what;
    double bits[12];
    joined j;
    size_t k, best = 0;
    t_case(small_path, 1);
    t_case(large_path, 1);
    if (!T_OK(tllm_gguf_open(ctx, small_path, &small)) || !T_OK(tllm_gguf_open(ctx, large_path, &large))) return;
    for (k = 0; k < 12; k++) bits[k] = 3.0 - 0.1 * (double)k;
    bits[5] = 1.0;
    if (join(ctx, small, large, bits, 0, &j, &about)) {
        T_EQ_INT(about.n, 12);
        T_EQ_INT(about.n_linear, 3);
        T_EQ_INT(tllm_stitched_count(j.file), 12);
        T_EQ_INT(tllm_stitched_count(small), 0);
        T_SAME(logits_at(ctx, j.file, 0), logits_of(ctx, small), 24 * 544);
        T_SAME(logits_at(ctx, j.file, 1), logits_of(ctx, large), 24 * 544);
        T_SAME(logits_of(ctx, j.file), logits_of(ctx, large), 24 * 544);
        T_OK(tllm_stitched_what(ctx, j.file, 0, &what));
        T_TRUE(what.params == 660608.0 && what.stitch.back == 0);
        T_OK(tllm_stitched_what(ctx, j.file, 1, &what));
        T_TRUE(what.params == 2369792.0 && what.stitch.front == 1);
        T_OK(tllm_stitched_what(ctx, j.file, 3, &what));
        /* (0, 1): embedding, a layer; W, c; three layers, norm, head */
        T_TRUE(what.params == 69632.0 + 147712.0 + 33024.0 + 3 * 557568.0 + 256.0 + 139264.0);
        T_TRUE(what.stitch.f == 0 && what.stitch.e == 1 && what.stitch.layer == 0);
        T_CLOSE(what.bits, 2.7, 1e-6);
        T_OK(tllm_stitched_select(ctx, j.file, 1e9, &best));
        T_EQ_INT(best, 5);
        T_STATUS(tllm_stitched_select(ctx, j.file, 1000, &best), TINY_E_ARGUMENT, "below the cheapest network");
        T_STATUS(tllm_stitched_view(ctx, j.file, 12, &view), TINY_E_ARGUMENT, "there is no network 12");
        T_STATUS(tllm_stitched_view(ctx, small, 0, &view), TINY_E_UNSUPPORTED, "it is no file of stitched models");
        tllm_gguf_close(ctx, j.file);
    }
    f[0] = floats(ctx, small, &w[0]);
    f[1] = floats(ctx, large, &w[1]);
    if (f[0] && f[1] && join(ctx, f[0], f[1], NULL, 0, &j, &about)) {
        compare(TINY_TARGET_AUTO, &j, tllm_gguf_bytes(j.file, 0), about.left);
        compare(TINY_TARGET_REFERENCE, &j, tllm_gguf_bytes(j.file, 0), about.left);
        tllm_gguf_close(ctx, j.file);
    }
    for (k = 0; k < 2; k++) {
        tllm_gguf_close(ctx, f[k]);
        tllm_writer_close(ctx, w[k]);
    }
    if (join(ctx, small, small, NULL, 1, &j, NULL)) {
        const float *want = logits_of(ctx, small);
        for (k = 0; k < 3; k++) {
            T_SAME(logits_at(ctx, j.file, once[k]), want, 24 * 544);
            T_OK(tllm_stitched_what(ctx, j.file, twice[k], &what));
            T_SAME(logits_at(ctx, j.file, twice[k]), logits_repeated(ctx, small, what.stitch.f, what.stitch.e),
                   24 * 544);
        }
        tllm_gguf_close(ctx, j.file);
    }
    tllm_gguf_close(ctx, large);
    tllm_gguf_close(ctx, small);
    t_close(ctx);
    T_PROOF("compression 7", "anchors of a file give the bits of the models before");
    T_PROOF("compression 7", "stitched models: logits of numpy; with identities, those of models of repeated layers");
}

/* ---- sessions */

static void test_session(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_gguf *small = NULL, *large = NULL, *view = NULL;
    tllm_session *s = NULL, *fresh = NULL;
    tllm_state_desc d;
    const float *a = NULL, *b = NULL;
    int32_t token[24];
    joined j;
    size_t n, i;
    static const size_t order[5] = { 5, 0, 9, 1, 5 };
    memset(&d, 0, sizeof d);
    d.n_ctx = 64;
    d.n_batch = 16;
    t_case(small_path, 1);
    congruent(11, token, 24);
    if (!T_OK(tllm_gguf_open(ctx, small_path, &small)) || !T_OK(tllm_gguf_open(ctx, large_path, &large))) return;
    if (join(ctx, small, large, NULL, 0, &j, NULL)) {
        size_t bytes = tllm_gguf_bytes(j.file, 0);
        T_OK(tllm_session_open_memory(ctx, j.bytes, bytes, &d, &s));
        T_EQ_INT(tllm_session_stitched(s), 1);
        T_OK(tllm_session_feed(s, token, 20, NULL));
        for (i = 0; i < 5; i++) {           /* as a session that always ran this network */
            T_OK(tllm_session_stitch(s, order[i], &a));
            T_EQ_INT(tllm_session_stitched(s), order[i]);
            (void)tllm_session_tokens(s, &n);
            T_EQ_INT(n, 20);
            T_OK(tllm_session_open_memory(ctx, j.bytes, bytes, &d, &fresh));
            T_OK(tllm_session_stitch(fresh, order[i], &b));
            T_TRUE(b == NULL);              /* there was no text */
            T_OK(tllm_session_feed(fresh, token, 20, &b));
            T_TRUE(a && b);
            if (a && b) T_SAME(a, b, 544);
            tllm_session_close(fresh);
        }
        T_OK(tllm_session_feed(s, token + 20, 4, &a));
        T_STATUS(tllm_session_stitch(s, 12, &a), TINY_E_ARGUMENT, "there is no network 12");
        (void)tllm_session_tokens(s, &n);
        T_EQ_INT(n, 24);
        T_EQ_INT(tllm_session_stitched(s), 5);
        tllm_session_close(s);
        T_STATUS(tllm_stitched_select(ctx, j.file, 1e9, &n), TINY_E_UNSUPPORTED, "were not measured");
        T_OK(tllm_stitched_view(ctx, j.file, 4, &view));    /* a view is no file to view again */
        tllm_gguf_close(ctx, view);
        tllm_gguf_close(ctx, j.file);
    }
    T_OK(tllm_session_open(ctx, small_path, &d, &s));
    T_STATUS(tllm_session_stitch(s, 0, NULL), TINY_E_UNSUPPORTED, "it is no file of stitched models");
    tllm_session_close(s);
    T_EQ_INT(tllm_session_stitch(NULL, 0, NULL), TINY_E_ARGUMENT);
    tllm_gguf_close(ctx, large);
    tllm_gguf_close(ctx, small);
    t_close(ctx);
    T_PROOF("compression 7", "a switch in a text gives the bits of a session that always ran that network");
}

/* ---- training */

#ifndef TINYLLM_NO_JOINTRAIN
enum { PIECE = 24 };
typedef struct drawn { double nats[12], last[12], most; int count[12]; } drawn;

static int on_step(void *user, const tllm_snnet_fit_state *s)
{
    drawn *d = (drawn *)user;
    if (!d->count[s->network]++ && d->nats[s->network] > 0)
        d->most = fmax(d->most, fabs(s->loss / d->nats[s->network] - 1.0));
    d->last[s->network] = s->loss;
    return 0;
}

/* nats a token of network k by the engine */
static double nats_at(tiny_ctx *ctx, const tllm_gguf *file, size_t k, const int32_t *token)
{
    static float y[PIECE * 544];
    tllm_gguf *view = NULL;
    tllm_model *m = NULL;
    tllm_state *s = NULL;
    double sum = 0.0;
    int i, v;
    memset(y, 0, sizeof y);
    if (T_OK(tllm_stitched_view(ctx, file, k, &view)) && T_OK(tllm_model_open(ctx, view, &m)) &&
        T_OK(tllm_state_open(ctx, m, NULL, &s)))
        T_OK(tllm_forward(s, token, PIECE, 0, PIECE, y));
    for (i = 0; i < PIECE; i++) {
        double all = 0.0;
        for (v = 0; v < 544; v++) all += exp((double)y[i * 544 + v]);
        sum += log(all) - (double)y[i * 544 + token[i + 1]];
    }
    tllm_state_close(ctx, s);
    tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, view);
    return sum / PIECE;
}

/* The loss that the tape trains is that of the engine; steps lower it; the file holds the trained weights. */
static void test_training(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *small = NULL, *large = NULL, *f[2], *file = NULL;
    tllm_writer *w[2] = { NULL, NULL }, *out = NULL;
    tllm_join_desc jd;
    tllm_join_train_desc d;
    tllm_snnet_fit_state last;
    tllm_join *j = NULL;
    tllm_story story = tllm_story_start(3);
    int32_t token[200];
    const void *bytes;
    double first = 0.0, then = 0.0;
    size_t n, k;
    drawn t;
    int pass;
    memset(&jd, 0, sizeof jd);
    memset(&d, 0, sizeof d);
    t_case(small_path, 1);
    for (k = 0; k < 200; k++) token[k] = tllm_story_draw(&story, NULL, NULL);
    if (!T_OK(tllm_gguf_open(ctx, small_path, &small)) || !T_OK(tllm_gguf_open(ctx, large_path, &large))) return;
    f[0] = floats(ctx, small, &w[0]);
    f[1] = floats(ctx, large, &w[1]);
    jd.window = PIECE;
    T_OK(tllm_join_open(ctx, f[0], f[1], &jd, &j));
    T_STATUS(tllm_join_train(ctx, j, token, PIECE + 1, NULL, NULL), TINY_E_ARGUMENT, "that have read a text");
    T_OK(tllm_join_fit(ctx, j, token, 200));
    T_STATUS(tllm_join_train(ctx, j, token, PIECE, NULL, NULL), TINY_E_ARGUMENT, "0 pieces of 24 tokens");
    for (pass = 0; pass < 2; pass++) {
        if (!T_OK(tllm_writer_open(ctx, NULL, &out)) || !T_OK(tllm_join_put(ctx, j, NULL, out)) ||
            !T_OK(tllm_writer_finish(ctx, out)))
            break;
        bytes = tllm_writer_memory(out, &n);
        if (!T_OK(tllm_gguf_open_memory(ctx, bytes, n, &file))) break;
        memset(&t, 0, sizeof t);
        for (k = 0; k < 12; k++) t.nats[k] = nats_at(ctx, file, k, token);
        for (k = 0; k < 12; k++) *(pass ? &then : &first) += t.nats[k] / 12.0;
        tllm_gguf_close(ctx, file);
        tllm_writer_close(ctx, out);
        if (pass) break;
        d.steps = 20;
        d.lr = 1e-12;                       /* nothing moves: each network has the loss of the file */
        d.callback = on_step;
        d.user = &t;
        T_OK(tllm_join_train(ctx, j, token, PIECE + 1, &d, &last));
        T_EQ_INT(last.step, 20);
        T_TRUE(t.most < 1e-4);
        for (k = n = 0; k < 12; k++) n += t.count[k] > 0;
        T_TRUE(n >= 6);
        d.lr = 1e-3;
        d.callback = NULL;
        d.steps = 16;
        T_OK(tllm_join_train(ctx, j, token, PIECE + 1, &d, NULL));
    }
    T_TRUE(then < 0.95 * first);
    tllm_join_close(ctx, j);
    for (k = 0; k < 2; k++) {
        tllm_gguf_close(ctx, f[k]);
        tllm_writer_close(ctx, w[k]);
    }
    tllm_gguf_close(ctx, large);
    tllm_gguf_close(ctx, small);
    t_close(ctx);
    T_PROOF("compression 7", "training of model files: the loss on the tape is that of the engine, and falls");
}
#endif

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_gguf *small = NULL, *large = NULL, *latent = NULL;
    tllm_join *j = NULL;
    tllm_join_desc d;
    int32_t token[512];
    memset(&d, 0, sizeof d);
    t_case(large_path, 1);
    congruent(7, token, 512);
    if (!T_OK(tllm_gguf_open(ctx, small_path, &small)) || !T_OK(tllm_gguf_open(ctx, large_path, &large)) ||
        !T_OK(tllm_gguf_open(ctx, "examples/models/story-latent.gguf", &latent)))
        return;
    T_STATUS(tllm_join_open(ctx, large, small, NULL, &j), TINY_E_ARGUMENT, "is wider (256) than");
    T_TRUE(j == NULL);
    T_STATUS(tllm_join_open(ctx, latent, large, NULL, &j), TINY_E_UNSUPPORTED, NULL);
    T_STATUS(tllm_join_open(ctx, small, NULL, NULL, &j), TINY_E_ARGUMENT, "two model files");
    d.format = 9999;
    T_STATUS(tllm_join_open(ctx, small, large, &d, &j), TINY_E_ARGUMENT, "a format that can be written");
    if (T_OK(tllm_join_open(ctx, small, large, NULL, &j))) {
        T_STATUS(tllm_join_fit(ctx, j, token, 128), TINY_E_ARGUMENT, "more than the 128 channels");
        T_STATUS(tllm_join_put(ctx, j, NULL, NULL), TINY_E_ARGUMENT, "a writer are needed");
        token[3] = 544;
        T_STATUS(tllm_join_fit(ctx, j, token, 512), TINY_E_ARGUMENT, "token 3 of the text is 544");
        tllm_join_close(ctx, j);
    }
    tllm_gguf_close(ctx, latent);
    tllm_gguf_close(ctx, large);
    tllm_gguf_close(ctx, small);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_plan);
    T_RUN(test_deit);
    T_RUN_FORMS(test_solve);
    T_RUN(test_choice);
    T_RUN(test_files);
    T_RUN(test_session);
#ifndef TINYLLM_NO_JOINTRAIN
    T_RUN(test_training);
#endif
    T_RUN(test_refused);
    return t_done();
}
#endif
