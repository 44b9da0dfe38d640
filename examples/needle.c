/* examples/needle.c - a small vision transformer on small data, with and without suppressed trivial attention
 * (math/twist.h)
 *
 *     needle [--seeds N] [--first K] [--epochs E] [--strength R] [--t T] [--s S] [--threads N]
 *
 * An image is 64 tokens of noise, N(0, I) in 16 dimensions. Each of the 4 classes has a random vector of length
 * --strength, which is added to two tokens of the image. There are 500 images for training and 2000 for the test. The
 * network has 64 numbers a token, 2 blocks and 4 heads. Each seed draws the class vectors, the images and the initial
 * weights, the same for both forms. The program prints a line for each seed, then means and standard deviations. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "needle"
#include "options.h"
#include <math.h>

static const char usage[] =
    "needle [options]      a small vision transformer on small data, with and without suppressed trivial attention\n"
    "  --seeds N        runs of each form, 1 to 100; default: 5\n"
    "  --first K        the first seed; default: 1\n"
    "  --epochs E       passes over all images; default: 20\n"
    "  --strength R     length of the vector that is added to two tokens of an image; default: 3.5\n"
    "  --t T            attention weights up to this share of the largest of their row are trivial; default: 0.1\n"
    "  --s S            the factor of trivial weights at the start, which is learnt; default: 0.5\n"
    "  --threads N      default: one per processor\n";

enum { SIDE = 8, TOKENS = SIDE * SIDE, WIDE = 16, CLASSES = 4, BLOCKS = 2, TRAIN = 500, TEST = 2000, SEEDS = 100 };

typedef struct set { float x[(TRAIN + TEST) * WIDE * TOKENS]; int32_t label[TRAIN + TEST]; } set;
typedef struct twist { tiny_tensor s[BLOCKS]; tiny_attention_params p; } twist;
typedef struct choice { int seeds, first, epochs; double strength, t, s; } choice;

static void draw(set *d, uint64_t seed, double strength)
{
    tiny_rng rng = tiny_rng_make(seed, 0x6e6565646c65);
    float sign[CLASSES][WIDE];
    uint32_t i, k, c, at[2];
    for (c = 0; c < CLASSES; c++) {
        double square = 0.0;
        tiny_rng_fill_normal(&rng, sign[c], WIDE);
        for (k = 0; k < WIDE; k++) square += (double)sign[c][k] * (double)sign[c][k];
        for (k = 0; k < WIDE; k++) sign[c][k] *= (float)(strength / sqrt(square));
    }
    for (i = 0; i < TRAIN + TEST; i++) {
        float *x = d->x + (size_t)i * WIDE * TOKENS;            /* (WIDE, SIDE, SIDE): a token is a pixel */
        tiny_rng_fill_normal(&rng, x, WIDE * TOKENS);
        c = tiny_rng_below(&rng, CLASSES);
        at[0] = tiny_rng_below(&rng, TOKENS);
        at[1] = (at[0] + 1 + tiny_rng_below(&rng, TOKENS - 1)) % TOKENS;
        for (k = 0; k < WIDE; k++) {
            x[k * TOKENS + at[0]] += sign[c][k];
            x[k * TOKENS + at[1]] += sign[c][k];
        }
        d->label[i] = (int32_t)c;
    }
}

/* attention with the factor of its block, which is learnt */
static tiny_tensor mix(tiny_tape *tape, void *user, const tllm_vit_at *at, const tiny_tensor *q, const tiny_tensor *k,
                       const tiny_tensor *v)
{
    const twist *w = (const twist *)user;
    tiny_tensor o;
    tiny_op op;
    memset(&op, 0, sizeof op);
    memset(&o, 0, sizeof o);
    op.kind = TINY_OP_ATTENTION;
    op.in[0] = q; op.in[1] = k; op.in[2] = v; op.in[4] = &w->s[at->i_block];
    op.params = &w->p;
    (void)tiny_tape_op(tape, &op, &o);
    return o;
}

/* trains one network and judges it, in percent; s: where the factors came to */
static tiny_status run(tiny_ctx *ctx, const choice *c, set *data, uint64_t seed, int twisted, double *percent,
                       double *learnt, float *s)
{
    const tiny_idx dim[4] = { TRAIN + TEST, WIDE, SIDE, SIDE };
    tiny_tensor images = tiny_tensor_nd(data->x, TINY_F32, 4, dim),
                labels = tiny_tensor_1d(data->label, TINY_I32, TRAIN + TEST);
    const tiny_param *own;
    tiny_param param[64];
    float grad[BLOCKS] = { 0 };
    tllm_vit_desc is;
    tllm_vit_hooks hooks;
    tllm_vit_task task;
    tllm_vit *vit = NULL;
    tiny_train_desc d;
    twist w;
    tiny_idx right;
    tiny_status st;
    size_t i;
    memset(&is, 0, sizeof is);
    memset(&hooks, 0, sizeof hooks);
    memset(&task, 0, sizeof task);
    memset(&d, 0, sizeof d);
    memset(&w, 0, sizeof w);
    is.image = SIDE; is.patch = 1; is.channels = WIDE; is.n_block = BLOCKS; is.n_class = CLASSES; is.seed = seed;
    st = tllm_vit_open(ctx, &is, &vit);
    if (st) return st;
    w.p.twist_t = (float)c->t;
    hooks.user = &w;
    hooks.mix = mix;
    task.vit = vit;
    task.images = &images;
    task.labels = &labels;
    task.hooks = twisted ? &hooks : NULL;
    own = tllm_vit_params(vit, &d.n_params);
    for (i = 0; i < d.n_params && i + BLOCKS < sizeof param / sizeof *param; i++) param[i] = own[i];
    for (i = 0; i < BLOCKS; i++) {
        s[i] = (float)c->s;
        w.s[i] = tiny_tensor_1d(&s[i], TINY_F32, 1);
        if (!twisted) continue;
        memset(&param[d.n_params], 0, sizeof *param);
        param[d.n_params].name = i ? "blocks.1.s" : "blocks.0.s";
        param[d.n_params].value = w.s[i];
        param[d.n_params].grad = tiny_tensor_1d(&grad[i], TINY_F32, 1);
        param[d.n_params++].group = 2;
    }
    d.params = param;
    d.model = tllm_vit_loss;
    d.user = &task;
    d.n_samples = TRAIN;
    d.batch = 50;
    d.epochs = c->epochs;
    d.seed = seed;
    d.optim.group[0].lr = d.optim.group[1].lr = d.optim.group[2].lr = 1e-3;
    d.optim.group[0].decay = 0.05;
    d.schedule.kind = TINY_SCHEDULE_COSINE;
    d.schedule.warmup = 20;
    st = tiny_train(ctx, &d, NULL);
    if (!st) st = tllm_vit_right(ctx, &task, 0, TRAIN, &right);
    if (!st) *learnt = 100.0 * (double)right / TRAIN;
    if (!st) st = tllm_vit_right(ctx, &task, TRAIN, TEST, &right);
    if (!st) *percent = 100.0 * (double)right / TEST;
    tllm_vit_close(vit);
    return st;
}

static void spread(const char *what, const double *x, long n)
{
    double mean = 0.0, square = 0.0;
    long i;
    for (i = 0; i < n; i++) mean += x[i] / (double)n;
    for (i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    printf("%-24s %6.2f  spread %.2f\n", what, mean, n > 1 ? sqrt(square / (double)(n - 1)) : 0.0);
}

int main(int argc, char **argv)
{
    choice c = { 5, 1, 20, 3.5, 0.1, 0.5 };
    double percent[2][SEEDS], learnt[2], gain[SEEDS];
    tiny_ctx_desc cd = { 0 };
    tiny_ctx *ctx = NULL;
    set *data;
    tiny_status st = TINY_OK;
    float s[BLOCKS];
    int i, twisted;
    const option options[] = { A_WHOLE("--seeds", &c.seeds, 1, SEEDS),
                               A_WHOLE("--first", &c.first, 0, 1e9),
                               A_WHOLE("--epochs", &c.epochs, 1, 1e6),
                               A_NUMBER("--strength", &c.strength, 0, 1e6),
                               A_NUMBER("--t", &c.t, 0, 1e6),
                               A_NUMBER("--s", &c.s, -1e6, 1e6),
                               A_WHOLE("--threads", &cd.n_threads, 1, TINY_MAX_THREADS) };
    READ_OPTIONS(argc, argv, usage, options);
    data = (set *)malloc(sizeof *data);
    if (!data) return fputs("needle: no memory\n", stderr), 1;
    cd.log = hear;
    cd.user = &ctx;
    if (tiny_ctx_open(&cd, &ctx)) { free(data); return 1; }
    printf("strength %.2f, t %g, %d epochs of %d images; %% right of %d others (of those learnt from)\n\nseed        "
           "plain          twist      s at the end\n",
           c.strength, c.t, c.epochs, TRAIN, TEST);
    for (i = 0; !st && i < c.seeds; i++) {
        draw(data, (uint64_t)(c.first + i), c.strength);
        for (twisted = 0; !st && twisted < 2; twisted++)
            st = run(ctx, &c, data, (uint64_t)(c.first + i), twisted, &percent[twisted][i], &learnt[twisted], s);
        gain[i] = percent[1][i] - percent[0][i];
        if (!st)
            printf("%4d  %6.2f (%6.2f)  %6.2f (%6.2f)  %.3f %.3f\n", c.first + i, percent[0][i], learnt[0],
                   percent[1][i], learnt[1], (double)s[0], (double)s[1]);
        fflush(stdout);
    }
    if (st) say(tiny_ctx_message(ctx));
    else {
        printf("\n");
        spread("plain", percent[0], c.seeds);
        spread("twist", percent[1], c.seeds);
        spread("twist - plain, by seed", gain, c.seeds);
    }
    tiny_ctx_close(ctx);
    free(data);
    return exit_status(st != TINY_OK);
}
