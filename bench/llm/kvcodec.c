/* bench/llm/kvcodec.c - the cache codec: bits an element against the error, and the speed of reading and writing
 *
 * CacheGen (arXiv 2310.07240) reports caches 3.5 to 4.3 times smaller than 8-bit ones at equal quality. Here: a
 * synthetic cache (256 channels, log-normal scales, AR(1) over 1500 tokens; tables from four other texts, bytes really
 * written) and the cache of examples/models/story.gguf. The alternatives: each row quantized alone, in any number of
 * bins or in whole bits; and these coded by channels without differences, with tables of the text itself. */
#include "../bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHANNELS = 256, TOKENS = 1500, LEVELS = 3, SIZES = 9 };

typedef struct bk_arg {
    tiny_ctx *ctx;
    const tllm_kvcodec_tables *t;
    tllm_kv kv;
    tllm_kvcodec_desc d;
    float *x;
    void *bytes;
    size_t n;
    int8_t *q;
} bk_arg;

static void bk_read(void *user, tiny_idx layer, int part, tiny_idx token, float *row)
{
    (void)layer;
    (void)part;
    memcpy(row, (const float *)user + token * CHANNELS, CHANNELS * sizeof *row);
}
static void bk_write(void *user, tiny_idx layer, int part, tiny_idx token, const float *row)
{
    (void)layer;
    (void)part;
    memcpy((float *)user + token * CHANNELS, row, CHANNELS * sizeof *row);
}
static void bk_kv(tllm_kv *kv, float *x)
{
    static const int32_t width[TLLM_KV_PARTS] = { CHANNELS, 0, 0 };
    memset(kv, 0, sizeof *kv);
    kv->n_layer = 1;
    kv->width = width;
    kv->read = bk_read;
    kv->write = bk_write;
    kv->user = x;
}

static double bk_quantile(double part)      /* of a normal distribution */
{
    double low = -6, high = 6;
    int i;
    for (i = 0; i < 60; i++) *(0.5 * erfc(-(low + high) / 2 / sqrt(2.0)) < part ? &low : &high) = (low + high) / 2;
    return low;
}
static void bk_synthetic(float *x, double sigma, double rho, uint64_t seed)
{
    tiny_rng draw = tiny_rng_make(seed, 2);
    const float fresh = sqrtf((float)(1 - rho * rho));
    float s[CHANNELS];
    tiny_idx t, k;
    for (k = 0; k < CHANNELS; k++) s[k] = (float)exp(sigma * bk_quantile(((double)k + 0.5) / CHANNELS));
    for (t = 0; t < TOKENS; t++)
        for (k = 0; k < CHANNELS; k++) {
            const float e = s[k] * tiny_rng_normal(&draw);
            x[t * CHANNELS + k] = t ? (float)rho * x[(t - 1) * CHANNELS + k] + fresh * e : e;
        }
}

static double bk_error(const float *x, const float *y, size_t n)
{
    double sum = 0, all = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)x[i] * (double)x[i];
    }
    return sqrt(sum / all);
}
/* rows of width numbers to -m .. m */
static double bk_plain(const float *x, size_t rows, size_t width, double m)
{
    double sum = 0, all = 0;
    size_t r, i;
    for (r = 0; r < rows; r++, x += width) {
        double most = 1e-30;
        for (i = 0; i < width; i++) most = fmax(most, fabs((double)x[i]));
        for (i = 0; i < width; i++) {
            const double e = (double)x[i] - most / m * nearbyint((double)x[i] * m / most);
            sum += e * e;
            all += (double)x[i] * (double)x[i];
        }
    }
    return sqrt(sum / all);
}
static double bk_plain_at(const float *x, size_t rows, size_t width, double error)     /* the m that has this error */
{
    double low = 1, high = 2000;
    int i;
    for (i = 0; i < 30; i++) *(bk_plain(x, rows, width, sqrt(low * high)) > error ? &low : &high) = sqrt(low * high);
    return high;
}
static double bk_coded(tiny_ctx *ctx, const float *x, int m)       /* bits an element */
{
    static unsigned char symbol[CHANNELS][TOKENS], bytes[2 * TOKENS + 16];
    size_t all = 2 * TOKENS, n;
    tiny_idx t, k;
    for (t = 0; t < TOKENS; t++) {
        float most = 0;
        for (k = 0; k < CHANNELS; k++) most = fmaxf(most, fabsf(x[t * CHANNELS + k]));
        for (k = 0; k < CHANNELS; k++)
            symbol[k][t] = (unsigned char)(m + (int)nearbyintf(x[t * CHANNELS + k] * (float)m / most));
    }
    for (k = 0; k < CHANNELS; k++) {
        uint32_t count[256] = { 0 };
        uint16_t cdf[257];
        for (t = 0; t < TOKENS; t++) count[symbol[k][t]]++;
        tllm_kvcodec_cdf(cdf, count, 2 * m + 1);
        b_must(ctx, tllm_kvcodec_code(ctx, cdf, 2 * m + 1, symbol[k], TOKENS, bytes, &n));
        all += n + 2;
    }
    return 8.0 * (double)all / (CHANNELS * TOKENS);
}

/* three numbers of bins at once, in the places of the levels */
static tllm_kvcodec_tables *bk_tables(tiny_ctx *ctx, float *x, const int *three, double sigma, double rho)
{
    int32_t bins[LEVELS * TLLM_KV_PARTS];
    tllm_kvcodec_profile *p = NULL;
    tllm_kvcodec_tables *t = NULL;
    tllm_kv kv;
    int i;
    for (i = 0; i < LEVELS * TLLM_KV_PARTS; i++) bins[i] = three[i / TLLM_KV_PARTS];
    bk_kv(&kv, x);
    b_must(ctx, tllm_kvcodec_profile_open(ctx, &kv, bins, &p));
    for (i = 0; i < 4; i++) {
        bk_synthetic(x, sigma, rho, 1 + (uint64_t)i);
        b_must(ctx, tllm_kvcodec_profile_add(p, &kv, 0, TOKENS));
    }
    b_must(ctx, tllm_kvcodec_profile_tables(p, &t));
    tllm_kvcodec_profile_close(p);
    return t;
}

/* ---- bits against error ------------------------------------------------------------------------------------------ */

static void bk_curves(tiny_ctx *ctx, float *x, float *y, double sigma, double rho)
{
    static const int bins[SIZES] = { 8, 12, 16, 24, 32, 48, 64, 96, 128 };
    double e[4][SIZES], b[4][SIZES];
    b_curve curve[4];
    tllm_kvcodec_tables *t = NULL;
    tllm_kvcodec_desc d;
    tllm_kv kv;
    char text[120];
    int i;
    bk_kv(&kv, x);
    memset(&d, 0, sizeof d);
    d.n_token = TOKENS;
    for (i = 0; i < SIZES; i++) {
        void *bytes;
        size_t n;
        double m;
        if (i % LEVELS == 0) t = bk_tables(ctx, x, bins + i, sigma, rho);
        bk_synthetic(x, sigma, rho, 101);
        d.level = 1 + i % LEVELS;
        b_must(ctx, tllm_kvcodec_encode(ctx, t, &kv, &d, &bytes, &n));
        kv.user = y;
        b_must(ctx, tllm_kvcodec_decode(ctx, t, bytes, n, &kv));
        kv.user = x;
        tiny_free(ctx, bytes);
        e[0][i] = 100 * bk_error(x, y, CHANNELS * TOKENS);
        b[0][i] = 8.0 * (double)n / (CHANNELS * TOKENS);
        m = bins[i] / 2 - 1;
        e[1][i] = e[2][i] = e[3][i] = 100 * bk_plain(x, TOKENS, CHANNELS, m);
        b[1][i] = bk_coded(ctx, x, (int)m);
        b[2][i] = log2(2 * m + 1) + 16.0 / CHANNELS;
        b[3][i] = ceil(log2(2 * m + 1)) + 16.0 / CHANNELS;
        m = bk_plain_at(x, TOKENS, CHANNELS, e[0][i] / 100);
        b_note("sigma %.2f, rho %.2f, %d bins: %.3f bits, error %.1f %%; plain at that error %.2f bits (%.2f times), "
               "in whole bits %.2f times; plain with these bins: %.1f %%, coded %.2f bits",
               sigma, rho, bins[i], b[0][i], e[0][i], log2(2 * m + 1) + 16.0 / CHANNELS,
               (log2(2 * m + 1) + 16.0 / CHANNELS) / b[0][i], (ceil(log2(2 * m + 1)) + 16.0 / CHANNELS) / b[0][i],
               e[1][i], b[1][i]);
        if (bins[i] == 12 && rho > 0.95) {
            b_verdict(sigma < 0.9 ? "12 bins: plain quantization in whole bits of no larger error / bytes written"
                                  : "12 bins, sigma 1: plain quantization of equal error / bytes written",
                      (sigma < 0.9 ? ceil(log2(2 * m + 1)) + 16.0 / CHANNELS : log2(2 * m + 1) + 16.0 / CHANNELS) /
                          b[0][i],
                      ">", 2.2);
            if (sigma < 0.9)
                b_verdict("12 bins: plain quantization of equal error, any number of bins / bytes written",
                          (log2(2 * m + 1) + 16.0 / CHANNELS) / b[0][i], ">", 2.2);
            if (sigma < 0.9)
                b_headline("cache", "CacheGen: 3.5 to 4.3 times smaller than the quantization baseline",
                           "synthetic keys: 256 channels, scales of sigma 0.63, rho 0.96, 1500 tokens, tables of other "
                           "texts; an error of 11.5 % was expected",
                           "12 bins: %.3f bits an element, error %.1f %%; %.2f times smaller than 8 bits, %.2f than "
                           "whole-bit quantization of no larger error, %.2f than any number of bins of equal error",
                           b[0][i], e[0][i], (8 + 16.0 / CHANNELS) / b[0][i],
                           (ceil(log2(2 * m + 1)) + 16.0 / CHANNELS) / b[0][i],
                           (log2(2 * m + 1) + 16.0 / CHANNELS) / b[0][i]);
            if (sigma < 0.9)
                b_verdict("12 bins: 8 bits / bytes written (paper, at equal quality: 3.5 to 4.3)",
                          (8 + 16.0 / CHANNELS) / b[0][i], ">", 3.5);
        }
        if (i % LEVELS == LEVELS - 1) tllm_kvcodec_tables_close(ctx, t);
    }
    for (i = 0; i < 4; i++) {
        static const char *const name[4] = { "differences, coded", "rows, coded", "rows, any bins",
                                             "rows, whole bits" };
        curve[i].name = name[i];
        curve[i].x = e[i];
        curve[i].y = b[i];
        curve[i].n = SIZES;
    }
    (void)snprintf(text, sizeof text, "Cache codec: 256 channels, scales of sigma %.2f, rho %.2f", sigma, rho);
    if (sigma < 0.9)
        b_svg(rho > 0.95 ? "kvcodec" : "kvcodec-09", text, "error, % of the norm", "bits an element", curve, 4);
}

/* ---- the story model --------------------------------------------------------------------------------------------- */

enum { STORY = 250 };
/* stories one after the other, as the model was trained */
static void bk_stories(int32_t *token, uint64_t seed)
{
    tllm_story s = tllm_story_start(seed);
    int i;
    token[0] = TLLM_STORY_END;
    for (i = 1; i < STORY; i++) token[i] = tllm_story_draw(&s, NULL, NULL);
}
/* the numbers of the cache, as saved states have them: rows of each layer's keys, then values */
static void *bk_rows(tiny_ctx *ctx, tllm_session *s, float **x, size_t *n)
{
    void *bytes;
    b_must(ctx, tllm_state_pack(tllm_session_state(s), 0, NULL, 0, &bytes, n));
    *x = (float *)(void *)((unsigned char *)bytes + 64 + 8 + 4 * STORY);
    *n = (*n - 64 - 8 - 4 * STORY - 8) / 4;
    return bytes;
}
static void bk_real(tiny_ctx *ctx, const char *path)
{
    enum { TEXTS = 4, KNOWN = 60 };
    static const char file[] = "bench-kvcodec.kv";
    tllm_state_desc room;
    tllm_kvcodec_profile *p = NULL;
    tllm_kvcodec_tables *t = NULL;
    tllm_session *s = NULL, *back = NULL;
    tllm_about about;
    int32_t token[STORY];
    int i, level;
    memset(&room, 0, sizeof room);
    room.n_ctx = 256;
    if (tllm_session_open(ctx, path, &room, &s)) { b_note("%s", tiny_ctx_message(ctx)); return; }
    b_must(ctx, tllm_session_open(ctx, path, &room, &back));
    tllm_model_about(tllm_session_model(s), &about);
    b_must(ctx, tllm_kvcodec_profile_of(s, &p));
    for (i = 0; i < (b_quick ? KNOWN / 6 : KNOWN); i++) {
        bk_stories(token, 5000 + (uint64_t)i);
        b_must(ctx, tllm_session_set(s, token, STORY, NULL, NULL));
        b_must(ctx, tllm_kvcodec_profile_session(p, s));
    }
    b_must(ctx, tllm_kvcodec_profile_tables(p, &t));
    for (level = 1; level <= TLLM_KVCODEC_LEVELS; level++) {
        double bits = 0, error = 0, m = 0, width = 0, any, whole;
        for (i = 0; i < TEXTS; i++) {
            tllm_kvcodec_desc d;
            tllm_kvcodec_file f;
            void *a, *b;
            float *x, *y;
            size_t n;
            memset(&d, 0, sizeof d);
            d.level = level;
            bk_stories(token, 9000 + (uint64_t)i);
            b_must(ctx, tllm_session_set(s, token, STORY, NULL, NULL));
            b_must(ctx, tllm_kvcodec_save(s, t, &d, file));
            b_must(ctx, tllm_kvcodec_load(back, t, file));
            b_must(ctx, tllm_kvcodec_file_open(ctx, file, &f));
            a = bk_rows(ctx, s, &x, &n);
            b = bk_rows(ctx, back, &y, &n);
            width = (double)n / (double)(STORY * 2 * about.n_layer);
            bits += 8.0 * (double)f.chunk[0].n_bytes / (double)n / TEXTS;
            error += bk_error(x, y, n) / TEXTS;
            m += bk_plain_at(x, n / (size_t)width, (size_t)width, bk_error(x, y, n)) / TEXTS;
            tllm_kvcodec_file_close(ctx, &f);
            tiny_free(ctx, a);
            tiny_free(ctx, b);
        }
        any = log2(2 * m + 1) + 16 / width;
        whole = ceil(log2(2 * m + 1)) + 16 / width;
        b_note("%s, %d tokens, rows of %.0f, level %d: %.3f bits, error %.1f %%; plain at that error %.2f bits (%.2f "
               "times), in whole bits %.2f times",
               path, (int)STORY, width, level, bits, 100 * error, any, any / bits, whole / bits);
    }
    (void)remove(file);
    tllm_kvcodec_profile_close(p);
    tllm_kvcodec_tables_close(ctx, t);
    tllm_session_close(s);
    tllm_session_close(back);
}

/* ---- speed ------------------------------------------------------------------------------------------------------- */

static void bk_decode(void *arg)
{
    bk_arg *a = (bk_arg *)arg;
    b_must(a->ctx, tllm_kvcodec_decode(a->ctx, a->t, a->bytes, a->n, &a->kv));
}
static void bk_encode(void *arg)
{
    bk_arg *a = (bk_arg *)arg;
    void *bytes;
    size_t n;
    b_must(a->ctx, tllm_kvcodec_encode(a->ctx, a->t, &a->kv, &a->d, &bytes, &n));
    tiny_free(a->ctx, bytes);
}
static void bk_bytes(void *arg)             /* the time to read 8 bits without a coder */
{
    bk_arg *a = (bk_arg *)arg;
    const tiny_idx dim[2] = { TOKENS, CHANNELS };
    tiny_tensor q = tiny_tensor_2d(a->q, TINY_I8, dim[0], dim[1]), y = tiny_tensor_2d(a->x, TINY_F32, dim[0], dim[1]),
                s = tiny_tensor_1d(a->bytes, TINY_F32, TOKENS);
    b_must(a->ctx, tiny_dequantize_i8(a->ctx, &q, &s, &y));
}

void bench_kvcodec(void)
{
    static const int bins[LEVELS] = { 12, 16, 32 };
    const double n = (double)CHANNELS * TOKENS;
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1), *all = b_ctx(TINY_TARGET_AUTO, b_threads),
             *plain = b_ctx(TINY_TARGET_REFERENCE, 1);
    const char *target = tiny_target_name(tiny_op_target(ctx, TINY_OP_DEQUANTIZE_I8));
    float *x = (float *)b_alloc((size_t)n * sizeof *x), *y = (float *)b_alloc((size_t)n * sizeof *y);
    tllm_kvcodec_tables *t = bk_tables(ctx, x, bins, 0.63, 0.96);
    bk_arg a[8];
    b_row r[8];
    int i;
    bk_synthetic(x, 0.63, 0.96, 101);
    memset(a, 0, sizeof a);
    memset(r, 0, sizeof r);
    for (i = 0; i < 8; i++) {
        static const char *const what[8] = { "read 12 bins",       "read 16 bins",          "read 32 bins",
                                             "read 8 bits, coded", "read 16 bins, all",     "read 16 bins, plain form",
                                             "write 16 bins",      "read 8 bits, not coded" };
        static const int level[8] = { 1, 2, 3, 4, 2, 2, 2, 0 };
        a[i].ctx = i == 4 ? all : i == 5 ? plain : ctx;
        a[i].t = t;
        a[i].d.level = level[i];
        a[i].d.n_token = TOKENS;
        bk_kv(&a[i].kv, x);
        if (i < 7) b_must(ctx, tllm_kvcodec_encode(ctx, t, &a[i].kv, &a[i].d, &a[i].bytes, &a[i].n));
        else {
            a[i].q = (int8_t *)b_alloc((size_t)n);
            a[i].bytes = b_alloc(TOKENS * sizeof(float));
            a[i].x = y;
        }
        if (i != 6) a[i].kv.user = y;
        r[i].what = what[i];
        r[i].target = i == 5 ? "reference" : target;
        r[i].threads = i == 4 ? b_threads : 1;
        r[i].flops = n;                     /* symbols: the column of GFLOP/s is thousand million symbols a second */
        r[i].bytes = 4 * n;
        r[i].run = i == 6 ? bk_encode : i == 7 ? bk_bytes : bk_decode;
        r[i].arg = &a[i];
        b_shape(&r[i], "%dx%d", TOKENS, CHANNELS);
    }
    b_contest("Cache codec: symbols", r, 8);
    b_verdict("16 bins: million symbols a second on one thread, with CRC-32 and rows written", n / r[1].median_ns * 1e3,
              ">", 20);
    b_verdict("8 bits: million symbols a second on one thread", n / r[3].median_ns * 1e3, ">", 20);
    b_verdict("plain form / fast form", r[5].median_ns / r[1].median_ns, ">", 1);
    b_headline("cache", "CacheGen: decoding keeps up with the link",
               "1500 x 256 symbols on one thread, with CRC-32 and rows written; goal: 20 M a second",
               "million symbols a second: 12 bins %.0f, 16 bins %.0f, 32 bins %.0f, 8 bits %.0f",
               n / r[0].median_ns * 1e3, n / r[1].median_ns * 1e3, n / r[2].median_ns * 1e3, n / r[3].median_ns * 1e3);
    for (i = 0; i < 7; i++) tiny_free(ctx, a[i].bytes);
    b_free(a[7].q);
    b_free(a[7].bytes);
    tllm_kvcodec_tables_close(ctx, t);
    bk_curves(ctx, x, y, 0.63, 0.96);
    if (!b_quick) {
        bk_curves(ctx, x, y, 1.0, 0.96);
        bk_curves(ctx, x, y, 0.63, 0.9);
    }
    bk_real(ctx, "examples/models/story.gguf");
    bk_real(ctx, "examples/models/story-latent.gguf");
    b_free(x);
    b_free(y);
    tiny_ctx_close(plain);
    tiny_ctx_close(all);
    tiny_ctx_close(ctx);
}
