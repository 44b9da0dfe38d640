/* tests/llm/train/judge.c - the judge on an untrained model, and on the committed one */
#include "t.h"

static const char path[] = "tests-judge.gguf", committed[] = "examples/models/story.gguf",
                  small[] = "examples/models/story-small.gguf", latent[] = "examples/models/story-latent.gguf",
                  gated[] = "examples/models/story-gla.gguf";

typedef struct loaded { tllm_gguf *file; tllm_model *model; } loaded;
static int load(tiny_ctx *ctx, const char *from, loaded *l)
{
    l->file = NULL;
    l->model = NULL;
    return T_OK(tllm_gguf_open(ctx, from, &l->file)) && T_OK(tllm_model_open(ctx, l->file, &l->model));
}
static void unload(tiny_ctx *ctx, loaded *l)
{
    tllm_model_close(ctx, l->model);
    tllm_gguf_close(ctx, l->file);
}

static int write_random(tiny_ctx *ctx, uint64_t seed)
{
    tllm_train_desc d;
    tllm_trainer *t = NULL;
    int ok;
    memset(&d, 0, sizeof d);
    d.embedding = 32;
    d.heads = 2;
    d.kv_heads = 1;
    d.layers = 1;
    d.hidden = 32;
    d.context = 256;
    d.sequences = 4;
    d.seed = seed;
    ok = T_OK(tllm_trainer_open(ctx, &d, &t)) && T_OK(tllm_trainer_model(t, path, "F32"));
    tllm_trainer_close(t);
    return ok;
}

/* Counts and floor are those of the stories; a model has no divergence from itself; an untrained model writes nothing
 * valid. */
static void test_random_model(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    loaded a, b;
    tllm_judge_desc d;
    tllm_judgement j, k;
    tllm_story s = tllm_story_start(999);
    size_t tokens = 0, stories = 0, i, sum = 0, tag_n[TLLM_STORY_TAGS] = { 0 };
    double floor = 0, bits, excess = 0;
    int tag;
    while (stories < 20) {
        const int32_t t = tllm_story_draw(&s, &bits, &tag);
        floor += bits;
        tag_n[tag]++;
        tokens++;
        stories += t == TLLM_STORY_END;
    }
    memset(&d, 0, sizeof d);
    d.stories = 20;
    d.samples = d.greedy = 5;
    if (!write_random(ctx, 1) || !load(ctx, path, &a)) { t_close(ctx); return; }
    (void)remove("tests-judge-2.gguf");
    (void)rename(path, "tests-judge-2.gguf");
    if (T_OK(tllm_judge(ctx, a.model, a.model, &d, &j))) {
        T_EQ_INT(j.tokens, tokens);
        T_EQ_INT(j.stories, 20);
        T_CLOSE(j.floor, floor / (double)tokens, 1e-12);
        for (i = 0; i < TLLM_STORY_TAGS; i++) {
            T_EQ_INT(j.tag[i].n, tag_n[i]);
            sum += j.tag[i].n;
            excess += (double)j.tag[i].n * j.tag[i].excess;
        }
        T_EQ_INT(sum, tokens);
        T_CLOSE(excess / (double)tokens, j.bits - j.floor, 1e-9);
        T_TRUE(j.bits > 8 && j.low < j.bits - j.floor && j.bits - j.floor < j.high && j.high - j.low < 2);
        T_TRUE(j.has_base && j.base_bits == j.bits && fabs(j.kl) < 1e-12 && j.agree == 1.0);
        T_TRUE(j.lost_low == 0.0 && j.lost_high == 0.0 && fabs(j.kl_low) < 1e-12 && fabs(j.kl_high) < 1e-12);
        T_EQ_INT(j.sums, 155);
        T_TRUE(j.drawn.n == 5 && j.greedy.n == 5 && j.drawn.valid == 0 && j.greedy.valid == 0 &&
               j.drawn.unfinished == 0);
        for (sum = i = 0; i < TLLM_STORY_TAGS; i++) sum += j.drawn.fault[i];
        T_EQ_INT(sum, 5);
        T_OK(tllm_judge(ctx, a.model, a.model, &d, &k));
        T_TRUE(!memcmp(&j, &k, sizeof j));
    }
    /* of two different untrained models: the divergence is positive, and cross-entropy minus entropy on the stories'
     * side holds */
    if (write_random(ctx, 2) && load(ctx, path, &b)) {
        T_OK(tllm_judge(ctx, b.model, a.model, &d, &k));
        T_TRUE(k.kl > 0.1 && k.base_bits == j.bits && k.bits != j.bits);
        T_TRUE(k.kl_low < k.kl && k.kl < k.kl_high && k.kl_low > 0.0);
        T_TRUE(k.lost_low < k.bits - k.base_bits && k.bits - k.base_bits < k.lost_high);
        /* with the sides exchanged the same samples lose the gain, and their order is reversed */
        T_OK(tllm_judge(ctx, a.model, b.model, &d, &j));
        T_CLOSE(j.lost_low, -k.lost_high, 1e-12);
        T_CLOSE(j.lost_high, -k.lost_low, 1e-12);
        unload(ctx, &b);
    }
    d.stories = -1;
    T_STATUS(tllm_judge(ctx, a.model, NULL, &d, &k), TINY_E_ARGUMENT, "-1 stories");
    unload(ctx, &a);
    t_close(ctx);
    (void)remove(path);
    (void)remove("tests-judge-2.gguf");
}

static void test_other_vocabulary(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *other = t_shared("oracle/llm/llama.gguf");
    tllm_judgement j;
    loaded a;
    if (other && load(ctx, other, &a)) {
        T_STATUS(tllm_judge(ctx, a.model, NULL, NULL, &j), TINY_E_UNSUPPORTED,
                 "a llama model of 320 tokens does not read stories, whose vocabulary has 544");
        unload(ctx, &a);
    }
    t_close(ctx);
}

/* The files in examples/models match docs/dev/story-model.md; bounds with room for the choice of stories and the
 * target. */
static void test_committed(void)
{
    static const struct {
        const char *path;
        double excess;
        size_t sums;
    } file[] = { { committed, 0.075, 153 }, { small, 0.13, 100 }, { latent, 0.105, 85 }, { gated, 0.075, 153 } };
    size_t f;
    for (f = 0; f < T_COUNT(file); f += 1 + T_SLOW) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        tllm_judge_desc d;
        tllm_judgement j;
        loaded a;
        memset(&d, 0, sizeof d);
        d.stories = T_SLOW ? 2 : 40;
        d.samples = d.greedy = T_SLOW ? 1 : 4;
        if (load(ctx, file[f].path, &a) && T_OK(tllm_judge(ctx, a.model, NULL, &d, &j)) && !T_SLOW) {
            T_TRUE(j.bits - j.floor < file[f].excess);
            T_TRUE(j.sums_right >= file[f].sums);
        }
        unload(ctx, &a);
        t_close(ctx);
    }
}

static void test_memory(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const int there = write_random(ctx, 1);
    t_close(ctx);
    if (there) T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_SCALAR, 1);
        tllm_judge_desc d;
        tllm_judgement j;
        loaded a = { NULL, NULL };
        memset(&d, 0, sizeof d);
        d.stories = 1;
        d.samples = d.greedy = -1;
        if (!tiny_ctx_open(&cd, &ctx)) {
            if (!tllm_gguf_open(ctx, path, &a.file) && !tllm_model_open(ctx, a.file, &a.model)) {
                const tiny_status st = tllm_judge(ctx, a.model, NULL, &d, &j);
                T_TRUE(!st || st == TINY_E_MEMORY || st == TINY_E_WORKSPACE);
            }
            unload(ctx, &a);
            tiny_ctx_close(ctx);
        }
    })
    (void)remove(path);
}

int main(void)
{
    T_RUN(test_random_model);
    T_RUN(test_other_vocabulary);
    T_RUN(test_committed);
    T_RUN(test_memory);
    return t_done();
}
