/* tests/llm/dist/disk.c - shares of a layer, the window of blocks, and models that stay on disk
 *
 * Truth    the worked figures of TPI-LLM (sizes and memory of Llama-2 7B, the times measured on the paper's laptops);
 *          sums by hand; the bits of the model in memory, for every model of the large oracle that is not refused; the
 *          bytes that the context holds. */
#include "t.h"

/* ---- shares ------------------------------------------------------------------------------------------------------ */

static const tllm_tp_shape seven = { 4096, 32000, 32, 32, 11008 };     /* Llama-2 7B */

static void test_shares(void)
{
    static const double four[4] = { 0.25, 0.25, 0.25, 0.25 }, odd[3] = { 0.5, 0.3, 0.2 };
    static const tllm_tp_shape grouped = { 4096, 32000, 32, 8, 11008 }, small = { 64, 100, 4, 2, 96 };
    static const double few[3] = { 0.26, 0.26, 0.48 }, below[2] = { 0.58, 0.42 };
    static const tllm_tp_shape tens = { 640, 100, 10, 10, 320 }, hundreds = { 6400, 100, 100, 100, 3200 };
    tllm_tp_part p[4];
    tllm_tp_numbers n;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double bad[3] = { 0.5, 0.3, 0.3 }, low[3] = { 0.98, 0.01, 0.01 }, nought[2] = { 1.0, 0.0 };
    int i;
    T_OK(tllm_tp_split(ctx, &seven, 4, four, 32, p));
    for (i = 0; i < 4; i++) {
        T_TRUE(p[i].n_kv == 8 && p[i].n_head == 8 && p[i].n_ff == 2752);
        T_TRUE(p[i].kv0 == 8 * i && p[i].head0 == 8 * i && p[i].ff0 == 2752 * i);
    }
    n = tllm_tp_sizes(&seven, &p[3]);       /* 64, 129, 500, 500 MiB in f32 */
    T_EQ_INT((intmax_t)(n.attn * 4 / 1048576), 64);
    T_EQ_INT((intmax_t)(n.ffn * 4 / 1048576), 129);
    T_EQ_INT((intmax_t)(n.input * 4 / 1048576), 500);
    T_EQ_INT((intmax_t)(n.output * 4 / 1048576), 500);
    T_CLOSE(n.attn, 2 * 2 * 4096.0 * 4096 / 4 + 4096, 0);
    T_CLOSE(n.ffn, 3 * 4096.0 * 2752 + 4096, 0);
    T_CLOSE(n.output - n.input, 4096, 0);
    /* 8 key heads by 0.5, 0.3, 0.2: 4, 2.4, 1.6, and one is left for the last. 11008 neurons in 32s: 5504, 3302 ->
     * 3296, 2201 -> 2176, and 32 are left for the last */
    T_OK(tllm_tp_split(ctx, &grouped, 3, odd, 32, p));
    T_TRUE(p[0].n_kv == 4 && p[1].n_kv == 2 && p[2].n_kv == 2);
    T_TRUE(p[0].n_head == 16 && p[1].n_head == 8 && p[2].n_head == 8 && p[2].head0 == 24);
    T_TRUE(p[0].n_ff == 5504 && p[1].n_ff == 3296 && p[2].n_ff == 2208 && p[2].ff0 == 8800);
    for (i = 0; i < 3; i++) T_TRUE(tllm_tp_sizes(&grouped, &p[i]).attn == 2 * 128.0 * 4096 * (double)(5 * p[i].n_kv)
                                   + 4096);
    /* 10 of both: 2.6, 2.6, 4.8, and two are left for the last two */
    T_OK(tllm_tp_split(ctx, &tens, 3, few, 32, p));
    T_TRUE(p[0].n_kv == 2 && p[1].n_kv == 3 && p[2].n_kv == 5 && p[2].kv0 == 5);
    T_TRUE(p[0].n_ff == 64 && p[1].n_ff == 96 && p[2].n_ff == 160 && p[2].ff0 == 160);
    /* 0.58 * 100 is a little below 58 in doubles */
    T_OK(tllm_tp_split(ctx, &hundreds, 2, below, 32, p));
    T_TRUE(p[0].n_kv == 58 && p[1].n_kv == 42 && p[0].n_ff == 58 * 32);
    T_PROOF("distributed 1", "split: shares by ratio, leftovers from the last rank on, sizes of 7B at 0.25");
    T_STATUS(tllm_tp_split(ctx, &grouped, 3, bad, 32, p), TINY_E_ARGUMENT, "sum up to 1.1");
    T_STATUS(tllm_tp_split(ctx, &grouped, 3, low, 32, p), TINY_E_SHAPE, "take fewer ranks");
    T_STATUS(tllm_tp_split(ctx, &grouped, 2, nought, 32, p), TINY_E_ARGUMENT, "share of rank 1");
    T_STATUS(tllm_tp_split(ctx, &small, 2, odd, 64, p), TINY_E_SHAPE, "in units of 64");
    T_STATUS(tllm_tp_split(ctx, &small, 0, odd, 32, p), TINY_E_ARGUMENT, "over 0 ranks");
    T_STATUS(tllm_tp_split(ctx, NULL, 2, odd, 32, p), TINY_E_ARGUMENT, "NULL");
    {
        const tllm_tp_shape heads = { 64, 100, 5, 2, 96 };
        T_STATUS(tllm_tp_split(ctx, &heads, 2, odd, 32, p), TINY_E_SHAPE, "multiple of the key heads");
    }
    T_CLOSE(tllm_tp_sizes(NULL, NULL).attn, 0, 0);
    t_close(ctx);
}

/* ---- formulas ---------------------------------------------------------------------------------------------------- */

static void test_memory(void)
{
    static const int master[6] = { 500, 1000, 1129, 1193, 1322, 1386 }, worker[6] = { 129, 193, 322, 386, 515, 579 };
    static const uint64_t by_hand[4] = { 5, 1, 7, 2 };
    uint64_t bytes[66];
    tllm_tp_part p;
    tllm_tp_numbers n;
    int i, w;
    memset(&p, 0, sizeof p);
    p.n_head = p.n_kv = 8;
    p.n_ff = 2752;
    n = tllm_tp_sizes(&seven, &p);
    bytes[0] = (uint64_t)n.input * 4;
    for (i = 0; i < 32; i++) {
        bytes[1 + 2 * i] = (uint64_t)n.attn * 4;
        bytes[2 + 2 * i] = (uint64_t)n.ffn * 4;
    }
    bytes[65] = (uint64_t)n.output * 4;
    for (w = 1; w <= 6; w++) {
        T_EQ_INT((intmax_t)(tllm_slots_peak(bytes, 66, w) >> 20), master[w - 1]);
        T_EQ_INT((intmax_t)(tllm_slots_peak(bytes + 1, 64, w) >> 20), worker[w - 1]);
    }
    T_EQ_INT((intmax_t)tllm_slots_peak(by_hand, 4, 1), 7);
    T_EQ_INT((intmax_t)tllm_slots_peak(by_hand, 4, 2), 9);          /* 7 + 2 */
    T_EQ_INT((intmax_t)tllm_slots_peak(by_hand, 4, 3), 14);         /* 7 + 2 + 5 around the end */
    T_EQ_INT((intmax_t)tllm_slots_peak(by_hand, 4, 9), 15);
    T_EQ_INT((intmax_t)tllm_slots_peak(NULL, 4, 2), 0);
    T_PROOF("distributed 1", "memory of 7B, master and worker, w=1..6");
}

static void test_times(void)
{
    /* milliseconds of the paper's laptops */
    tllm_slots_times t = { 11, 17, 14, 18, 30, 32, 1, 0 };
    tllm_slots_answer a;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    unsigned holds;
    int w;
    T_OK(tllm_slots_run(ctx, &t, 1, &a));
    T_CLOSE(a.seconds, 2446, 1e-9);
    for (w = 2; w <= 5; w++) {
        t.window = w;
        T_OK(tllm_slots_run(ctx, &t, 1, &a));
        T_CLOSE(a.seconds, 1815, 1e-9);
        T_CLOSE(a.first_stall, 18, 1e-9);
        T_CLOSE(a.second_stall, 5, 1e-9);
        T_CLOSE(a.stall, 23, 1e-9);
        T_EQ_INT(a.n_stalls, 2);
    }
    t.load_attn = t.load_ffn = 0;
    T_OK(tllm_slots_run(ctx, &t, 1, &a));
    T_CLOSE(a.seconds, 1792, 1e-9);
    T_CLOSE(a.stall, 0, 0);
    t.load_attn = 18;
    t.load_ffn = 30;
    holds = tllm_slots_steady(&t);
    T_EQ_INT(holds, TLLM_STEADY_LOOSE | TLLM_STEADY_B);
    T_EQ_INT(tllm_slots_keep(&t), 0);
    T_PROOF("distributed 1", "predictor on the paper's figures: 2446, 1815, stalls 18 and 5, bound 1792; conditions");
    t.sum = 5;
    T_EQ_INT(tllm_slots_keep(&t), 2);
    t.sum = 1;
    T_EQ_INT(tllm_slots_keep(&t), 1);
    t.attn = 5;
    t.ffn = 8;
    T_EQ_INT(tllm_slots_keep(&t), -1);
    t.keep = 1;
    T_OK(tllm_slots_run(ctx, &t, 1, &a));
    T_TRUE(a.stall > 0);
    T_PROOF("distributed 1", "retention: r=5 gives T=2, r=1 gives T=1, (5,8,1,18,30) is infeasible and its stall told");
    {                                       /* what is kept is not read: the predictor finds r=5 and T=2 steady too */
        tllm_slots_times k = { 11, 17, 5, 18, 30, 32, 8, 2 };
        T_OK(tllm_slots_run(ctx, &k, 1, &a));
        T_CLOSE(a.stall, 18, 1e-9);
        T_EQ_INT(a.n_stalls, 1);
        k.keep = 0;
        T_OK(tllm_slots_run(ctx, &k, 1, &a));
        T_TRUE(a.stall > 100);
    }
    t.window = 0;
    T_STATUS(tllm_slots_run(ctx, &t, 1, &a), TINY_E_ARGUMENT, "the limits are 1");
    t.window = 2;
    t.attn = -1;
    T_STATUS(tllm_slots_run(ctx, &t, 1, &a), TINY_E_ARGUMENT, "negative");
    T_STATUS(tllm_slots_run(ctx, NULL, 1, &a), TINY_E_ARGUMENT, "NULL");
    t.n_layer = INTPTR_MAX;                 /* answers at once */
    T_EQ_INT(tllm_slots_steady(&t) & TLLM_STEADY_LOOSE, 0);
    T_EQ_INT(tllm_slots_keep(&t), -1);
    {                                       /* every T by its definition, for some figures near the limits */
        int turn;
        for (turn = 0; turn < 300; turn++) {
            tllm_slots_times k = { 0, 0, 0, 0, 0, 0, 2, 0 };
            tiny_idx T, l, best = -1;
            k.attn = 1 + (double)t_rand_below(20);
            k.ffn = 1 + (double)t_rand_below(20);
            k.sum = (double)t_rand_below(4);
            k.load_attn = (double)t_rand_below(20);
            k.load_ffn = 10 + (double)t_rand_below(40);
            k.n_layer = 1 + (tiny_idx)t_rand_below(20);
            if (tllm_slots_steady(&k) & TLLM_STEADY_LOOSE) { T_EQ_INT(tllm_slots_keep(&k), 0); continue; }
            for (T = 1; T <= k.n_layer; T++) {
                int all = 1;
                for (l = 1; l <= k.n_layer; l++) {
                    const double kept = (double)((l + T - 1) / T), n = (double)l;
                    all &= n * (k.attn + k.ffn) + 2 * n * k.sum >= (n - kept) * k.load_ffn + n * k.load_attn;
                    all &= n * k.attn + (n - 1) * k.ffn + (2 * n - 1) * k.sum >=
                           (n - kept) * k.load_ffn + (n - 1) * k.load_attn;
                }
                if (all) best = T;
            }
            T_EQ_INT(tllm_slots_keep(&k), best);
        }
    }
    T_EQ_INT(tllm_slots_keep(NULL), -1);
    T_EQ_INT(tllm_slots_steady(NULL), 0);
    t_close(ctx);
}

/* ---- the loader -------------------------------------------------------------------------------------------------- */

enum { BLOCKS = 7 };
static const uint64_t sizes[BLOCKS] = { 64, 128, 64, 4096, 320, 128, 64 };
typedef struct source { int reads[BLOCKS], fail_at, n; } source;
static tiny_status fill(void *user, tiny_idx block, void *to, char says[TLLM_LOADER_SAYS])
{
    source *s = (source *)user;
    if (s->fail_at && ++s->n == s->fail_at) {
        (void)snprintf(says, TLLM_LOADER_SAYS, "block %d is gone", (int)block);
        return TINY_E_IO;
    }
    s->reads[block]++;
    memset(to, (int)block + 1, (size_t)sizes[block]);
    return TINY_OK;
}
static int right(const unsigned char *data, int block)
{
    uint64_t i;
    for (i = 0; i < sizes[block]; i++) if (data[i] != block + 1) return 0;
    return !((uintptr_t)data & 63);
}

static void test_loader(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_loader_desc d;
    tllm_loader_counts c;
    tllm_loader *l;
    const unsigned char *data;
    source s;
    int w, i, threads;
    memset(&d, 0, sizeof d);
    d.n = BLOCKS;
    d.bytes = sizes;
    d.read = fill;
    d.user = &s;
    for (threads = 0; threads < 2; threads++)
        for (w = 1; w <= 8; w++) {
            const size_t before = tiny_ctx_bytes(ctx);
            size_t most = 0, own;
            memset(&s, 0, sizeof s);
            d.window = w;
            d.no_thread = !threads;
            T_OK(tllm_loader_open(ctx, &d, &l));
            own = tiny_ctx_bytes(ctx) - (size_t)tllm_loader_count(l).held;
            for (i = 0; i < 3 * BLOCKS + 2; i++) {
                T_OK(tllm_loader_acquire(l, i % BLOCKS, &data));
                T_TRUE(right(data, i % BLOCKS));
                if (tiny_ctx_bytes(ctx) - own > most) most = tiny_ctx_bytes(ctx) - own;
                tllm_loader_release(l);
            }
            c = tllm_loader_count(l);
            T_EQ_INT((intmax_t)c.peak, (intmax_t)tllm_slots_peak(sizes, BLOCKS, w));
            T_EQ_INT((intmax_t)most, (intmax_t)c.peak);
            T_EQ_INT((intmax_t)c.slots, w < BLOCKS ? w : BLOCKS);
            T_TRUE(c.blocks >= 3 * BLOCKS + 2 && c.blocks <= 3 * BLOCKS + 2 + (uint64_t)w);
            tllm_loader_close(l);
            T_EQ_INT((intmax_t)tiny_ctx_bytes(ctx), (intmax_t)before);
        }
    T_PROOF("distributed 1", "loader: peak bytes equal the formula, never more than w slots are live");
    /* blocks that a pass leaves out are dropped; those not read yet never are */
    memset(&s, 0, sizeof s);
    d.window = 2;
    d.no_thread = 1;
    T_OK(tllm_loader_open(ctx, &d, &l));
    T_OK(tllm_loader_acquire(l, 1, &data));
    T_TRUE(right(data, 1));
    T_OK(tllm_loader_acquire(l, 5, &data));
    T_TRUE(right(data, 5));
    T_OK(tllm_loader_acquire(l, 4, &data));         /* the next cycle */
    T_TRUE(right(data, 4));
    T_TRUE(!s.reads[0] && s.reads[1] == 1 && !s.reads[3] && s.reads[5] == 1 && s.reads[4] == 1);
    T_STATUS(tllm_loader_acquire(l, BLOCKS, &data), TINY_E_ARGUMENT, "block 7");
    T_STATUS(tllm_loader_acquire(l, 0, NULL), TINY_E_ARGUMENT, "block 0");
    tllm_loader_release(l);
    tllm_loader_release(l);                         /* nothing is acquired */
    tllm_loader_close(l);
    /* a read fails: acquire has its sentence, again and again */
    for (threads = 0; threads < 2; threads++) {
        memset(&s, 0, sizeof s);
        s.fail_at = 3;
        d.no_thread = !threads;
        T_OK(tllm_loader_open(ctx, &d, &l));
        T_OK(tllm_loader_acquire(l, 0, &data));
        T_OK(tllm_loader_acquire(l, 1, &data));
        T_STATUS(tllm_loader_acquire(l, 2, &data), TINY_E_IO, "block 2 is gone");
        T_STATUS(tllm_loader_acquire(l, 3, &data), TINY_E_IO, "block 2 is gone");
        T_TRUE(!data);
        tllm_loader_close(l);
    }
    d.n = 0;
    T_STATUS(tllm_loader_open(ctx, &d, &l), TINY_E_ARGUMENT, "at least one block");
    d.n = BLOCKS;
    d.read = NULL;
    T_STATUS(tllm_loader_open(ctx, &d, &l), TINY_E_ARGUMENT, "a function that reads");
    T_TRUE(!l && !tllm_loader_count(NULL).peak);
    tllm_loader_close(NULL);
    t_close(ctx);
}

/* ---- models on disk ---------------------------------------------------------------------------------------------- */

static const char story[] = "examples/models/story.gguf";
enum { TEXT = 12 };

/* logits of a prompt of n tokens and of a few steps after it: all bits of them */
static tiny_status run(tiny_ctx *ctx, const tllm_model *m, int n, float *out)
{
    tllm_about about;
    tllm_state_desc sd;
    tllm_state *s = NULL;
    int32_t token[64];
    int i;
    tiny_status st;
    tllm_model_about(m, &about);
    memset(&sd, 0, sizeof sd);
    sd.n_ctx = 80;
    sd.n_batch = 24;
    for (i = 0; i < 64; i++) token[i] = (int32_t)((i * 37 + 5) % about.n_vocab);
    st = tllm_state_open(ctx, m, &sd, &s);
    if (!st) st = tllm_forward(s, token, n, 0, 1, out);
    for (i = 0; i < 3 && !st; i++) st = tllm_forward(s, token + i, 1, n + i, 1, out + (i + 1) * about.n_out);
    tllm_state_close(ctx, s);
    return st;
}

static void test_story(void)
{
    static const int prompts[] = { 1, 7, 64 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_disk_desc d;
    tllm_disk_about at;
    tllm_disk *q;
    tllm_gguf *file;
    tllm_model *m;
    tllm_about about;
    float *want[3], *got;
    unsigned char a[32], b[32];
    int w, k;
    T_OK(tllm_file_open(ctx, story, &file));
    T_OK(tllm_model_open(ctx, file, &m));
    tllm_model_about(m, &about);
    got = t_guarded(4 * (size_t)about.n_out);
    for (k = 0; k < 3; k++) {
        want[k] = t_guarded(4 * (size_t)about.n_out);
        T_OK(run(ctx, m, prompts[k], want[k]));
    }
    tllm_file_digest(file, a);
    memset(&d, 0, sizeof d);
    d.path = story;
    for (w = 1; w <= 6; w++) {
        d.window = w;
        d.keep = w == 5 ? 2 : 0;
        d.no_thread = w == 6;
        T_OK(tllm_disk_open(ctx, &d, &q));
        tllm_file_digest(tllm_disk_file(q), b);
        T_SAME(a, b, 32);
        for (k = 0; k < 3; k++) {
            T_OK(run(ctx, tllm_disk_model(q), prompts[k], got));
            T_SAME(got, want[k], 4 * (int)about.n_out);
        }
        tllm_disk_look(q, &at);
        T_EQ_INT((intmax_t)at.loader.peak, (intmax_t)at.window_bytes);
        T_EQ_INT((intmax_t)at.loader.slots, w);
        T_EQ_INT((intmax_t)at.n_kept, d.keep ? (about.n_layer + 1) / 2 : 0);
        T_EQ_INT((intmax_t)(at.n_blocks + at.n_kept), 2 * about.n_layer + 1);
        T_TRUE(at.row_bytes > 0 && at.loader.blocks > 0);
        tllm_disk_close(q);
    }
    T_PROOF("distributed 1", "loader: for w=1..6 results bit-identical to fully resident");
    d.window = 1000;                        /* all of it fits: nothing moves */
    T_OK(tllm_disk_open(ctx, &d, &q));
    T_OK(run(ctx, tllm_disk_model(q), 7, got));
    T_SAME(got, want[1], 4 * (int)about.n_out);
    tllm_disk_look(q, &at);
    T_TRUE(!at.n_blocks && !at.loader.blocks && at.fixed_bytes > at.model_bytes);
    /* what reads all weights at once is refused */
    T_STATUS(tllm_model_cut(ctx, tllm_disk_model(q), 0, 2), TINY_E_UNSUPPORTED, "stays on disk");
    T_STATUS(tllm_model_repack(ctx, tllm_disk_model(q), NULL, NULL), TINY_E_UNSUPPORTED, "stays on disk");
    T_STATUS(tllm_model_sparse(ctx, tllm_disk_model(q), -1, NULL), TINY_E_UNSUPPORTED, "stays on disk");
    tllm_disk_close(q);
    tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, file);
    t_close(ctx);
}

typedef struct text { char at[400]; size_t n; } text;
static int append(void *user, const char *bytes, size_t n)
{
    text *t = (text *)user;
    if (t->n + n < sizeof t->at) { memcpy(t->at + t->n, bytes, n); t->n += n; }
    return 0;
}
static void test_session(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_generate_desc g;
    tllm_disk_desc d;
    tllm_disk *q;
    tllm_session *s, *whole;
    void *saved;
    size_t n;
    text a, b;
    memset(&g, 0, sizeof g);
    memset(&d, 0, sizeof d);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    g.n_most = TEXT;
    g.text = append;
    g.user = &a;
    d.path = story;
    T_OK(tllm_session_open(ctx, story, NULL, &s));
    T_OK(tllm_generate(s, "Once upon a time", 16, &g, NULL));
    tllm_session_close(s);
    T_OK(tllm_disk_open(ctx, &d, &q));
    T_OK(tllm_session_over(ctx, tllm_disk_model(q), NULL, &s));
    g.user = &b;
    T_OK(tllm_generate(s, "Once upon a time", 16, &g, NULL));
    T_EQ_TEXT(b.at, a.at);
    T_TRUE(a.n > 10);
    /* a saved state of one is a state of the other */
    T_OK(tllm_state_pack(tllm_session_state(s), 0, NULL, 0, &saved, &n));
    T_OK(tllm_session_open(ctx, story, NULL, &whole));
    T_OK(tllm_state_unpack(tllm_session_state(whole), 0, saved, n, NULL, 0, NULL));
    tllm_session_close(whole);
    tiny_free(ctx, saved);
    tllm_session_close(s);
    tllm_disk_close(q);
    T_STATUS(tllm_session_over(ctx, NULL, NULL, &s), TINY_E_ARGUMENT, "tllm_session_over");
    t_close(ctx);
}

static void test_models(void)
{
    static const char *const must[] = { "llama", "qwen2", "qwen3", "gemma2", "phi3", "falcon-40b", "gpt2", "cohere2",
                                        "mixtral", "qwen2moe", "llama-bf16" };
    const char *index = t_shared("oracle/llm/index.tsv");
    static char line[65536], last[80], same[6000];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int n_same = 0, n_refused = 0;
    size_t k;
    FILE *f = index ? fopen(index, "r") : NULL;
    if (!f) { t_close(ctx); return; }
    while (fgets(line, sizeof line, f)) {
        char name[80], path[120];
        tllm_disk_desc d;
        tllm_disk *q = NULL;
        tllm_gguf *file = NULL;
        tllm_model *m = NULL;
        tllm_about about;
        tiny_status st;
        if (sscanf(line, "%79[^\t]", name) != 1 || !strcmp(name, "name") || !strcmp(name, last)) continue;
        (void)snprintf(last, sizeof last, "%s", name);
        (void)snprintf(path, sizeof path, "oracle/llm/%s.gguf", name);
        memset(&d, 0, sizeof d);
        d.path = t_find(path);
        if (!T_TRUE(d.path != NULL)) continue;
        st = tllm_disk_open(ctx, &d, &q);
        if (st) {
            n_refused++;
            if (st != TINY_E_UNSUPPORTED || !strstr(tiny_ctx_message(ctx), "on disk"))
                t_fail(__FILE__, __LINE__, "%s: %s", name, tiny_ctx_message(ctx));
            continue;
        }
        T_OK(tllm_file_open(ctx, d.path, &file));
        T_OK(tllm_model_open(ctx, file, &m));
        tllm_model_about(m, &about);
        {
            float *want = (float *)malloc(8 * (size_t)about.n_out * sizeof *want), *got = want + 4 * about.n_out;
            st = run(ctx, m, 9, want);
            T_EQ_INT(st, TINY_OK);
            st = run(ctx, tllm_disk_model(q), 9, got);
            T_EQ_INT(st, TINY_OK);
            if (st || !T_SAME(got, want, 4 * (int)about.n_out)) printf("  %s: %s\n", name, tiny_ctx_message(ctx));
            free(want);
        }
        n_same++;
        (void)snprintf(same + strlen(same), sizeof same - strlen(same), " %s ", name);
        tllm_model_close(ctx, m);
        tllm_gguf_close(ctx, file);
        tllm_disk_close(q);
    }
    (void)fclose(f);
    for (k = 0; k < T_COUNT(must); k++) {
        char name[80], path[120];
        (void)snprintf(name, sizeof name, " %s ", must[k]);
        (void)snprintf(path, sizeof path, "oracle/llm/%s.gguf", must[k]);
        t_case(path, t_find(path) != NULL);
        if (t_find(path) && !strstr(same, name)) t_fail(__FILE__, __LINE__, "%s is refused", must[k]);
    }
    printf("  models: %d the same from disk, %d refused\n", n_same, n_refused);
    t_close(ctx);
}

/* ---- a model that is cut over ranks: each reads its part --------------------------------------------------------- */

typedef struct cut {
    const char *path;
    int window, no_output;
    const double *share;
    tiny_local *local;
    float *out[2];
    tiny_status st[2];
    char says[2][300];
    tllm_disk_about about[2];
} cut;
static void on_rank(int rank, void *arg)
{
    cut *c = (cut *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_comm_desc cd;
    tllm_state_desc sd;
    tllm_disk_desc d;
    tiny_comm *comm = NULL;
    tllm_disk *q = NULL;
    tllm_gguf *file = NULL;
    tllm_model *m = NULL;
    tllm_state *s = NULL;
    tllm_about about;
    int32_t token[9];
    int i;
    tiny_status st;
    memset(&cd, 0, sizeof cd);
    memset(&sd, 0, sizeof sd);
    memset(&d, 0, sizeof d);
    cd.net = tiny_local_net(c->local, rank);
    cd.timeout_ns = UINT64_C(60000000000);
    st = tiny_comm_open(ctx, &cd, &comm);
    d.path = c->path;
    d.window = c->window;
    d.rank = rank;
    d.world = 2;
    d.no_output = c->no_output && rank;
    d.share = c->share;
    if (!st && c->window) {
        st = tllm_disk_open(ctx, &d, &q);
        m = tllm_disk_model(q);
    } else if (!st) {
        st = tllm_file_open(ctx, c->path, &file);
        if (!st) st = tllm_model_open(ctx, file, &m);
        if (!st) st = c->share ? tllm_model_cut_by(ctx, m, rank, 2, c->share) : tllm_model_cut(ctx, m, rank, 2);
    }
    sd.comm = comm;
    sd.n_ctx = 32;
    sd.n_batch = 16;
    if (!st) tllm_model_about(m, &about);
    if (!st) st = tllm_state_open(ctx, m, &sd, &s);
    for (i = 0; i < 9; i++) token[i] = (int32_t)(i * 5 + 1);
    if (!st) st = tllm_forward(s, token, 7, 0, c->no_output ? 0 : 1, c->no_output ? NULL : c->out[rank]);
    for (i = 7; i < 9 && !st; i++)
        st = tllm_forward(s, token + i, 1, i, c->no_output ? 0 : 1, c->no_output ? NULL : c->out[rank] +
                                                                        (i - 6) * about.n_out);
    c->st[rank] = st;
    if (c->no_output && !st) (void)tllm_forward(s, token, 1, 9, 1, c->out[rank]);      /* rank 1 cannot */
    (void)snprintf(c->says[rank], sizeof c->says[rank], "%s", tiny_ctx_message(ctx));
    tllm_disk_look(q, &c->about[rank]);
    tllm_state_close(ctx, s);
    tiny_comm_close(comm);
    if (q) tllm_disk_close(q);
    else tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, file);
    tiny_ctx_close(ctx);
}
static int two(cut *c)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc line;
    int i, ok;
    memset(&line, 0, sizeof line);
    line.world = 2;
    for (i = 0; i < 2; i++) c->out[i] = t_guarded(3 * 4096);
    T_OK(tiny_local_open(ctx, &line, &c->local));
    ok = t_ranks(2, on_rank, c);
    tiny_local_close(ctx, c->local);
    t_close(ctx);
    return ok;
}
static void test_cut(void)
{
    static const char *const fused[] = { "oracle/llm/phi3.gguf", "oracle/llm/gpt2.gguf",
                                         "oracle/llm/llama-bf16.gguf" };
    static const double uneven[2] = { 0.7, 0.3 };
    cut whole, c;
    int i, w, k;
    for (k = -2; k < (int)T_COUNT(fused); k++) {            /* story.gguf is in blocks, the others are not */
        const char *path = k < 0 ? story : t_one_of(fused[k]);
        if (!path) continue;
        memset(&whole, 0, sizeof whole);
        whole.path = path;
        whole.share = k == -2 ? uneven : NULL;
        if (!two(&whole)) return;
        for (w = 1; w < 4; w++) {
            memset(&c, 0, sizeof c);
            c.path = path;
            c.window = w;
            c.share = whole.share;
            if (!two(&c)) return;
            for (i = 0; i < 2; i++) {
                if (!T_EQ_INT(c.st[i], TINY_OK)) printf("  %s, rank %d: %s\n", path, i, c.says[i]);
                T_SAME(c.out[i], whole.out[i], 3 * 4096);
                T_EQ_INT((intmax_t)c.about[i].loader.peak, (intmax_t)c.about[i].window_bytes);
            }
        }
    }
    T_PROOF("distributed 1", "loader under a cut model: bits of the cut model in memory, peak equals the formula");
    memset(&c, 0, sizeof c);                /* a rank that needs no results holds two blocks of its part, no output */
    c.path = story;
    c.window = 2;
    c.no_output = 1;
    if (!two(&c)) return;
    T_EQ_INT(c.st[1], TINY_OK);
    if (!T_TRUE(strstr(c.says[1], "without output") != NULL)) printf("  %s\n", c.says[1]);
    T_EQ_INT((intmax_t)c.about[1].n_blocks, 8);
    T_TRUE(c.about[1].loader.peak < c.about[0].loader.peak);
    {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        tllm_disk_desc d;
        tllm_disk_about all;
        tllm_disk *q;
        memset(&d, 0, sizeof d);
        d.path = story;
        d.no_output = 1;
        T_OK(tllm_disk_open(ctx, &d, &q));
        tllm_disk_look(q, &all);            /* halves of the same two blocks, but for the gaps between matrices */
        T_CLOSE(2.0 * (double)c.about[1].loader.peak, (double)all.window_bytes, 2048);
        tllm_disk_close(q);
        t_close(ctx);
    }
}

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */

static const char cut_path[] = "build/disk-cut.gguf";
static void write_part(const unsigned char *bytes, size_t n)
{
    FILE *f = fopen(cut_path, "wb");
    if (!T_TRUE(f != NULL)) return;
    T_EQ_INT((intmax_t)fwrite(bytes, 1, n, f), (intmax_t)n);
    (void)fclose(f);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_disk_desc d;
    tllm_disk_about at;
    tllm_disk *q;
    tllm_gguf *g;
    tllm_state *s = NULL;
    tiny_file file;
    float *out = t_guarded(70000);
    const int32_t token[2] = { 1, 2 };
    size_t n;
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_disk_open(ctx, &d, &q), TINY_E_ARGUMENT, "needs a path");
    d.path = story;
    d.window = -1;
    T_STATUS(tllm_disk_open(ctx, &d, &q), TINY_E_ARGUMENT, "negative");
    d.window = 0;
    d.path = "build/no-such-file.gguf";
    T_STATUS(tllm_disk_open(ctx, &d, &q), TINY_E_IO, "no-such-file");
    T_TRUE(!q);
    d.path = "README.md";
    T_STATUS(tllm_disk_open(ctx, &d, &q), TINY_E_FORMAT, "not a GGUF file");
    {
        static const tiny_idx layers[2] = { 2, 1 }, none[2] = { 2, 0 }, layers_of_four[2] = { 3, 1 };
        d.path = story;
        d.layers = layers;
        d.world = 2;
        d.rank = 2;
        T_STATUS(tllm_disk_open(ctx, &d, &q), TINY_E_ARGUMENT, "rank 2 of 2");
        d.rank = 1;
        d.layers = none;
        T_STATUS(tllm_disk_open(ctx, &d, &q), TINY_E_ARGUMENT, "rank 1 has 0");
        d.layers = layers_of_four;          /* without its ring, it lacks layers */
        d.rank = 0;
        T_OK(tllm_disk_open(ctx, &d, &q));
        T_OK(tllm_state_open(ctx, tllm_disk_model(q), NULL, &s));
        T_STATUS(tllm_forward(s, token, 2, 0, 1, out), TINY_E_ARGUMENT, "layer 3 was opened for another rank");
        tllm_state_close(ctx, s);
        tllm_disk_close(q);
        s = NULL;
        d.layers = NULL;
        d.world = 3;                        /* of the 4 key heads of the model */
        d.rank = 0;
        T_STATUS(tllm_disk_open(ctx, &d, &q), TINY_E_SHAPE, "cannot be divided by 3 ranks");
        d.world = 0;
    }
    /* cut at every length of its head in turn, and with wrong bytes: the sentence of the ordinary reader */
    T_OK(tiny_file_copy(ctx, "examples/models/story-small.gguf", &file));
    d.path = cut_path;
    for (n = 0; n < file.n_bytes; n = n < 40 ? n + 1 : n + file.n_bytes / 37) {
        char says[600];
        tiny_status want;
        write_part(file.bytes, n);
        want = tllm_gguf_open(ctx, cut_path, &g);
        (void)snprintf(says, sizeof says, "%s", tiny_ctx_message(ctx));
        T_TRUE(want != TINY_OK);
        T_EQ_INT(tllm_disk_open(ctx, &d, &q) != TINY_OK, 1);
        if (n) T_EQ_TEXT(tiny_ctx_message(ctx), says);
    }
    {
        unsigned char *copy = (unsigned char *)t_keep(file.n_bytes);
        for (n = 0; n < 200; n++) {         /* a flipped bit of the head: the same status as the ordinary reader */
            const size_t i = n < 64 ? n : t_rand_below(20000);
            tiny_status want;
            memcpy(copy, file.bytes, file.n_bytes);
            copy[i] ^= (unsigned char)(1u << t_rand_below(8));
            write_part(copy, file.n_bytes);
            want = tllm_gguf_open(ctx, cut_path, &g);
            if (!want) tllm_gguf_close(ctx, g);
            q = NULL;
            if (tllm_disk_open(ctx, &d, &q)) { if (want) T_EQ_INT(tiny_ctx_status(ctx), want); }
            else T_EQ_INT(want, TINY_OK);
            tllm_disk_close(q);
        }
    }
    /* the file becomes shorter while the model is open */
    write_part(file.bytes, file.n_bytes);
    d.window = 1;
    T_OK(tllm_disk_open(ctx, &d, &q));
    T_OK(tllm_state_open(ctx, tllm_disk_model(q), NULL, &s));
    T_OK(tllm_forward(s, token, 2, 0, 1, out));
    write_part(file.bytes, file.n_bytes / 3);
    T_TRUE(tllm_forward(s, token, 1, 2, 1, out) == TINY_E_IO || tllm_forward(s, token, 1, 3, 1, out) == TINY_E_IO);
    T_TRUE(strstr(tiny_ctx_message(ctx), "cannot be read") != NULL);
    tllm_state_close(ctx, s);
    tllm_disk_close(q);
    (void)remove(cut_path);
    tiny_file_close(ctx, &file);
    T_TRUE(!tllm_disk_model(NULL) && !tllm_disk_file(NULL));
    tllm_disk_look(NULL, &at);
    T_TRUE(!at.n_blocks);
    tllm_disk_close(NULL);
    t_close(ctx);
    d.path = story;
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *c = NULL;
        q = NULL;
        if (!tiny_ctx_open(&cd, &c)) (void)tllm_disk_open(c, &d, &q);
        tllm_disk_close(q);
        tiny_ctx_close(c);
    )
}

int main(void)
{
    T_RUN(test_shares);
    T_RUN(test_memory);
    T_RUN(test_times);
    T_RUN(test_loader);
    T_RUN(test_story);
    T_RUN(test_session);
    T_RUN(test_models);
    T_RUN(test_cut);
    T_RUN(test_bad);
    return t_done();
}
