/* tests/llm/lab/kvcodec/kvsession.c - a session's cache in a file and back: how it continues, and refused files
 *
 * The models are those of examples/models; the texts are drawn stories that neither the tables nor the training saw. */
#include "t.h"
#include "older.h"
#include <math.h>

static const char story[] = "examples/models/story.gguf", small[] = "examples/models/story-small.gguf",
                  latent[] = "examples/models/story-latent.gguf", gated[] = "examples/models/story-gla.gguf";
static const char path[] = "tests-kvsession.kv";

static tllm_session *open_at(tiny_ctx *ctx, const char *model, tiny_idx n_ctx, int type)
{
    tllm_state_desc d;
    tllm_session *s = NULL;
    memset(&d, 0, sizeof d);
    d.n_ctx = n_ctx;
    d.type_k = d.type_v = type;
    T_OK(tllm_session_open(ctx, model, &d, &s));
    return s;
}
/* the first n tokens of a story, which is at least as long */
static void draw(uint64_t seed, int32_t *token, size_t n)
{
    tllm_story st = tllm_story_start(seed);
    for (;;) {
        size_t k = 0;
        token[k++] = TLLM_STORY_END;
        while (k < n && (token[k] = tllm_story_draw(&st, NULL, NULL)) != TLLM_STORY_END) k++;
        if (k == n) return;
    }
}
static tllm_kvcodec_tables *tables_of(tllm_session *s, int texts, size_t n)
{
    tllm_kvcodec_profile *p = NULL;
    tllm_kvcodec_tables *t = NULL;
    int32_t token[256];
    int i;
    T_OK(tllm_kvcodec_profile_of(s, &p));
    for (i = 0; i < texts && p; i++) {
        draw(1000 + (uint64_t)i, token, n);
        T_OK(tllm_session_set(s, token, n, NULL, NULL));
        T_OK(tllm_kvcodec_profile_session(p, s));
    }
    T_OK(tllm_kvcodec_profile_tables(p, &t));
    tllm_kvcodec_profile_close(p);
    return t;
}
static tiny_status save(tllm_session *s, const tllm_kvcodec_tables *t, int level, tiny_idx chunk, int alone)
{
    tllm_kvcodec_desc d;
    memset(&d, 0, sizeof d);
    d.level = level;
    d.n_token = chunk;
    d.alone = alone;
    return tllm_kvcodec_save(s, t, &d, path);
}
static size_t best_of(const float *x, size_t n)
{
    size_t i, k = 0;
    for (i = 1; i < n; i++) if (x[i] > x[k]) k = i;
    return k;
}
static double nats(const float *x, size_t n, int32_t token)
{
    double sum = 0;
    size_t i, k = best_of(x, n);
    for (i = 0; i < n; i++) sum += exp((double)x[i] - (double)x[k]);
    return log(sum) + (double)x[k] - (double)x[token];
}

/* the logarithm of the best one's probability over that of the next best */
static double lead(const float *x, size_t n)
{
    const size_t k = best_of(x, n);
    size_t i, j = k ? 0 : 1;
    for (i = 0; i < n; i++) if (i != k && x[i] > x[j]) j = i;
    return (double)x[k] - (double)x[j];
}

/* Keys and values of 96 tokens of the story model, written to a file and read by a fresh session, which continues. The
 * grammar of these stories draws names and things with equal chances, so greedy texts part where two are as likely: at
 * level 4 nowhere else. The cost of the true rest of the story is nearly the same at all levels. */
static void test_story(tiny_target target)
{
    enum { PROMPT = 96, REST = 32, STORIES = 6 };
    const int few = T_SLOW || target == TINY_TARGET_SCALAR;
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_session *s = open_at(ctx, story, 256, 0), *fresh = open_at(ctx, story, 256, 0);
    tllm_kvcodec_tables *t = s ? tables_of(s, few ? 8 : 40, 120) : NULL;
    double cost[5] = { 0 }, bits[5] = { 0 };
    int same[5] = { 0 }, likely[5] = { 0 }, level, k, stories = T_SLOW ? 1 : few ? 2 : STORIES;
    for (k = 0; k < stories && t && fresh; k++) {
        int32_t token[PROMPT + REST], greedy[REST], top[REST];
        double sure[REST], clear[REST];     /* leads of the greedy text, and of the story */
        const float *x = NULL;
        size_t i, n;
        draw(999 + 7 * (uint64_t)k, token, PROMPT + REST);
        for (level = 0; level <= 4; level++) {
            tllm_session *from = level ? fresh : s;
            tllm_kvcodec_file f;
            if (level) {
                T_OK(tllm_session_set(fresh, NULL, 0, NULL, NULL));
                T_OK(tllm_session_set(s, token, PROMPT, NULL, NULL));
                if (!T_OK(save(s, t, level, 0, 0)) || !T_OK(tllm_kvcodec_load(fresh, t, path))) break;
                T_SAME(tllm_session_tokens(fresh, &n), token, PROMPT);
                T_EQ_INT(n, PROMPT);
                T_OK(tllm_kvcodec_file_open(ctx, path, &f));
                T_TRUE(f.n_chunk == 1 && f.n_token == PROMPT && !memcmp(f.token, token, sizeof *token * PROMPT) &&
                       f.chunk[0].level == level);
                bits[level] += 8.0 * (double)f.chunk[0].n_bytes / (double)f.chunk[0].n_element / stories;
                tllm_kvcodec_file_close(ctx, &f);
            }
            T_OK(tllm_session_set(from, token, PROMPT, &x, &n));    /* the last token is computed on the loaded cache */
            if (level) T_EQ_INT(n, PROMPT - 1);
            for (i = 0; i < REST; i++) {
                const int32_t next = (int32_t)best_of(x, TLLM_STORY_VOCAB);
                if (!level) {
                    greedy[i] = next;
                    sure[i] = lead(x, TLLM_STORY_VOCAB);
                } else if (next != greedy[i]) break;
                T_OK(tllm_session_feed(from, &next, 1, &x));
            }
            same[level] += (int)i;
            if (level == 4 && i < REST) T_TRUE(sure[i] < 0.1);
            T_OK(tllm_session_trim(from, PROMPT));
            if (level) T_OK(tllm_kvcodec_load(fresh, t, path));
            T_OK(tllm_session_set(from, token, PROMPT, &x, NULL));
            for (i = 0; i < REST; i++) {
                const int32_t best = (int32_t)best_of(x, TLLM_STORY_VOCAB);
                if (!level) {
                    top[i] = best;
                    clear[i] = lead(x, TLLM_STORY_VOCAB);
                }
                likely[level] += best == top[i];
                if (level == 4 && best != top[i]) T_TRUE(clear[i] < 0.1);
                cost[level] += nats(x, TLLM_STORY_VOCAB, token[PROMPT + i]) / log(2.0) / (stories * REST);
                T_OK(tllm_session_feed(from, &token[PROMPT + i], 1, &x));
            }
            if (!level) T_OK(tllm_session_trim(s, PROMPT));
        }
    }
    for (level = 0; level <= 4 && getenv("T_SAY"); level++)
        printf("level %d: %.2f bits an element, the rest of the story %.4f bits a token, likeliest tokens the same %d "
               "of %d, greedy until they part %d\n",
               level, bits[level], cost[level], likely[level], stories * REST, same[level]);
    T_TRUE(fabs(cost[4] - cost[0]) < 0.01 && fabs(cost[2] - cost[0]) < 0.05 && bits[4] > bits[3] && bits[3] > bits[2] &&
           bits[2] >= bits[1]);
    tllm_kvcodec_tables_close(ctx, t);
    tllm_session_close(s);
    tllm_session_close(fresh);
    (void)remove(path);
    t_close(ctx);
}

/* stories260K, which was trained on natural text: the golden story continues the same from level 4. */
static void test_golden(tiny_target target)
{
    enum { PROMPT = 100, REST = 100 };
    const char *model = t_shared("data/tinystories/stories260K-f32.gguf");
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_session *s = model ? open_at(ctx, model, 256, 0) : NULL, *fresh = model ? open_at(ctx, model, 256, 0) : NULL;
    tllm_generate_desc d;
    tllm_generate_result r;
    int32_t token[PROMPT + REST];
    size_t n = 0, i;
    int level;
    memset(&d, 0, sizeof d);
    d.n_most = PROMPT + REST;
    if (s && fresh && T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r)) &&
        T_TRUE(tllm_session_tokens(s, &n) && n >= PROMPT + REST)) {
        memcpy(token, tllm_session_tokens(s, &n), sizeof token);
        for (level = 4; level >= 1; level--) {
            T_OK(tllm_session_set(s, token, PROMPT, NULL, NULL));
            T_OK(save(s, NULL, level, 0, 1));
            T_OK(tllm_session_set(fresh, NULL, 0, NULL, NULL));
            T_OK(tllm_kvcodec_load(fresh, NULL, path));
            d.n_most = REST;
            T_OK(tllm_generate_tokens(fresh, token, PROMPT, &d, &r));
            T_EQ_INT(r.n_reused, PROMPT - 1);
            for (i = PROMPT; i < PROMPT + REST && tllm_session_tokens(fresh, &n)[i] == token[i]; i++) {}
            if (getenv("T_SAY"))
                printf("stories260K, level %d: the same for %d tokens of %d\n", level, (int)i - PROMPT, REST);
            if (level == 4) T_EQ_INT(i, PROMPT + REST);
        }
    }
    tllm_session_close(s);
    tllm_session_close(fresh);
    (void)remove(path);
    t_close(ctx);
}

/* Chunks of 30 tokens with and without their tables, into caches of other formats, from latent rows; and a session that
 * continued saves again. */
static void test_chunk_forms(void)
{
    static const struct {
        const char *model;
        int from, to;
    } way[4] = { { small, 0, TLLM_FORMAT_F16 },
                 { small, TLLM_FORMAT_Q8_0, 0 },
                 { latent, 0, 0 },
                 { small, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0 } };
    size_t w;
    int alone;
    for (w = 0; w < 4; w++)
        for (alone = 0; alone < 2; alone++) {
            tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
            tllm_session *a = open_at(ctx, way[w].model, 128, way[w].from),
                         *b = open_at(ctx, way[w].model, 128, way[w].to);
            tllm_kvcodec_tables *t = a && !alone ? tables_of(a, 3, 64) : NULL;
            tllm_kvcodec_file f;
            int32_t token[80];
            const float *x = NULL, *y = NULL;
            float before[TLLM_STORY_VOCAB];
            size_t n, i;
            double off = 0;
            draw(5, token, 80);
            if (!a || !b) break;
            T_OK(tllm_session_set(a, token, 70, &x, NULL));
            memcpy(before, x, sizeof before);
            T_OK(save(a, t, 4, 30, alone));
            T_OK(tllm_session_set(b, token, 3, NULL, NULL));        /* its memory is freed */
            T_OK(tllm_kvcodec_load(b, t, path));
            T_OK(tllm_kvcodec_file_open(ctx, path, &f));
            T_TRUE(f.n_chunk == 3 && f.chunk[2].first == 60 && f.chunk[2].n_token == 10 && f.chunk[1].chunk == 1 &&
                   f.chunk[1].alone == alone);
            tllm_kvcodec_file_close(ctx, &f);
            T_OK(tllm_session_set(b, token, 70, &y, &n));
            T_EQ_INT(n, 69);
            for (i = 0; i < TLLM_STORY_VOCAB; i++) off = fmax(off, fabs((double)y[i] - (double)before[i]));
            T_TRUE(off < 1.5 && best_of(y, TLLM_STORY_VOCAB) == best_of(before, TLLM_STORY_VOCAB));
            T_OK(tllm_session_feed(b, token + 70, 10, &y));
            T_OK(save(b, t, 2, 0, alone));
            T_OK(tllm_kvcodec_load(a, t, path));
            (void)tllm_session_tokens(a, &n);
            T_EQ_INT(n, 80);
            tllm_kvcodec_tables_close(ctx, t);
            tllm_session_close(a);
            tllm_session_close(b);
            t_close(ctx);
        }
    (void)remove(path);
}

static unsigned char *slurp(size_t *n)
{
    unsigned char *p = NULL;
    FILE *f = fopen(path, "rb");
    *n = 0;
    if (!T_TRUE(f != NULL)) return NULL;
    (void)fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    (void)fseek(f, 0, SEEK_SET);
    p = (unsigned char *)t_keep(*n + 8);
    T_EQ_INT(fread(p, 1, *n, f), *n);
    (void)fclose(f);
    return p;
}
static void spill(const unsigned char *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (T_TRUE(f != NULL)) {
        T_EQ_INT(fwrite(p, 1, n, f), n);
        (void)fclose(f);
    }
}
static void seal(unsigned char *p, size_t n)
{
    uint32_t c = 0xffffffffu;
    size_t i;
    int k;
    for (i = 0; i < n; i++) for (c ^= p[i], k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    for (i = 0; i < 4; i++) p[n + i] = (unsigned char)(~c >> 8 * i);
}

/* After every refusal the session holds the same and computes the same. */
static void test_refused(void)
{
    enum { N = 40, HEAD = 40 + 4 * N + 8 * 2 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *a = open_at(ctx, small, 64, 0), *b = open_at(ctx, small, 64, 0), *tight = open_at(ctx, small, 39, 0),
                 *other = open_at(ctx, story, 64, 0), *recurrent = open_at(ctx, gated, 64, 0);
    tllm_kvcodec_tables *t = a ? tables_of(a, 2, 64) : NULL, *u = b ? tables_of(b, 3, 64) : NULL;
    tllm_kvcodec_profile *p = NULL;
    tllm_kvcodec_desc d;
    tllm_kvcodec_file f;
    int32_t token[N];
    unsigned char *good, *bad;
    const float *x = NULL;
    float before[TLLM_STORY_VOCAB];
    size_t n, i;
    if (!a || !b || !tight || !other || !recurrent || !t || !u) { t_close(ctx); return; }
    draw(5, token, N);
    T_OK(tllm_session_set(b, token, 20, NULL, NULL));
    /* the last token alone, as below: among others its attention adds in another order */
    T_OK(tllm_session_set(b, token, 20, &x, &n));
    T_EQ_INT(n, 19);
    memcpy(before, x, sizeof before);
    T_OK(tllm_session_set(a, NULL, 0, NULL, NULL));
    T_STATUS(save(a, t, 2, 0, 0), TINY_E_ARGUMENT, "holds no tokens");
    T_STATUS(tllm_kvcodec_profile_of(recurrent, &p), TINY_E_UNSUPPORTED, "recurrent");
    T_OK(tllm_session_set(recurrent, token, 4, NULL, NULL));
    T_STATUS(save(recurrent, t, 2, 0, 0), TINY_E_UNSUPPORTED, "recurrent");
    T_OK(tllm_session_set(a, token, N, NULL, NULL));
    T_STATUS(save(a, NULL, 2, 0, 0), TINY_E_ARGUMENT, "tables are NULL");
    T_STATUS(save(a, t, 2, -1, 0), TINY_E_ARGUMENT, "-1 tokens");
    memset(&d, 0, sizeof d);
    d.first = 1;
    T_STATUS(tllm_kvcodec_save(a, t, &d, path), TINY_E_ARGUMENT, "from its first token");
    T_STATUS(tllm_kvcodec_save(a, t, NULL, NULL), TINY_E_ARGUMENT, "no path");
    T_STATUS(tllm_kvcodec_save(a, t, NULL, "/nowhere/at all"), TINY_E_IO, "/nowhere/at all");
    T_STATUS(tllm_kvcodec_save(NULL, t, NULL, path), TINY_E_ARGUMENT, NULL);
    T_OK(save(a, t, 2, 30, 0));
    good = older(slurp(&n), "tinykvse", 1, 4, &n);  /* in the older form, with a checksum in front of the chunks */
    memmove(good + HEAD + 4, good + HEAD, n - HEAD - 4);
    seal(good, HEAD);
    spill(good, n);
    T_OK(tllm_kvcodec_load(a, t, path));
    bad = (unsigned char *)t_keep(n + 8);
    T_STATUS(tllm_kvcodec_load(b, u, path), TINY_E_ARGUMENT, "was coded with tables");
    T_STATUS(tllm_kvcodec_load(b, NULL, path), TINY_E_ARGUMENT, "no tables are given");
    T_STATUS(tllm_kvcodec_load(tight, t, path), TINY_E_WORKSPACE, "40 tokens, but this session has room for 39");
    T_STATUS(tllm_kvcodec_load(other, t, path), TINY_E_FORMAT, "another model");
    T_STATUS(tllm_kvcodec_load(recurrent, t, path), TINY_E_UNSUPPORTED, "recurrent");
    T_STATUS(tllm_kvcodec_load(b, t, "/nowhere/at all"), TINY_E_IO, "/nowhere/at all");
    for (i = 0; i < n; i += i < HEAD + 100 ? 1 : 211) {
        spill(good, i);
        if (!T_STATUS(tllm_kvcodec_load(b, t, path), TINY_E_FORMAT, i ? NULL : path)) break;
        if (!T_STATUS(tllm_kvcodec_file_open(ctx, path, &f), TINY_E_FORMAT, NULL)) break;
    }
    for (i = 0; i < n; i += i < HEAD + 100 ? 1 : 211) {
        memcpy(bad, good, n);
        bad[i] ^= (unsigned char)(1 << i % 8);
        spill(bad, n);
        if (!T_STATUS(tllm_kvcodec_load(b, t, path), i >= 8 && i < 12 ? TINY_E_VERSION : TINY_E_FORMAT, NULL)) break;
    }
#define CHANGED(at, byte, part) \
    memcpy(bad, good, n);       \
    bad[at] = byte;             \
    seal(bad, HEAD);            \
    spill(bad, n);              \
    T_STATUS(tllm_kvcodec_load(b, t, path), TINY_E_FORMAT, part)
    CHANGED(12, 0, "0 chunks");
    CHANGED(12, 41, "41 chunks");
    CHANGED(15, 255, "chunks");
    CHANGED(16, (unsigned char)~good[16], "another model");
    CHANGED(24, 0, "0 tokens");
    CHANGED(31, 255, "tokens");
    CHANGED(32, 1, "long contexts");
    CHANGED(43, 1, "token 0 is 16777217");
    CHANGED(40 + 4 * N + 7, 1, "chunk 0 has");
    CHANGED(40 + 4 * N + 8, (unsigned char)(good[40 + 4 * N + 8] - 1), "1 bytes follow");
    /* the chunks in reverse order */
    {
        const size_t n0 = (size_t)good[40 + 4 * N] | (size_t)good[41 + 4 * N] << 8 | (size_t)good[42 + 4 * N] << 16,
                     n1 = n - HEAD - 4 - n0;
        memcpy(bad, good, HEAD);
        for (i = 0; i < 8; i++) {
            bad[40 + 4 * N + i] = good[48 + 4 * N + i];
            bad[48 + 4 * N + i] = good[40 + 4 * N + i];
        }
        seal(bad, HEAD);
        memcpy(bad + HEAD + 4, good + HEAD + 4 + n0, n1);
        memcpy(bad + HEAD + 4 + n1, good + HEAD + 4, n0);
        spill(bad, n);
        T_STATUS(tllm_kvcodec_load(b, t, path), TINY_E_FORMAT, "chunk 0 has number 1");
        T_STATUS(tllm_kvcodec_file_open(ctx, path, &f), TINY_E_FORMAT, "chunk 0 has number 1");
        /* and one of them missing */
        memcpy(bad, good, n - n1);
        bad[12] = 1;
        memmove(bad + HEAD - 8, bad + HEAD, n - n1 - HEAD);
        seal(bad, HEAD - 8);
        spill(bad, n - n1 - 8);
        T_STATUS(tllm_kvcodec_load(b, t, path), TINY_E_FORMAT, "the chunks have 30 tokens, the text 40");
    }
    (void)tllm_session_tokens(b, &n);
    T_EQ_INT(n, 20);
    T_OK(tllm_session_set(b, token, 20, &x, &n));
    T_EQ_INT(n, 19);
    T_SAME(x, before, TLLM_STORY_VOCAB);
    tllm_kvcodec_tables_close(ctx, t);
    tllm_kvcodec_tables_close(ctx, u);
    tllm_session_close(a);
    tllm_session_close(b);
    tllm_session_close(tight);
    tllm_session_close(other);
    tllm_session_close(recurrent);
    (void)remove(path);
    t_close(ctx);
}

static void test_allocations(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = open_at(ctx, small, 32, 0);
    tllm_kvcodec_tables *t = s ? tables_of(s, 2, 24) : NULL;
    int32_t token[12];
    draw(5, token, 12);
    if (s) {
        T_OK(tllm_session_set(s, token, 12, NULL, NULL));
        T_OK(save(s, t, 1, 5, 0));          /* the context's workspace has its size after this */
        T_OK(tllm_kvcodec_load(s, t, path));
        T_EACH_ALLOCATION(
            tllm_kvcodec_file f;
            /* a load without memory leaves it empty */
            tiny_status st = tllm_session_set(s, token, 12, NULL, NULL);
            if (!st) st = save(s, t, 1, 5, 0);
            if (!st) st = tllm_kvcodec_load(s, t, path);
            if (!st) st = tllm_kvcodec_file_open(ctx, path, &f);
            if (!st) tllm_kvcodec_file_close(ctx, &f);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        )
    }
    tllm_kvcodec_tables_close(ctx, t);
    tllm_session_close(s);
    (void)remove(path);
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_story);
    T_RUN_TARGETS(test_golden);
    T_RUN(test_chunk_forms);
    T_RUN(test_refused);
    T_RUN(test_allocations);
    return t_done();
}
