/* tests/llm/session/beam.c - beam search and texts drawn side by side, against the same done one by one without forks;
 * sessions in files, and a stop from another thread */
#include "t.h"

static const char story[] = "examples/models/story-small.gguf"; /* llama, 544 tokens, a context of 256 */
enum { V = TLLM_STORY_VOCAB };

static tllm_session *open_story(tiny_ctx *ctx, tiny_idx n_ctx, tiny_idx n_seq)
{
    tllm_state_desc d;
    tllm_session *s = NULL;
    memset(&d, 0, sizeof d);
    d.n_ctx = n_ctx;
    d.n_seq = n_seq;
    T_OK(tllm_session_open(ctx, story, &d, &s));
    return s;
}

/* ---- the same search in plain form: every kept text is computed from its first token on, all longer texts are sorted
 */
typedef struct text { int32_t token[24]; int n, ended; double logp, score; } text;
static int by_logp(const void *a, const void *b)
{
    return ((const text *)a)->logp < ((const text *)b)->logp   ? 1
           : ((const text *)a)->logp > ((const text *)b)->logp ? -1
                                                               : 0;
}
static int by_score(const void *a, const void *b)
{
    return ((const text *)a)->score < ((const text *)b)->score   ? 1
           : ((const text *)a)->score > ((const text *)b)->score ? -1
                                                                 : 0;
}

static double score_of(double logp, int n, double penalty)
{
    return penalty == 0.0 ? logp : logp / pow((double)n, penalty);
}

static int plain_beam(tllm_session *s, const int32_t *prompt, int n, int width, int n_most, double penalty, text *best)
{
    static text live[16], next[16 * V], done[2048];
    int n_live = 1, n_done = 0, step, k, t, i;
    memset(live, 0, sizeof live);
    for (step = 0; step < n_most; step++) {
        int n_next = 0;
        for (k = 0; k < n_live; k++) {
            const float *x = NULL;
            int32_t all[64];
            double top = -1e300, sum = 0.0;
            memcpy(all, prompt, (size_t)n * sizeof *all);
            memcpy(all + n, live[k].token, (size_t)live[k].n * sizeof *all);
            T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
            T_OK(tllm_session_feed(s, all, (size_t)(n + live[k].n), &x));
            for (t = 0; t < V; t++) top = (double)x[t] > top ? (double)x[t] : top;
            for (t = 0; t < V; t++) sum += exp((double)x[t] - top);
            for (t = 0; t < V; t++) {
                text *c = &next[n_next];
                *c = live[k];
                c->logp += (double)x[t] - top - log(sum);
                if (tllm_vocab_is_end(tllm_session_vocab(s), t)) {
                    c->ended = 1;
                    c->score = score_of(c->logp, c->n + 1, penalty);
                    if (n_done < 2000) done[n_done++] = *c;
                    continue;
                }
                c->token[c->n++] = (int32_t)t;
                n_next++;
            }
        }
        qsort(next, (size_t)n_next, sizeof *next, by_logp);
        n_live = n_next < width ? n_next : width;
        memcpy(live, next, (size_t)n_live * sizeof *live);
    }
    for (i = 0; i < n_live; i++) {
        live[i].score = score_of(live[i].logp, live[i].n, penalty);
        done[n_done++] = live[i];
    }
    qsort(done, (size_t)n_done, sizeof *done, by_score);
    memcpy(best, done, (size_t)(n_done < width ? n_done : width) * sizeof *best);
    return n_done < width ? n_done : width;
}

static void test_beam(void)
{
    static const struct { int width, n_most; double penalty; const char *prompt;
    } each[] = { { 1, 12, 0.0, "Once upon a time" },
                 { 4, 10, 0.0, "Once upon a time" },
                 { 3, 9, 1.0, "Lily" },
                 { 5, 6, -0.5, "The" },
                 { 4, 14, 2.0, "Mia had five pens and Ben had two pens . they went home" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_session *s = open_story(ctx, 64, 5), *alone = open_story(ctx, 64, 1);
    size_t k;
    int n_ended = 0;
    for (k = 0; s && alone && k < T_COUNT(each); k++) {
        tllm_continuation got[5];
        tllm_beam_desc d;
        tllm_tokens t;
        text want[16];
        size_t n_found, i;
        int n_want;
        memset(&t, 0, sizeof t);
        memset(&d, 0, sizeof d);
        T_OK(tllm_encode(ctx, tllm_session_vocab(s), each[k].prompt, strlen(each[k].prompt), TLLM_ENCODE_ENDS, &t));
        d.width = d.n_best = (size_t)each[k].width;
        d.n_most = (size_t)each[k].n_most;
        d.length_penalty = each[k].penalty;
        T_OK(tllm_beam(s, t.id, t.n, &d, got, &n_found));
        n_want = plain_beam(alone, t.id, (int)t.n, each[k].width, each[k].n_most, each[k].penalty, want);
        T_EQ_INT(n_found, n_want);
        for (i = 0; i < n_found; i++) {
            T_EQ_INT(got[i].n, want[i].n);
            T_CLOSE(got[i].logp, want[i].logp, 1e-9 * (1.0 + fabs(want[i].logp)));
            T_CLOSE(got[i].score, want[i].score, 1e-9 * (1.0 + fabs(want[i].score)));
            n_ended += got[i].ended;
            T_TRUE(got[i].ended == want[i].ended && !memcmp(got[i].token, want[i].token, got[i].n * sizeof(int32_t)));
        }
        tllm_continuations_free(ctx, got, n_found);
        tllm_tokens_free(ctx, &t);
    }
    T_TRUE(n_ended > 0 && n_ended < 17);    /* of 17 texts */
    tllm_session_close(s);
    tllm_session_close(alone);
    t_close(ctx);
}

/* Text i equals that of a single session with seed + i; all of them share the pages of the prompt. */
static void test_parallel(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_session *s = open_story(ctx, 64, 6), *alone = open_story(ctx, 64, 1);
    const tllm_step chain[2] = { tllm_step_top_k(40), tllm_step_temperature(0.9f) };
    tllm_continuation out[6];
    tllm_parallel_desc d;
    tllm_tokens t;
    size_t i, j;
    if (!s || !alone) { t_close(ctx); return; }
    memset(&t, 0, sizeof t);
    memset(&d, 0, sizeof d);
    T_OK(tllm_encode(ctx, tllm_session_vocab(s), "Once upon a time", 16, TLLM_ENCODE_ENDS, &t));
    d.n_texts = 6;
    d.n_most = 20;
    d.chain = chain;
    d.n_steps = 2;
    d.seed = 7;
    T_OK(tllm_parallel(s, t.id, t.n, &d, out));
    for (i = 0; i < 6; i++) {
        tllm_generate_desc g;
        tllm_generate_result r;
        const int32_t *held;
        size_t n;
        memset(&g, 0, sizeof g);
        g.chain = chain;
        g.n_steps = 2;
        g.seed = 7 + i;
        g.n_most = 20;
        T_OK(tllm_generate_tokens(alone, t.id, t.n, &g, &r));
        held = tllm_session_tokens(alone, &n);
        T_EQ_INT(out[i].n, r.n_made);
        for (j = 0; j < out[i].n && t.n + j < n; j++) T_EQ_INT(out[i].token[j], held[t.n + j]);
        T_TRUE(out[i].logp < 0.0);
    }
    T_TRUE(memcmp(out[0].token, out[1].token, 20 * sizeof(int32_t)) != 0);
    tllm_continuations_free(ctx, out, 6);
    tllm_tokens_free(ctx, &t);
    tllm_session_close(s);
    tllm_session_close(alone);
    t_close(ctx);
}

static void test_save_and_load(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_session *a = open_story(ctx, 64, 1), *b = open_story(ctx, 48, 1);
    const char *path = "build/saved-session.tmp";
    int32_t tokens[30];
    const int32_t *held;
    const float *x, *y;
    float want[V];
    size_t n, i, reused;
    if (!a || !b) { t_close(ctx); return; }
    for (i = 0; i < 30; i++) tokens[i] = (int32_t)(1 + 13 * i % 500);
    T_OK(tllm_session_feed(a, tokens, 20, NULL));
    T_OK(tllm_session_save(a, path));
    T_OK(tllm_session_feed(a, tokens + 20, 3, &x));
    memcpy(want, x, sizeof want);
    T_OK(tllm_session_feed(b, tokens + 3, 7, NULL));
    T_OK(tllm_session_load(b, path));
    held = tllm_session_tokens(b, &n);
    T_TRUE(n == 20 && !memcmp(held, tokens, 20 * sizeof *tokens));
    T_OK(tllm_session_set(b, tokens, 23, &y, &reused));
    T_EQ_INT(reused, 20);
    T_SAME(want, y, V);
    /* a file without the text, and one that is too long for this session: it continues unchanged */
    T_OK(tllm_state_save(tllm_session_state(a), 0, path));
    T_STATUS(tllm_session_load(b, path), TINY_E_FORMAT, "the file has 0 tokens, but a sequence of 23");
    for (i = 0; i < 2; i++) T_OK(tllm_session_feed(a, tokens, 18, NULL));
    T_OK(tllm_session_save(a, path));
    T_OK(tllm_session_set(b, tokens, 22, NULL, NULL));
    T_STATUS(tllm_session_load(b, path), TINY_E_FORMAT, "more");
    T_OK(tllm_session_feed(b, tokens + 22, 1, &y));
    T_SAME(want, y, V);
    /* cut back, and the middle dropped */
    T_OK(tllm_session_trim(b, 10));
    T_OK(tllm_session_feed(b, tokens + 10, 13, &y));
    T_SAME(want, y, V);
    T_OK(tllm_session_drop(b, 4, 6));
    held = tllm_session_tokens(b, &n);
    T_TRUE(n == 17 && held[3] == tokens[3] && held[4] == tokens[10] && tllm_seq_length(tllm_session_state(b), 0) == 17);
    T_STATUS(tllm_session_trim(b, 18), TINY_E_ARGUMENT, "18 tokens cannot be kept: the session holds 17");
    T_STATUS(tllm_session_drop(b, 16, 2), TINY_E_ARGUMENT, "2 tokens from index 16 on cannot be dropped");
    (void)remove(path);
    tllm_session_close(a);
    tllm_session_close(b);
    t_close(ctx);
}

#if T_PTHREAD
/* The callback reads a flag that another thread sets: the text ends, and the session continues as if it had been cut
 * there. */
static pthread_mutex_t flag_lock = PTHREAD_MUTEX_INITIALIZER;
static int flag, seen;
static int flag_is_set(void *user)
{
    int f;
    (void)user;
    (void)pthread_mutex_lock(&flag_lock);
    f = flag;
    (void)pthread_mutex_unlock(&flag_lock);
    return f;
}
static void *set_flag(void *arg)
{
    int n = 0;
    (void)arg;
    while (n < 3) {                         /* once a few pieces of text were heard */
        (void)pthread_mutex_lock(&flag_lock);
        n = seen;
        (void)pthread_mutex_unlock(&flag_lock);
    }
    (void)pthread_mutex_lock(&flag_lock);
    flag = 1;
    (void)pthread_mutex_unlock(&flag_lock);
    return NULL;
}
static int hear(void *user, const char *text_heard, size_t n)
{
    (void)user;
    (void)text_heard;
    (void)n;
    (void)pthread_mutex_lock(&flag_lock);
    seen++;
    (void)pthread_mutex_unlock(&flag_lock);
    return 0;
}
static void test_cancel_from_another_thread(void)
{
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 2);
    tiny_ctx *ctx = NULL;
    tllm_session *s, *fresh;
    tllm_generate_desc d;
    tllm_generate_result r;
    tllm_continuation out[2];
    tllm_beam_desc bd;
    pthread_t other;
    const int32_t *held;
    const float *x, *y;
    int32_t copy[512], one = 9;
    size_t n, n_found;
    flag = seen = 0;
    cd.cancel = flag_is_set;
    if (tiny_ctx_open(&cd, &ctx)) return;
    t_use(ctx);
    s = open_story(ctx, 512, 2);
    fresh = open_story(ctx, 512, 1);
    if (!s || !fresh) { t_close(ctx); return; }
    memset(&d, 0, sizeof d);
    d.text = hear;
    d.past_end = 1;
    d.shift = 1;
    (void)pthread_create(&other, NULL, set_flag, NULL);
    T_OK(tllm_generate(s, "Once upon a time", 16, &d, &r));
    (void)pthread_join(other, NULL);
    T_TRUE(r.end == TLLM_END_CALLER && r.n_made >= 3);
    held = tllm_session_tokens(s, &n);
    T_EQ_INT(n, tllm_seq_length(tllm_session_state(s), 0));
    memcpy(copy, held, n * sizeof *copy);
    memset(&bd, 0, sizeof bd);
    bd.width = 2;
    bd.n_most = 5;
    T_STATUS(tllm_beam(s, copy, 4, &bd, out, &n_found), TINY_E_CANCELLED, NULL);     /* the flag is set */
    T_EQ_INT(n_found, 0);
    flag = 0;
    T_OK(tllm_session_set(s, copy, n, NULL, NULL));
    T_OK(tllm_session_feed(s, &one, 1, &x));
    T_OK(tllm_session_feed(fresh, copy, n, NULL));
    T_OK(tllm_session_feed(fresh, &one, 1, &y));
    T_SAME(x, y, V);
    tllm_session_close(s);
    tllm_session_close(fresh);
    t_close(ctx);
}
#else
static void test_cancel_from_another_thread(void) { T_SKIP("no threads here"); }
#endif

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = open_story(ctx, 32, 2);
    tllm_continuation out[8];
    tllm_beam_desc b;
    tllm_parallel_desc p;
    int32_t prompt[3] = { 1, 2, 3 };
    size_t n;
    if (!s) { t_close(ctx); return; }
    memset(&b, 0, sizeof b);
    memset(&p, 0, sizeof p);
    b.width = 3;
    b.n_most = 4;
    T_STATUS(tllm_beam(s, prompt, 3, &b, out, &n), TINY_E_ARGUMENT,
             "3 texts at once, but the session was opened for 2 sequences");
    b.width = 2;
    b.n_best = 3;
    T_STATUS(tllm_beam(s, prompt, 3, &b, out, &n), TINY_E_ARGUMENT, "width 2, n_best 3");
    b.n_best = 1;
    b.length_penalty = NAN;
    T_STATUS(tllm_beam(s, prompt, 3, &b, out, &n), TINY_E_ARGUMENT, "length penalty");
    b.length_penalty = 0.0;
    b.n_most = 30;
    T_STATUS(tllm_beam(s, prompt, 3, &b, out, &n), TINY_E_WORKSPACE,
             "a prompt of 3 tokens and 30 more do not fit into a context of 32");
    b.n_most = 4;
    T_STATUS(tllm_beam(s, prompt, 0, &b, out, &n), TINY_E_ARGUMENT, "no tokens");
    prompt[1] = V;
    T_STATUS(tllm_beam(s, prompt, 3, &b, out, &n), TINY_E_ARGUMENT, "is 544");
    prompt[1] = 2;
    T_STATUS(tllm_beam(s, prompt, 3, &b, NULL, &n), TINY_E_ARGUMENT, "must be given");
    p.n_texts = 3;
    p.n_most = 4;
    T_STATUS(tllm_parallel(s, prompt, 3, &p, out), TINY_E_ARGUMENT, "3 texts at once");
    T_STATUS(tllm_parallel(s, prompt, 3, &p, NULL), TINY_E_ARGUMENT, "out must be given");
    tllm_session_close(s);
    t_close(ctx);
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tllm_state_desc d;
        tiny_ctx *c = NULL;
        memset(&d, 0, sizeof d);
        d.n_ctx = 16;
        d.n_seq = 2;
        if (!tiny_ctx_open(&cd, &c)) {
            if (!tllm_session_open(c, story, &d, &s)) {
                if (!tllm_beam(s, prompt, 3, &b, out, &n)) tllm_continuations_free(c, out, n);
                p.n_texts = 2;
                if (!tllm_parallel(s, prompt, 3, &p, out)) tllm_continuations_free(c, out, 2);
                (void)tllm_session_feed(s, prompt, 3, NULL);
                if (!tllm_session_save(s, "build/saved-failing.tmp"))
                    (void)tllm_session_load(s, "build/saved-failing.tmp");
                tllm_session_close(s);
            }
            tiny_ctx_close(c);
        })
    (void)remove("build/saved-failing.tmp");
}

int main(void)
{
    T_RUN(test_beam);
    T_RUN(test_parallel);
    T_RUN(test_save_and_load);
    T_RUN(test_cancel_from_another_thread);
    T_RUN(test_bad_input);
    return t_done();
}
