/* tests/llm/lab/vision/tome.c - matching of tokens: by hand, against plain loops, ties, tokens of length 0, sizes,
 * tracking, the backward pass, schedules */
#include "t.h"

enum { MOST = 40 };

static int32_t part(const tiny_tensor *match, tiny_idx t, tllm_tome_parts which, tiny_idx i, tiny_idx b)
{
    const tiny_tensor p = tllm_tome_part(match, t, which);
    return ((const int32_t *)p.data)[i * p.dim[1] + b];
}

/* worked by hand: class token, five others, one merge */
static void test_by_hand(tiny_target target)
{
    static float x[6][2] = { { 9, 9 }, { 1, 0 }, { 0, 1 }, { 1, 0.1f }, { 0.1f, 1 }, { 1, 1 } };
    static const int32_t to[6] = { 0, 2, 1, 3, 4, 4 }, from[5] = { 0, 2, 1, 3, 5 };
    static const float want[5][2] = { { 9, 9 }, { 0, 1 }, { 1, 0 }, { 1, 0.1f }, { 0.55f, 1 } };
    static const double scores[2][3] = { { 0, .0995, .7071 }, { .0995, .1980, .7740 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    int32_t m[13];
    float size[6] = { 1, 1, 1, 1, 1, 1 }, next[5], y[10], back[12];
    tiny_tensor keys = tiny_tensor_3d(x, TINY_F32, 6, 1, 2), match = tiny_tensor_2d(m, TINY_I32, 13, 1),
                sizes = tiny_tensor_2d(size, TINY_F32, 6, 1), nexts = tiny_tensor_2d(next, TINY_F32, 5, 1);
    tiny_tensor out = tiny_tensor_3d(y, TINY_F32, 5, 1, 2), all = tiny_tensor_3d(back, TINY_F32, 6, 1, 2), places;
    int i, j;
    for (i = 0; i < 2; i++)                 /* the scores of tokens 2 and 4 to 1, 3 and 5, as angles */
        for (j = 0; j < 3; j++) {
            const float *a = x[2 + 2 * i], *b = x[1 + 2 * j];
            T_CLOSE((double)(a[0] * b[0] + a[1] * b[1]) /
                        sqrt((double)((a[0] * a[0] + a[1] * a[1]) * (b[0] * b[0] + b[1] * b[1]))),
                    scores[i][j], 5e-5);
        }
    T_OK(tllm_tome_match(ctx, &keys, 1, TLLM_TOME_CLASS, &match));
    T_RAN_ON(ctx, t_vectors(target));
    T_EQ_INT(part(&match, 6, TLLM_TOME_SOURCE, 0, 0), 4);
    T_EQ_INT(part(&match, 6, TLLM_TOME_TARGET, 0, 0), 5);
    for (i = 0; i < 6; i++) T_EQ_INT(part(&match, 6, TLLM_TOME_TO, i, 0), to[i]);
    for (i = 0; i < 5; i++) T_EQ_INT(part(&match, 6, TLLM_TOME_FROM, i, 0), from[i]);
    T_OK(tllm_tome_merge(ctx, &keys, &sizes, &match, NULL, &out));
    for (i = 0; i < 10; i++) T_CLOSE(y[i], want[i / 2][i % 2], 1e-7);
    T_OK(tllm_tome_sizes(ctx, &sizes, &match, &nexts));
    for (i = 0; i < 5; i++) T_TRUE(next[i] == (i == 4 ? 2.0f : 1.0f));
    places = tllm_tome_part(&match, 6, TLLM_TOME_TO);
    T_OK(tllm_tome_unmerge(ctx, &out, &places, &all));
    for (i = 0; i < 12; i++) T_CLOSE(back[i], want[to[i / 2]][i % 2], 1e-7);
    t_close(ctx);
    T_PROOF("attention 9", "worked tokens: scores, source 4, destination 5, result rows");
}

/* once more, by the definition: best of B for each of A, sorted by score */
typedef struct pairs { int n_left, src[MOST], dst[MOST], left[MOST]; } pairs;
static void plain(const float *keys, int t, int batch, int heads, int d, int b, int r, unsigned flags, pairs *p)
{
    static double m[MOST][64];
    double best[MOST];
    int with[MOST], order[MOST], i, j, k, h, n_a = (t + 1) / 2;
    for (i = 0; i < t; i++) {
        double square = 0;
        for (j = 0; j < d; j++) {
            for (m[i][j] = 0, h = 0; h < heads; h++)
                m[i][j] += (double)keys[(i * batch * heads + b * heads + h) * d + j] / heads;
            square += m[i][j] * m[i][j];
        }
        for (j = 0; j < d; j++) m[i][j] /= sqrt(square);
    }
    for (i = 0; i < n_a; i++) {
        best[i] = -2;
        with[i] = 0;
        for (j = flags & TLLM_TOME_DISTILL ? 1 : 0; j < t / 2 && (i || !(flags & TLLM_TOME_CLASS)); j++) {
            double s = 0;
            for (k = 0; k < d; k++) s += m[2 * i][k] * m[2 * j + 1][k];
            if (s > best[i]) { best[i] = s; with[i] = j; }
        }
        for (j = i; j > 0 && best[order[j - 1]] < best[i]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    for (i = 0; i < r; i++) { p->src[i] = 2 * order[i]; p->dst[i] = 2 * with[order[i]] + 1; }
    p->n_left = n_a - r;
    for (i = 0; i < p->n_left; i++) p->left[i] = 2 * order[r + i];
    for (i = 1; i < p->n_left && (flags & TLLM_TOME_CLASS); i++)
        for (j = i; j > 0 && p->left[j - 1] > p->left[j]; j--) {
            k = p->left[j];
            p->left[j] = p->left[j - 1];
            p->left[j - 1] = k;
        }
}

static void check_match(tiny_ctx *ctx, int t, int batch, int heads, int d, unsigned flags, int r, int turned)
{
    float *keys = t_rand((size_t)(t * batch * heads * d), -1, 1), *given = keys;
    int32_t *m = (int32_t *)t_guarded_bytes((size_t)((2 * t + r) * batch) * 4);
    tiny_tensor k = tiny_tensor_3d(keys, TINY_F32, t, batch * heads, d),
                match = tiny_tensor_2d(m, TINY_I32, 2 * t + r, batch);
    pairs p;
    int b, i, j;
    if (turned) {                           /* numbers of a row apart */
        given = t_guarded((size_t)(t * batch * heads * d));
        for (i = 0; i < t * batch * heads; i++)
            for (j = 0; j < d; j++) given[j * t * batch * heads + i] = keys[i * d + j];
        k.data = given;
        k.stride[0] = batch * heads; k.stride[1] = 1; k.stride[2] = t * batch * heads;
    }
    if (!T_OK(tllm_tome_match(ctx, &k, batch, flags, &match))) return;
    T_WALLS(m, (2 * t + r) * batch);
    for (b = 0; b < batch; b++) {
        int seen[MOST] = { 0 }, out = 0;
        plain(keys, t, batch, heads, d, b, r, flags, &p);
        for (i = 0; i < r; i++) {
            T_EQ_INT(part(&match, t, TLLM_TOME_SOURCE, i, b), p.src[i]);
            T_EQ_INT(part(&match, t, TLLM_TOME_TARGET, i, b), p.dst[i]);
            T_EQ_INT(part(&match, t, TLLM_TOME_TO, p.src[i], b), part(&match, t, TLLM_TOME_TO, p.dst[i], b));
            T_TRUE(!(flags & TLLM_TOME_CLASS) || p.src[i] != 0);
            T_TRUE(!(flags & TLLM_TOME_DISTILL) || p.dst[i] != 1);
        }
        /* order: with a distillation token left[0], token 1, the rest of A, the rest of B; else A, then B */
        for (i = 0; i < p.n_left; i++, out++) {
            if (flags & TLLM_TOME_DISTILL && i == 1) T_EQ_INT(part(&match, t, TLLM_TOME_FROM, out++, b), 1);
            T_EQ_INT(part(&match, t, TLLM_TOME_FROM, out, b), p.left[i]);
        }
        for (i = flags & TLLM_TOME_DISTILL && p.n_left > 1; i < t / 2; i++, out++)
            T_EQ_INT(part(&match, t, TLLM_TOME_FROM, out, b), 2 * i + 1);
        T_EQ_INT(out, t - r);
        if (flags & TLLM_TOME_CLASS) T_EQ_INT(part(&match, t, TLLM_TOME_FROM, 0, b), 0);
        for (i = 0; i < t - r; i++) {
            T_EQ_INT(part(&match, t, TLLM_TOME_TO, part(&match, t, TLLM_TOME_FROM, i, b), b), i);
            seen[part(&match, t, TLLM_TOME_FROM, i, b)]++;
        }
        for (i = 0; i < r; i++) seen[p.src[i]]++;
        for (i = 0; i < t; i++) T_EQ_INT(seen[i], 1);
    }
}

static void test_random(tiny_target target)
{
    static const int tokens[] = { 1, 2, 3, 4, 5, 8, 17, 33, 40 }, widths[] = { 1, 3, 7, 8, 9, 16, 33, 64 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i, j;
    for (i = 0; i < T_COUNT(tokens); i++)
        for (j = i % 2; j < T_COUNT(widths); j += T_SLOW ? 4 : 2) {
            const unsigned flags = (unsigned)(i + j / 2) % 4;
            /* of one number: signs, all ties */
            const int most = (int)tllm_tome_count(tokens[i], 1000, flags),
                      d = tokens[i] > 5 && widths[j] == 1 ? 2 : widths[j];
            if (d > 1) {
                check_match(ctx, tokens[i], 1 + (int)(j % 3), 1 + (int)(i % 3), d, flags, most, (i + j) % 3 == 0);
                check_match(ctx, tokens[i], 2, 2, d, flags, most / 2, 0);
            }
            check_match(ctx, tokens[i], 2, 1, (d > 2 ? d : 2), 3 - flags, (int)tllm_tome_count(tokens[i], 1, 3 - flags),
                        0);
        }
    t_close(ctx);
    T_PROOF("attention 9", "class token never merged");
}

/* equal tokens: the first; tokens without a length, or of no finite one: 0 to all, and no NaN */
static void test_ties_and_odd(tiny_target target)
{
    static const float odd[3] = { 0, INFINITY, NAN };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_guarded(33 * 13);
    int32_t m[2 * 33 + 16];
    tiny_tensor keys = tiny_tensor_3d(x, TINY_F32, 33, 1, 13), match = tiny_tensor_2d(m, TINY_I32, 2 * 33 + 16, 1);
    int i, j, k;
    for (i = 0; i < 33 * 13; i++) x[i] = (float)(i % 13) - 5.3f;
    T_OK(tllm_tome_match(ctx, &keys, 1, TLLM_TOME_CLASS, &match));
    for (i = 0; i < 16; i++) {
        T_EQ_INT(part(&match, 33, TLLM_TOME_SOURCE, i, 0), 2 * i + 2);
        T_EQ_INT(part(&match, 33, TLLM_TOME_TARGET, i, 0), 1);
    }
    for (k = 0; k < 3; k++) {               /* tokens 4, 6 and 7 are odd, the others as alike as can be */
        for (i = 4; i < 8; i++) for (j = 0; j < 13 && i != 5; j++) x[i * 13 + j] = odd[k];
        T_OK(tllm_tome_match(ctx, &keys, 1, TLLM_TOME_CLASS, &match));
        T_EQ_INT(part(&match, 33, TLLM_TOME_SOURCE, 13, 0), 32);
        T_EQ_INT(part(&match, 33, TLLM_TOME_SOURCE, 14, 0), 4);
        T_EQ_INT(part(&match, 33, TLLM_TOME_SOURCE, 15, 0), 6);
        T_EQ_INT(part(&match, 33, TLLM_TOME_TARGET, 14, 0), 1);
    }
    for (k = 0; k < 2; k++) {               /* squares beyond float, on both sides: the direction counts */
        for (i = 0; i < 33 * 13; i++)
            x[i] = ((float)(i % 13) - 5.3f + (i / 13 == 8 ? (float)(i % 5) : 0.0f)) * (k ? 1e-30f : 1e30f);
        T_OK(tllm_tome_match(ctx, &keys, 1, TLLM_TOME_CLASS, &match));
        T_EQ_INT(part(&match, 33, TLLM_TOME_SOURCE, 15, 0), 8);
    }
    t_close(ctx);
    T_PROOF("attention 9", "bad input: zero-norm metric row, ties");
}

/* merge after merge: every token is counted once, and found again */
static void test_chain(tiny_target target)
{
    enum { T = 37, B = 3, D = 5, BLOCKS = 6 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(T * B * D, -1, 1), *first = t_rand(T * B * D, 0, 0), *y = t_guarded(T * B * D),
          *size = t_rand(T * B, 1, 1), *next = t_guarded(T * B);
    int32_t *m = (int32_t *)t_keep(3 * T * B * 4), *at = (int32_t *)t_keep(T * B * 4);
    tiny_tensor place = tiny_tensor_2d(at, TINY_I32, T, B), match, sx, sn, tx, ty;
    tiny_idx t = T, r, i, j, k;
    memcpy(first, x, T * B * D * sizeof *x);
    T_OK(tllm_tome_track(ctx, &place, NULL, 0));
    for (k = 0; k < BLOCKS; k++) {
        r = tllm_tome_count(t, 9, TLLM_TOME_CLASS);
        match = tiny_tensor_2d(m, TINY_I32, 2 * t + r, B);
        tx = tiny_tensor_3d(x, TINY_F32, t, B, D);
        ty = tiny_tensor_3d(y, TINY_F32, t - r, B, D);
        sx = tiny_tensor_2d(size, TINY_F32, t, B);
        sn = tiny_tensor_2d(next, TINY_F32, t - r, B);
        T_OK(tllm_tome_match(ctx, &tx, B, TLLM_TOME_CLASS, &match));
        T_OK(tllm_tome_merge(ctx, &tx, &sx, &match, NULL, &ty));
        T_OK(tllm_tome_sizes(ctx, &sx, &match, &sn));
        T_OK(tllm_tome_track(ctx, &place, &match, t));
        t -= r;
        memcpy(x, y, (size_t)(t * B * D) * sizeof *x);
        memcpy(size, next, (size_t)(t * B) * sizeof *x);
        /* sum of sizes, weighted sum of tokens, and the mean of each */
        for (i = 0; i < B; i++) {
            double n = 0, sum[D] = { 0 };
            for (j = 0; j < t; j++) n += (double)size[j * B + i];
            T_TRUE(n == T);
            for (j = 0; j < t * D; j++)
                sum[j % D] += (double)size[j / D * B + i] * (double)x[(j / D * B + i) * D + j % D];
            for (j = 0; j < T * D; j++) sum[j % D] -= (double)first[(j / D * B + i) * D + j % D];
            for (j = 0; j < D; j++) T_CLOSE(sum[j], 0, 1e-5);
            T_EQ_INT(at[i], 0);
            for (j = 0; j < t; j++) {
                double mean[D] = { 0 };
                tiny_idx q, d, count = 0;
                for (q = 0; q < T; q++) {
                    if (at[q * B + i] != j) continue;
                    count++;
                    for (d = 0; d < D; d++) mean[d] += (double)first[(q * B + i) * D + d];
                }
                T_TRUE((double)count == (double)size[j * B + i]);
                for (d = 0; d < D; d++) T_CLOSE(x[(j * B + i) * D + d], mean[d] / (double)count, 1e-6);
            }
        }
    }
    T_EQ_INT(t, 3);                         /* 37, 28, 19, 10, 6, 4, 3: nine, or all that there are */
    t_close(ctx);
    T_PROOF("attention 9", "sum of sizes is t0");
    T_PROOF("attention 9", "size-weighted sum of x conserved");
}

static void test_schedules(tiny_target target)
{
    static const tiny_idx left[4] = { 11, 5, 7, 5 };
    static const double times[4] = { 2.02, 3.52, 1.99, 3.46 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tiny_idx each[12], n, i, t;
    int k;
    for (k = 0; k < TLLM_TOME_SCHEDULES; k++) {
        const tiny_idx *r = tllm_tome_scheduled((tllm_tome_schedule)k, &n);
        const double d = k < 2 ? 768 : 1024;
        double some = 0, all = 0, match = 0;
        T_EQ_INT(n, k < 2 ? 12 : 24);
        /* multiply-adds of a block: q, k, v and out, attention, and the wide layer after the merge */
        for (i = 0, t = 197; i < n; i++) {
            all += 12 * d * d * 197 + 2.0 * 197 * 197 * d;
            some += 4 * d * d * (double)t + 2.0 * (double)(t * t) * d;
            match += (double)((t + 1) / 2 * (t / 2)) * 64;
            T_EQ_INT(tllm_tome_count(t, r[i], TLLM_TOME_CLASS), (r[i] < (t - 1) / 2 ? r[i] : (t - 1) / 2));
            t -= tllm_tome_count(t, r[i], TLLM_TOME_CLASS);
            some += 8 * d * d * (double)t;
        }
        T_EQ_INT(t, left[k]);
        T_CLOSE(all / some, times[k], 0.005);
        if (k < 2) T_CLOSE(match / some, 0.0003, 0.00005);
    }
    T_TRUE(!tllm_tome_scheduled(TLLM_TOME_SCHEDULES, &n) && n == 0);
    T_OK(tllm_tome_inflected(ctx, 16, 0, 12, each));
    for (i = 0; i < 12; i++) T_EQ_INT(each[i], 16);
    T_OK(tllm_tome_inflected(ctx, 16, 1, 12, each));        /* 0, 32/11, 64/11 ... */
    for (i = 0; i < 12; i++) T_EQ_INT(each[i], 32 * i / 11);
    T_OK(tllm_tome_inflected(ctx, 8, -0.5, 5, each));       /* 12, 10, 8, 6, 4 */
    for (i = 0; i < 5; i++) T_EQ_INT(each[i], 12 - 2 * i);
    T_OK(tllm_tome_inflected(ctx, 5, 0.5, 1, each));
    T_EQ_INT(each[0], 2);
    T_STATUS(tllm_tome_inflected(ctx, -1, 0, 5, each), TINY_E_ARGUMENT, "-1 merges");
    T_STATUS(tllm_tome_inflected(ctx, 1, (double)NAN, 5, each), TINY_E_ARGUMENT, "inflection");
    T_STATUS(tllm_tome_inflected(ctx, 1, 0, 0, each), TINY_E_ARGUMENT, "0 blocks");
    /* no more than exist, none of a single token, and never a protected token */
    T_EQ_INT(tllm_tome_count(197, 400, TLLM_TOME_CLASS), 98);
    T_EQ_INT(tllm_tome_count(197, 400, 0), 98);
    T_EQ_INT(tllm_tome_count(198, 400, TLLM_TOME_CLASS | TLLM_TOME_DISTILL), 98);
    T_EQ_INT(tllm_tome_count(1, 5, TLLM_TOME_CLASS), 0);
    T_EQ_INT(tllm_tome_count(0, 5, 3), 0);
    T_EQ_INT(tllm_tome_count(3, 5, TLLM_TOME_DISTILL), 0);
    T_EQ_INT(tllm_tome_count(9, -1, 0), 0);
    t_close(ctx);
    T_PROOF("attention 9", "bad input: r > half is clamped, t < 2");
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float *x = t_rand(6 * 4, -1, 1), size[6] = { 1, 1, 1, 1, 1, 1 }, next[6];
    int32_t m[16], at[6] = { 0, 1, 2, 3, 4, 5 };
    tiny_tensor keys = tiny_tensor_3d(x, TINY_F32, 6, 2, 2), match = tiny_tensor_2d(m, TINY_I32, 13, 1),
                wide = tiny_tensor_2d(m, TINY_I32, 15, 1), sx = tiny_tensor_2d(size, TINY_F32, 6, 1);
    tiny_tensor sn = tiny_tensor_2d(next, TINY_F32, 5, 1), place = tiny_tensor_2d(at, TINY_I32, 6, 1),
                y = tiny_tensor_3d(x, TINY_F32, 5, 1, 2), all = tiny_tensor_3d(x + 10, TINY_F32, 6, 1, 2), part_of;
    T_STATUS(tllm_tome_match(ctx, NULL, 1, 0, &match), TINY_E_ARGUMENT, "are needed");
    T_STATUS(tllm_tome_match(ctx, &keys, 1, 8, &match), TINY_E_ARGUMENT, "flags 8");
    T_STATUS(tllm_tome_match(ctx, &keys, 1, 4, &match), TINY_E_ARGUMENT, "flags 4");
    T_STATUS(tllm_tome_match(ctx, &keys, 3, 0, &match), TINY_E_SHAPE, "3 images");
    T_STATUS(tllm_tome_match(ctx, &keys, 0, 0, &match), TINY_E_SHAPE, "0 images");
    T_STATUS(tllm_tome_match(ctx, &keys, 2, 0, &match), TINY_E_SHAPE, "must be dense i32, 12 x 2");
    T_STATUS(tllm_tome_match(ctx, &keys, 1, TLLM_TOME_CLASS, &wide), TINY_E_SHAPE, "at most 2");
    T_OK(tllm_tome_match(ctx, &keys, 1, 0, &wide));
    keys.dim[0] = 0;
    T_STATUS(tllm_tome_match(ctx, &keys, 1, 0, &match), TINY_E_ARGUMENT, "0 tokens");
    keys.dim[0] = 6;
    T_OK(tllm_tome_match(ctx, &keys, 1, 0, &match));
    part_of = tllm_tome_part(&match, 4, TLLM_TOME_TO);
    T_TRUE(!part_of.data);
    T_STATUS(tllm_tome_sizes(ctx, &sn, &match, &sx), TINY_E_SHAPE, "sizes must be");
    m[2] = 7;
    T_STATUS(tllm_tome_sizes(ctx, &sx, &match, &sn), TINY_E_ARGUMENT, "number 2 of the match is 7");
    m[2] = -1;
    T_STATUS(tllm_tome_merge(ctx, &all, &sx, &match, NULL, &y), TINY_E_ARGUMENT, "number 2 of the match is -1");
    T_OK(tllm_tome_match(ctx, &keys, 1, 0, &match));
    m[6] = m[7];
    T_STATUS(tllm_tome_sizes(ctx, &sx, &match, &sn), TINY_E_ARGUMENT, "which has another output");
    T_OK(tllm_tome_match(ctx, &keys, 1, 0, &match));
    m[11] = m[12];
    T_STATUS(tllm_tome_sizes(ctx, &sx, &match, &sn), TINY_E_ARGUMENT, "do not merge");
    {                                       /* each pair is used, but token 2 is merged twice, and 3 never */
        static const int32_t lost[8] = { 0, 1, 2, 2, 0, 1, 2, 2 };
        memcpy(m, lost, sizeof lost);
        m[8] = 3;
        match.dim[0] = 9;
        sx.dim[0] = 4;
        sn.dim[0] = 3;
        T_STATUS(tllm_tome_sizes(ctx, &sx, &match, &sn), TINY_E_ARGUMENT, "do not merge");
        match.dim[0] = 13;
        sx.dim[0] = 6;
        sn.dim[0] = 5;
    }
    T_OK(tllm_tome_match(ctx, &keys, 1, 0, &match));
    at[3] = 6;
    T_STATUS(tllm_tome_track(ctx, &place, &match, 6), TINY_E_ARGUMENT, "token 3 has place 6 of 6");
    T_STATUS(tllm_tome_track(ctx, &place, &match, 5), TINY_E_SHAPE, "not one of 5 tokens");
    T_STATUS(tllm_tome_unmerge(ctx, &y, &place, &all), TINY_E_ARGUMENT, "has output 6, but there are");
    T_STATUS(tllm_tome_unmerge(ctx, &y, &place, &y), TINY_E_SHAPE, "all dense");
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        float x[12];
        int32_t m[13];
        tiny_tensor keys = tiny_tensor_3d(x, TINY_F32, 6, 1, 2);
        tiny_tensor match = tiny_tensor_2d(m, TINY_I32, 13, 1);
        memset(x, 0, sizeof x);
        if (!tiny_ctx_open(&cd, &ctx)) {
            const tiny_status st = tllm_tome_match(ctx, &keys, 1, 0, &match);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_FORMS(test_by_hand);
    T_RUN_FORMS(test_random);
    T_RUN_FORMS(test_ties_and_odd);
    T_RUN_FORMS(test_chain);
    T_RUN_FORMS(test_schedules);
    T_RUN(test_bad);
    T_RUN(test_memory);
    return t_done();
}
