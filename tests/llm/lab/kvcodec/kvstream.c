/* tests/llm/lab/kvcodec/kvstream.c - the controller against all schedules there are, over links by hand and by
 * traces */
#include "t.h"
#include <math.h>

enum { MOST = 8 };

typedef struct stream {
    tllm_kvstream_desc d;
    double bytes[MOST * TLLM_KVCODEC_LEVELS], recompute[MOST], decode[MOST], done[MOST];
    int choice[MOST];
} stream;

static void stream_open(stream *s, tiny_idx n, double deadline)
{
    memset(s, 0, sizeof *s);
    s->d.n_chunk = n;
    s->d.bytes = s->bytes;
    s->d.recompute = s->recompute;
    s->d.deadline = deadline;
    s->d.choice = s->choice;
    s->d.done = s->done;
}
static void stream_draw(stream *s)
{
    tiny_idx i;
    int l;
    for (i = 0; i < s->d.n_chunk; i++) {
        s->recompute[i] = (double)t_rand_float(0.1f, 3.0f);
        for (l = 0; l < TLLM_KVCODEC_LEVELS; l++)
            s->bytes[i * TLLM_KVCODEC_LEVELS + l] =
                (l ? s->bytes[i * TLLM_KVCODEC_LEVELS + l - 1] : 0) + (double)t_rand_float(1e5f, 1e6f);
    }
}

/* seconds of chunks i.. when all are sent at one level, or computed */
static double uniform(const stream *s, tiny_idx i, int level, double speed)
{
    double t = 0;
    for (; i < s->d.n_chunk; i++)
        t += level ? 8 * s->bytes[i * TLLM_KVCODEC_LEVELS + level - 1] / speed : s->recompute[i];
    return t;
}

/* At any chunk, time and speed: the choice equals that of a search through all uniform ones. */
static void test_best_level(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    int round, seen[6] = { 0 };
    for (round = 0; round < 3000; round++) {
        stream s;
        tiny_idx i;
        double speed, elapsed, left, best = -1;
        int level, want = 0, got = -1, n_level = 1 + (int)t_rand_below(4), found = 0;
        stream_open(&s, 1 + (tiny_idx)t_rand_below(MOST), (double)t_rand_float(0.5f, 12.0f));
        s.d.n_level = n_level;
        stream_draw(&s);
        i = (tiny_idx)t_rand_below((uint32_t)s.d.n_chunk);
        speed = (double)t_rand_float(2e6f, 60e6f);
        elapsed = (double)t_rand_float(0.0f, 1.0f) * s.d.deadline;
        left = s.d.deadline - elapsed;
        for (level = 0; level <= n_level; level++) {
            /* text is the best of all: it loses nothing */
            const double t = uniform(&s, i, level, speed), good = level ? level : 100;
            if (t <= left && good > best) {
                best = good;
                want = level;
                found = 1;
            }
        }
        if (!found) want = 8 * s.bytes[i * TLLM_KVCODEC_LEVELS] / speed <= s.recompute[i] ? 1 : 0;
        T_OK(tllm_kvstream_choose(ctx, &s.d, i, elapsed, speed, &got));
        if (!T_EQ_INT(got, want)) break;
        seen[found ? want : 5]++;
    }
    for (round = 0; round < 6; round++) T_TRUE(seen[round] > 20);      /* each way was taken */
    t_close(ctx);
    T_PROOF("attention 10", "controller: constant B picks the level of a brute-force search");
}

/* With a constant link that is known, every deadline that some choice of levels and texts meets is met. */
static void test_never_missed(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    int round, feasible = 0, mixed = 0;
    for (round = 0; round < 3000; round++) {
        stream s;
        tllm_kvstream_result r;
        double trace[MOST], speed = (double)t_rand_float(2e6f, 60e6f), least = 1e9, only = 1e9;
        tiny_idx i, n = 1 + (tiny_idx)t_rand_below(5);
        int code, all = 1, k, level;
        stream_open(&s, n, 1);
        stream_draw(&s);
        for (i = 0; i < n; i++, all *= 4) trace[i] = speed;
        for (code = 0; code < all; code++) {
            double t = 0;
            for (i = 0, k = code; i < n; i++, k /= 4)
                t += k % 4 ? 8 * s.bytes[i * TLLM_KVCODEC_LEVELS + k % 4 - 1] / speed : s.recompute[i];
            if (t < least) least = t;
        }
        for (level = 0; level <= 3; level++) only = fmin(only, uniform(&s, 0, level, speed));
        s.d.deadline =
            (t_rand_below(2) ? least : only) * (1 + (double)t_rand_float(1e-6f, 0.3f)) * (t_rand_below(5) ? 1.0 : 0.8);
        s.d.bits_per_second = speed;
        if (!T_OK(tllm_kvstream_plan(ctx, &s.d, trace, &r))) break;
        T_EQ_INT(r.missed, r.seconds > s.d.deadline);
        if (least > s.d.deadline) continue;
        feasible++;
        mixed += only > s.d.deadline;
        if (!T_TRUE(!r.missed)) break;
    }
    if (getenv("T_SAY")) printf("%d feasible, %d of them by no uniform choice\n", feasible, mixed);
    T_TRUE(feasible > 1000 && mixed > 60);
    t_close(ctx);
    T_PROOF("attention 10", "controller: SLO never missed when a feasible schedule exists");
}

/* Three chunks of 1 Mbit, 2 Mbit and 4 Mbit at the levels; text takes 5 s. */
static void by_hand(stream *s, double deadline, tllm_kvstream_policy policy)
{
    tiny_idx i;
    int l;
    stream_open(s, 3, deadline);
    s->d.policy = policy;
    for (i = 0; i < 3; i++) {
        s->recompute[i] = 5;
        for (l = 0; l < 3; l++) s->bytes[i * TLLM_KVCODEC_LEVELS + l] = 125000.0 * (1 << l);
        s->bytes[i * TLLM_KVCODEC_LEVELS + 3] = 1e9;
    }
}
static void expect(tiny_ctx *ctx, const stream *s, const double *trace, int a, int b, int c, double seconds, int missed)
{
    tllm_kvstream_result r;
    T_OK(tllm_kvstream_plan(ctx, &s->d, trace, &r));
    T_EQ_INT(s->choice[0], a);
    T_EQ_INT(s->choice[1], b);
    T_EQ_INT(s->choice[2], c);
    T_CLOSE(r.seconds, seconds, 1e-9);
    T_EQ_INT(r.missed, missed);
    T_EQ_INT(r.n_text, (a == 0) + (b == 0) + (c == 0));
}
static void test_by_hand(void)
{
    static const double steady[3] = { 1e6, 1e6, 1e6 }, falls[3] = { 4e6, 0.5e6, 0.5e6 },
                        slow[3] = { 0.1e6, 0.1e6, 0.1e6 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_kvstream_result r;
    stream s;
    /* nothing known: level 2 takes 2 s; then 1 Mbit/s and 6 s for two: level 2 (4 s), and 4 s for one: level 3 */
    by_hand(&s, 8, TLLM_KVSTREAM_REST);
    expect(ctx, &s, steady, 2, 2, 3, 8, 0);
    s.d.bits_per_second = 1e6;
    expect(ctx, &s, steady, 2, 2, 3, 8, 0);     /* 3 of level 3 would take 12 */
    s.d.deadline = 15;
    expect(ctx, &s, steady, 0, 0, 0, 15, 0);    /* the text arrives in time, and loses nothing */
    s.d.deadline = 2;
    expect(ctx, &s, steady, 1, 1, 1, 3, 1);     /* nothing arrives in time: the quickest */
    s.d.bits_per_second = 0;
    expect(ctx, &s, slow, 2, 0, 0, 30, 1);      /* 20 s gone: 10 s a chunk at the lowest level against 5 */
    /* 0.5 s; 4 Mbit/s and 9.5 s: two texts (10 s) no, level 3 (2 s) yes, which takes 8 s on 0.5 Mbit/s; 1.5 s left:
     * level 1 takes 2 */
    s.d.deadline = 10;
    expect(ctx, &s, falls, 2, 3, 1, 10.5, 1);
    s.d.level = 1;                              /* of the first chunk */
    expect(ctx, &s, falls, 1, 3, 1, 10.25, 1);
    /* 4 s a chunk: 2 unknown; at 1 Mbit/s level 3 takes 4 */
    by_hand(&s, 12, TLLM_KVSTREAM_BUDGET);
    expect(ctx, &s, steady, 2, 3, 3, 10, 0);
    s.d.deadline = 3;
    expect(ctx, &s, steady, 2, 1, 1, 4, 1);
    s.d.deadline = 2.9;
    expect(ctx, &s, steady, 2, 0, 0, 12, 1);
    by_hand(&s, 7, TLLM_KVSTREAM_FIXED);
    s.d.level = 2;
    expect(ctx, &s, steady, 2, 2, 2, 6, 0);
    s.d.level = 0;
    expect(ctx, &s, steady, 0, 0, 0, 15, 1);
    /* decodes overlap the next transfer; slow ones queue */
    s.d.level = 1;
    s.d.decode = s.decode;
    s.decode[0] = s.decode[1] = s.decode[2] = 0.6;
    expect(ctx, &s, steady, 1, 1, 1, 3.6, 0);
    s.decode[0] = s.decode[1] = s.decode[2] = 2;
    expect(ctx, &s, steady, 1, 1, 1, 7, 0);
    T_CLOSE(s.done[0], 3, 1e-9);
    T_CLOSE(s.done[1], 5, 1e-9);
    T_OK(tllm_kvstream_plan(ctx, &s.d, steady, &r));
    T_CLOSE(r.bytes, 375000, 1e-6);
    t_close(ctx);
}

/* The speed of the link while a chunk is sent, and later, changes no choice up to that chunk. */
static void test_no_future(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    int round;
    for (round = 0; round < 500; round++) {
        stream a, b;
        double trace[MOST], other[MOST];
        tiny_idx i, from;
        stream_open(&a, MOST, (double)t_rand_float(0.5f, 8.0f));
        stream_draw(&a);
        a.d.policy = (tllm_kvstream_policy)(round % 2);
        b = a;
        b.d.bytes = b.bytes;
        b.d.recompute = b.recompute;
        b.d.choice = b.choice;
        b.d.done = b.done;
        from = (tiny_idx)t_rand_below(MOST);
        for (i = 0; i < MOST; i++) {
            trace[i] = (double)t_rand_float(1e6f, 1e8f);
            other[i] = i < from ? trace[i] : (double)t_rand_float(1e6f, 1e8f);
        }
        T_OK(tllm_kvstream_plan(ctx, &a.d, trace, NULL));
        T_OK(tllm_kvstream_plan(ctx, &b.d, other, NULL));
        T_SAME(a.choice, b.choice, from + 1);
    }
    t_close(ctx);
    T_PROOF("attention 10", "controller does not know the future bandwidth");
}

/* 20 traces of 0.1 to 10 Gbit/s: a context of 9000 tokens of a 7 B model with 8 heads of keys (65536 numbers a token),
 * at the bits that the codec needs on the synthetic cache; 0.9 s to compute a chunk. */
static void test_traces(void)
{
    static const double bits[4] = { 2.15, 2.54, 3.47, 6.25 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int missed[4] = { 0 }, k, round;
    double seconds[4] = { 0 };
    tiny_rng rng = tiny_rng_make(1, 0);
    for (round = 0; round < 20; round++) {
        double trace[6];
        tllm_kvstream_trace(&rng, 0, 0, trace, 6);
        for (k = 0; k < 6; k++) T_TRUE(trace[k] >= 0.1e9 && trace[k] < 10e9);
        for (k = 0; k < 4; k++) {
            stream s;
            tllm_kvstream_result r;
            tiny_idx i;
            int l;
            stream_open(&s, 6, 1.0);
            s.d.policy = k < 2 ? (tllm_kvstream_policy)k : TLLM_KVSTREAM_FIXED;
            s.d.level = k == 2 ? 2 : 0;
            for (i = 0; i < 6; i++) {
                s.recompute[i] = 0.9;
                for (l = 0; l < 4; l++) s.bytes[i * 4 + l] = 1500 * 65536.0 * bits[l] / 8;
            }
            T_OK(tllm_kvstream_plan(ctx, &s.d, trace, &r));
            missed[k] += r.missed;
            seconds[k] += r.seconds / 20;
        }
    }
    if (getenv("T_SAY"))
        printf("20 traces, deadline 1 s: rest %d missed, %.2f s; budget %d, %.2f; level 2 %d, %.2f; text %d, %.2f\n",
               missed[0], seconds[0], missed[1], seconds[1], missed[2], seconds[2], missed[3], seconds[3]);
    T_TRUE(missed[0] <= missed[2] && missed[0] < missed[3] && missed[3] == 20);
    t_close(ctx);
}

/* ---- a transport of real chunks ---------------------------------------------------------------------------------- */

enum { WIDTH = 24, TOKENS = 120, EACH = 40 };
typedef struct place {
    tllm_kv kv;
    tiny_ctx *ctx;
    const tllm_kvcodec_tables *t;
    const float *text;
    float x[TOKENS * WIDTH];
    void *chunk[3][3];
    size_t n[3][3];
    int fail_at;
} place;
static void place_read(void *user, tiny_idx layer, int part, tiny_idx token, float *row)
{
    (void)layer;
    (void)part;
    memcpy(row, ((place *)user)->x + token * WIDTH, sizeof(float) * WIDTH);
}
static void place_write(void *user, tiny_idx layer, int part, tiny_idx token, const float *row)
{
    (void)layer;
    (void)part;
    memcpy(((place *)user)->x + token * WIDTH, row, sizeof(float) * WIDTH);
}
static tiny_status bring(void *user, tiny_idx i, int choice, double *bytes, double *seconds)
{
    place *p = (place *)user;
    if ((int)i == p->fail_at) return TINY_E_IO;
    *seconds = choice ? 0.25 * choice : 1;
    if (!choice) {
        memcpy(p->x + i * EACH * WIDTH, p->text + i * EACH * WIDTH, sizeof(float) * EACH * WIDTH);
        return TINY_OK;
    }
    *bytes = (double)p->n[i][choice - 1];
    return tllm_kvcodec_decode(p->ctx, p->t, p->chunk[i][choice - 1], p->n[i][choice - 1], &p->kv);
}
static void test_transport(tiny_target target)
{
    static const int32_t width[TLLM_KV_PARTS] = { WIDTH, 0, 0 };
    static place p;
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_kvstream_transport transport;
    tllm_kvstream_result r;
    tllm_kvcodec_profile *profile = NULL;
    tllm_kvcodec_tables *t = NULL;
    float *text = t_rand(TOKENS * WIDTH, -1.0f, 1.0f);
    stream s;
    tiny_idx i, k;
    int l;
    memset(&p, 0, sizeof p);
    p.ctx = ctx;
    p.text = text;
    p.fail_at = -1;
    p.kv.n_layer = 1;
    p.kv.width = width;
    p.kv.read = place_read;
    p.kv.write = place_write;
    p.kv.user = &p;
    memcpy(p.x, text, sizeof p.x);
    stream_open(&s, 3, 1.5);
    T_OK(tllm_kvcodec_profile_open(ctx, &p.kv, NULL, &profile));
    T_OK(tllm_kvcodec_profile_add(profile, &p.kv, 0, TOKENS));
    T_OK(tllm_kvcodec_profile_tables(profile, &t));
    p.t = t;
    for (i = 0; i < 3; i++) {
        s.recompute[i] = i == 1 ? 0.001 : 1;
        for (l = 0; l < 3; l++) {
            tllm_kvcodec_desc d;
            memset(&d, 0, sizeof d);
            d.level = l + 1;
            d.first = i * EACH;
            d.n_token = EACH;
            d.chunk = (uint32_t)i;
            T_OK(tllm_kvcodec_encode(ctx, t, &p.kv, &d, &p.chunk[i][l], &p.n[i][l]));
            s.bytes[i * TLLM_KVCODEC_LEVELS + l] = (double)p.n[i][l];
        }
    }
    memset(p.x, 0, sizeof p.x);
    transport.send = bring;
    transport.user = &p;
    T_OK(tllm_kvstream_run(ctx, &s.d, &transport, &r));
    T_EQ_INT(s.choice[0], 2);
    for (k = 0; k < TOKENS * WIDTH; k++) if (!T_CLOSE(p.x[k], text[k], s.choice[k / (EACH * WIDTH)] ? 0.2 : 0)) break;
    p.fail_at = 1;
    T_STATUS(tllm_kvstream_run(ctx, &s.d, &transport, &r), TINY_E_IO, "chunk 1 of 3 could not be delivered");
    for (i = 0; i < 3; i++) for (l = 0; l < 3; l++) tiny_free(ctx, p.chunk[i][l]);
    tllm_kvcodec_profile_close(profile);
    tllm_kvcodec_tables_close(ctx, t);
    t_close(ctx);
}

static void test_bad(void)
{
    static const double steady[3] = { 1e6, 1e6, 1e6 }, dead[3] = { 1e6, 0, 1e6 }, odd[3] = { 1e6, NAN, 1e6 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_kvstream_result r;
    stream s;
    int choice;
#define BAD(field, value, part)         \
    by_hand(&s, 8, TLLM_KVSTREAM_REST); \
    s.field = value;                    \
    T_STATUS(tllm_kvstream_plan(ctx, &s.d, steady, &r), TINY_E_ARGUMENT, part)
    BAD(d.n_chunk, 0, "are needed");
    BAD(d.bytes, NULL, "are needed");
    BAD(d.recompute, NULL, "are needed");
    BAD(d.n_level, 5, "of 5");
    BAD(d.n_level, -1, "of -1");
    BAD(d.level, 4, "level 4 of 3");
    BAD(d.level, -1, "level -1");
    BAD(d.policy, (tllm_kvstream_policy)3, "no policy 3");
    BAD(d.deadline, 0, "deadline of 0 s");
    BAD(d.deadline, NAN, "deadline of");
    BAD(d.deadline, INFINITY, "deadline of inf");
    BAD(d.bits_per_second, -1, "-1 bit/s");
    BAD(bytes[5], 0, "chunk 1: 0 bytes at level 2");
    BAD(bytes[5], NAN, "chunk 1: nan bytes at level 2");
    BAD(recompute[2], -1, "chunk 2: -1 s to compute");
    BAD(d.choice, NULL, "a result pointer");
#undef BAD
    by_hand(&s, 8, TLLM_KVSTREAM_REST);
    T_STATUS(tllm_kvstream_plan(ctx, &s.d, NULL, &r), TINY_E_ARGUMENT, "the trace of the link is NULL");
    T_STATUS(tllm_kvstream_plan(ctx, &s.d, dead, &r), TINY_E_ARGUMENT, "0 bit/s at chunk 1");
    T_STATUS(tllm_kvstream_plan(ctx, &s.d, odd, &r), TINY_E_ARGUMENT, "at chunk 1");
    T_STATUS(tllm_kvstream_plan(ctx, NULL, steady, &r), TINY_E_ARGUMENT, "are needed");
    T_STATUS(tllm_kvstream_plan(NULL, &s.d, steady, &r), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_kvstream_run(ctx, &s.d, NULL, &r), TINY_E_ARGUMENT, "function that sends");
    T_STATUS(tllm_kvstream_choose(ctx, &s.d, 3, 0, 1e6, &choice), TINY_E_ARGUMENT, "chunk 3 of 3");
    T_STATUS(tllm_kvstream_choose(ctx, &s.d, 0, NAN, 1e6, &choice), TINY_E_ARGUMENT, "chunk 0 of 3, nan s");
    T_STATUS(tllm_kvstream_choose(ctx, &s.d, 0, 0, -1, &choice), TINY_E_ARGUMENT, "-1 bit/s");
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_best_level);
    T_RUN_FORMS(test_never_missed);
    T_RUN(test_by_hand);
    T_RUN_FORMS(test_no_future);
    T_RUN(test_traces);
    T_RUN_FORMS(test_transport);
    T_RUN(test_bad);
    return t_done();
}
