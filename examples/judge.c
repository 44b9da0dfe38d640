/* examples/judge.c - the loss and the errors of a story model, or of a compressed form of it
 *
 *     judge MODEL.gguf
 *     judge MODEL-Q2_K.gguf --against MODEL-F32.gguf
 *
 * The language of the stories is generated, so the smallest possible loss of each token is known. judge reports by how
 * many bits the loss exceeds it, which facts the model gets wrong, and how many of its stories are valid. */
#define TINYLLM_TOOLS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "judge"
#include "options.h"

static const char usage[] =
    "judge MODEL.gguf [options]\n"
    "  --against BASE.gguf   the model before it was compressed: reports the divergence\n"
    "  --stories N           held-out stories to read; default: 2000\n"
    "  --tell N              stories that the model generates by sampling, and as many greedily; default: 1000,\n"
    "                        0: none\n"
    "  --seed S              seed of the held-out stories; default: 999\n"
    "  --cache-type-k T      format of the cached keys: f32, f16, q8_0 or q4_0; default: f32\n"
    "  --cache-type-v T      format of the cached values\n"
    "  --input-bits N        round the inputs of the matrices of layers to 2 to 8 bits, one scale per token; default:\n"
    "                        no rounding\n"
    "  --input-clip S        the scale covers this share of the largest number; default: 0.9\n"
    "  --threads N           default: 1; a model this small gains nothing from more\n"
    "  --target T            scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n"
    "  --json                print one JSON object instead of the table\n";

/* what the best model of this size should reach, in hundredths of a per cent; of the tags that have no line there: 0 */
static const int asked[TLLM_STORY_TAGS] = { 0,    9990, 9900, 9900, 9900, 9900, 9950, 9950,
                                            9500, 9900, 9950, 9900, 9500, 9000, 9700, 9700 };

static double share(size_t part, size_t whole) { return whole ? 100.0 * (double)part / (double)whole : 100.0; }

static void print_told(const char *how, const tllm_told *t)
{
    int i;
    if (!t->n) return;
    printf("  %-28s %6.2f %%   of %zu, %.1f tokens to the end or the first fault", how, share(t->valid, t->n), t->n,
           (double)t->tokens / (double)t->n);
    if (t->unfinished) printf(", %zu not ended", t->unfinished);
    for (i = 0; i < TLLM_STORY_TAGS; i++)
        if (t->fault[i])
            printf("%s%s %zu", t->valid + t->unfinished < t->n ? "; " : " ", tllm_story_tag_name(i), t->fault[i]);
    putchar('\n');
}

static void print_table(const char *path, double megabytes, const tllm_about *about, const tllm_judgement *j)
{
    int i;
    printf("%s: %s, %.2f million weights, %.2f MB\n", path, about->arch, about->n_params / 1e6, megabytes);
    printf("  bits per token %.4f, floor %.4f, above the floor %.4f (95 of 100 samples: %.4f to %.4f)   %zu stories, "
           "%zu tokens\n",
           j->bits, j->floor, j->bits - j->floor, j->low, j->high, j->stories, j->tokens);
    if (j->has_base) {
        printf("  base %.4f bits, %.4f lost (%.4f to %.4f: %s)\n", j->base_bits, j->bits - j->base_bits, j->lost_low,
               j->lost_high,
               j->lost_low > 0.0    ? "worse"
               : j->lost_high < 0.0 ? "better"
                                    : "no difference found");
        printf("  divergence from the base %.4f bits per token (%.4f to %.4f), the same best guess at %.2f %%\n", j->kl,
               j->kl_low, j->kl_high, 100.0 * j->agree);
    }
    printf("  %-16s %8s %9s %9s %12s\n", "token", "number", "right", "asked", "excess bits");
    for (i = 0; i < TLLM_STORY_TAGS; i++) {
        const tllm_judge_tag *t = &j->tag[i];
        if (i == TLLM_STORY_CHOICE)
            printf("  %-16s %8zu %9s %9s %12.4f\n", tllm_story_tag_name(i), t->n, "", "", t->excess);
        else if (t->n)
            printf("  %-16s %8zu %8.2f%% %8.1f%% %12.4f%s\n", tllm_story_tag_name(i), t->n, share(t->right, t->n),
                   asked[i] / 100.0, t->excess, share(t->right, t->n) < asked[i] / 100.0 ? "   missed" : "");
    }
    printf("  %-16s %8zu %8.2f%% %8.1f%%%s\n", "sums, asked once", j->sums, share(j->sums_right, j->sums), 97.0,
           share(j->sums_right, j->sums) < 97.0 ? "                missed" : "");
    print_told("stories drawn, valid", &j->drawn);
    print_told("stories by best guess, valid", &j->greedy);
}

static void print_json_told(const char *name, const tllm_told *t)
{
    printf(", \"%s\": {\"n\": %zu, \"valid\": %zu, \"tokens\": %zu, \"unfinished\": %zu}", name, t->n, t->valid,
           t->tokens, t->unfinished);
}
static void print_json(double megabytes, const tllm_about *about, const tllm_judgement *j)
{
    int i;
    printf("{\"weights\": %.0f, \"megabytes\": %.4f, \"stories\": %zu, \"tokens\": %zu, \"bits\": %.6f, \"floor\": "
           "%.6f, \"excess\": %.6f, \"low\": %.6f, \"high\": %.6f",
           about->n_params, megabytes, j->stories, j->tokens, j->bits, j->floor, j->bits - j->floor, j->low, j->high);
    if (j->has_base)
        printf(", \"base_bits\": %.6f, \"kl\": %.6f, \"agree\": %.6f, \"lost_low\": %.6f, \"lost_high\": %.6f, "
               "\"kl_low\": %.6f, \"kl_high\": %.6f",
               j->base_bits, j->kl, j->agree, j->lost_low, j->lost_high, j->kl_low, j->kl_high);
    printf(", \"kinds\": {");
    for (i = 0; i < TLLM_STORY_TAGS; i++)
        printf("%s\"%s\": {\"n\": %zu, \"right\": %zu, \"excess\": %.6f}", i ? ", " : "", tllm_story_tag_name(i),
               j->tag[i].n, j->tag[i].right, j->tag[i].excess);
    printf("}, \"sums\": {\"n\": %zu, \"right\": %zu}", j->sums, j->sums_right);
    print_json_told("drawn", &j->drawn);
    print_json_told("best_guess", &j->greedy);
    printf("}\n");
}

typedef struct loaded { tllm_gguf *file; tllm_model *model; } loaded;
static tiny_status load(tiny_ctx *ctx, const char *path, loaded *l)
{
    tiny_status st = tllm_file_open(ctx, path, &l->file);
    return st ? st : tllm_model_open(ctx, l->file, &l->model);
}
static void unload(tiny_ctx *ctx, loaded *l)
{
    tllm_model_close(ctx, l->model);
    tllm_gguf_close(ctx, l->file);
}

int main(int argc, char **argv)
{
    const char *path = NULL, *base_path = NULL;
    int json = 0, tell = 1000;
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    tllm_judge_desc d;
    tllm_state_desc room;
    tllm_judgement j;
    tllm_about about;
    const char *type[2] = { NULL, NULL };
    double clip = 0;
    loaded model = { NULL, NULL }, base = { NULL, NULL };
    double megabytes = 0;
    size_t k;
    tiny_status st;
    const option options[] = { THE_WORD("model (--against names the base)", &path),
                               A_TEXT("--against", &base_path),
                               A_WHOLE("--stories", &d.stories, 1, 1e7),
                               A_WHOLE("--tell", &tell, 0, 1e7),
                               A_SEED("--seed", &d.seed),
                               A_TEXT("--cache-type-k", &type[0]),
                               A_TEXT("--cache-type-v", &type[1]),
                               A_WHOLE("--input-bits", &room.x_bits, 2, 8),
                               A_NUMBER("--input-clip", &clip, 1e-3, 1),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("--target", &desc.target),
                               A_FLAG("--json", &json) };
    memset(&desc, 0, sizeof desc);
    memset(&d, 0, sizeof d);
    memset(&room, 0, sizeof room);
    desc.n_threads = 1;
    d.stories = 2000;
    d.seed = 999;
    READ_OPTIONS(argc, argv, usage, options);
    d.samples = d.greedy = tell ? tell : -1;
    for (k = 0; k < 2; k++)
        if (type[k] && !tllm_format_by_name(type[k])) return wrong(k ? "--cache-type-v" : "--cache-type-k", type[k]);
    if (type[0]) room.type_k = tllm_format_by_name(type[0])->id;
    if (type[1]) room.type_v = tllm_format_by_name(type[1])->id;
    room.x_clip = (float)clip;
    d.state = &room;
    desc.log = hear;
    desc.user = &ctx;
    st = tiny_ctx_open(&desc, &ctx);
    if (!st) st = load(ctx, path, &model);
    if (!st && base_path) st = load(ctx, base_path, &base);
    if (!st) {
        tllm_model_about(model.model, &about);
        for (k = 0; k < tllm_gguf_n_tensors(model.file); k++)
            megabytes += (double)tllm_gguf_tensor_at(model.file, k)->bytes * 1e-6;
        st = tllm_judge(ctx, model.model, base.model, &d, &j);
    }
    if (st && ctx) say(tiny_ctx_message(ctx));
    if (!st && json) print_json(megabytes, &about, &j);
    if (!st && !json) print_table(path, megabytes, &about, &j);
    if (ctx) {
        unload(ctx, &base);
        unload(ctx, &model);
    }
    tiny_ctx_close(ctx);
    return exit_status(st != TINY_OK);
}
