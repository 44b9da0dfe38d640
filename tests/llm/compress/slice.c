/* tests/llm/compress/slice.c - SliceGPT: at full width the same function, at less the numbers of numpy
 *
 * Truth    logits of the model before, over all models of the large oracle; tests/golden/slicegpt.tsv, by numpy in
 *          double from the formulas of the paper, with fused, rotated and cut matrices (tests/golden/make/slicegpt.py);
 *          the number of parameters by a formula written here; order of losses and divergences of several ways */
#include "llm/model/apart.h"
#include "llm/compress/divergence.h"
#include <math.h>

static const char small[] = "examples/models/story-small.gguf";         /* rows of 128, Q8_0 */

/* the linear congruence of the script: numbers in -1 .. 1, and tokens */
static void congruence(uint32_t seed, float *x, int n)
{
    int i;
    for (i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345u;
        x[i] = (float)((int)(seed >> 16) - 32768) / 32768.0f;
    }
}
static void congruent_tokens(uint32_t seed, int32_t *token, int n, int most)
{
    int i;
    for (i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345u;
        token[i] = (int32_t)((seed >> 16) % (uint32_t)most);
    }
}

static int sliced(tiny_ctx *ctx, const tllm_gguf *g, const tllm_sliced_desc *d, const int32_t *token, int n, made *m,
                  tllm_sliced_about *about)
{
    tllm_sliced *s = NULL;
    int ok;
    memset(m, 0, sizeof *m);
    if (!T_OK(tllm_sliced_open(ctx, g, d, &s))) return 0;
    ok = T_OK(tllm_writer_open(ctx, NULL, &m->w)) && T_OK(tllm_sliced_put(ctx, s, token, n, m->w)) && made_end(ctx, m);
    if (about) *about = tllm_sliced_what(s);
    tllm_sliced_close(ctx, s);
    return ok;
}

/* ---- the same function ------------------------------------------------------------------------------------------- */

typedef struct tally { int refused, forms, layer_norms; } tally;
static void one_model(tiny_ctx *ctx, const tllm_gguf *g, const char *name, void *arg)
{
    /* what cannot be sliced, by hand, from the architecture of each */
    static const struct { const char *name, *why;
    } refused[] = { { "bert", "gives no logits" },
                    { "gemma2", "a norm comes after a half" },
                    { "olmo2", "a norm comes after a half" },
                    { "deepseek2", "is not plain attention" },
                    { "t5", "folds are not supported" },
                    { "gemma4-moe", "dense network and experts run in parallel" } };
    /* layer norms with biases, learned positions, a norm after the embedding, parallel halves, experts */
    static const char *const taken[] = { "llama", "gpt2", "bloom", "phi2", "gptneox-seq", "falcon-40b", "olmoe" };
    static const struct { double keep; int by, ordered, head; } way[] = {
        { 1.0, TLLM_SLICE_PCA, 0, 0 }, { 1.0, TLLM_SLICE_PCA, 1, 1 }, { 1.0, TLLM_SLICE_RANDOM, 1, 0 }
    };
    tally *t = (tally *)arg;
    tllm_sliced *s = NULL;
    tllm_folds *f = NULL;
    int32_t token[TOKENS];
    tllm_about about;
    tllm_model *model = NULL;
    made before, after;
    size_t n = 0, i, k;
    float *a, *b;
    for (i = 0; i < T_COUNT(refused) && strcmp(name, refused[i].name); i++) {}
    for (k = 0; k < T_COUNT(taken) && strcmp(name, taken[k]); k++) {}
    if (tllm_sliced_open(ctx, g, NULL, &s)) {
        T_TRUE(s == NULL && k == T_COUNT(taken));
        if (i < T_COUNT(refused) && !T_TRUE(strstr(tiny_ctx_message(ctx), refused[i].why) != NULL))
            printf("  %s\n", tiny_ctx_message(ctx));
        if (getenv("T_SAY")) printf("%-20s %s\n", name, tiny_ctx_message(ctx));
        t->refused++;
        return;
    }
    T_TRUE(i == T_COUNT(refused));
    tllm_sliced_close(ctx, s);
    if (!T_OK(tllm_folds_open(ctx, g, &f)) || !make(ctx, f, &before)) return;
    if (T_OK(tllm_model_open(ctx, g, &model))) tllm_model_about(model, &about);
    tllm_model_close(ctx, model);
    congruent_tokens(5, token, TOKENS, (int)about.n_vocab);         /* fewer tokens than channels */
    a = results(ctx, before.file, &n);
    for (i = 0; a && i < T_COUNT(way); i++) {
        tllm_sliced_desc d;
        tllm_text arch = { "", 0 };
        double off;
        memset(&d, 0, sizeof d);
        d.keep = way[i].keep;
        d.by = way[i].by;
        d.ordered = way[i].ordered;
        d.head = way[i].head;
        d.window = 16;
        d.seed = 3 + i;
        if (!sliced(ctx, before.file, &d, token, TOKENS, &after, NULL)) break;
        T_TRUE(tllm_meta_text(tllm_gguf_find(after.file, "general.architecture"), 0, &arch) && arch.n > 7 &&
               !memcmp(arch.at, "sliced-", 7));
        b = results(ctx, after.file, &n);
        off = b ? apart(a, b, n) : 1;
        if (!T_TRUE(off <= 1e-4)) printf("  %s, way %d: %.3g apart\n", name, (int)i, off);
        if (getenv("T_SAY")) printf("%-20s way %d: %.3g apart\n", name, (int)i, off);
        t->forms++;
        t->layer_norms += !tllm_gguf_tensor_find(after.file, "output_norm.bias") &&
                          tllm_gguf_tensor_find(before.file, "output_norm.bias");
        drop(ctx, &after);
    }
    drop(ctx, &before);
    tllm_folds_close(ctx, f);
}

static void test_models(void)
{
    tally t = { 0, 0, 0 };
    const int n_models = each_model(one_model, &t);
    if (!n_models) return;
    printf("  models: %d, of which %d are refused; %d sliced forms, %d of them had layer norms with a bias\n", n_models,
           t.refused, t.forms, t.layer_norms);
    T_TRUE(n_models - t.refused >= 3 && t.forms == 3 * (n_models - t.refused));
    T_PROOF("compression 1", "s=0: logits equal to 1e-4 relative (f32), also for random Q");
    T_PROOF("compression 1", "bad input: fewer tokens than D, a tied head");
}

/* ---- numbers of numpy -------------------------------------------------------------------------------------------- */

enum { V_EACH = 8, PROBE = 24, PLACES = 3, NUMBERS = 68 };
static const int place[PLACES] = { 0, 11, 23 };

/* the numbers of a line "kind\tkey\tx...", or of "kind\tkey\tsecond\tx..."; how many */
static int golden(const char *kind, const char *key, int second, double *x, int most)
{
    static char line[16384];
    FILE *in = fopen("tests/golden/slicegpt.tsv", "r");
    char want[80];
    int n = 0;
    if (second >= 0) (void)snprintf(want, sizeof want, "%s%s%s\t%d\t", kind, *key ? "\t" : "", key, second);
    else (void)snprintf(want, sizeof want, "%s\t%s\t", kind, key);
    while (in && !n && fgets(line, sizeof line, in)) {
        char *at = line, *end;
        if (strncmp(line, want, strlen(want))) continue;
        for (at += strlen(want); n < most; at = end) {
            x[n] = strtod(at, &end);
            if (end == at) break;
            n++;
        }
    }
    if (in) (void)fclose(in);
    return n;
}

/* relative error of the probe's logits */
static double off_golden(tiny_ctx *ctx, const tllm_gguf *g, const char *kind, const char *key)
{
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc room;
    int32_t token[PROBE];
    float *y = t_guarded(PROBE * 544);
    double off = 0, size = 0;
    int i, k;
    memset(&room, 0, sizeof room);
    room.n_ctx = 64;
    congruent_tokens(11, token, PROBE, 544);
    if (!T_OK(tllm_model_open(ctx, g, &model)) || !T_OK(tllm_state_open(ctx, model, &room, &state))) return 1;
    T_OK(tllm_forward(state, token, PROBE, 0, PROBE, y));
    for (i = 0; i < PLACES; i++) {
        double want[NUMBERS];
        if (!T_EQ_INT(golden(kind, key, place[i], want, NUMBERS), NUMBERS)) continue;
        for (k = 0; k < NUMBERS; k++) {
            off += pow((double)y[place[i] * 544 + k * V_EACH] - want[k], 2);
            size += want[k] * want[k];
        }
    }
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    return sqrt(off / size);
}

static void test_golden(tiny_target target)
{
    static const char *const keep[] = { "0.75", "0.5" };
    enum { TEXT = 1024 };
    static int32_t token[TEXT];
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_gguf *g = NULL;
    made floats, m;
    int k;
    congruent_tokens(7, token, TEXT, 544);
    if (!T_OK(tllm_gguf_open(ctx, small, &g)) || !packed(ctx, g, TLLM_FORMAT_F32, &floats)) return;
    T_CLOSE(off_golden(ctx, floats.file, "full", ""), 0, 1e-5);
    for (k = 0; k < 2; k++) {
        tllm_sliced_desc d;
        tllm_sliced_about about;
        double lost[9], mean = 0, off;
        int i;
        memset(&d, 0, sizeof d);
        d.keep = strtod(keep[k], NULL);
        d.window = 64;
        d.seed = 9;
        d.ordered = k;
        if (!sliced(ctx, floats.file, &d, token, TEXT, &m, &about)) break;
        T_EQ_INT(golden("lost", keep[k], 9, lost, 9), 9);
        for (i = 0; i < 9; i++) mean += lost[i] / 9;
        T_CLOSE(about.lost, mean, 1e-4 * mean);
        off = off_golden(ctx, m.file, "logit", keep[k]);
        T_CLOSE(off, 0, 1e-4);
        if (getenv("T_SAY")) printf("keep %s: %.3g apart, lost %.7g, numpy %.7g\n", keep[k], off, about.lost, mean);
        T_EQ_INT(about.n_signals, 9);
        drop(ctx, &m);
    }
    T_RAN_ON(ctx, t_vectors(target));
    {                                       /* a large eps: it belongs to a sum that is divided by the whole width */
        tllm_sliced_desc d;
        size_t i;
        made large;
        memset(&d, 0, sizeof d);
        memset(&large, 0, sizeof large);
        d.keep = 0.5;
        d.window = 64;
        T_OK(tllm_writer_open(ctx, NULL, &large.w));
        for (i = 0; i < tllm_gguf_n_meta(floats.file); i++)
            T_OK(tllm_writer_put_meta(ctx, large.w, tllm_gguf_meta_at(floats.file, i)));
        T_OK(tllm_writer_put_f32(ctx, large.w, "llama.attention.layer_norm_rms_epsilon", 0.5f));
        for (i = 0; i < tllm_gguf_n_tensors(floats.file); i++) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_at(floats.file, i);
            T_OK(tllm_writer_put_tensor(ctx, large.w, t->name, t->type, t->rank, t->dim, t->data));
        }
        if (made_end(ctx, &large) && sliced(ctx, large.file, &d, token, TEXT, &m, NULL)) {
            T_CLOSE(off_golden(ctx, m.file, "eps", ""), 0, 1e-4);
            drop(ctx, &m);
        }
        drop(ctx, &large);
    }
    drop(ctx, &floats);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* two networks with residuals, written out in double with the axes of the library */
enum { TD = 16, TF = 32, TT = 200, TV = 24, TR = 6 };
typedef struct toy {
    float x[TT * TD], up[2][TF * TD], down[2][TD * TF], head[TV * TD];
} toy;
static void toy_rms(const double *x, int d, double *y)
{
    double sum = 0;
    int i;
    for (i = 0; i < d; i++) sum += x[i] * x[i];
    for (i = 0; i < d; i++) y[i] = x[i] / sqrt(sum / TD + 1e-5);    /* the original width */
}
/* axes of u (TT, TD) into q */
static int toy_axes(tiny_ctx *ctx, const double *u, double *q)
{
    static float x[TT * TD];
    const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, TT, TD), tq = tiny_tensor_2d(q, TINY_F64, TD, TD);
    int i;
    for (i = 0; i < TT * TD; i++) x[i] = (float)u[i];
    return T_OK(tllm_slice_axes(ctx, &tx, TLLM_SLICE_PCA, 0, &tq));
}
/* y (TT, TV); d 0: not sliced */
static int toy_run(tiny_ctx *ctx, const toy *t, int d, double *y)
{
    static double x[TT * TD], u[TT * TD], q[TD * TD];
    double h[TF], z[TD];
    int i, j, k, r, n = TD;
    for (i = 0; i < TT * TD; i++) u[i] = (double)t->x[i];
    for (k = 0; k <= 2; k++) {
        n = d && k < 2 ? d : TD;
        if (d && !toy_axes(ctx, u, q)) return 0;
        for (r = 0; r < TT; r++)            /* x = u, or u times the first axes */
            for (j = 0; j < n; j++)
                for (x[r * TD + j] = d ? 0 : u[r * TD + j], i = 0; d && i < TD; i++)
                    x[r * TD + j] += u[r * TD + i] * q[i * TD + j];
        if (k == 2) break;
        for (r = 0; r < TT; r++) {
            toy_rms(x + r * TD, n, z);
            for (i = 0; i < TF; i++) {
                double w;
                for (h[i] = 0, j = 0; j < n; j++) {
                    int c;
                    for (w = d ? 0 : (double)t->up[k][i * TD + j], c = 0; d && c < TD; c++)
                        w += (double)t->up[k][i * TD + c] * q[c * TD + j];
                    h[i] += w * z[j];
                }
                h[i] = h[i] > 0 ? h[i] : 0;
            }
            for (i = 0; i < TD; i++) {      /* back to the original basis, and what the network adds */
                for (u[r * TD + i] = d ? 0 : x[r * TD + i], j = 0; d && j < n; j++)
                    u[r * TD + i] += x[r * TD + j] * q[i * TD + j];
                for (j = 0; j < TF; j++) u[r * TD + i] += (double)t->down[k][i * TF + j] * h[j];
            }
        }
    }
    for (r = 0; r < TT; r++) {
        toy_rms(x + r * TD, TD, z);
        for (i = 0; i < TV; i++)
            for (y[r * TV + i] = 0, j = 0; j < TD; j++) {
                double w = d ? 0 : (double)t->head[i * TD + j];
                int c;
                for (c = 0; d && c < TD; c++) w += (double)t->head[i * TD + c] * q[c * TD + j];
                y[r * TV + i] += w * z[j];
            }
    }
    return 1;
}
static void test_toy(tiny_target target)
{
    static const int width[] = { 16, 12, 8, 6 };
    static toy t;
    static float a[TT * TR], b[TR * TD], noise[TT * TD];
    static double want[TT * TV], got[TT * TV];
    tiny_ctx *ctx = t_ctx(target, 1), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    int i, k, r, sums;
    congruence(1, a, TT * TR);
    congruence(2, b, TR * TD);
    congruence(3, noise, TT * TD);
    for (i = 0; i < TT * TD; i++) {
        double sum = 0.05 * (double)noise[i];
        for (k = 0; k < TR; k++) sum += (double)a[i / TD * TR + k] * (double)b[k * TD + i % TD];
        t.x[i] = (float)sum;
    }
    for (k = 0; k < 2; k++) {
        congruence(4 + (uint32_t)k, t.up[k], TF * TD);
        congruence(6 + (uint32_t)k, t.down[k], TD * TF);
        for (i = 0; i < TF * TD; i++) {
            t.up[k][i] *= 0.5f;
            t.down[k][i] *= 0.25f;
        }
    }
    congruence(8, t.head, TV * TD);
    if (!toy_run(ctx, &t, 0, want)) return;
    /* sums of products in double, then in float: eigenvectors of neighbouring eigenvalues move by the error of the sums
     * over the distance of the eigenvalues */
    for (k = 0; k < 8; k++) {
        double off = 0, size = 0, numpy;
        char key[8];
        sums = k / 4;
        (void)snprintf(key, sizeof key, "%d", width[k % 4]);
        t_use(sums ? ctx : plain);
        if (!toy_run(sums ? ctx : plain, &t, width[k % 4], got) || !T_EQ_INT(golden("toy", key, -1, &numpy, 1), 1))
            break;
        for (r = 0; r < TT * TV; r++) {
            off += (want[r] - got[r]) * (want[r] - got[r]);
            size += want[r] * want[r];
        }
        T_CLOSE(sqrt(off / size), numpy, k % 4 ? (sums ? 1e-3 : 2e-6) * numpy : 1e-12);
        if (getenv("T_SAY")) printf("toy, %s channels: %.9g, numpy %.9g\n", key, sqrt(off / size), numpy);
    }
    T_PROOF("compression 1", "checked toy: relative logit error at d = 16, 12, 8, 6");
    t_use(plain);
    t_close(plain);
    t_use(ctx);
    t_close(ctx);
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */

static void test_axes(tiny_target target)
{
    enum { ROWS = 60, MOST = 97 };
    static const int width[] = { 1, 2, 8, 31, 96, 97 };
    static double q[MOST * MOST];
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(ROWS * MOST, -1, 1);
    size_t c;
    int i, j, k, by;
    for (i = 0; i < ROWS * MOST; i++) x[i] *= (float)(1 + (i * 7) % MOST % 5);
    for (c = 0; c < T_COUNT(width); c++)
        for (by = 0; by < TLLM_SLICE_WAYS; by++) {
            const int n = width[c];
            tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, ROWS, n), tq = tiny_tensor_2d(q, TINY_F64, n, n);
            double off = 0, before = HUGE_VAL;
            tx.stride[0] = MOST;
            if (!T_OK(tllm_slice_axes(ctx, &tx, by, 11, &tq))) continue;
            for (i = 0; i < n; i++)
                for (j = 0; j < n; j++) {
                    double sum = 0;
                    for (k = 0; k < n; k++) sum += q[k * n + i] * q[k * n + j];
                    off = fmax(off, fabs(sum - (i == j)));
                }
            T_TRUE(off < 1e-10);
            for (j = 0; j < n && (by == TLLM_SLICE_PCA || by == TLLM_SLICE_COLUMNS); j++) {    /* falling energy */
                double energy = 0;
                for (i = 0; i < ROWS; i++) {
                    double y = 0;
                    for (k = 0; k < n; k++) y += (double)x[i * MOST + k] * q[k * n + j];
                    energy += y * y;
                }
                T_TRUE(energy <= before + 1e-4 * (1 + energy));
                before = energy;
            }
            for (j = 0; j < n && by == TLLM_SLICE_FIRST; j++) T_TRUE(q[j * n + j] == 1.0);
        }
    {                                       /* three rows for eight channels, and rows of zeros: still orthogonal */
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, 8), tq = tiny_tensor_2d(q, TINY_F64, 8, 8);
        int zero;
        for (zero = 0; zero < 2; zero++) {
            T_OK(tllm_slice_axes(ctx, &tx, TLLM_SLICE_PCA, 0, &tq));
            for (i = 0; i < 64; i++) {
                double sum = 0;
                for (k = 0; k < 8; k++) sum += q[k * 8 + i / 8] * q[k * 8 + i % 8];
                T_CLOSE(sum, i / 8 == i % 8, 1e-10);
            }
            memset(x, 0, 24 * sizeof *x);
        }
        T_STATUS(tllm_slice_axes(ctx, &tx, TLLM_SLICE_WAYS, 0, &tq), TINY_E_ARGUMENT, "axes by way 4");
        T_STATUS(tllm_slice_axes(ctx, &tx, -1, 0, &tq), TINY_E_ARGUMENT, "axes by way -1");
        x[5] = NAN;
        T_STATUS(tllm_slice_axes(ctx, &tx, 0, 0, &tq), TINY_E_NUMERIC, "input 5 of token 0 is nan");
        tq.dim[0] = 7;
        T_STATUS(tllm_slice_axes(ctx, &tx, 0, 0, &tq), TINY_E_ARGUMENT, "into n x n numbers");
        T_STATUS(tllm_slice_axes(ctx, NULL, 0, 0, &tq), TINY_E_ARGUMENT, "at least one row");
        T_STATUS(tllm_slice_axes(NULL, &tx, 0, 0, &tq), TINY_E_ARGUMENT, NULL);
    }
    T_PROOF("compression 1", "orthogonality ||Q^T Q - I|| < 1e-10");
    t_close(ctx);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static uint64_t numbers_of(const tllm_gguf *g)
{
    uint64_t sum = 0, n;
    size_t i;
    int k;
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        for (n = 1, k = 0; k < t->rank; k++) n *= t->dim[k];
        sum += n;
    }
    return sum;
}
static const tllm_gguf_tensor *tensor(const tllm_gguf *g, const char *name)
{
    return tllm_gguf_tensor_find(g, name);
}

/* story-small: 4 layers, width 128, network 256, keys of 64, 544 tokens, the embedding gives the logits */
static uint64_t by_formula(uint64_t d, int head)
{
    const uint64_t D = 128, F = 256, KV = 64, V = 544, L = 4, end = head ? d : D;
    const uint64_t layer = d * (2 * D + 2 * KV + 3 * F) + 2 * d * d + 2 * d;
    return L * layer + (end - d) * (F + d) + V * d + V * end + end;
}
static void test_sizes(void)
{
    enum { TEXT = 300 };
    static int32_t token[TEXT];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const struct { double keep; tiny_idx round, width; int format; } c[] = {
        { 0, 0, 96, TLLM_FORMAT_F32 },      { 0.75, 8, 96, TLLM_FORMAT_F16 },   { 0.7, 0, 88, TLLM_FORMAT_F32 },
        { 0.7, 0, 64, TLLM_FORMAT_Q8_0 },   { 0.7, 1, 89, TLLM_FORMAT_F32 },    { 0.5, 0, 64, TLLM_FORMAT_Q4_0 },
        { 0.99, 48, 96, TLLM_FORMAT_Q8_0 }, { 0.0626, 0, 8, TLLM_FORMAT_F32 },  { 1, 0, 128, TLLM_FORMAT_Q8_0 }
    };
    tllm_gguf *g = NULL;
    size_t i;
    int head;
    stories(token, TEXT, 5);
    if (!T_OK(tllm_gguf_open(ctx, small, &g))) return;
    for (i = 0; i < T_COUNT(c); i++)
        for (head = 0; head < 2; head++) {
            tllm_sliced_desc d;
            tllm_sliced_about a;
            made m;
            memset(&d, 0, sizeof d);
            d.keep = c[i].keep;
            d.round = c[i].round;
            d.format = c[i].format;
            d.head = head;
            if (!sliced(ctx, g, &d, token, TEXT, &m, &a)) continue;
            T_EQ_INT(tensor(m.file, "token_embd.weight")->dim[0], c[i].width);
            T_EQ_INT(tensor(m.file, "blk.2.ffn_shortcut.weight")->dim[1], c[i].width);
            T_EQ_INT(tensor(m.file, "output.weight")->dim[0], head ? c[i].width : 128);
            T_EQ_INT(tensor(m.file, "output.weight")->type, c[i].format);
            T_EQ_INT(numbers_of(m.file), by_formula((uint64_t)c[i].width, head));
            T_TRUE(a.params == (double)numbers_of(m.file) && a.params_before == (double)numbers_of(g));
            T_TRUE(a.untied && a.least == c[i].width && a.most == (head ? c[i].width : 128) && a.n_layer == 4);
            {
                const float *gain = (const float *)(const void *)tensor(m.file, "blk.1.attn_norm.weight")->data;
                T_CLOSE(gain[3], sqrt(128 / (double)c[i].width), 1e-6);
            }
            t_free_blocks();
            drop(ctx, &m);
        }
    T_PROOF("compression 1", "parameter count equals the formula");
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* a width for each layer; what follows a matrix has its width */
static void test_layers(void)
{
    static const tiny_idx width[4] = { 120, 64, 96, 8 };
    enum { TEXT = 200 };
    static int32_t token[TEXT];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_gguf *g = NULL;
    tllm_sliced_desc d;
    tllm_sliced *s = NULL;
    size_t n = 0;
    float *y;
    made m;
    stories(token, TEXT, 6);
    if (!T_OK(tllm_gguf_open(ctx, small, &g))) return;
    memset(&d, 0, sizeof d);
    d.width = width;
    d.n_width = 4;
    if (sliced(ctx, g, &d, token, TEXT, &m, NULL)) {
        T_EQ_INT(tensor(m.file, "blk.0.ffn_down.weight")->dim[1], 64);
        T_EQ_INT(tensor(m.file, "blk.1.attn_q.weight")->dim[0], 64);
        T_EQ_INT(tensor(m.file, "blk.1.attn_output.weight")->dim[1], 64);
        T_EQ_INT(tensor(m.file, "blk.1.ffn_shortcut.weight")->dim[0], 64);
        T_EQ_INT(tensor(m.file, "blk.1.ffn_shortcut.weight")->dim[1], 96);
        T_EQ_INT(tensor(m.file, "blk.3.ffn_gate.weight")->dim[0], 8);
        y = results(ctx, m.file, &n);
        T_TRUE(y && y[0] - y[0] == 0.0f);
        drop(ctx, &m);
    }
    d.n_width = 3;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "3 widths for 4 layers");
    d.n_width = 4;
    d.format = TLLM_FORMAT_Q8_0;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "rows of 120 numbers, which are not whole blocks");
    T_TRUE(s == NULL);
    T_PROOF("compression 1", "per-layer widths: an array");
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* ---- ways -------------------------------------------------------------------------------------------------------- */

static void test_ways(void)
{
    enum { TEXT = 4096 };
    static int32_t token[TEXT];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    double lost[TLLM_SLICE_WAYS], kl[TLLM_SLICE_WAYS];
    tllm_gguf *g = NULL;
    int by;
    stories(token, TEXT, 4);
    if (!T_OK(tllm_gguf_open(ctx, small, &g))) return;
    for (by = 0; by < TLLM_SLICE_WAYS; by++) {
        tllm_sliced_desc d;
        tllm_sliced_about a;
        made m;
        memset(&d, 0, sizeof d);
        memset(&a, 0, sizeof a);
        d.keep = 0.75;
        d.by = by;
        d.window = 256;
        if (!sliced(ctx, g, &d, token, TEXT, &m, &a)) return;
        lost[by] = a.lost;
        kl[by] = divergence(ctx, g, m.file);
        drop(ctx, &m);
    }
    printf("  story-small, keep 0.75: energy lost (divergence): pca %.4f (%.3f), columns %.4f (%.3f), random %.4f "
           "(%.3f), first %.4f (%.3f)\n",
           lost[0], kl[0], lost[1], kl[1], lost[2], kl[2], lost[3], kl[3]);
    T_TRUE(lost[TLLM_SLICE_PCA] < lost[TLLM_SLICE_COLUMNS] && lost[TLLM_SLICE_COLUMNS] < lost[TLLM_SLICE_FIRST]);
    T_TRUE(lost[TLLM_SLICE_PCA] < lost[TLLM_SLICE_RANDOM]);
    for (by = 1; by < TLLM_SLICE_WAYS; by++) T_TRUE(kl[TLLM_SLICE_PCA] < kl[by]);
    T_PROOF("compression 1", "PCA slice beats slicing the last coordinates and a random orthogonal slice");
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* A sliced model on each target: the reference's logits; a token at a time, and with only the last row wanted, those of
 * the whole text */
static void test_runs(tiny_target target)
{
    enum { TEXT = 300, N = 21 };
    static int32_t token[TEXT];
    static const int format[] = { TLLM_FORMAT_F32, TLLM_FORMAT_Q8_0 };
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_gguf *g = NULL;
    int k, i;
    stories(token, TEXT, 8);
    if (!T_OK(tllm_gguf_open(plain, small, &g))) return;
    for (k = 0; k < 2; k++) {
        tllm_sliced_desc d;
        tllm_model *model = NULL, *other = NULL;
        tllm_state *state = NULL, *from = NULL;
        tllm_state_desc room;
        float *want = t_guarded(N * 544), *got = t_guarded(N * 544), *one = t_guarded(544);
        made m;
        memset(&d, 0, sizeof d);
        memset(&room, 0, sizeof room);
        d.keep = 0.5;
        d.format = format[k];
        room.n_ctx = 32;
        room.n_batch = 16;
        t_use(ctx);
        if (!sliced(ctx, g, &d, token, TEXT, &m, NULL)) return;
        t_use(plain);
        T_OK(tllm_model_open(plain, m.file, &other));
        T_OK(tllm_state_open(plain, other, &room, &from));
        T_OK(tllm_forward(from, token, N, 0, N, want));
        tllm_state_close(plain, from);
        tllm_model_close(plain, other);
        t_use(ctx);
        T_OK(tllm_model_open(ctx, m.file, &model));
        T_OK(tllm_state_open(ctx, model, &room, &state));
        T_OK(tllm_forward(state, token, N, 0, N, got));
        T_TRUE(apart(want, got, N * 544) <= (k ? 2e-2 : 1e-5));
        tllm_state_clear(state);
        T_OK(tllm_forward(state, token, N, 0, 1, one));
        T_TRUE(apart(got + (N - 1) * 544, one, 544) <= (k ? 2e-2 : 1e-5));
        T_WALLS(one, 544);
        tllm_state_clear(state);
        for (i = 0; i < N; i++) T_OK(tllm_forward(state, token + i, 1, i, 1, one));
        T_TRUE(apart(got + (N - 1) * 544, one, 544) <= (k ? 2e-2 : 1e-5));
        T_RAN_ON(ctx, t_vectors(target));
        tllm_state_close(ctx, state);
        tllm_model_close(ctx, model);
        drop(ctx, &m);
    }
    t_use(plain);
    tllm_gguf_close(plain, g);
    t_close(plain);
    t_use(ctx);
    t_close(ctx);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static int stop_now(void *user) { (void)user; return 1; }

/* the sliced file again, with another value of the widths: NULL, none */
static int with_widths(tiny_ctx *ctx, const tllm_gguf *g, const uint32_t *width, size_t n, made *m)
{
    size_t i;
    memset(m, 0, sizeof *m);
    T_OK(tllm_writer_open(ctx, NULL, &m->w));
    for (i = 0; i < tllm_gguf_n_meta(g); i++)
        if (!tllm_text_is(tllm_gguf_meta_at(g, i)->key, "sliced-llama.slice.width"))
            T_OK(tllm_writer_put_meta(ctx, m->w, tllm_gguf_meta_at(g, i)));
    if (width) T_OK(tllm_writer_put_array(ctx, m->w, "sliced-llama.slice.width", TLLM_U32, width, n));
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        T_OK(tllm_writer_put_tensor(ctx, m->w, t->name, t->type, t->rank, t->dim, t->data));
    }
    return made_end(ctx, m);
}

static void test_files(void)
{
    static const struct { const char *says; size_t n; uint32_t w[9]; } bad[] = {
        { "slice.width is missing", 0, { 0 } },
        { "slice.width has 8 items, none for layer 8", 8, { 96, 96, 96, 96, 96, 96, 96, 96 } },
        { "slice.width is 0, not in 1..128", 9, { 0, 96, 96, 96, 96, 96, 96, 96, 128 } },
        { "slice.width is 129, not in 1..128", 9, { 96, 96, 96, 96, 96, 96, 96, 96, 129 } },
        { "slice.width is 4294967295", 9, { 96, 96, 96, 96, 96, 4294967295u, 96, 96, 128 } },
        { "token_embd.weight is 96x544, not 88x544", 9, { 88, 96, 96, 96, 96, 96, 96, 96, 128 } },
        { "blk.1.ffn_norm.weight is 96, not 64 numbers", 9, { 96, 96, 96, 64, 96, 96, 96, 96, 128 } },
        { "output_norm.weight is 128, not 96 numbers", 9, { 96, 96, 96, 96, 96, 96, 96, 96, 96 } }
    };
    enum { TEXT = 300 };
    static int32_t token[TEXT];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_model *model = NULL;
    tllm_rotated *r = NULL;
    tllm_sliced *s = NULL;
    tllm_folds *f = NULL;
    tllm_sliced_desc d;
    made m, other;
    size_t i;
    stories(token, TEXT, 5);
    memset(&d, 0, sizeof d);
    if (!T_OK(tllm_gguf_open(ctx, small, &g)) || !sliced(ctx, g, &d, token, TEXT, &m, NULL)) return;
    for (i = 0; i < T_COUNT(bad); i++) {
        if (!with_widths(ctx, m.file, bad[i].n ? bad[i].w : NULL, bad[i].n, &other)) continue;
        T_STATUS(tllm_model_open(ctx, other.file, &model), TINY_E_FORMAT, bad[i].says);
        T_TRUE(model == NULL);
        drop(ctx, &other);
    }
    T_STATUS(tllm_sliced_open(ctx, m.file, &d, &s), TINY_E_UNSUPPORTED, "it is sliced already");
    T_STATUS(tllm_rotated_open(ctx, m.file, NULL, &r), TINY_E_UNSUPPORTED, "it is sliced already");
    T_OK(tllm_folds_open(ctx, m.file, &f));         /* its norms can still be folded */
    T_TRUE(tllm_folds_n(f) > 4);
    tllm_folds_close(ctx, f);
    T_OK(tllm_model_open(ctx, m.file, &model));
    T_STATUS(tllm_model_cut(ctx, model, 0, 2), TINY_E_UNSUPPORTED, "a sliced model cannot be cut");
    {
        unsigned char route[8] = { TLLM_ROUTE_LADDER, TLLM_ROUTE_LADDER, 0, 0, 0, 0, 0, 0 };
        T_STATUS(tllm_model_routes(ctx, model, route, 8), TINY_E_UNSUPPORTED, "its only route is standard");
    }
    for (i = 0; i < 2; i++) {               /* made for the stream of the original */
        tllm_adapter *adapter = NULL;
        memset(&other, 0, sizeof other);
        T_OK(tllm_writer_open(ctx, NULL, &other.w));
        T_OK(tllm_writer_put_text(ctx, other.w, "general.architecture", i ? "controlvector" : "llama"));
        T_OK(tllm_writer_put_text(ctx, other.w, "general.type", "adapter"));
        T_OK(tllm_writer_put_text(ctx, other.w, "adapter.type", "lora"));
        if (!made_end(ctx, &other)) continue;
        T_STATUS(tllm_adapter_open(ctx, model, other.file, &adapter), TINY_E_UNSUPPORTED,
                 i ? "is sliced: directions of the original stream" : "was sliced after this adapter was made");
        T_TRUE(adapter == NULL);
        drop(ctx, &other);
    }
    tllm_model_close(ctx, model);
    drop(ctx, &m);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *stopped = NULL;
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_sliced *s = NULL;
    tllm_writer *w = NULL;
    tllm_sliced_desc d;
    int32_t token[40];
    made floats, m;
    stories(token, 40, 5);
    if (!T_OK(tllm_gguf_open(ctx, small, &g))) return;
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_sliced_open(NULL, g, &d, &s), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_sliced_open(ctx, NULL, &d, &s), TINY_E_ARGUMENT, "a file and a result pointer");
    T_STATUS(tllm_sliced_open(ctx, g, &d, NULL), TINY_E_ARGUMENT, "a file and a result pointer");
    d.keep = -0.1;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "a share of -0.1 of the stream");
    d.keep = 1.01;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "a share of 1.01 of the stream");
    d.keep = NAN;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "a share of nan of the stream");
    d.keep = 0.05;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "at least 8 are needed");
    d.keep = 0.2;
    d.format = TLLM_FORMAT_Q8_0;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT,
             "a stream of 0 numbers (multiples of 32, and it has 128)");
    d.format = TLLM_FORMAT_Q4_K;
    d.keep = 0.75;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "multiples of 256");
    d.format = 9999;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "format 9999");
    d.format = 0;
    d.by = 4;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "axes by way 4");
    d.by = 0;
    d.round = -8;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "multiples of -8");
    d.round = 0;
    d.window = -1;
    T_STATUS(tllm_sliced_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "windows of -1 tokens");
    d.window = 0;
    T_STATUS(tllm_sliced_put(ctx, NULL, token, 40, NULL), TINY_E_ARGUMENT, "an open model, a writer and");
    T_TRUE(tllm_sliced_what(NULL).n_embd == 0 && tllm_sliced_width(NULL, 0) == 0);
    tllm_sliced_close(ctx, NULL);
    T_OK(tllm_sliced_open(ctx, g, &d, &s));
    T_TRUE(tllm_sliced_width(s, 8) == 128 && tllm_sliced_width(s, 7) == 96 && tllm_sliced_width(s, 9) == 0);
    T_OK(tllm_writer_open(ctx, NULL, &w));
    T_STATUS(tllm_sliced_put(ctx, s, token, 0, w), TINY_E_ARGUMENT, "at least one token");
    token[3] = 544;
    T_STATUS(tllm_sliced_put(ctx, s, token, 40, w), TINY_E_ARGUMENT,
             "token 3 of the text is 544, but the model has 544");
    token[3] = -1;
    T_STATUS(tllm_sliced_put(ctx, s, token, 40, w), TINY_E_ARGUMENT, "token 3 of the text is -1");
    token[3] = 9;
    tllm_writer_close(ctx, w);
    tllm_sliced_close(ctx, s);
    if (packed(ctx, g, TLLM_FORMAT_F32, &floats)) {         /* a NaN in the embedding of a token of the text */
        ((float *)(uintptr_t)tensor(floats.file, "token_embd.weight")->data)[9 * 128 + 5] = NAN;
        T_OK(tllm_sliced_open(ctx, floats.file, &d, &s));
        T_OK(tllm_writer_open(ctx, NULL, &w));
        T_STATUS(tllm_sliced_put(ctx, s, token, 40, w), TINY_E_NUMERIC, "input 5 of token 3 is nan");
        tllm_writer_close(ctx, w);
        tllm_sliced_close(ctx, s);
        drop(ctx, &floats);
    }
    if (sliced(ctx, g, &d, token, 1, &m, NULL)) drop(ctx, &m);     /* one token */
    T_PROOF("compression 1", "bad input: s >= 1, d < 8, NaN activations, layers with different widths");
    cd.cancel = stop_now;
    T_OK(tiny_ctx_open(&cd, &stopped));
    t_use(stopped);
    T_OK(tllm_sliced_open(stopped, g, &d, &s));
    T_OK(tllm_writer_open(stopped, NULL, &w));
    T_STATUS(tllm_sliced_put(stopped, s, token, 40, w), TINY_E_CANCELLED, NULL);
    tllm_writer_close(stopped, w);
    tllm_sliced_close(stopped, s);
    t_close(stopped);
    t_use(ctx);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_memory(void)
{
    int32_t token[20];
    stories(token, 20, 5);
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tllm_sliced_desc d;
        tiny_ctx *ctx = NULL;
        tllm_gguf *g = NULL;
        tllm_sliced *s = NULL;
        tllm_writer *w = NULL;
        tiny_status st = tiny_ctx_open(&cd, &ctx);
        memset(&d, 0, sizeof d);
        d.keep = 0.25;
        if (!st) st = tllm_gguf_open(ctx, small, &g);
        if (!st) st = tllm_sliced_open(ctx, g, &d, &s);
        if (!st) st = tllm_writer_open(ctx, NULL, &w);
        if (!st) st = tllm_sliced_put(ctx, s, token, 20, w);
        if (!st) st = tllm_writer_finish(ctx, w);
        T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        tllm_writer_close(ctx, w);
        tllm_sliced_close(ctx, s);
        tllm_gguf_close(ctx, g);
        tiny_ctx_close(ctx);
    )
}

int main(void)
{
    T_RUN(test_models);
    T_RUN_TARGETS(test_golden);
    T_RUN_TARGETS(test_toy);
    T_RUN_TARGETS(test_axes);
    T_RUN(test_sizes);
    T_RUN(test_layers);
    T_RUN(test_ways);
    T_RUN_TARGETS(test_runs);
    T_RUN(test_files);
    T_RUN(test_refused);
    T_RUN(test_memory);
    return t_done();
}
