/* examples/train.c - trains two small networks on generated data and prints their accuracy on a test set
 *
 *     train mlp      MIX60: 32-128-128-10, ReLU, 21760 weights; expected accuracy on the test set: 96.97 %
 *     train conv     TEX16, 16 x 16 textures of 10 classes: conv 16, 32 + batch norm, dense 88, about 50 000 weights
 *     options: --seed S  --epochs E  --threads N  --save FILE  --resume */
#define TINYLLM_TOOLS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "train"
#include "options.h"
#include <math.h>

typedef struct set { float *x; int32_t *label; uint32_t n; tiny_tensor tx, tl; } set;

typedef struct net {
    tiny_param p[16];
    size_t n;
    int conv, train;
    float running[4][64];                   /* of the two batch norms: means and variances */
    set data;
    double started;
    int64_t per_epoch;
} net;

static set set_of(uint32_t n, int conv)
{
    set s;
    s.n = n;
    s.x = (float *)need(malloc((size_t)n * (conv ? 256 : 32) * sizeof *s.x));
    s.label = (int32_t *)need(malloc((size_t)n * sizeof *s.label));
    s.tx =
        conv ? tiny_tensor_4d(s.x, TINY_F32, (tiny_idx)n, 1, 16, 16) : tiny_tensor_2d(s.x, TINY_F32, (tiny_idx)n, 32);
    s.tl = tiny_tensor_1d(s.label, TINY_I32, (tiny_idx)n);
    return s;
}

/* MIX60: 60 centres N(0, I) in 32 dimensions, class = centre mod 10, sample = centre + 0.9 N(0, I) */
static void mix60(set *s, const float *centre, tiny_rng *rng)
{
    uint32_t i, k, c;
    for (i = 0; i < s->n; i++) {
        c = tiny_rng_below(rng, 60);
        s->label[i] = (int32_t)(c % 10);
        for (k = 0; k < 32; k++) s->x[i * 32 + k] = centre[c * 32 + k] + 0.9f * tiny_rng_normal(rng);
    }
}

/* TEX16: a sinusoid of one of 5 orientations and 2 frequencies, any phase, and N(0, 0.3) on each pixel */
static void tex16(set *s, tiny_rng *rng)
{
    uint32_t i, a, b;
    for (i = 0; i < s->n; i++) {
        const uint32_t class_of = tiny_rng_below(rng, 10);
        const double turn = 3.14159265358979 * (double)(class_of % 5) / 5.0, wave = class_of < 5 ? 0.6 : 1.1,
                     phase = 6.28318530717959 * tiny_rng_uniform64(rng);
        s->label[i] = (int32_t)class_of;
        for (a = 0; a < 16; a++)
            for (b = 0; b < 16; b++)
                s->x[i * 256 + a * 16 + b] =
                    (float)sin(wave * (cos(turn) * (double)a + sin(turn) * (double)b) + phase) +
                    0.3f * tiny_rng_normal(rng);
    }
}

static void add(net *w, const char *name, int rank, tiny_idx a, tiny_idx b, tiny_idx c, tiny_idx d)
{
    const tiny_idx dim[4] = { a, b, c, d };
    tiny_param *p = &w->p[w->n++];
    size_t n = (size_t)(a * (rank > 1 ? b : 1) * (rank > 2 ? c * d : 1));
    p->name = name;
    p->value = tiny_tensor_nd(need(calloc(n, sizeof(float))), TINY_F32, rank, dim);
    p->grad = tiny_tensor_nd(need(calloc(n, sizeof(float))), TINY_F32, rank, dim);
}

static void make(tiny_ctx *ctx, net *w, tiny_rng *rng)
{
    size_t i;
    if (w->conv) {
        add(w, "conv1", 4, 16, 1, 3, 3);
        add(w, "bn1.g", 1, 16, 1, 1, 1);
        add(w, "bn1.b", 1, 16, 1, 1, 1);
        add(w, "conv2", 4, 32, 16, 3, 3);
        add(w, "bn2.g", 1, 32, 1, 1, 1);
        add(w, "bn2.b", 1, 32, 1, 1, 1);
        add(w, "dense", 2, 88, 512, 1, 1);
        add(w, "dense.b", 1, 88, 1, 1, 1);
        add(w, "head", 2, 10, 88, 1, 1);
        add(w, "head.b", 1, 10, 1, 1, 1);
    } else {
        add(w, "w1", 2, 128, 32, 1, 1);
        add(w, "b1", 1, 128, 1, 1, 1);
        add(w, "w2", 2, 128, 128, 1, 1);
        add(w, "b2", 1, 128, 1, 1, 1);
        add(w, "w3", 2, 10, 128, 1, 1);
        add(w, "b3", 1, 10, 1, 1, 1);
    }
    for (i = 0; i < w->n; i++) {
        if (w->p[i].value.rank > 1) (void)tiny_init_he(ctx, rng, &w->p[i].value, 0);
        if (strstr(w->p[i].name, ".g")) (void)tiny_init_constant(ctx, &w->p[i].value, 1.0);
    }
    for (i = 0; i < 64; i++) w->running[1][i] = w->running[3][i] = 1.0f;
}

static tiny_tensor conv_block(tiny_tape *t, net *w, const tiny_tensor *x, int first, int block)
{
    const tiny_conv2d_params same = { { 1, 1 }, { 1, 1 }, { 1, 1, 1, 1 }, 1, 0 };
    const tiny_patch_params half = { { 2, 2 }, { 0, 0 }, { 0, 0 }, { 0, 0, 0, 0 }, { 0, 0 } };
    tiny_batch_norm_params bn = { 0, 0, 0 };
    tiny_idx channels = w->p[first].value.dim[0];
    tiny_tensor mean = tiny_tensor_1d(w->running[2 * block], TINY_F32, channels),
                var = tiny_tensor_1d(w->running[2 * block + 1], TINY_F32, channels), h;
    bn.train = w->train;
    h = tiny_tape_call(t, TINY_OP_CONV2D, x, &w->p[first].value, NULL, NULL, &same);
    h = tiny_tape_batch_norm(t, &h, &w->p[first + 1].value, &w->p[first + 2].value, &mean, &var, &bn);
    h = tiny_tape_call(t, TINY_OP_RELU, &h, NULL, NULL, NULL, NULL);
    return tiny_tape_call(t, TINY_OP_MAX_POOL, &h, NULL, NULL, NULL, &half);
}

static tiny_tensor logits(tiny_tape *t, net *w, const tiny_tensor *x)
{
    tiny_tensor h;
    if (w->conv) {
        tiny_idx dim[2];
        h = conv_block(t, w, x, 0, 0);
        h = conv_block(t, w, &h, 3, 1);
        dim[0] = x->dim[0];
        dim[1] = 512;
        h = tiny_tape_reshape(t, &h, 2, dim);
        h = tiny_tape_linear(t, &h, &w->p[6].value, &w->p[7].value, TINY_ACT_RELU);
        return tiny_tape_linear(t, &h, &w->p[8].value, &w->p[9].value, TINY_ACT_NONE);
    }
    h = tiny_tape_linear(t, x, &w->p[0].value, &w->p[1].value, TINY_ACT_RELU);
    h = tiny_tape_linear(t, &h, &w->p[2].value, &w->p[3].value, TINY_ACT_RELU);
    return tiny_tape_linear(t, &h, &w->p[4].value, &w->p[5].value, TINY_ACT_NONE);
}

static tiny_tensor loss_of(tiny_tape *t, void *user, const uint32_t *sample, tiny_idx n)
{
    net *w = (net *)user;
    tiny_tensor x = tiny_tape_rows(t, &w->data.tx, sample, n), label = tiny_tape_rows(t, &w->data.tl, sample, n), y;
    w->train = 1;
    y = logits(t, w, &x);
    return tiny_tape_cross_entropy(t, &y, &label, 0.0);
}

static double accuracy(tiny_ctx *ctx, net *w, const set *s)
{
    tiny_tape_desc d = { 0 };
    tiny_tape *t = NULL;
    uint32_t at, right = 0, some = 100;
    d.bytes = (size_t)64 << 20;
    d.no_grad = 1;
    w->train = 0;
    if (tiny_tape_open(ctx, &d, &t)) return NAN;
    for (at = 0; at + some <= s->n; at += some) {
        tiny_tape_mark mark = tiny_tape_now(t);
        tiny_tensor x = s->tx, y, best;
        x.data = s->x + at * (s->tx.rank == 4 ? 256 : 32);
        x.dim[0] = (tiny_idx)some;
        y = logits(t, w, &x);
        best = tiny_tape_call(t, TINY_OP_ARGMAX, &y, NULL, NULL, NULL, NULL);
        if (!best.data) break;
        {
            uint32_t i;
            for (i = 0; i < some; i++) right += ((const int32_t *)best.data)[i] == s->label[at + i];
        }
        tiny_tape_release(t, mark);
    }
    if (tiny_tape_status(t)) fprintf(stderr, "train: %s\n", tiny_ctx_message(ctx));
    tiny_tape_close(t);
    return 100.0 * right / s->n;
}

static int progress(void *user, const tiny_train_state *s)
{
    net *w = (net *)user;
    if (s->step % w->per_epoch == 0 && is_shown())
        fprintf(stderr, "\repoch %3d  loss %.4f  gradient %.3f  lr x %.3f   ", (int)s->epoch + 1, s->loss, s->grad_norm,
                s->factor);
    return 0;
}

static const char usage[] =
    "train mlp|conv [options]      mlp: three dense layers on points; conv: two convolutions on textures\n"
    "  --seed S         seed of the data and the first weights; default: 1\n"
    "  --epochs E       passes over all samples; default: 25, conv 5\n"
    "  --threads N      default: one per processor\n"
    "  --save FILE      write a checkpoint after each epoch\n"
    "  --resume         continue from the checkpoint of --save if it exists\n";

int main(int argc, char **argv)
{
    tiny_ctx_desc cd = { 0 };
    tiny_train_desc d;
    tiny_train_state state;
    tiny_ctx *ctx = NULL;
    tiny_rng rng;
    net *w;
    set test;
    size_t i, weights = 0;
    double seconds;
    int conv = 0, epochs = 0;
    const option options[] = { A_COMMAND("mlp conv", &conv),
                               A_SEED("--seed", &d.seed),
                               A_WHOLE("--epochs", &epochs, 1, 1e6),
                               A_WHOLE("--threads", &cd.n_threads, 1, TINY_MAX_THREADS),
                               A_TEXT("--save", &d.save),
                               A_FLAG("--resume", &d.resume) };
    memset(&d, 0, sizeof d);
    d.seed = 1;
    READ_OPTIONS(argc, argv, usage, options);
    d.epochs = epochs ? epochs : conv ? 5 : 25;
    if (must_not_write(d.save, 0)) return 2;
    cd.cancel = cancelled;
    cd.log = hear;
    stop_on_signals_whole();
    cd.user = &ctx;
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    w = (net *)need(calloc(1, sizeof *w));
    w->conv = conv;
    rng = tiny_rng_make(d.seed, 0);
    w->data = set_of(w->conv ? 4000 : 6000, w->conv);
    test = set_of(w->conv ? 1000 : 3000, w->conv);
    if (w->conv) {
        tex16(&w->data, &rng);
        tex16(&test, &rng);
    } else {
        float *centre = (float *)need(malloc(60 * 32 * sizeof *centre));
        tiny_rng_fill_normal(&rng, centre, 60 * 32);
        mix60(&w->data, centre, &rng);
        mix60(&test, centre, &rng);
        free(centre);
    }
    make(ctx, w, &rng);
    for (i = 0; i < w->n; i++) weights += w->p[i].value.rank > 1 ? (size_t)tiny_tensor_count(&w->p[i].value) : 0;
    d.params = w->p;
    d.n_params = w->n;
    d.model = loss_of;
    d.callback = progress;
    d.user = w;
    d.n_samples = w->data.n;
    d.batch = 100;
    d.optim.group[0].kind = TINY_OPTIM_ADAM;
    d.optim.group[0].lr = 2e-3;
    d.schedule.kind = TINY_SCHEDULE_COSINE;
    w->per_epoch = w->data.n / 100;
    w->started = (double)tiny_now_ns() * 1e-9;
    if (tiny_train(ctx, &d, &state)) {
        say(stopped_by ? "stopped" : tiny_ctx_message(ctx));
        return stopped_by ? 128 + stopped_by : 1;
    }
    seconds = (double)tiny_now_ns() * 1e-9 - w->started;
    printf("\n%s: %lu weights, %d steps, %.2f s, %.0f samples/s, %d threads, %.1f KiB of tape\n",
           w->conv ? "conv net on TEX16" : "M128 on MIX60", (unsigned long)weights, (int)state.step, seconds,
           (double)state.step * 100.0 / seconds, tiny_ctx_threads(ctx), (double)state.tape_bytes / 1024.0);
    printf("accuracy: %.2f %% of what it was trained on, %.2f %% of the test set\n", accuracy(ctx, w, &w->data),
           accuracy(ctx, w, &test));
    for (i = 0; i < w->n; i++) {
        free(w->p[i].value.data);
        free(w->p[i].grad.data);
    }
    free(w->data.x);
    free(w->data.label);
    free(test.x);
    free(test.label);
    free(w);
    tiny_ctx_close(ctx);
    return exit_status(0);
}
