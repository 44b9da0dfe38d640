/* examples/vision.c - a small vision transformer learns ten textures, then works with fewer tokens
 *
 *     vision                                trains three seeds: plain, merged (ToMe), merged and tuned, merged with
 *                                           PYRA and tuned
 *     vision --merge 16,12,8,4 --random     other merges; random features, and only the head is trained
 *     vision --recursive                    SReT: two blocks that run twice, with sliced and with whole attention,
 *                                           compared with blocks that run once
 *     vision --picture merged.pgm           draws eight images, and below each its merged tokens as means
 *
 * The images are generated: 32 x 32 grey pixels of stripes, checks, rings, dots, clouds, ramps and hatchings of any
 * phase and size, with noise. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "vision"
#include "options.h"
#include <math.h>

enum {
    SIDE = 32,
    PIXELS = SIDE * SIDE,
    CLASSES = 10,
    BLOCKS = 4,
    PATCH = 4,
    GRID = SIDE / PATCH,
    TOKENS = GRID * GRID + 1
};

typedef struct choice {
    int seeds, first_seed, n_train, n_test, epochs, tune, random, recursive;
    double noise;
    tiny_idx merge[BLOCKS];
    const char *picture;
} choice;

/* what the model function and the callback of a training get; the model reads the first member only */
typedef struct run {
    tllm_vit_task task;
    const char *what;
    int seed;
    int64_t epochs, per_epoch;
    double sum;
} run;

static const char usage[] =
    "vision [options]      ten textures learnt by a small vision transformer, and again with fewer tokens\n"
    "  --seeds N        networks to train; default: 3\n"
    "  --seed FIRST     the first seed; default: 1\n"
    "  --train IMAGES   images for training; default: 800\n"
    "  --test IMAGES    images for the test; default: 500\n"
    "  --epochs N       passes over all images; default: 6\n"
    "  --tune EPOCHS    passes of the tuning after the merge; default: 3\n"
    "  --noise X        deviation of the noise; default: 1, pixels are about -1 to 1\n"
    "  --merge A,B,C,D  pairs of tokens that each block merges; default: 28,16,9,5\n"
    "  --random         train only the head\n"
    "  --recursive      blocks that run twice, with sliced and with whole attention, next to blocks that run once "
    "(SReT)\n"
    "  --picture FILE   write a .pgm of eight images and their merged tokens\n";

static double between(tiny_rng *r, double low, double high) { return low + (high - low) * tiny_rng_uniform64(r); }

/* one image of a class; pixels are about -1 to 1 before the noise */
static void paint(tiny_rng *r, int label, double noise, float *image)
{
    static const double angle[4] = { 1.5708, 0.0, 0.7854, -0.7854 };
    const double speed = between(r, 0.5, 1.1), phase = between(r, 0, 6.2832), phase2 = between(r, 0, 6.2832),
                 strong = between(r, 0.6, 1.0);
    const double cx = between(r, 0, SIDE), cy = between(r, 0, SIDE), turn = between(r, -0.2, 0.2),
                 way = between(r, 0, 6.2832);
    double wave[4][3];
    int i, k;
    for (k = 0; k < 4; k++) {
        wave[k][0] = between(r, -0.3, 0.3);
        wave[k][1] = between(r, -0.3, 0.3);
        wave[k][2] = between(r, 0, 6.2832);
    }
    for (i = 0; i < PIXELS; i++) {
        const double x = i % SIDE, y = i / SIDE, a = (label < 4 ? angle[label] : 0.0) + turn,
                     u = x * cos(a) + y * sin(a), v = y * cos(a) - x * sin(a);
        double g = 0.0;
        switch (label) {
        case 4: g = sin(speed * u + phase) * sin(speed * v + phase2) > 0 ? 1 : -1; break;           /* checks */
        case 5: g = sin(speed * hypot(x - cx, y - cy) + phase); break;                              /* rings */
        case 6: g = cos(speed * u + phase) > 0.4 && cos(speed * v + phase2) > 0.4 ? 1 : -0.6; break;    /* dots */
        /* clouds */
        case 7: for (k = 0; k < 4; k++) g += 0.5 * sin(wave[k][0] * x + wave[k][1] * y + wave[k][2]); break;
        case 8: g = ((x - SIDE / 2) * cos(way) + (y - SIDE / 2) * sin(way)) / (SIDE / 2); break;    /* a ramp */
        /* hatching */
        case 9: g = fmax(sin(speed * (x + y) * 0.7071 + phase), sin(speed * (x - y) * 0.7071 + phase2)); break;
        /* stripes of four directions */
        default: g = sin(speed * u + phase);
        }
        image[i] = (float)(strong * g + noise * (double)tiny_rng_normal(r));
    }
}

static int progress(void *user, const tiny_train_state *s)
{
    run *r = (run *)user;
    r->sum += s->loss;
    if (s->step % r->per_epoch) return 0;
    printf("  seed %d, %s: epoch %d of %d, loss %.3f\n", r->seed, r->what, (int)(s->step / r->per_epoch),
           (int)r->epochs, r->sum / (double)r->per_epoch);
    fflush(stdout);
    r->sum = 0;
    return 0;
}

static tiny_status train(tiny_ctx *ctx, run *r, const tiny_param *params, size_t n_params, const choice *o, int epochs,
                         double lr)
{
    tiny_train_desc d;
    memset(&d, 0, sizeof d);
    d.params = params;
    d.n_params = n_params;
    d.model = tllm_vit_loss;
    d.callback = progress;
    d.user = r;
    d.n_samples = (uint32_t)o->n_train;
    d.batch = o->n_train < 32 ? o->n_train : 32;
    d.epochs = r->epochs = epochs;
    d.seed = (uint64_t)r->seed;
    d.optim.group[0].lr = d.optim.group[1].lr = lr;
    d.optim.group[0].decay = 0.05;
    d.optim.group[2].lr = 10 * lr;          /* of PYRA */
    d.optim.clip = 1.0;
    d.schedule.kind = TINY_SCHEDULE_COSINE;
    r->per_epoch = o->n_train / d.batch;
    d.schedule.warmup = r->per_epoch / 2;
    return epochs ? tiny_train(ctx, &d, NULL) : TINY_OK;
}

/* Above eight images, below them each piece as the mean of all pieces that are the same token at the end. */
static tiny_status picture(tiny_ctx *ctx, const tllm_vit *vit, tllm_pyra *pyra, const tiny_tensor *images,
                           const char *path)
{
    enum { N = 8, SCALE = 4, W = N * (SIDE + 2) * SCALE, H = 2 * (SIDE + 2) * SCALE };
    static unsigned char pixel[H][W];
    tiny_tape_desc td;
    tiny_tape *tape;
    tiny_tensor x = *images, place;
    tiny_status st;
    FILE *f;
    int i, x0, y0;
    memset(&td, 0, sizeof td);
    td.no_grad = 1;
    x.dim[0] = N;
    st = tiny_tape_open(ctx, &td, &tape);
    if (st) return st;
    (void)tllm_vit_run(tape, vit, &x, tllm_pyra_hooks(pyra));
    st = tiny_tape_status(tape);
    place = tllm_pyra_place(pyra);
    memset(pixel, 255, sizeof pixel);
    for (i = 0; i < N && !st; i++) {
        const float *image = (const float *)images->data + i * PIXELS;
        const int32_t *at = (const int32_t *)place.data;
        for (y0 = 0; y0 < SIDE * SCALE; y0++)
            for (x0 = 0; x0 < SIDE * SCALE; x0++) {
                const int px = x0 / SCALE, py = y0 / SCALE, mine = 1 + py / PATCH * GRID + px / PATCH;
                double sum = 0, g;
                int k, n = 0;
                for (k = 1; k < TOKENS; k++)
                    if (at[k * N + i] == at[mine * N + i]) {
                        sum += (double)
                            image[((k - 1) / GRID * PATCH + py % PATCH) * SIDE + (k - 1) % GRID * PATCH + px % PATCH];
                        n++;
                    }
                for (k = 0; k < 2; k++) {
                    g = 128 + 70 * (k ? sum / n : (double)image[py * SIDE + px]);
                    pixel[(1 + k * (SIDE + 2)) * SCALE + y0][(1 + i * (SIDE + 2)) * SCALE + x0] =
                        (unsigned char)(g < 0     ? 0
                                        : g > 255 ? 255
                                                  : g);
                }
            }
    }
    tiny_tape_close(tape);
    if (st) return st;
    f = fopen(path, "wb");
    i = f && fprintf(f, "P5\n%d %d\n255\n", W, H) > 0 && fwrite(pixel, sizeof pixel, 1, f) == 1;
    if (f && fclose(f)) i = 0;
    if (i) printf("%s: eight images, and below them what is left of their %d tokens\n", path, TOKENS);
    else fprintf(stderr, "vision: %s cannot be written\n", path);
    return i ? TINY_OK : TINY_E_IO;
}

enum { PLAIN, MERGED, TUNED, PYRA, WAYS };
static const char *const way_name[2][WAYS] = {
    { "all tokens", "merged (ToMe)", "merged, head tuned", "merged with PYRA, head tuned" },
    { "run twice, 4 slices, then 2", "run twice, whole attention", "run once, whole attention", NULL }
};

/* what is tuned: the last norm and the head, and what PYRA learns */
static size_t tuned(const tllm_vit *vit, const tllm_pyra *pyra, tiny_param *list)
{
    static const char *const name[4] = { "norm.weight", "norm.bias", "head.weight", "head.bias" };
    const tiny_param *more;
    size_t n = 0, k, n_more;
    for (k = 0; k < 4; k++) list[n++] = *tllm_vit_param(vit, name[k]);
    more = tllm_pyra_params(pyra, &n_more);
    for (k = 0; k < n_more; k++) list[n++] = more[k];
    return n;
}

static tiny_status one_seed(tiny_ctx *ctx, const choice *o, int seed, const tiny_tensor *images,
                            const tiny_tensor *labels, double right[WAYS])
{
    tllm_vit_desc vd;
    tllm_pyra_desc pd;
    tllm_vit *vit = NULL;
    tllm_pyra *pyra = NULL;
    tiny_param list[4 + 4 * BLOCKS];
    float keep[4 * 64 * CLASSES];
    size_t n, k, at;
    run r;
    tiny_idx hits;
    tiny_status st;
    int way;
    memset(&vd, 0, sizeof vd);
    memset(&pd, 0, sizeof pd);
    memset(&r, 0, sizeof r);
    vd.image = SIDE; vd.patch = PATCH; vd.channels = 1;
    vd.d = 64; vd.hidden = 128; vd.n_head = 2; vd.n_block = BLOCKS; vd.n_class = CLASSES;
    vd.seed = (uint64_t)seed;
    pd.r = o->merge;
    pd.n_block = BLOCKS;
    pd.seed = (uint64_t)seed;
    st = tllm_vit_open(ctx, &vd, &vit);
    if (st) return st;
    r.seed = seed;
    r.task.vit = vit;
    r.task.images = images;
    r.task.labels = labels;
    for (way = PLAIN; way < WAYS && !st; way++) {
        const tiny_param *params = list;
        r.what = way_name[0][way];
        r.sum = 0;
        if (way > PLAIN) {                  /* each begins with the network as it was trained */
            tllm_pyra_close(pyra);
            pd.plain = way < PYRA;
            st = tllm_pyra_open(ctx, vit, &pd, &pyra);
            if (st) break;
            r.task.hooks = tllm_pyra_hooks(pyra);
        }
        n = tuned(vit, NULL, list);
        for (k = at = 0; k < n; at += (size_t)tiny_tensor_count(&list[k].value), k++)
            if (way > PLAIN && way <= MERGED)
                memcpy(keep + at, list[k].value.data, (size_t)tiny_tensor_count(&list[k].value) * sizeof *keep);
            else if (way > PLAIN)
                memcpy(list[k].value.data, keep + at, (size_t)tiny_tensor_count(&list[k].value) * sizeof *keep);
        n = tuned(vit, way == PYRA ? pyra : NULL, list);
        if (way == PLAIN && !o->random) params = tllm_vit_params(vit, &n);
        if (way != MERGED)
            st = train(ctx, &r, params, n, o, way == PLAIN ? o->epochs : o->tune,
                       way == PLAIN && !o->random ? 2e-3 : 1e-3);
        if (!st) st = tllm_vit_right(ctx, &r.task, o->n_train, o->n_test, &hits);
        if (st) break;
        right[way] = 100.0 * (double)hits / (double)o->n_test;
        printf("seed %d, %s: %.1f %% of %d new images\n", seed, r.what, right[way], o->n_test);
    }
    if (!st && o->picture) st = picture(ctx, vit, pyra, images, o->picture);
    tllm_pyra_close(pyra);
    tllm_vit_close(vit);
    return st;
}

/* Two blocks: each runs twice, with a small layer after every run, or once, with small layers of twice the width. Both
 * have the same number of weights. */
static tiny_status one_seed_recursive(tiny_ctx *ctx, const choice *o, int seed, const tiny_tensor *images,
                                      const tiny_tensor *labels, double right[WAYS])
{
    tllm_sret_desc d;
    tllm_sret *sret = NULL;
    run r;
    tiny_idx hits;
    tiny_status st = TINY_OK;
    int way;
    for (way = 0; way < WAYS && way_name[1][way] && !st; way++) {
        const tiny_param *params;
        size_t n, k, weights = 0;
        memset(&d, 0, sizeof d);
        memset(&r, 0, sizeof r);
        d.channels = 1;
        d.ratio = 2.0;
        d.nll_ratio = way == 2 ? 2.0 : 1.0;
        d.n_stage = 1;
        d.stage[0].n_head = 2;
        d.stage[0].distinct = 2;
        d.stage[0].depth = way == 2 ? 2 : 4;
        d.stage[0].first = way ? 1 : 4;
        d.stage[0].again = way ? 1 : 2;
        d.seed = (uint64_t)seed;
        st = tllm_sret_open(ctx, &d, &sret);
        if (st) break;
        params = tllm_sret_params(sret, &n);
        for (k = 0; k < n; k++) weights += (size_t)tiny_tensor_count(&params[k].value);
        r.what = way_name[1][way];
        r.seed = seed;
        r.task.other = tllm_sret_logits;
        r.task.net = sret;
        r.task.images = images;
        r.task.labels = labels;
        tllm_sret_training(sret, 1);
        st = train(ctx, &r, params, n, o, o->epochs, 2e-3);
        tllm_sret_training(sret, 0);
        if (!st) st = tllm_vit_right(ctx, &r.task, o->n_train, o->n_test, &hits);
        if (!st) {
            right[way] = 100.0 * (double)hits / (double)o->n_test;
            printf("seed %d, %s: %.1f %% of %d new images, %lu weights\n", seed, r.what, right[way], o->n_test,
                   (unsigned long)weights);
        }
        tllm_sret_close(sret);
        sret = NULL;
    }
    return st;
}

int main(int argc, char **argv)
{
    choice o = { 3, 1, 800, 500, 6, 3, 0, 0, 1.0, { 28, 16, 9, 5 }, NULL };
    const char *merge = NULL;
    char rest;
    double sum[WAYS] = { 0 }, square[WAYS] = { 0 };
    tiny_tensor images, labels;
    float *pixels;
    int32_t *label;
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    tiny_rng rng;
    tiny_status st;
    int i, way, s;
    const option options[] = { A_WHOLE("--seeds", &o.seeds, 1, 1000),
                               A_WHOLE("--seed", &o.first_seed, 0, 1e6),
                               A_WHOLE("--train", &o.n_train, 8, 1e5),
                               A_WHOLE("--test", &o.n_test, 1, 1e5),
                               A_WHOLE("--epochs", &o.epochs, 0, 1e4),
                               A_WHOLE("--tune", &o.tune, 0, 1e4),
                               A_NUMBER("--noise", &o.noise, -1e6, 1e6),
                               A_TEXT("--merge", &merge),
                               A_FLAG("--random", &o.random),
                               A_FLAG("--recursive", &o.recursive),
                               A_TEXT("--picture", &o.picture) };
    READ_OPTIONS(argc, argv, usage, options);
    if (merge &&
        sscanf(merge, "%td,%td,%td,%td%c", &o.merge[0], &o.merge[1], &o.merge[2], &o.merge[3], &rest) != BLOCKS)
        return wrong(merge, "--merge takes four whole numbers with commas between them");
    memset(&desc, 0, sizeof desc);
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    pixels = (float *)tiny_alloc(ctx, (size_t)(o.n_train + o.n_test) * PIXELS * sizeof *pixels);
    label = (int32_t *)tiny_alloc(ctx, (size_t)(o.n_train + o.n_test) * sizeof *label);
    st = pixels && label ? TINY_OK : TINY_E_MEMORY;
    images = tiny_tensor_4d(pixels, TINY_F32, o.n_train + o.n_test, 1, SIDE, SIDE);
    labels = tiny_tensor_1d(label, TINY_I32, o.n_train + o.n_test);
    for (s = o.first_seed; s < o.first_seed + o.seeds && !st; s++) {
        double right[WAYS] = { 0 };
        rng = tiny_rng_make((uint64_t)s, 0x746578);
        for (i = 0; i < o.n_train + o.n_test; i++)
            paint(&rng, label[i] = i % CLASSES, o.noise, pixels + (size_t)i * PIXELS);
        st = (o.recursive ? one_seed_recursive : one_seed)(ctx, &o, s, &images, &labels, right);
        for (way = 0; way < WAYS; way++) {
            sum[way] += right[way];
            square[way] += right[way] * right[way];
        }
    }
    if (!st)
        printf("\n%d seeds, %d images to learn from, %s\n", o.seeds, o.n_train,
               o.recursive ? "recursive stages"
               : o.random  ? "random features, a trained head"
                           : "the network trained on all tokens");
    for (way = 0; way < WAYS && !st && way_name[o.recursive][way]; way++) {
        const double mean = sum[way] / o.seeds, var = square[way] / o.seeds - mean * mean;
        printf("  %-30s %5.1f %% +- %.1f\n", way_name[o.recursive][way], mean, sqrt(var > 0 ? var : 0));
    }
    /* what was not written has been said */
    if (st && st != TINY_E_IO) fprintf(stderr, "vision: %s\n", tiny_ctx_message(ctx));
    tiny_free(ctx, label);
    tiny_free(ctx, pixels);
    tiny_ctx_close(ctx);
    return exit_status(st != TINY_OK);
}
