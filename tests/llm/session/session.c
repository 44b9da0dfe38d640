/* tests/llm/session/session.c - stories260K writes the golden story; reuse, cuts and refusals of a session
 *
 * The greedy text of the committed model equals that of a plain pass in double over its weights
 * (tests/golden/story.py). */
#include "t.h"
#include <math.h>

static const char story[] = "examples/models/story.gguf";       /* llama, 544 tokens, a context of 256 */
static const char *const files[3] = { "data/tinystories/stories260K.bin", "data/tinystories/stories260K-f32.gguf",
                                      "data/tinystories/stories260K-f16.gguf" };

typedef struct heard { char text[8192]; size_t n; int calls, stop_after; } heard;
static int hear(void *user, const char *text, size_t n)
{
    heard *h = (heard *)user;
    if (h->n + n <= sizeof h->text) memcpy(h->text + h->n, text, n);
    h->n += n;
    h->calls++;
    return h->stop_after && h->calls >= h->stop_after;
}

static tllm_session *open_story(tiny_ctx *ctx, const char *path, tiny_idx n_ctx)
{
    tllm_state_desc d;
    tllm_session *s = NULL;
    memset(&d, 0, sizeof d);
    d.n_ctx = n_ctx;
    T_OK(tllm_session_open(ctx, path, &d, &s));
    return s;
}

/* The text that another program gave for the same weights, from each of the three files. */
static void golden_story(tiny_target target)
{
    static char golden[65536];
    const char *path = t_one_of("data/tinystories/stories260K.golden.txt");
    size_t i, n;
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f) return;
    n = fread(golden, 1, sizeof golden, f);
    (void)fclose(f);
    for (i = 0; i < 3; i++) {
        tiny_ctx *ctx = t_ctx(target, 2);
        const char *file = t_shared(files[i]);
        tllm_session *s = file ? open_story(ctx, file, 0) : NULL;
        static heard h;
        tllm_generate_desc d;
        tllm_generate_result r;
        memset(&h, 0, sizeof h);
        memset(&d, 0, sizeof d);
        d.text = hear;
        d.user = &h;
        d.n_most = 240;
        if (s && T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r))) {
            T_EQ_INT(r.n_made, 240);
            T_TRUE(r.end == TLLM_END_LENGTH && h.n > 400 && h.n + 16 <= n);
            T_TRUE(!memcmp(golden, "Once upon a time", 16) && !memcmp(golden + 16, h.text, h.n));
        }
        tllm_session_close(s);
        t_close(ctx);
    }
}
/* The tokens that tests/golden/story.py gives for the model of examples/, in double. Vectors round activations to 8
 * bits, which moves a logit by up to 2.4 % of their size (relative RMS, tests/golden/oracle/llm/README.md): so the same
 * tokens as far as the two best are always four times that apart. */
static void own_story(tiny_target target)
{
    enum { PROMPT = 15 };
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_session *s = open_story(ctx, "examples/models/story.gguf", 0);
    FILE *f = fopen("tests/golden/story.tsv", "r");
    const int32_t *got;
    tllm_generate_desc d;
    tllm_generate_result r;
    char line[200];
    size_t n = 0, i = 0;
    int sure = 1, n_sure = 0;
    memset(&d, 0, sizeof d);
    d.n_most = 40;
    t_case("examples/models/story.gguf", 1);
    if (s && T_TRUE(f != NULL) && T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r)) &&
        (got = tllm_session_tokens(s, &n)) != NULL && T_TRUE(n >= PROMPT + 10))
        while (fgets(line, sizeof line, f) && i + 1 < n) {
            int token, best, second;
            double want, next, rms;
            if (sscanf(line, "%d %d %lf %d %lf %lf", &token, &best, &want, &second, &next, &rms) != 6) continue;
            if (i < PROMPT) T_EQ_INT(got[i], token);
            if (++i < PROMPT) continue;
            sure = sure && want - next > 4 * 0.024 * rms;
            if (sure && T_EQ_INT(got[i], best)) n_sure++;
        }
    T_TRUE(n_sure >= 8);
    if (f) (void)fclose(f);
    tllm_session_close(s);
    t_close(ctx);
}
static void test_golden_story(tiny_target target)
{
    own_story(target);
    golden_story(target);
}

/* The text of tests/golden/story.tsv: the prompt is in its first line, then the tokens. Its best tokens lead by
 * 0.017 at least, a float pass is off by some 1e-5; targets round activations to 8 bits, so this is the reference's. */
static void test_committed_story(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 2);
    tllm_session *s = open_story(ctx, story, 0);
    FILE *f = fopen("tests/golden/story.tsv", "r");
    char line[200], prompt[200];
    int32_t want[100];
    const int32_t *held;
    size_t n = 0, n_held = 0, i;
    tllm_generate_desc d;
    tllm_generate_result r;
    int token;
    memset(&d, 0, sizeof d);
    if (!T_TRUE(f && s && fgets(prompt, sizeof prompt, f) && prompt[0] == '#')) return;
    while (n < T_COUNT(want) && fgets(line, sizeof line, f))
        if (sscanf(line, "%d", &token) == 1) want[n++] = (int32_t)token;
    (void)fclose(f);
    d.n_most = 40;
    d.past_end = 1;
    T_EQ_INT(n, 55);
    T_OK(tllm_generate(s, prompt + 2, strlen(prompt) - 3, &d, &r));
    T_EQ_INT(r.n_prompt, 15);
    held = tllm_session_tokens(s, &n_held);
    T_TRUE(n_held >= n - 1);                /* the last one is made and not yet read */
    for (i = 0; i < n && i < n_held; i++) if (!T_EQ_INT(held[i], want[i])) break;
    tllm_session_close(s);
    t_close(ctx);
}

/* In whatever way a sequence was built, the logits after it are the same as from a fresh session. */
static void test_reuse(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_session *s = open_story(ctx, story, 64), *fresh = open_story(ctx, story, 64);
    int32_t a[20], b[20];
    const float *x = NULL, *y = NULL;
    float kept[TLLM_STORY_VOCAB];
    size_t reused, n, i;
    if (!s || !fresh) { t_close(ctx); return; }
    for (i = 0; i < 20; i++) a[i] = b[i] = (int32_t)(1 + 13 * i % 500);
    T_OK(tllm_session_set(s, a, 20, &x, &reused));
    T_EQ_INT(reused, 0);
    memcpy(kept, x, sizeof kept);
    T_OK(tllm_session_set(s, a, 20, &x, &reused));       /* the last is computed again */
    T_EQ_INT(reused, 19);
    T_TRUE(!memcmp(kept, x, sizeof kept));
    b[12] = 7;
    T_OK(tllm_session_set(s, b, 20, &x, &reused));
    T_EQ_INT(reused, 12);
    T_OK(tllm_session_set(fresh, b, 20, &y, NULL));
    T_TRUE(!memcmp(x, y, sizeof kept) && memcmp(x, kept, sizeof kept) != 0);
    T_OK(tllm_session_set(s, b, 5, NULL, &reused));      /* shorter, and nothing to compute */
    T_EQ_INT(reused, 5);
    T_OK(tllm_session_feed(s, b + 5, 15, &x));
    T_TRUE(!memcmp(x, y, sizeof kept));
    /* a shift keeps the first 4 and the newer 8 of 16 */
    T_OK(tllm_session_shift(s, 4, &x));
    T_EQ_INT(tllm_session_tokens(s, &n)[4], b[12]);
    T_EQ_INT(n, 12);
    memmove(b + 4, b + 12, 8 * sizeof *b);
    T_OK(tllm_session_set(fresh, b, 12, &y, NULL));
    T_TRUE(!memcmp(x, y, sizeof kept));
    /* of an odd number the smaller half: 7 others leave 3; one leaves none; none is an error */
    T_OK(tllm_session_shift(s, 5, &x));
    T_EQ_INT(tllm_session_tokens(s, &n)[5], b[9]);
    T_EQ_INT(n, 8);
    T_OK(tllm_session_shift(s, 7, &x));
    (void)tllm_session_tokens(s, &n);
    T_EQ_INT(n, 7);
    T_STATUS(tllm_session_shift(s, 7, &x), TINY_E_WORKSPACE, "there is nothing to drop");
    tllm_session_close(s);
    tllm_session_close(fresh);
    t_close(ctx);
}

static void test_ends(void)
{
    static heard h;
    static char whole[sizeof h.text];
    const char *stop, *cut;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = open_story(ctx, story, 32);
    tllm_generate_desc d;
    tllm_generate_result r;
    size_t n;
    if (!s) { t_close(ctx); return; }
    memset(&d, 0, sizeof d);
    d.text = hear;
    d.user = &h;
    memset(&h, 0, sizeof h);
    T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r));
    T_EQ_INT(r.end, TLLM_END_CONTEXT);
    T_EQ_INT(r.n_prompt + r.n_made, 33);    /* the last one is made, but there is no place to read it */
    (void)tllm_session_tokens(s, &n);
    T_EQ_INT(n, 32);
    memset(&h, 0, sizeof h);
    d.shift = 1;
    d.n_most = 100;
    d.past_end = 1;
    T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r));
    T_TRUE(r.end == TLLM_END_LENGTH && r.n_made == 100 && r.n_reused > 0);
    memset(&h, 0, sizeof h);
    h.stop_after = 3;
    T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r));
    T_TRUE(r.end == TLLM_END_CALLER && h.calls == 3);
    memset(&h, 0, sizeof h);
    T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r));
    memcpy(whole, h.text, sizeof whole - 1);
    stop = "went home";                     /* how its stories end; the same text up to there */
    cut = strstr(whole, stop);
    memset(&h, 0, sizeof h);
    d.stop = &stop;
    d.n_stop = 1;
    T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r));
    T_EQ_INT(r.end, TLLM_END_STRING);
    T_TRUE(cut && cut - whole > 20 && h.n == (size_t)(cut - whole) && !memcmp(h.text, whole, h.n));
    tllm_session_close(s);
    t_close(ctx);
}

/* A text that follows a grammar to its end, whatever the model prefers; the same seed, the same text. */
static void test_grammar(void)
{
    static const char rules[] = "root ::= \"[\" [0-9] (\",\" [0-9]){3} \"]\"";
    static heard h, again;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = open_story(ctx, story, 64);
    tllm_grammar *g = NULL;
    const tllm_step warm = tllm_step_temperature(1.5f);
    tllm_generate_desc d;
    tllm_generate_result r;
    int seed;
    if (!s) { t_close(ctx); return; }
    memset(&d, 0, sizeof d);
    T_OK(tllm_grammar_open(ctx, rules, sizeof rules - 1, "root", &g));
    d.grammar = g;
    d.text = hear;
    d.chain = &warm;
    d.n_steps = 1;
    for (seed = 0; seed < 20; seed++) {
        size_t i;
        memset(&h, 0, sizeof h);
        memset(&again, 0, sizeof again);
        d.seed = (uint64_t)seed;
        d.user = &h;
        T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r));
        T_TRUE(r.end == TLLM_END_TOKEN || r.end == TLLM_END_GRAMMAR);
        T_EQ_INT(h.n, 9);
        for (i = 0; i < 9; i++)
            T_TRUE(i == 0   ? h.text[i] == '['
                   : i == 8 ? h.text[i] == ']'
                   : i % 2  ? h.text[i] >= '0' && h.text[i] <= '9'
                            : h.text[i] == ',');
        d.user = &again;
        T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r));
        T_TRUE(again.n == h.n && !memcmp(again.text, h.text, h.n));
    }
    tllm_grammar_close(ctx, g);
    tllm_session_close(s);
    t_close(ctx);
}

/* each allocation on the way to a masked token fails; the session continues, and its next text is complete */
static void test_grammar_no_memory(void)
{
    static const char rules[] = "root ::= \"[\" [0-9] \"]\"";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *whole = open_story(ctx, story, 16);
    tllm_session_close(whole);
    t_close(ctx);
    if (!whole) return;
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *c = NULL;
        tllm_session *s = NULL;
        tllm_grammar *g = NULL;
        tllm_generate_desc d;
        tllm_state_desc room;
        static heard h;
        memset(&d, 0, sizeof d);
        memset(&h, 0, sizeof h);
        memset(&room, 0, sizeof room);
        room.n_ctx = 16;
        d.text = hear;
        d.user = &h;
        if (!tiny_ctx_open(&cd, &c)) {
            if (!tllm_session_open(c, story, &room, &s) && !tllm_grammar_open(c, rules, sizeof rules - 1, "root", &g)) {
                d.grammar = g;
                if (tllm_generate(s, "Once", 4, &d, NULL)) T_TRUE(*tiny_ctx_message(c) != 0);
                else T_TRUE(h.n == 3 && h.text[0] == '[' && h.text[2] == ']');
            }
            tllm_grammar_close(c, g);
            tllm_session_close(s);
            tiny_ctx_close(c);
        })
}

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = NULL, *encoder = NULL;
    const char *path = t_shared("oracle/llm/bert.gguf");
    const float *x;
    float out[64];
    int32_t token[40] = { 1, 2, 3 };
    double square = 0.0;
    int i;
    T_STATUS(tllm_session_open(ctx, "no/such/file.gguf", NULL, &s), TINY_E_IO, "no/such/file.gguf");
    T_STATUS(tllm_session_open(ctx, NULL, NULL, &s), TINY_E_ARGUMENT, "path is NULL");
    T_STATUS(tllm_session_open_memory(ctx, "nonsense", 8, NULL, &s), TINY_E_FORMAT, NULL);
    T_TRUE(s == NULL);
    s = open_story(ctx, story, 32);
    if (!s) { t_close(ctx); return; }
    T_STATUS(tllm_session_feed(s, token, 40, &x), TINY_E_WORKSPACE,
             "0 tokens are held and 40 more do not fit into a context of 32");
    T_STATUS(tllm_session_feed(s, NULL, 4, &x), TINY_E_ARGUMENT, "the tokens to feed are NULL");
    token[1] = TLLM_STORY_VOCAB;
    T_STATUS(tllm_session_feed(s, token, 3, &x), TINY_E_ARGUMENT, "544");
    token[1] = 2;
    T_OK(tllm_session_feed(s, token, 3, &x));
    T_STATUS(tllm_generate_tokens(s, token, 0, NULL, NULL), TINY_E_ARGUMENT, "no tokens");
    T_STATUS(tllm_embed(s, "a", 1, -1, out), TINY_E_UNSUPPORTED, "not an embedding model");
    tllm_session_close(s);
    if (!path) { t_close(ctx); return; }
    T_OK(tllm_session_open(ctx, path, NULL, &encoder));
    T_STATUS(tllm_session_feed(encoder, token, 3, &x), TINY_E_UNSUPPORTED, "is an encoder");
    T_STATUS(tllm_embed(encoder, "a", 1, 9, out), TINY_E_ARGUMENT, "pooling 9");
    T_OK(tllm_embed(encoder, "hello", 5, TLLM_POOL_MEAN, out));
    for (i = 0; i < 64; i++) square += (double)out[i] * (double)out[i];
    T_TRUE(fabs(square - 1.0) < 1e-5);
    tllm_session_close(encoder);
    tllm_session_close(NULL);
    t_close(ctx);
}

/* The second sequence of the state is the caller's: a text without a common beginning empties the first only. */
static void test_other_sequences(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const int32_t one[5] = { 1, 403, 407, 261, 378 }, other[3] = { 5, 6, 7 };
    tllm_state_desc d;
    tllm_session *s = NULL;
    memset(&d, 0, sizeof d);
    d.n_ctx = 32;
    d.n_seq = 2;
    if (T_OK(tllm_session_open(ctx, story, &d, &s))) {
        T_OK(tllm_session_set(s, one, 5, NULL, NULL));
        T_OK(tllm_seq_fork(tllm_session_state(s), 0, 1));
        T_OK(tllm_session_set(s, other, 3, NULL, NULL));
        T_EQ_INT(tllm_seq_length(tllm_session_state(s), 0), 3);
        T_EQ_INT(tllm_seq_length(tllm_session_state(s), 1), 5);
    }
    tllm_session_close(s);
    t_close(ctx);
}

/* A state that was saved without its text is refused, and the session is unchanged. */
static void test_refused_load(void)
{
    static const char *const file = "build/session-without-text.tmp";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const int32_t token[5] = { 1, 403, 407, 261, 378 };
    tllm_session *s = open_story(ctx, story, 32);
    size_t n = 0;
    if (s) {
        T_OK(tllm_session_set(s, token, 5, NULL, NULL));
        T_OK(tllm_state_save(tllm_session_state(s), 0, file));
        T_STATUS(tllm_session_load(s, file), TINY_E_FORMAT, "the file has 0 tokens, but a sequence of 5");
        (void)tllm_session_tokens(s, &n);
        T_EQ_INT(n, 5);
        T_EQ_INT(tllm_seq_length(tllm_session_state(s), 0), 5);
        (void)remove(file);
    }
    tllm_session_close(s);
    t_close(ctx);
}

/* A callback that stopped the text is not called again, even if a stop text still holds bytes back. */
static void test_stopped_caller(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = open_story(ctx, story, 64);
    char stop[8] = "a zzz";
    const char *list = stop;
    int c, after;
    for (c = 'a'; s && c <= 'z'; c++)
        for (after = 1; after <= 3; after++) {
            static heard h;
            tllm_generate_desc d;
            tllm_generate_result r;
            memset(&h, 0, sizeof h);
            memset(&d, 0, sizeof d);
            stop[0] = (char)c;
            h.stop_after = after;
            d.text = hear;
            d.user = &h;
            d.n_most = 20;
            d.stop = &list;
            d.n_stop = 1;
            T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r));
            T_TRUE(h.calls == after && r.end == TLLM_END_CALLER);
        }
    tllm_session_close(s);
    t_close(ctx);
}

/* A session gives the same bits with any number of threads: after a prompt, and after each of the tokens that follow it
 * one by one, whose attention has many keys for few heads. */
static void test_threads(tiny_target target)
{
    enum { PROMPT = 700, AFTER = 3 };
    static const char *const models[] = { "examples/models/story.gguf", "oracle/llm/llama-q4_k_m.gguf",
                                          "oracle/llm/gemma3-b.gguf", "oracle/llm/deepseek2.gguf",
                                          "oracle/llm/qwen3moe.gguf", "oracle/llm/falcon-h1.gguf",
                                          "oracle/llm/rwkv7-b.gguf" };
    static const int threads[] = { 1, 2, 3, 16 };
    static int32_t token[PROMPT + AFTER];
    size_t i, j, k, n = 0, ran = 0;
    for (i = 0; i < sizeof models / sizeof *models; i++) {
        const char *path = i ? t_shared(models[i]) : models[i];
        float *first = NULL;
        if (!path) continue;
        for (j = 0; j < sizeof threads / sizeof *threads; j++) {
            tiny_ctx *ctx = t_ctx(target, threads[j]);
            tllm_session *s = open_story(ctx, path, 1024);
            const float *logits = NULL;
            tllm_about about;
            if (s) {
                tllm_model_about(tllm_session_model(s), &about);
                n = (size_t)about.n_out;
                for (k = 0; k < PROMPT + AFTER; k++) token[k] = (int32_t)(k * 7919 % n);
                if (!first) first = (float *)malloc((AFTER + 1) * n * sizeof *first);
                for (k = 0; first && k <= AFTER; k++)
                    if (T_OK(tllm_session_feed(s, token + (k ? PROMPT + k - 1 : 0), k ? 1 : PROMPT, &logits))) {
                        if (j) T_SAME(logits, first + k * n, n);
                        else memcpy(first + k * n, logits, n * sizeof *first);
                    }
                ran++;
            }
            tllm_session_close(s);
            t_close(ctx);
        }
        free(first);
    }
    T_TRUE(ran > 0);
}

int main(void)
{
    T_RUN_TARGETS(test_golden_story);
    T_RUN(test_committed_story);
    T_RUN_TARGETS(test_threads);
    T_RUN(test_reuse);
    T_RUN(test_ends);
    T_RUN(test_other_sequences);
    T_RUN(test_refused_load);
    T_RUN(test_stopped_caller);
    T_RUN(test_grammar);
    T_RUN(test_grammar_no_memory);
    T_RUN(test_bad_input);
    return t_done();
}
