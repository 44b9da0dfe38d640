/* examples/onebyte.c - fine-tuning on several machines with one byte a gradient
 *
 *     onebyte blobs --ranks 4 --samples 1                 10 000 weights learn ten blobs
 *     onebyte story MODEL.gguf --ranks 2 --out new.gguf   a LoRA adapter learns stories of a smaller world
 *
 * Each machine computes losses only: no gradient, so a model file of any format will do. Machines send a byte for each
 * sample, and the log of the run is all that another machine needs to make the same weights. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE                     /* kill, of examples/world.h, is no part of C */
#endif
#define TINYLLM_IMPLEMENTATION
#define TINYLLM_WITH_ONEBYTE
#define TINYLLM_WITH_STORY
#define TINY_WITH_TCP
#include "tinyllm.h"
#define PROGRAM "onebyte"
#include "options.h"
#include "world.h"
#include "curve.h"
#include <math.h>

static const char usage[] =
    "onebyte blobs [options]        a network of 10 000 weights learns to tell ten blobs apart\n"
    "onebyte story MODEL [options]  a LoRA adapter learns stories in which each thing is red and each friend is Anna "
    "or "
    "Tom\n"
    "  --steps N      default: 1500; story: 200\n"
    "  --samples N    of a rank in a step, 1 to 200; default: 1; story: 4\n"
    "  --rate X       of one gradient: a step of n gradients has the rate n X; default: 2e-4; story: 0.03\n"
    "  --eps X        size of the step to both sides; default: 1e-3; story: 1e-2\n"
    "  --half N       steps after which the rate has fallen to half; default: 0, constant\n"
    "  --seed N       of the directions and of the data\n"
    "  --normal       directions are normal numbers instead of -1 and 1\n"
    "  --floats       send gradients as 4 bytes, to compare with\n"
    "  --out FILE     story: write the adapter, for --lora of other programs\n"
    "  --log FILE     write the log of the run: rank 0 restores the weights from it\n"
    "  --replay FILE  restore the weights from such a log first, then go on\n"
    "  --svg FILE     draw the course of the run\n"
    "  --check        compute the run again on one rank; end with status 1 if a bit of the weights differs\n"
    "  --quiet        print the last line only\n" WORLD_USAGE
    "The same seed gives the same weights for any number of ranks that makes the same gradients in a step.\n";

enum {
    IN = 32,
    HIDDEN = 232,
    OUT = 10,
    BATCH = 32,
    TEST = 2000,
    CONTEXT = 96,
    RANK = 1,
    MOST_PLACES = 128
};

static world w = { 2, 0, 0, 0 };
static int command, steps, samples, normal, floats4, check, quiet;
static double rate, eps, half;
static uint64_t seed = 1;
static const char *model_path, *out, *log_path, *replay, *svg;
static unsigned char *old_log;
static size_t n_old_log;

/* ---- what is learnt ---------------------------------------------------------------------------------------------- */

typedef struct task {
    tiny_ctx *ctx;
    tiny_tensor tensor[2 * MOST_PLACES];
    float *theta;
    size_t n_tensor, n;
    /* blobs */
    float centre[OUT][IN], *x, *h, *y;
    int label[TEST];
    /* story */
    tllm_gguf *file;
    tllm_model *model;
    tllm_state *state;
    tllm_about about;
    char place[MOST_PLACES][80];
    int32_t swap[TLLM_STORY_VOCAB];
} task;

static void part(task *t, tiny_idx rows, tiny_idx cols)
{
    t->tensor[t->n_tensor++] = tiny_tensor_2d(NULL, TINY_F32, rows, cols);
    t->n += (size_t)(rows * cols);
}
/* one block of numbers for all tensors; scale: of the first values, 0 for those that begin at zero */
static void parts_made(task *t, const float *scale)
{
    tiny_rng r = tiny_rng_make(seed, 77);
    size_t i, k, n;
    t->theta = (float *)need(calloc(t->n, sizeof(float)));
    for (i = k = 0; i < t->n_tensor; i++) {
        t->tensor[i].data = t->theta + k;
        n = (size_t)tiny_tensor_count(&t->tensor[i]);
        k += n;
        if (scale[i] > 0) tiny_rng_fill_normal(&r, (float *)t->tensor[i].data, n);
        while (n-- > 0) ((float *)t->tensor[i].data)[n] *= scale[i];
    }
}

static void blob(const task *t, tiny_rng *r, float *x, int *label)
{
    int i;
    *label = (int)tiny_rng_below(r, OUT);
    for (i = 0; i < IN; i++) x[i] = t->centre[*label][i] + 1.2f * tiny_rng_normal(r);
}
static void blobs_open(task *t)
{
    static const float scale[4] = { 0.25f, 0, 0.09f, 0 };
    tiny_rng r = tiny_rng_make(seed, 78);
    tiny_rng_fill_normal(&r, &t->centre[0][0], OUT * IN);
    part(t, IN, HIDDEN);
    part(t, 1, HIDDEN);
    part(t, HIDDEN, OUT);
    part(t, 1, OUT);
    parts_made(t, scale);
    t->x = floats(TEST * IN);
    t->h = floats(TEST * HIDDEN);
    t->y = floats(TEST * OUT);
}
/* logits of n samples in t->x, with these weights */
static tiny_status blobs_run(task *t, const float *const at[4], tiny_idx n)
{
    tiny_tensor x = tiny_tensor_2d(t->x, TINY_F32, n, IN), h = tiny_tensor_2d(t->h, TINY_F32, n, HIDDEN),
                y = tiny_tensor_2d(t->y, TINY_F32, n, OUT), p[4];
    tiny_status st;
    int i;
    for (i = 0; i < 4; i++) {
        p[i] = t->tensor[i];
        p[i].data = (void *)(uintptr_t)at[i];
    }
    p[1] = tiny_tensor_1d(p[1].data, TINY_F32, HIDDEN);
    p[3] = tiny_tensor_1d(p[3].data, TINY_F32, OUT);
    st = tiny_matmul(t->ctx, &x, &p[0], &p[1], TINY_ACT_RELU, &h);
    return st ? st : tiny_matmul(t->ctx, &h, &p[2], &p[3], TINY_ACT_NONE, &y);
}
static double nats(const float *y, int n, int right)
{
    double most = (double)y[0], sum = 0;
    int i;
    for (i = 1; i < n; i++)
        if ((double)y[i] > most) most = (double)y[i];
    for (i = 0; i < n; i++) sum += exp((double)y[i] - most);
    return log(sum) + most - (double)y[right];
}
static tiny_status blobs_loss(void *user, tllm_onebyte *o, uint64_t step, uint32_t sample, double *loss)
{
    task *t = (task *)user;
    tiny_rng r = tiny_rng_make(seed, (step << 20) + sample + 1000);
    const float *at[4];
    tiny_status st;
    int i;
    for (i = 0; i < BATCH; i++) blob(t, &r, t->x + i * IN, &t->label[i]);
    for (i = 0; i < 4; i++) at[i] = tllm_onebyte_tensor(o, (size_t)i);
    st = blobs_run(t, at, BATCH);
    for (*loss = 0, i = 0; i < BATCH; i++) *loss += nats(t->y + i * OUT, OUT, t->label[i]) / BATCH;
    return st;
}
/* per cent right of samples that were never trained on */
static tiny_status blobs_judge(task *t, double *right)
{
    tiny_rng r = tiny_rng_make(seed, 79);
    const float *at[4];
    tiny_status st;
    int i, k, n = 0;
    for (i = 0; i < TEST; i++) blob(t, &r, t->x + i * IN, &t->label[i]);
    for (i = 0; i < 4; i++) at[i] = (const float *)t->tensor[i].data;
    st = blobs_run(t, at, TEST);
    for (i = 0; i < TEST; i++) {
        const float *y = t->y + i * OUT;
        int best = 0;
        for (k = 1; k < OUT; k++)
            if (y[k] > y[best]) best = k;
        n += best == t->label[i];
    }
    *right = 100.0 * n / TEST;
    return st;
}

/* the first word of each line stands for all of it */
static const char *const worlds[] = { "red blue green yellow white black brown pink",
                                      "Anna Mia Lily Sara Emma Rosa Nina Ella",
                                      "Tom Ben Max Sam Leo Jack Finn Otto",
                                      "dog cat fox bear rabbit duck goat mouse bird frog hen horse",
                                      "dogs cats foxes bears rabbits ducks goats mice birds frogs hens horses",
                                      "sunny rainy cold windy warm cloudy" };
static void words_open(task *t)
{
    size_t i;
    for (i = 0; i < TLLM_STORY_VOCAB; i++) t->swap[i] = (int32_t)i;
    for (i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        const char *at = worlds[i];
        const int32_t first = tllm_story_find(at, strcspn(at, " "));
        for (; *at; at += strspn(at, " ")) {
            const size_t n = strcspn(at, " ");
            const int32_t word = tllm_story_find(at, n);
            if (word >= 0) t->swap[word] = first;
            at += n;
        }
    }
}
static tiny_status story_open(task *t)
{
    static float scale[2 * MOST_PLACES];
    tllm_state_desc d;
    size_t i, n = 0;
    tiny_status st = tllm_file_open(t->ctx, model_path, &t->file);
    if (!st) st = tllm_model_open(t->ctx, t->file, &t->model);
    if (st) return st;
    tllm_model_about(t->model, &t->about);
    if (t->about.n_vocab != TLLM_STORY_VOCAB || t->about.output != TLLM_LOGITS || t->about.is_encoder) {
        fprintf(stderr, PROGRAM ": %s: this is not a story model (examples/models, or build/train-story)\n",
                model_path);
        return TINY_E_UNSUPPORTED;
    }
    for (i = 0; i < tllm_gguf_n_tensors(t->file) && n < MOST_PLACES; i++) {
        const tllm_gguf_tensor *x = tllm_gguf_tensor_at(t->file, i);
        char name[80];
        if (x->rank != 2 || x->name.n > 60) continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)x->name.n, x->name.at);
        if (!strstr(name, ".attn_output.") && !strstr(name, ".ffn_down.") && !strstr(name, ".time_mix_output."))
            continue;
        memcpy(t->place[n++], name, sizeof name);
        scale[t->n_tensor] = 1.0f / (float)sqrt((double)x->dim[0]);
        part(t, RANK, (tiny_idx)x->dim[0]); /* A, at random; B is zero */
        scale[t->n_tensor] = 0;
        part(t, (tiny_idx)x->dim[1], RANK);
    }
    if (!n) {
        fprintf(stderr, PROGRAM ": %s has no matrix that takes an adapter\n", model_path);
        return TINY_E_UNSUPPORTED;
    }
    parts_made(t, scale);
    words_open(t);
    t->y = floats(CONTEXT * (tiny_idx)t->about.n_out);
    memset(&d, 0, sizeof d);
    d.n_ctx = d.n_batch = CONTEXT;
    return tllm_state_open(t->ctx, t->model, &d, &t->state);
}
/* the adapter as a GGUF file: in memory without a path */
static tiny_status adapter(task *t, const float *const at[], const char *path, tllm_writer **made)
{
    tllm_writer_desc d;
    char name[2 * MOST_PLACES][100];
    tllm_writer *to = NULL;
    size_t i;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.path = path;
    st = tllm_writer_open(t->ctx, &d, &to);
    if (!st) st = tllm_writer_put_text(t->ctx, to, "general.type", "adapter");
    if (!st) st = tllm_writer_put_text(t->ctx, to, "general.architecture", t->about.arch);
    if (!st) st = tllm_writer_put_text(t->ctx, to, "adapter.type", "lora");
    if (!st) st = tllm_writer_put_f32(t->ctx, to, "adapter.lora.alpha", RANK);
    for (i = 0; i < t->n_tensor && !st; i++) {
        uint64_t dim[2];
        tllm_text text;
        dim[0] = (uint64_t)t->tensor[i].dim[1];
        dim[1] = (uint64_t)t->tensor[i].dim[0];
        (void)snprintf(name[i], sizeof name[i], "%s.lora_%c", t->place[i / 2], "ab"[i % 2]);
        text.at = name[i];
        text.n = strlen(name[i]);
        st = tllm_writer_put_tensor(t->ctx, to, text, 0 /* F32 */, 2, dim, at[i]);
    }
    if (!st) st = tllm_writer_finish(t->ctx, to);
    if (st || !made) tllm_writer_close(t->ctx, to);
    else *made = to;
    return st;
}
/* bits a token of the story that this stream gives */
static tiny_status story_bits(task *t, const float *const at[], uint64_t stream, double *bits)
{
    tllm_story s = tllm_story_start(stream);
    tllm_writer *to = NULL;
    tllm_gguf *file = NULL;
    tllm_adapter *a = NULL;
    const void *bytes = NULL;
    int32_t token[CONTEXT];
    size_t n = 0;
    int i;
    tiny_status st = adapter(t, at, NULL, &to);
    if (!st) bytes = tllm_writer_memory(to, &n);
    if (!st) st = tllm_gguf_open_memory(t->ctx, bytes, n, &file);
    if (!st) st = tllm_adapter_open(t->ctx, t->model, file, &a);
    if (!st) st = tllm_state_attach(t->state, a, 1.0f);
    token[0] = TLLM_STORY_END;
    for (i = 1; i < CONTEXT; i++) token[i] = t->swap[tllm_story_draw(&s, NULL, NULL)];
    tllm_state_clear(t->state);
    if (!st) st = tllm_forward(t->state, token, CONTEXT, 0, CONTEXT, t->y);
    for (*bits = 0, i = 0; i + 1 < CONTEXT && !st; i++)
        *bits += nats(t->y + (size_t)i * (size_t)t->about.n_out, (int)t->about.n_out, (int)token[i + 1]) /
                 (log(2.0) * (CONTEXT - 1));
    if (a) (void)tllm_state_attach(t->state, a, 0.0f);
    tllm_adapter_close(t->ctx, a);
    tllm_gguf_close(t->ctx, file);
    tllm_writer_close(t->ctx, to);
    return st;
}
static tiny_status story_loss(void *user, tllm_onebyte *o, uint64_t step, uint32_t sample, double *loss)
{
    task *t = (task *)user;
    const float *at[2 * MOST_PLACES];
    size_t i;
    for (i = 0; i < t->n_tensor; i++) at[i] = tllm_onebyte_tensor(o, i);
    return story_bits(t, at, seed * 1000003 + (step << 20) + sample, loss);
}
static tiny_status story_judge(task *t, double *bits)
{
    const float *at[2 * MOST_PLACES];
    double one;
    size_t i;
    int k;
    tiny_status st = TINY_OK;
    for (i = 0; i < t->n_tensor; i++) at[i] = (const float *)t->tensor[i].data;
    for (*bits = 0, k = 0; k < 24 && !st; k++) {
        st = story_bits(t, at, UINT64_C(0xabcdef000000) + (unsigned)k, &one);
        *bits += one / 24;
    }
    return st;
}

static void task_close(task *t)
{
    tllm_state_close(t->ctx, t->state);
    tllm_model_close(t->ctx, t->model);
    tllm_gguf_close(t->ctx, t->file);
    free(t->theta);
    free(t->x);
    free(t->h);
    free(t->y);
    free(t);
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static tiny_status open_task(tiny_ctx *ctx, task **made)
{
    task *t = (task *)need(calloc(1, sizeof *t));
    tiny_status st = TINY_OK;
    t->ctx = ctx;
    *made = t;
    if (command) st = story_open(t);
    else blobs_open(t);
    return st;
}
static tllm_onebyte_desc describe(task *t, tiny_net *net, int each)
{
    tllm_onebyte_desc d;
    memset(&d, 0, sizeof d);
    d.net = net;
    d.tensor = t->tensor;
    d.n_tensor = t->n_tensor;
    d.loss = command ? story_loss : blobs_loss;
    d.user = t;
    d.eps = eps;
    d.samples = each;
    d.lr = rate * each * (net ? net->world : 1);
    d.half = half;
    d.seed = seed;
    d.normal = normal;
    d.floats = floats4;
    d.whole = 1; /* all tensors are looked at together */
    d.lost_ns = UINT64_C(600000000000);
    d.wait_ns = UINT64_C(60000000000);
    return d;
}
/* the same steps on this rank alone. 0: the same bits */
static tiny_status again(tiny_ctx *ctx, int each, uint64_t n, uint64_t want, int *differs)
{
    task *t = NULL;
    tllm_onebyte *o = NULL;
    tllm_onebyte_desc d;
    tiny_status st = open_task(ctx, &t);
    if (!st) {
        d = describe(t, NULL, each);
        st = tllm_onebyte_open(ctx, &d, &o);
    }
    while (!st && tllm_onebyte_at(o) < n) st = tllm_onebyte_step(o, NULL);
    *differs = !st && tllm_onebyte_hash(o) != want;
    tllm_onebyte_close(o);
    task_close(t);
    return st;
}

static int someone_looks(void) /* standard error is a terminal */
{
#ifdef OPTIONS_UNIX
    return isatty(2);
#else
    return 0;
#endif
}

static tiny_status body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    const char *what = command ? "bits a token" : "per cent right";
    task *t = NULL;
    tllm_onebyte *o = NULL;
    tllm_onebyte_desc d;
    tllm_onebyte_report r;
    curve c;
    double y = 0;
    uint64_t said = 0, start = tiny_now_ns(), bytes = 0;
    int i, differs = 0;
    tiny_status st = open_task(ctx, &t);
    memset(&r, 0, sizeof r);
    memset(&c, 0, sizeof c);
    if (!st) {
        d = describe(t, net, samples);
        st = tllm_onebyte_open(ctx, &d, &o);
    }
    if (!st && !net->rank && old_log) st = tllm_onebyte_replay(o, old_log, n_old_log);
    if (!st && !net->rank && !quiet)
        printf("%zu numbers, %d ranks, %d gradients a step\n%8s %16s %12s\n", t->n, net->world, net->world * samples,
               "step", what, "loss");
    while (!st && !r.ended && (net->rank || tllm_onebyte_at(o) <= (uint64_t)steps)) {
        const uint64_t at = tllm_onebyte_at(o), every = (uint64_t)(steps + 31) / 32;
        if (!net->rank && (at % every == 0 || at == (uint64_t)steps)) {
            st = command ? story_judge(t, &y) : blobs_judge(t, &y);
            curve_add(&c, (double)at, y);
            if (!quiet && (at % (4 * every) == 0 || at == (uint64_t)steps)) {
                printf("%8llu %16.3f %12.4f\n", (unsigned long long)at, y, r.loss);
                (void)fflush(stdout);
            }
        } else if (!net->rank && !quiet && someone_looks() && tiny_now_ns() - said > UINT64_C(2000000000)) {
            fprintf(stderr, "step %llu of %d, %.0f s\r", (unsigned long long)at, steps,
                    1e-9 * (double)(tiny_now_ns() - start));
            said = tiny_now_ns();
        }
        if (st || (!net->rank && at == (uint64_t)steps)) break;
        st = tllm_onebyte_step(o, &r);
        if (r.restored && !quiet) fprintf(stderr, PROGRAM ": rank %d got the weights from rank 0\n", net->rank);
    }
    if (!st && !net->rank) st = tllm_onebyte_end(o);
    for (i = 0; i < net->world; i++) bytes += net->count[i].bytes_received;
    if (!st && !net->rank) {
        size_t n = 0;
        const void *bytes_of = tllm_onebyte_log(o, &n);
        printf("%s %.3f after %d steps; the others sent %llu bytes in all, the run is a log of %zu bytes; weights "
               "%016llx\n",
               what, y, steps, (unsigned long long)bytes, n, (unsigned long long)tllm_onebyte_hash(o));
        if (log_path && !write_whole(log_path, bytes_of, n)) st = TINY_E_IO;
        if (!st && out) {
            const float *at[2 * MOST_PLACES];
            for (n = 0; n < t->n_tensor; n++) at[n] = (const float *)t->tensor[n].data;
            st = adapter(t, at, out, NULL);
        }
        if (!st && svg && !curve_draw(&c, svg, what, "#d62728", y, y)) st = TINY_E_IO;
        if (!st && check) {
            st = again(ctx, samples * net->world, (uint64_t)steps, tllm_onebyte_hash(o), &differs);
            if (!st)
                puts(differs ? "one rank alone gets other weights"
                             : "one rank alone gets the same weights, bit for bit");
            if (differs) st = TINY_E_NUMERIC;
        }
    }
    tllm_onebyte_close(o);
    task_close(t);
    (void)arg;
    return st;
}

int main(int argc, char **argv)
{
    const option options[] = { A_COMMAND("blobs story", &command),
                               A_WORD("model", &model_path),
                               A_WHOLE("--steps", &steps, 1, 1e7),
                               A_WHOLE("--samples", &samples, 1, TLLM_ONEBYTE_SAMPLES),
                               A_NUMBER("--rate", &rate, 1e-12, 100),
                               A_NUMBER("--eps", &eps, 1e-9, 10),
                               A_NUMBER("--half", &half, 0, 1e9),
                               A_SEED("--seed", &seed),
                               A_FLAG("--normal", &normal),
                               A_FLAG("--floats", &floats4),
                               A_TEXT("--out", &out),
                               A_TEXT("--log", &log_path),
                               A_TEXT("--replay", &replay),
                               A_TEXT("--svg", &svg),
                               A_FLAG("--check", &check),
                               A_FLAG("--quiet", &quiet),
                               WORLD_OPTIONS(w) };
    int bad;
    READ_OPTIONS(argc, argv, usage, options);
    if (command && !model_path) return wrong("story", "a model file is needed");
    if (!command && model_path) return refused("blobs takes no file: %s", model_path);
    if (!command && out) return wrong("--out", "only story has an adapter to write");
    if (check && replay) return wrong("--check", "not together with --replay");
    if (!steps) steps = command ? 200 : 1500;
    if (!samples) samples = command ? 4 : 1;
    if (rate <= 0) rate = command ? 3e-2 : 2e-4;
    if (eps <= 0) eps = command ? 1e-2 : 1e-3;
    if ((bad = must_not_write(out, 2, model_path, replay)) || (bad = must_not_write(log_path, 2, model_path, replay)) ||
        (bad = must_not_write(svg, 2, model_path, replay)) || (bad = same_output(out, log_path)) ||
        (bad = same_output(out, svg)) || (bad = same_output(log_path, svg)))
        return bad;
    if (replay) {
        old_log = (unsigned char *)read_text(replay, MOST_TEXT, 0, &n_old_log);
        if (!old_log) return 1;
    }
    bad = world_run(&w, body, NULL);
    free(old_log);
    return exit_status(bad);
}
