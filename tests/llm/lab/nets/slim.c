/* tests/llm/lab/nets/slim.c - networks cut in two: members, frames, training, the controller
 *
 * Truth    the network in plain double loops from the numbers of its file; costs and moments worked by hand; CRC-32 bit
 *          by bit; the entropy of the codes; simulated links whose best width is known. */
#include "t.h"

#ifdef TINYLLM_NO_SLIM
int main(void) { return t_done(); }
#else

enum { SIDE = 16, EACH = 2 * 4 * 4, K = 4 };
static const char path[] = "build/t-slim.net";

static tllm_slim *slim_open(tiny_ctx *ctx, int members, int prefix, uint64_t seed)
{
    tllm_slim_desc d;
    tllm_slim *s = NULL;
    memset(&d, 0, sizeof d);
    d.in[0] = 1;
    d.in[1] = d.in[2] = SIDE;
    d.members = members;
    d.width = 3;
    d.tail = 6;
    d.n_class = 10;
    d.prefix = prefix;
    d.seed = seed;
    T_OK(tllm_slim_open(ctx, &d, &s));
    return s;
}

/* a little training, so that norms, scales and counts are not those of the start */
static void teach(tiny_ctx *ctx, tllm_slim *s, tiny_idx n, int64_t epochs)
{
    tllm_nn_task task;
    tllm_slim_fit_desc f;
    memset(&f, 0, sizeof f);
    f.batch = n < 50 ? n : 50;
    f.epochs = epochs;
    f.half = 1;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_TEX16, 3, n, 1, &task));
    T_OK(tllm_slim_fit(s, &task.train, &f));
    tllm_nn_task_close(ctx, &task);
}

/* ---- the network in plain loops */

typedef struct plain { tiny_ctx *ctx; tiny_checkpoint *c; } plain;

static double *numbers(const plain *p, const char *name, tiny_idx dim[4])
{
    char text[48];
    const tiny_checkpoint_entry *e;
    tiny_tensor t;
    tiny_idx i, n = 1;
    float *x;
    double *y;
    (void)snprintf(text, sizeof text, "param/%s", name);
    e = tiny_checkpoint_find(p->c, text);
    if (!e) { t_fail(__FILE__, __LINE__, "%s is missing", text); exit(1); }
    for (i = 0; i < 4; i++) dim[i] = i < e->rank ? e->dim[i] : 1;
    for (i = 0; i < 4; i++) n *= dim[i];
    x = (float *)t_keep((size_t)n * sizeof *x);
    y = (double *)t_keep((size_t)n * sizeof *y);
    t = tiny_tensor_nd(x, TINY_F32, e->rank, e->dim);
    T_OK(tiny_checkpoint_get_tensor(p->ctx, p->c, text, &t));
    for (i = 0; i < n; i++) y[i] = (double)x[i];
    return y;
}

/* y (n_out, oh, oh) of channels from .. from + n_in - 1 of x, rows first .. of the kernel `name`; then norm and relu,
 * or a bias */
static double *layer(const plain *p, const double *x, tiny_idx from, tiny_idx n_in, tiny_idx side, const char *name,
                     const char *norm, int version, tiny_idx first, tiny_idx n_out, tiny_idx stride, double scale)
{
    tiny_idx dim[4], d1[4], o, i, a, b, r, q, out = (side - 1) / stride + 1;
    const double *w = numbers(p, name, dim), *v[4] = { NULL, NULL, NULL, NULL };
    double *y = (double *)t_keep((size_t)(n_out * out * out) * sizeof *y);
    const tiny_idx size = dim[2], pad = size / 2;
    char text[32];
    static const char *const part[4] = { "gain", "bias", "mean", "var" };
    int k;
    for (k = 0; norm && k < 4; k++) {
        (void)snprintf(text, sizeof text, "%s.%s.%d", norm, part[k], version);
        v[k] = numbers(p, text, d1);
    }
    if (!norm) {
        (void)snprintf(text, sizeof text, "%s.bias", name);
        v[0] = numbers(p, text, d1);
    }
    for (o = 0; o < n_out; o++)
        for (a = 0; a < out; a++)
            for (b = 0; b < out; b++) {
                double sum = 0.0;
                for (i = 0; i < n_in; i++)
                    for (r = 0; r < size; r++)
                        for (q = 0; q < size; q++) {
                            const tiny_idx ya = a * stride + r - pad, xb = b * stride + q - pad;
                            if (ya < 0 || ya >= side || xb < 0 || xb >= side) continue;
                            sum += w[((first + o) * dim[1] + i) * size * size + r * size + q] *
                                   x[((from + i) * side + ya) * side + xb];
                        }
                sum *= scale;
                if (norm) {
                    sum = (sum - v[2][first + o]) / sqrt(v[3][first + o] + 1e-5) * v[0][first + o] + v[1][first + o];
                    if (sum < 0.0) sum = 0.0;
                } else sum += v[0][first + o];
                y[(o * out + a) * out + b] = sum;
            }
    return y;
}

static void check_plain(tiny_ctx *ctx, tllm_slim *s, int prefix, const float *image)
{
    plain p;
    tiny_checkpoint_desc d;
    double x[SIDE * SIDE], *z = (double *)t_keep(K * EACH * sizeof *z);
    float fast[K * EACH], logits[10];
    int m, i, k;
    memset(&d, 0, sizeof d);
    p.ctx = ctx;
    T_OK(tllm_slim_save(s, path));
    d.path = path;
    T_OK(tiny_checkpoint_open(ctx, &d, &p.c));
    for (i = 0; i < SIDE * SIDE; i++) x[i] = (double)image[i];
    for (m = 1; m <= K; m++) {
        tiny_idx dim[4];
        const double *w, *b;
        double *h;
        T_OK(tllm_slim_encode(s, image, 0, m, fast));
        for (k = 0; k < (prefix ? 1 : m); k++) {        /* a stack */
            const tiny_idx c = prefix ? 3 * m : 3, n = prefix ? 2 * m : 2;
            h = layer(&p, x, 0, 1, SIDE, "encode.1", "e1", prefix ? m : 1, k * c, c, 2, 1.0);
            h = layer(&p, h, 0, c, 8, "encode.2", "e2", prefix ? m : 1, k * c, c, 2, 1.0);
            h = layer(&p, h, 0, c, 4, "encode.3", NULL, 0, k * n, n, 1, 1.0);
            memcpy(z + k * EACH, h, (size_t)(n * 16) * sizeof *h);
        }
        for (i = 0; i < m * EACH; i++) T_CLOSE(fast[i], z[i], 1e-4 * (1.0 + fabs(z[i])));
        for (i = 0; i < m * EACH; i++) z[i] = (double)fast[i];
        T_OK(tllm_slim_tail(s, fast, m, logits));
        h = layer(&p, z, 0, 2 * m, 4, "tail.1", "t1", m, 0, 6, 1, (double)K / m);       /* missing members are zeros */
        h = layer(&p, h, 0, 6, 4, "tail.2", "t2", m, 0, 6, 2, 1.0);
        w = numbers(&p, "logits", dim);
        b = numbers(&p, "logits.bias", dim);
        for (i = 0; i < 10; i++) {
            double sum = b[i];
            for (k = 0; k < 24; k++) sum += w[i * 24 + k] * h[k];
            T_CLOSE(logits[i], sum, 2e-4 * (1.0 + fabs(sum)));
        }
    }
    tiny_checkpoint_close(ctx, p.c);
}

static void test_members(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_slim *s = slim_open(ctx, K, 0, 1), *cut = slim_open(ctx, K, 1, 2);
    float *x = t_rand(SIDE * SIDE, -1.0f, 1.0f), *all = t_guarded(K * EACH), *some = t_guarded(K * EACH);
    float *back = t_guarded(K * EACH), *again = t_guarded(K * EACH), one[10], two[10];
    unsigned char frame[1000], part[1000];
    tllm_slim_pack_desc pack = { 0, 0 };
    size_t n, i;
    int m, bits, have, k;
    teach(ctx, s, 100, 3);
    teach(ctx, cut, 50, 2);
    check_plain(ctx, s, 0, x);
    check_plain(ctx, cut, 1, x);
    T_OK(tllm_slim_encode(s, x, 0, K, all));
    for (m = 1; m <= K; m++) {
        memset(some, 0x77, K * EACH * sizeof *some);
        T_OK(tllm_slim_encode(s, x, 0, m, some));
        T_SAME(some, all, m * EACH);
        T_OK(tllm_slim_encode(s, x, m - 1, K - m + 1, some));
        T_SAME(some, all + (m - 1) * EACH, (K - m + 1) * EACH);
    }
    T_WALLS(some, K * EACH);
    for (bits = 2; bits <= 8; bits++)
        for (pack.coded = 0; pack.coded < (bits == 4 ? 2 : 1); pack.coded++) {
            pack.bits = bits;
            T_OK(tllm_slim_pack(s, all, 0, K, &pack, frame, sizeof frame, &n));
            if (!pack.coded) T_EQ_INT(n, TLLM_SLIM_HEAD + K * EACH * bits / 8);
            have = 3;                       /* a frame from member 0 starts anew */
            T_OK(tllm_slim_unpack(s, frame, n, &have, back));
            T_EQ_INT(have, K);
            for (i = 0; i < K * EACH; i++) {
                const float step = tllm_slim_step(s, (int)(i / EACH), bits);
                const float most = step * (float)((1 << (bits - 1)) - 1);
                const float want = all[i] > most ? most : all[i] < -most ? -most : all[i];
                T_CLOSE(back[i], want, 0.5001 * (double)step);
            }
            for (have = 0, k = 0; k < K; k++) {
                T_OK(tllm_slim_pack(s, all + k * EACH, k, 1, &pack, part, sizeof part, &n));
                T_OK(tllm_slim_unpack(s, part, n, &have, again));
                T_EQ_INT(have, k + 1);
            }
            T_SAME(again, back, K * EACH);
            T_OK(tllm_slim_tail(s, back, K, one));
            T_OK(tllm_slim_tail(s, again, K, two));
            T_SAME(one, two, 10);
        }
    T_WALLS(back, K * EACH);
    T_EQ_INT(tiny_op_target(ctx, TINY_OP_CONV2D), t_vectors(target));
    tllm_slim_close(s);
    tllm_slim_close(cut);
    t_close(ctx);
    T_PROOF("compression 11", "outputs of member i identical for every m >= i, bit-exact");
    T_PROOF("compression 11", "progressive decode = one-shot decode");
    T_PROOF("compression 11", "codec round trip error <= scale/2");
}

/* width 3 on 16 x 16: 27 (64) + (81 + 6) 16 = 3120 of a member; tail 6 (18 m 16 + 54 4 + 4 10) */
static void test_costs(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_slim *s = slim_open(ctx, K, 0, 1);
    tllm_slim_cost c;
    int m;
    for (m = 1; m <= K; m++) {
        T_OK(tllm_slim_cost_of(s, m, &c));
        T_CLOSE(c.encoder, 3120.0 * m, 0);
        T_CLOSE(c.tail, 6.0 * (18 * m * 16 + 54 * 4 + 40), 0);
        T_EQ_INT(c.n_encoder, m * (27 + 81 + 6));
        T_EQ_INT(c.bytes, 20 + 16 * m);
        T_EQ_INT(c.numbers, m * EACH);
    }
    tllm_slim_close(s);
    t_close(ctx);
    T_PROOF("compression 11", "MACs(m) linear in m");
}

static void test_switching(void)
{
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    tllm_slim *s;
    float *x = t_rand(SIDE * SIDE, -1.0f, 1.0f), z[K * EACH], logits[10];
    unsigned char frame[1000];
    tllm_slim_pack_desc pack = { 0, 0 };
    long calls = 0, blocks = 0;
    size_t n;
    int i, m, have;
    T_OK(tiny_ctx_open(&d, &ctx));
    t_use(ctx);
    s = slim_open(ctx, K, 0, 1);
    for (i = 0; i < 200; i++) {
        if (i == 2 * K) { calls = t_alloc.n_calls; blocks = t_alloc.live_blocks; }
        m = i < 2 * K ? 1 + i % K : 1 + (int)t_rand_below(K);
        pack.coded = i & 1;
        T_OK(tllm_slim_encode(s, x, 0, m, z));
        T_OK(tllm_slim_pack(s, z, 0, m, &pack, frame, sizeof frame, &n));
        T_OK(tllm_slim_unpack(s, frame, n, &have, z));
        T_OK(tllm_slim_tail(s, z, m, logits));
    }
    T_EQ_INT(t_alloc.n_calls, calls);
    T_EQ_INT(t_alloc.live_blocks, blocks);
    tllm_slim_close(s);
    tiny_ctx_close(ctx);
    T_EQ_INT(t_alloc.live_blocks, 0);
    T_PROOF("compression 11", "switching m every frame allocates nothing and leaks nothing");
}

/* ---- frames that are not valid */

static uint32_t crc_of(const unsigned char *p, size_t n)
{
    uint32_t c = 0xffffffffu;
    size_t i;
    int k;
    for (i = 0; i < n; i++) {
        if (i >= 16 && i < 20) continue;    /* its own place */
        for (c ^= p[i], k = 0; k < 8; k++) c = c >> 1 ^ (0xedb88320u & (0u - (c & 1u)));
    }
    return ~c;
}
static void sign(unsigned char *p, size_t n)
{
    const uint32_t c = crc_of(p, n);
    int i;
    for (i = 0; i < 4; i++) p[16 + i] = (unsigned char)(c >> 8 * i);
}

static void refuses(tllm_slim *s, unsigned char *frame, size_t n, int member, tiny_status want, const char *part)
{
    float z[K * EACH], before[K * EACH];
    int have = member;
    size_t i;
    for (i = 0; i < K * EACH; i++) z[i] = before[i] = (float)i;
    T_STATUS(tllm_slim_unpack(s, frame, n, &have, z), want, part);
    T_SAME(z, before, K * EACH);
    T_EQ_INT(have, member);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_slim *s = slim_open(ctx, K, 0, 1), *other = slim_open(ctx, 2, 0, 1), *made = NULL;
    tllm_slim_desc d = *tllm_slim_is(s);
    tllm_slim_pack_desc pack = { 0, 0 };
    tllm_slim_cost cost;
    tllm_nn_task task;
    tllm_slim_fit_desc f;
    tiny_idx right;
    float *x = t_rand(SIDE * SIDE, -1.0f, 1.0f), z[K * EACH], logits[10];
    unsigned char frame[1000], bad[1000];
    size_t n, i;
    int have = 0, coded;
    T_OK(tllm_slim_encode(s, x, 0, K, z));
    for (coded = 0; coded < 2; coded++) {
        pack.coded = coded;
        T_OK(tllm_slim_pack(s, z, 0, 2, &pack, frame, sizeof frame, &n));
        for (i = 0; i < n; i++) refuses(s, frame, i, 0, TINY_E_FORMAT, NULL);
        memcpy(bad, frame, n);
        bad[n] = 0;
        refuses(s, bad, n + 1, 0, TINY_E_FORMAT, "cut, or too long");
        for (i = 0; i < 8 * n; i++) {
            bad[i / 8] = (unsigned char)(bad[i / 8] ^ 1u << i % 8);
            refuses(s, bad, n, 0, TINY_E_FORMAT, NULL);
            bad[i / 8] = (unsigned char)(bad[i / 8] ^ 1u << i % 8);
        }
    }
    pack.coded = 0;
    T_OK(tllm_slim_pack(s, z, 0, 2, &pack, frame, sizeof frame, &n));
    memcpy(bad, frame, n); bad[20] = 0xff; sign(bad, n);
    refuses(s, bad, n, 0, TINY_E_FORMAT, "a code that no number has");
    memcpy(bad, frame, n); bad[1] = 9; sign(bad, n);
    refuses(s, bad, n, 0, TINY_E_FORMAT, "invalid bits");
    memcpy(bad, frame, n); bad[3] = 0; sign(bad, n);
    refuses(s, bad, n, 0, TINY_E_FORMAT, "do not exist");
    memcpy(bad, frame, n); bad[3] = 5; sign(bad, n);
    refuses(s, bad, n, 0, TINY_E_FORMAT, "do not exist");
    memcpy(bad, frame, n); bad[3] = 3; sign(bad, n);
    refuses(s, bad, n, 0, TINY_E_FORMAT, "too few or too many codes");
    memcpy(bad, frame, n); bad[5] = 5; sign(bad, n);
    refuses(s, bad, n, 0, TINY_E_SHAPE, "members of 2 x 5 x 4");
    memcpy(bad, frame, n); bad[8] ^= 1; sign(bad, n);
    refuses(s, bad, n, 0, TINY_E_FORMAT, "other scales");
    memcpy(bad, frame, n); bad[0] = 2; sign(bad, n);
    refuses(s, bad, n, 0, TINY_E_FORMAT, "another version");
    T_OK(tllm_slim_pack(s, z + 2 * EACH, 2, 2, &pack, frame, sizeof frame, &n));
    refuses(s, frame, n, 1, TINY_E_FORMAT, "have not arrived");
    T_PROOF("compression 11", "truncated, corrupted and oversized frames rejected");

    T_STATUS(tllm_slim_encode(s, x, 0, 0, z), TINY_E_ARGUMENT, "members 0 to -1");
    T_STATUS(tllm_slim_encode(s, x, 0, K + 1, z), TINY_E_ARGUMENT, "members 0 to 4");
    T_STATUS(tllm_slim_encode(s, x, K, 1, z), TINY_E_ARGUMENT, "members 4 to 4");
    T_STATUS(tllm_slim_tail(s, z, 0, logits), TINY_E_ARGUMENT, "members");
    T_STATUS(tllm_slim_tail(s, z, K + 1, logits), TINY_E_ARGUMENT, "members");
    T_STATUS(tllm_slim_cost_of(s, 0, &cost), TINY_E_ARGUMENT, "width 0");
    z[EACH + 3] = NAN;
    T_STATUS(tllm_slim_pack(s, z, 0, 2, &pack, frame, sizeof frame, &n), TINY_E_NUMERIC, "number 3 of member 1");
    z[EACH + 3] = INFINITY;
    T_STATUS(tllm_slim_pack(s, z, 0, 2, &pack, frame, sizeof frame, &n), TINY_E_NUMERIC, "not finite");
    z[EACH + 3] = 0.0f;
    T_STATUS(tllm_slim_pack(s, z, 0, 2, &pack, frame, 51, &n), TINY_E_ARGUMENT, "more than the 51 bytes");
    pack.bits = 1;
    T_STATUS(tllm_slim_pack(s, z, 0, 2, &pack, frame, sizeof frame, &n), TINY_E_ARGUMENT, "codes of 1 bits");
    pack.bits = 8;
    pack.coded = 1;
    T_STATUS(tllm_slim_pack(s, z, 0, 2, &pack, frame, sizeof frame, &n), TINY_E_ARGUMENT, "counts for codes of 4 bits");
    T_STATUS(tllm_slim_unpack(s, NULL, 30, &have, z), TINY_E_ARGUMENT, "a frame");
    d.members = 17;
    T_STATUS(tllm_slim_open(ctx, &d, &made), TINY_E_ARGUMENT, "17 members");
    d.members = 4; d.in[1] = 1021;
    T_STATUS(tllm_slim_open(ctx, &d, &made), TINY_E_SHAPE, "1 x 1021 x 16");
    d.in[1] = 16; d.bits = 9;
    T_STATUS(tllm_slim_open(ctx, &d, &made), TINY_E_ARGUMENT, "codes of 9 bits");
    d.bits = 4; d.n_class = 0;
    T_STATUS(tllm_slim_open(ctx, &d, &made), TINY_E_ARGUMENT, "0 classes");
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_TEX32, 3, 4, 4, &task));
    T_STATUS(tllm_slim_fit(s, &task.train, NULL), TINY_E_SHAPE, "x must be (n, 1, 16, 16)");
    T_STATUS(tllm_slim_right(s, &task.test, 1, NULL, &right, NULL), TINY_E_SHAPE, "x must be");
    tllm_nn_task_close(ctx, &task);
    memset(&f, 0, sizeof f);
    f.lr = -1.0;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_TEX16, 3, 4, 4, &task));
    T_STATUS(tllm_slim_fit(s, &task.train, &f), TINY_E_ARGUMENT, "a rate of -1");
    ((float *)task.train.x.data)[5] = NAN;
    T_STATUS(tllm_slim_fit(other, &task.train, NULL), TINY_E_NUMERIC, NULL);
    tllm_nn_task_close(ctx, &task);
    T_OK(tllm_slim_save(s, path));
    T_TRUE(tllm_slim_load(other, path) != TINY_OK);     /* of another shape */
    tllm_slim_close(s);
    tllm_slim_close(other);
    t_close(ctx);
    T_PROOF("compression 11", "bad input: m = 0 or > K, shape mismatch, NaN activations");
}

static void test_file(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_slim *s = slim_open(ctx, K, 0, 1), *t = slim_open(ctx, K, 0, 9);
    float *x = t_rand(SIDE * SIDE, -1.0f, 1.0f), a[K * EACH], b[K * EACH], c[K * EACH];
    unsigned char raw[60000], frame[1000];
    FILE *f;
    size_t n = 0, n_frame, k;
    int have = 0;
    teach(ctx, s, 50, 1);
    T_OK(tllm_slim_save(s, path));
    T_OK(tllm_slim_encode(s, x, 0, K, a));
    T_OK(tllm_slim_encode(t, x, 0, K, b));
    f = fopen(path, "rb");
    if (f) { n = fread(raw, 1, sizeof raw, f); (void)fclose(f); }
    T_TRUE(n > 1000 && n < sizeof raw);
    for (k = 0; k < n; k += 997) {          /* cut, and a byte changed: nothing has changed in t */
        T_OK(tiny_file_write(ctx, path, raw, k));
        T_TRUE(tllm_slim_load(t, path) != TINY_OK);
        raw[k] ^= 0x40;
        T_OK(tiny_file_write(ctx, path, raw, n));
        T_TRUE(tllm_slim_load(t, path) != TINY_OK);
        raw[k] ^= 0x40;
    }
    T_OK(tllm_slim_encode(t, x, 0, K, c));
    T_SAME(b, c, K * EACH);
    T_OK(tiny_file_write(ctx, path, raw, n));
    T_OK(tllm_slim_load(t, path));
    T_OK(tllm_slim_encode(t, x, 0, K, c));
    T_SAME(a, c, K * EACH);
    T_OK(tllm_slim_pack(s, a, 0, K, NULL, frame, sizeof frame, &n_frame));
    T_OK(tllm_slim_unpack(t, frame, n_frame, &have, c));            /* both ends have one file */
    tllm_slim_close(s);
    tllm_slim_close(t);
    t_close(ctx);
}

/* ---- training */

static int on_step(void *user, const tllm_slim_fit_state *s)
{
    double *loss = (double *)user;
    if (s->step == 1) loss[0] = s->loss;
    loss[1] = s->loss;
    return 0;
}

/* One batch that is the whole set: the mean of a norm of the first layer is that of its convolution over the set. */
static void test_training(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_slim *s = slim_open(ctx, K, 0, 1);
    tllm_slim_pack_desc pack = { 0, 0 };
    tllm_slim_fit_desc f;
    tllm_nn_task task;
    tiny_checkpoint_desc d;
    plain p;
    tiny_idx dim[4], right, least = 1000, i, o, a, b, r, q;
    const double *w, *mean, *var;
    const float *x;
    double loss[2] = { 0.0, 0.0 }, bytes, coded, entropy = 0.0;
    int m;
    memset(&f, 0, sizeof f);
    memset(&d, 0, sizeof d);
    f.batch = 80;
    f.epochs = 45;
    f.lr = 2e-2;
    f.callback = on_step;
    f.user = loss;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_TEX16, 3, 80, 1, &task));
    T_OK(tllm_slim_fit(s, &task.train, &f));
    T_TRUE(loss[1] < 0.5 * loss[0]);
    for (m = K; m >= 0; m--) {
        T_OK(tllm_slim_right(s, &task.train, m, &pack, &right, &bytes));
        if (m) T_TRUE(right >= 24);         /* chance has 8 of 80 */
        if (right < least) least = right;
        if (m) T_CLOSE(bytes, 20 + 16 * m, 0);
    }
    pack.coded = 1;                         /* the counts are of these samples: entropy, length, end of the stream */
    T_OK(tllm_slim_right(s, &task.train, K, &pack, &right, &coded));
    for (m = 0; m < K; m++) entropy += EACH * tllm_slim_entropy(s, m) / 8.0;
    T_TRUE(entropy > 1.0 && coded > 20.0 + 2 * K + entropy - 1e-9 && coded < 20.0 + 4 * K + 1.01 * entropy);
    T_OK(tllm_slim_save(s, path));
    d.path = path;
    p.ctx = ctx;
    T_OK(tiny_checkpoint_open(ctx, &d, &p.c));
    x = (const float *)task.train.x.data;
    w = numbers(&p, "encode.1", dim);
    mean = numbers(&p, "e1.mean.1", dim);
    var = numbers(&p, "e1.var.1", dim);
    for (o = 0; o < 3 * K; o++) {
        double sum = 0.0, squares = 0.0;
        for (i = 0; i < 80; i++)
            for (a = 0; a < 8; a++)
                for (b = 0; b < 8; b++) {
                    double y = 0.0;
                    for (r = 0; r < 3; r++)
                        for (q = 0; q < 3; q++)
                            if (2 * a + r > 0 && 2 * b + q > 0 && 2 * a + r <= SIDE && 2 * b + q <= SIDE)
                                y += w[o * 9 + r * 3 + q] *
                                     (double)x[(i * SIDE + 2 * a + r - 1) * SIDE + 2 * b + q - 1];
                    sum += y;
                    squares += y * y;
                }
        sum /= 80 * 64;
        T_CLOSE(mean[o], sum, 1e-4);
        T_CLOSE(var[o], squares / (80 * 64) - sum * sum, 1e-3 * (1.0 + squares / (80 * 64)));
    }
    tiny_checkpoint_close(ctx, p.c);
    tllm_nn_task_close(ctx, &task);
    tllm_slim_close(s);
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION(
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1); tiny_ctx *ctx = NULL; tllm_nn_task task; tllm_slim *s = NULL;
        tllm_slim_desc sd; tllm_slim_fit_desc f; memset(&sd, 0, sizeof sd); memset(&f, 0, sizeof f);
        memset(&task, 0, sizeof task);
        sd.in[0] = 1; sd.in[1] = sd.in[2] = 16; sd.members = 1; sd.width = sd.send = sd.tail = 1; sd.n_class = 10;
        f.epochs = 1;
        if (!tiny_ctx_open(&d, &ctx)) {
            if (!tllm_nn_task_open(ctx, TLLM_TASK_TEX16, 1, 2, 1, &task) && !tllm_slim_open(ctx, &sd, &s))
                (void)(tllm_slim_save(s, path) || tllm_slim_load(s, path));
            tllm_slim_close(s);
            tllm_nn_task_close(ctx, &task);
            tiny_ctx_close(ctx);
        })
}

/* ---- the controller: simulated links whose times follow the formula */

static tllm_slim_control control_of(double deadline)
{
    tllm_slim_control c;
    int i;
    memset(&c, 0, sizeof c);
    c.members = K;
    c.deadline = deadline;
    for (i = 0; i < K; i++) c.bytes[i] = (size_t)(36 + 64 * (i + 1));
    return c;
}

/* 0.1 ms a member, 0.4 ms there and back, 0.2 ms for the tail */
static double time_of(const tllm_slim_control *c, int m, double bandwidth)
{
    return 1e-4 * m + (double)c->bytes[m - 1] / bandwidth + 2e-4 + 2e-4;
}

static int best_of(const tllm_slim_control *c, double bandwidth)
{
    int m = K;
    while (m && time_of(c, m, bandwidth) > c->deadline) m--;
    return m;
}

static int frame_at(tllm_slim_control *c, int m, double bandwidth, double noise)
{
    tllm_slim_seen s;
    memset(&s, 0, sizeof s);
    s.m = m;
    if (m) {
        s.bytes = c->bytes[m - 1];
        s.encode = 1e-4 * m;
        s.transfer = (double)s.bytes / bandwidth * (1.0 + noise * (double)t_rand_float(-1.0f, 1.0f));
        s.decode = 2e-4;
        s.rtt = 4e-4;
    }
    return tllm_slim_control_next(c, &s);
}

static void test_controller(void)
{
    static const double kbit[] = { 10000, 50, 400, 100, 10000, 200, 60, 2000, 100, 10000 };
    tllm_slim_control c = control_of(0.030);
    tllm_slim_seen s;
    int m = tllm_slim_control_next(&c, NULL), step, i, noisy, changes, last;
    T_EQ_INT(m, 1);                         /* nothing is known */
    for (step = 0; step < (int)T_COUNT(kbit); step++) {
        const double w = 125.0 * kbit[step];
        const int best = best_of(&c, w);
        T_TRUE(best > 0 && time_of(&c, best, w) < 0.9 * c.deadline);        /* no width between margin and deadline */
        for (i = 1; i <= 60; i++) {
            m = frame_at(&c, m, w, 0.0);
            if (i >= 5 && m != best) {
                t_fail(__FILE__, __LINE__, "%g kbit/s, frame %d: %d members, not %d", kbit[step], i, m, best);
                break;
            }
        }
    }
    T_PROOF("compression 11", "step changes of bandwidth: converges in <= 5 frames, never oscillates between two m");
    for (noisy = 1; noisy <= 6; noisy++) {  /* 5 % of noise at every rate: at most one change */
        for (step = 40; step < 2000; step = step * 11 / 10) {
            c = control_of(0.030);
            m = tllm_slim_control_next(&c, NULL);
            for (i = 0; i < 12; i++) m = frame_at(&c, m, 125.0 * step, 0.01 * noisy);
            for (changes = 0, i = 0; i < 100; i++, changes += m != last) {
                last = m;
                m = frame_at(&c, m, 125.0 * step, 0.01 * noisy);
                if (m > last) T_TRUE(last == 0 || changes == 0);
            }
            if (changes > 1 && best_of(&c, 125.0 * step))
                t_fail(__FILE__, __LINE__, "%d kbit/s: %d changes", step, changes);
        }
    }
    /* worked: 100 then 200 bytes a second: mean 130, variance 0.7 (0.3 100^2) = 2100; mean - deviation = 84.2, but the
     * smallest of the last three is 100 */
    c = control_of(10.0);
    memset(&s, 0, sizeof s);
    s.m = 1; s.bytes = 100; s.transfer = 1.0;
    (void)tllm_slim_control_next(&c, NULL);
    T_EQ_INT(tllm_slim_control_next(&c, &s), 1);
    s.bytes = 200;
    s.encode = 0.5;
    T_EQ_INT(tllm_slim_control_next(&c, &s), 1);
    T_CLOSE(c.bandwidth, 130.0, 1e-9);
    T_CLOSE(c.variance, 2100.0, 1e-9);
    T_CLOSE(tllm_slim_control_time(&c, 1), 0.5 + 1.0, 1e-9);
    T_CLOSE(tllm_slim_control_time(&c, 3), 1.5 + 2.28, 1e-9);               /* encode in proportion */
    s.encode = 1.0;
    (void)tllm_slim_control_next(&c, &s);
    T_CLOSE(c.encode[0], 0.6, 1e-12);       /* 0.5 + 0.2 (1 - 0.5) */
    /* an outage: no width, then a trial every 8 frames, and back when the link is */
    c = control_of(0.030);
    m = tllm_slim_control_next(&c, NULL);
    for (i = 0; i < 10; i++) m = frame_at(&c, m, 1e6, 0.0);
    T_EQ_INT(m, K);
    for (i = 0; i < 5 && m; i++) m = frame_at(&c, m, 100.0, 0.0);
    T_EQ_INT(m, 0);
    for (i = 0, changes = 0; i < 80; i++) {
        m = frame_at(&c, m, 100.0, 0.0);
        changes += m;
    }
    T_TRUE(changes >= 8 && changes <= 11);
    for (i = 0; i < 13 && m < K; i++) m = frame_at(&c, m, 1e6, 0.0);
    T_EQ_INT(m, K);
    /* not valid */
    s.m = 1; s.bytes = 0; s.transfer = 1.0;
    T_EQ_INT(tllm_slim_control_next(&c, &s), -1);       /* a bandwidth of 0 */
    s.bytes = 100; s.transfer = INFINITY;
    T_EQ_INT(tllm_slim_control_next(&c, &s), -1);
    s.transfer = NAN;
    T_EQ_INT(tllm_slim_control_next(&c, &s), -1);
    s.transfer = 1.0; s.m = K + 1;
    T_EQ_INT(tllm_slim_control_next(&c, &s), -1);
    s.m = 1;
    c.deadline = 0.0;
    T_EQ_INT(tllm_slim_control_next(&c, &s), -1);
    c = control_of(0.030);
    c.bytes[2] = 0;
    T_EQ_INT(tllm_slim_control_next(&c, NULL), -1);
    T_EQ_INT(tllm_slim_control_next(NULL, NULL), -1);
    T_PROOF("compression 11", "bad input: bandwidth 0");
}

int main(void)
{
    T_RUN_TARGETS(test_members);
    T_RUN(test_costs);
    T_RUN(test_switching);
    T_RUN(test_bad);
    T_RUN(test_file);
    T_RUN(test_training);
    T_RUN(test_memory);
    T_RUN(test_controller);
    return t_done();
}
#endif
