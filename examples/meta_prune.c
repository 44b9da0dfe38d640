/* examples/meta_prune.c - a graph network learns to rewrite networks so that they can be pruned
 *
 *     meta_prune [--nets N] [--tests N] [--speedup X]... [--seed N] [--svg FILE]
 *
 * Trains a family of small convolution networks on textures of 16 x 16 pixels, drawn from the seed. A metanetwork
 * learns from some of them. The others are pruned twice: rewritten by the metanetwork first, and as they are. Both have
 * the same number of epochs before and after the channels go. */
#define TINYGNN_LAB
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "meta_prune"
#include "options.h"
#include <math.h>

enum { SPEEDS = 8, NETS = 64 };

static const char usage[] =
    "meta_prune [options]     trains a metanetwork that prepares networks for pruning, and compares\n"
    "  --nets N         networks that the metanetwork learns from; default: 8\n"
    "  --tests N        networks that are pruned; default: 4\n"
    "  --speedup X      cost of the network / that of the pruned one; may be given often; default: 1.5, 2 and 3\n"
    "  --samples N      images to learn from; default: 400\n"
    "  --epochs E       of the training of each network; default: 12\n"
    "  --meta E         epochs of the metanetwork; default: 20\n"
    "  --before E       epochs before the channels go, with and without the metanetwork; default: 5\n"
    "  --after E        epochs after; default: 3\n"
    "  --tune R         rate of the epochs before and after; default: 0.02\n"
    "  --hidden N       numbers of a node and of an edge in the metanetwork, even; default: 16\n"
    "  --layers N       of the metanetwork; default: 4\n"
    "  --reg R          of the forces that shrink groups of channels; default: 0.01\n"
    "  --rate R         of the metanetwork; default: 0.001\n"
    "  --scale S        of the change of each number; default: 0.1\n"
    "  --width N        channels of the first stage; the others have twice and four times as many; default: 8\n"
    "  --seed N         of images, networks and metanetwork; default: 1\n"
    "  --svg FILE       draw accuracy against speed-up\n"
    "  --threads N      default: one per processor\n";

typedef struct job {
    tiny_ctx *ctx;
    int nets, tests, samples, epochs, meta, before, after, hidden, layers, width, seed, n_speed;
    double reg, rate, scale, tune, speed[SPEEDS];
    tgnn_images train, check, test;
    const tgnn_cnn *judged;
    const char *doing;
} job;

/* accuracy: [rewritten][speed][0 right after the channels went, 1 after the last epochs], sums over networks */
typedef struct table {
    double whole, sum[2][SPEEDS][2], least[2][SPEEDS][2], most[2][SPEEDS][2], flops[2][SPEEDS];
} table;

/* 16 x 16: a sinusoid of one of 5 orientations and 2 frequencies, any phase, with noise on each pixel */
static void textures(tgnn_images *s, float *x, int32_t *label, int n, uint64_t seed)
{
    tiny_rng rng = tiny_rng_make(seed, 16);
    int i, a, b;
    for (i = 0; i < n; i++) {
        const uint32_t c = tiny_rng_below(&rng, 10);
        const double turn = 3.14159265358979323846 * (double)(c % 5) / 5.0, wave = c < 5 ? 0.6 : 1.1;
        const double phase = 6.28318530717958647692 * tiny_rng_uniform64(&rng);
        label[i] = (int32_t)c;
        for (a = 0; a < 16; a++)
            for (b = 0; b < 16; b++)
                x[i * 256 + a * 16 + b] = (float)sin(wave * (cos(turn) * a + sin(turn) * b) + phase) +
                                          0.3f * tiny_rng_normal(&rng);
    }
    s->x = tiny_tensor_4d(x, TINY_F32, n, 1, 16, 16);
    s->label = tiny_tensor_1d(label, TINY_I32, n);
}

static tiny_status open_net(const job *j, uint64_t seed, tgnn_cnn **cnn)
{
    tgnn_cnn_layer l[7];
    tgnn_cnn_desc d;
    int i;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    for (i = 0; i < 6; i++) {               /* three stages of two; the second one of each has a shortcut */
        l[i].n_out = (tiny_idx)j->width << i / 2;
        l[i].size = 3;
        l[i].stride = i % 2 ? 1 : 2;
        l[i].norm = l[i].relu = 1;
        if (i % 2) l[i].add = i;
    }
    l[6].n_out = 10;
    d.in[0] = 1;
    d.in[1] = d.in[2] = 16;
    d.layer = l;
    d.n_layer = 7;
    d.seed = seed;
    return tgnn_cnn_open(j->ctx, &d, cnn);
}

static int on_step(void *user, const tiny_train_state *s)
{
    const job *j = (const job *)user;
    if (is_shown() && s->step % 10 == 0)
        fprintf(stderr, "\r%s: step %d of %d%30s", j->doing, (int)s->step, (int)s->steps, "");
    return 0;
}

static int on_meta(void *user, const tgnn_meta_state *s)
{
    (void)user;
    if (is_shown())
        fprintf(stderr, "\rmetanetwork: step %d of %d, loss %.3f, forces %.2f%20s", (int)s->step, (int)s->steps,
                s->loss, s->penalty, "");
    return 0;
}

static tiny_status fit(job *j, tgnn_cnn *cnn, int epochs, double lr, uint64_t seed, const char *doing)
{
    tgnn_cnn_fit_desc d;
    memset(&d, 0, sizeof d);
    d.epochs = epochs;
    d.lr = lr;
    d.seed = seed;
    d.callback = on_step;
    d.user = j;
    j->doing = doing;
    return tgnn_cnn_fit(cnn, &j->train, &d);
}

static tiny_status accuracy(const tgnn_cnn *cnn, const tgnn_images *set, double *percent)
{
    tiny_idx right = 0;
    const tiny_status st = tgnn_cnn_right(cnn, set, &right);
    *percent = 100.0 * (double)right / (double)set->x.dim[0];
    return st;
}

static tiny_status prune(const tgnn_cnn *cnn, double speedup, tgnn_cnn **small)
{
    unsigned char *keep = (unsigned char *)malloc((size_t)tgnn_cnn_nodes(cnn));
    tgnn_cut_desc d;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.speedup = speedup;
    *small = NULL;
    if (!keep) return TINY_E_MEMORY;
    st = tgnn_cnn_choose(cnn, &d, keep);
    if (!st) st = tgnn_cnn_cut(cnn, keep, small);
    free(keep);
    return st;
}

/* The score of a metanetwork: a network that it learns from, rewritten, tuned, pruned to each speed-up and tuned for an
 * epoch, on images that are used for nothing else. */
static tiny_status judge(void *user, const tgnn_meta *meta, int64_t epoch, double *score)
{
    job *j = (job *)user;
    tgnn_cnn *cnn = NULL, *small = NULL;
    double x = 0.0;
    int k;
    tiny_status st = tgnn_meta_rewrite(meta, j->judged, &cnn);
    (void)epoch;
    *score = 0.0;
    if (!st) st = fit(j, cnn, 2, j->tune, 7, "judging the metanetwork");
    for (k = 0; !st && k < j->n_speed; k++) {
        st = prune(cnn, j->speed[k], &small);
        if (!st) st = fit(j, small, 1, j->tune, 8, "judging the metanetwork");
        if (!st) st = accuracy(small, &j->check, &x);
        tgnn_cnn_close(small);
        *score += x;
    }
    tgnn_cnn_close(cnn);
    return st;
}

/* One network, rewritten or not: tuned, then pruned to each speed-up and tuned again. */
static tiny_status one(job *j, const tgnn_meta *meta, const tgnn_cnn *trained, int rewritten, int first, table *t)
{
    tgnn_cnn *cnn = NULL, *small = NULL;
    double x;
    int k, when;
    tiny_status st = rewritten ? tgnn_meta_rewrite(meta, trained, &cnn) : tgnn_cnn_copy(trained, &cnn);
    if (!st) st = fit(j, cnn, j->before, j->tune, 1, "tuning before the channels go");
    for (k = 0; !st && k < j->n_speed; k++) {
        st = prune(cnn, j->speed[k], &small);
        for (when = 0; !st && when < 2; when++) {
            if (when) st = fit(j, small, j->after, j->tune, 2, "tuning after the channels went");
            if (!st) st = accuracy(small, &j->test, &x);
            if (st) break;
            t->sum[rewritten][k][when] += x;
            if (first || x < t->least[rewritten][k][when]) t->least[rewritten][k][when] = x;
            if (first || x > t->most[rewritten][k][when]) t->most[rewritten][k][when] = x;
        }
        if (!st) t->flops[rewritten][k] += tgnn_cnn_flops(cnn) / tgnn_cnn_flops(small);
        tgnn_cnn_close(small);
        small = NULL;
    }
    tgnn_cnn_close(cnn);
    return st;
}

static size_t draw(char *to, size_t room, const job *j, const table *t)
{
    static const char *const colour[2] = { "#d62728", "#1f77b4" };
    size_t n = 0;
    double high = 1.0, x, y;
    int i, r, k, w;
    for (k = 0; k < j->n_speed; k++)
        if (j->speed[k] > high) high = j->speed[k];
#define PUT(...) (n += (size_t)snprintf(n < room ? to + n : NULL, n < room ? room - n : 0, __VA_ARGS__))
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"750\" height=\"420\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"750\" height=\"420\" fill=\"#fff\"/>\n<text x=\"60\" y=\"20\">test accuracy "
        "(%%) over speed-up, %d network%s that the metanetwork has not seen</text>\n", j->tests,
        j->tests == 1 ? "" : "s");
    for (i = 0; i <= 5; i++)
        PUT("<path d=\"M60 %dH560\" stroke=\"#ddd\"/><text x=\"54\" y=\"%d\" text-anchor=\"end\">%d</text>\n",
            380 - 68 * i, 384 - 68 * i, 20 * i);
    for (r = 0; r < 2; r++)
        for (w = 0; w < 2; w++) {
            PUT("<text x=\"570\" y=\"%d\" fill=\"%s\">%s, %s</text>\n<g stroke=\"%s\" fill=\"none\"%s>\n<path "
                "stroke-width=\"2\" d=\"M60 %.1f", 50 + 18 * (2 * r + w), colour[r], r ? "rewritten" : "as it was",
                w ? "tuned" : "at once (dashed)", colour[r], w ? "" : " stroke-dasharray=\"5 4\"",
                380 - 3.4 * t->whole / j->tests);
            for (k = 0; k < j->n_speed; k++)
                PUT("L%.1f %.1f", 60 + 500 * (j->speed[k] - 1) / (high > 1 ? high - 1 : 1),
                    380 - 3.4 * t->sum[r][k][w] / j->tests);
            PUT("\"/>\n");
            for (k = 0; k < j->n_speed; k++) {
                x = 60 + 500 * (j->speed[k] - 1) / (high > 1 ? high - 1 : 1) + 2 * (2 * r + w) - 3;
                y = 380 - 3.4 * t->least[r][k][w];
                PUT("<path d=\"M%.1f %.1fV%.1f\"/>\n", x, y, 380 - 3.4 * t->most[r][k][w]);
                if (!r && !w) PUT("<text x=\"%.1f\" y=\"398\" text-anchor=\"middle\" stroke=\"none\" fill=\"#000\">%g"
                                  "</text>\n", x, j->speed[k]);
            }
            PUT("</g>\n");
        }
    PUT("</svg>\n");
#undef PUT
    return n;
}

int main(int argc, char **argv)
{
    static char picture[65536];
    static job j;
    static table t;
    tiny_ctx_desc cd = { 0 };
    tiny_ctx *ctx = NULL;
    tgnn_cnn *nets[NETS] = { NULL };
    tgnn_meta_desc md = { 0 };
    tgnn_meta_train_desc td = { 0 };
    tgnn_meta *meta = NULL;
    const char *svg = NULL;
    float *x = NULL;
    int32_t *label = NULL;
    word_list speeds;
    double whole;
    int i, k, r, w;
    tiny_status st;
    const option options[] = { A_WHOLE("--nets", &j.nets, 1, 32),
                               A_WHOLE("--tests", &j.tests, 1, 32),
                               A_LIST("--speedup", &speeds, SPEEDS),
                               A_WHOLE("--samples", &j.samples, 100, 100000),
                               A_WHOLE("--epochs", &j.epochs, 1, 10000),
                               A_WHOLE("--meta", &j.meta, 1, 10000),
                               A_WHOLE("--before", &j.before, 1, 10000),
                               A_WHOLE("--after", &j.after, 1, 10000),
                               A_WHOLE("--hidden", &j.hidden, 2, 256),
                               A_WHOLE("--layers", &j.layers, 1, 16),
                               A_NUMBER("--reg", &j.reg, 1e-6, 1e6),
                               A_NUMBER("--rate", &j.rate, 1e-7, 10.0),
                               A_NUMBER("--scale", &j.scale, 1e-6, 10.0),
                               A_NUMBER("--tune", &j.tune, 1e-6, 10.0),
                               A_WHOLE("--width", &j.width, 2, 256),
                               A_WHOLE("--seed", &j.seed, 1, 1000000),
                               A_TEXT("--svg", &svg),
                               A_WHOLE("--threads", &cd.n_threads, 1, TINY_MAX_THREADS) };
    memset(&speeds, 0, sizeof speeds);
    j.nets = 8;
    j.tests = 4;
    j.samples = 400;
    j.epochs = 12;
    j.meta = 20;
    j.before = 5;
    j.after = 3;
    j.hidden = 16;
    j.layers = 4;
    j.reg = 0.01;
    j.rate = 0.001;
    j.scale = 0.1;
    j.tune = 0.02;
    j.width = 8;
    j.seed = 1;
    j.n_speed = 3;
    j.speed[0] = 1.5;
    j.speed[1] = 2.0;
    j.speed[2] = 3.0;
    READ_OPTIONS(argc, argv, usage, options);
    if (speeds.n) j.n_speed = speeds.n;
    for (k = 0; k < speeds.n; k++)
        if (!is_number(speeds.at[k], 1.0, 100.0, &j.speed[k])) return wrong(speeds.at[k], "--speedup takes 1 to 100");
    if (must_not_write(svg, 0)) return 2;
    cd.cancel = cancelled;
    cd.log = hear;
    cd.user = &ctx;
    stop_on_signals_whole();
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    j.ctx = ctx;
    x = (float *)malloc(((size_t)j.samples + 1500) * 256 * sizeof *x);
    label = (int32_t *)malloc(((size_t)j.samples + 1500) * sizeof *label);
    st = x && label ? TINY_OK : TINY_E_MEMORY;
    if (!st) {
        textures(&j.train, x, label, j.samples, (uint64_t)j.seed);
        textures(&j.check, x + (size_t)j.samples * 256, label + j.samples, 500, (uint64_t)j.seed + 1000000);
        textures(&j.test, x + ((size_t)j.samples + 500) * 256, label + j.samples + 500, 1000,
                 (uint64_t)j.seed + 2000000);
    }
    for (i = 0; !st && i < j.nets + j.tests; i++) {
        char doing[64];
        (void)snprintf(doing, sizeof doing, "network %d of %d", i + 1, j.nets + j.tests);
        st = open_net(&j, (uint64_t)(1000 * j.seed + i), &nets[i]);
        if (!st) st = fit(&j, nets[i], j.epochs, 0.05, (uint64_t)i, doing);
    }
    md.hidden = j.hidden;
    md.layers = j.layers;
    md.scale = j.scale;
    md.seed = (uint64_t)j.seed;
    td.epochs = j.meta;
    td.batch = j.samples > 100 ? 100 : 0;
    td.lr = j.rate;
    td.drop = j.meta * 2 / 3 + 1;
    td.reg = j.reg * (double)(j.samples / 100);         /* for each batch, as the paper's 10 for its 100 */
    td.judge = judge;
    td.callback = on_meta;
    td.user = &j;
    j.judged = nets[0];
    if (!st) st = tgnn_meta_open(ctx, &md, &meta);
    if (!st) st = tgnn_meta_train(meta, (const tgnn_cnn *const *)nets, (size_t)j.nets, &j.train, &td);
    for (i = 0; !st && i < j.tests; i++) {
        st = accuracy(nets[j.nets + i], &j.test, &whole);
        t.whole += whole;
        for (r = 0; !st && r < 2; r++) st = one(&j, meta, nets[j.nets + i], r, !i, &t);
    }
    if (is_shown()) fprintf(stderr, "\r%78s\r", "");
    if (!st) {
        printf("%d networks to learn from, %d to prune: %.0f operations an image, %.2f %% of 1000 images right\n",
               j.nets, j.tests, tgnn_cnn_flops(nets[0]), t.whole / j.tests);
        printf("%-10s %8s %28s %28s\n", "", "speed-up", "at once (worst to best)", "tuned (worst to best)");
        for (k = 0; k < j.n_speed; k++)
            for (r = 0; r < 2; r++) {
                printf("%-10s %8.2f", r ? "rewritten" : "as it was", t.flops[r][k] / j.tests);
                for (w = 0; w < 2; w++)
                    printf(" %11.2f %% (%5.2f to %5.2f)", t.sum[r][k][w] / j.tests, t.least[r][k][w], t.most[r][k][w]);
                printf("\n");
            }
        if (svg) {
            const size_t n = draw(picture, sizeof picture, &j, &t);
            st = n >= sizeof picture ? TINY_E_MEMORY : tiny_file_write(ctx, svg, picture, n);
        }
    }
    if (st) say(stopped_by ? "stopped" : st == TINY_E_MEMORY ? "there is not enough memory" : tiny_ctx_message(ctx));
    for (i = 0; i < NETS; i++) tgnn_cnn_close(nets[i]);
    tgnn_meta_close(meta);
    tiny_ctx_close(ctx);
    free(x);
    free(label);
    if (st) return stopped_by ? 128 + stopped_by : 1;
    return exit_status(0);
}
