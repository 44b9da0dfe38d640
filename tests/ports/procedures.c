/* tests/ports/procedures.c - the same bits everywhere, for procedures outside the table: weights rounded, packed and
 * trained by the reference */
#include "tinyllm.h"
#include "hash.h"
#include <stdlib.h>
#include <string.h>

int print_procedures(uint64_t seed);

#define ROWS 24
#define WIDE 256                            /* a block of the K formats */
#define TOKENS 320

static void hash_floats(const float *x, size_t n)
{
    uint32_t u;
    size_t i;
    for (i = 0; i < n; i++) {
        memcpy(&u, &x[i], 4);
        hash_bits(u, 4);
    }
}
static void hash_bytes(const void *p, size_t n);
/* the body of a box of tiles in the form that was written, and recorded, before there were boxes */
static void hash_older(const void *box, size_t n)
{
    const unsigned char *body = (const unsigned char *)box + 192, head[13] = "TINYCSL\0\1\0\0";
    uint32_t c = 0xffffffffu;
    size_t i;
    int k;
    for (i = 0; i < 12 + n; i++)
        for (c ^= i < 12 ? head[i] : body[i - 12], k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    hash_bytes(head, 12);
    hash_bytes(body, n);
    for (c = ~c, i = 0; i < 4; i++, c >>= 8) {
        const unsigned char byte = (unsigned char)c;
        hash_bytes(&byte, 1);
    }
}
static void hash_bytes(const void *p, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) hash_bits(((const unsigned char *)p)[i], 1);
}
static void hash_halves(const uint16_t *p, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) hash_bits(p[i], 2);
}

/* weights, and inputs of which neighbours are alike and some are large */
static void fill(tiny_rng *r, float *w, float *x)
{
    tiny_idx t, i;
    tiny_rng_fill_normal(r, w, ROWS * WIDE);
    tiny_rng_fill_normal(r, x, TOKENS * WIDE);
    for (t = 0; t < TOKENS; t++)
        for (i = 1; i < WIDE; i++)
            x[t * WIDE + i] = 0.5f * x[t * WIDE + i - 1] + x[t * WIDE + i] * (i % 50 ? 1.0f : 8.0f);
}

static tiny_status round_weights(tiny_ctx *ctx, const tllm_plain_desc *desc, const float *w, const tiny_tensor *h)
{
    static uint8_t code[ROWS * WIDE], zero[ROWS * WIDE];
    static uint16_t scale[ROWS * WIDE];
    tllm_plain q;
    tllm_plain_sizes size;
    tllm_gptq_desc gptq;
    tiny_status st = tllm_plain_size(ctx, desc, ROWS, WIDE, &size);
    q.code = code;
    q.scale = scale;
    q.zero = zero;
    memset(&gptq, 0, sizeof gptq);
    gptq.grid = *desc;
    gptq.act_order = desc->bits == 3;
    if (!st && h) st = tllm_gptq(ctx, &gptq, w, ROWS, WIDE, h, &q, NULL);
    else if (!st) st = tllm_plain_round(ctx, desc, w, ROWS, WIDE, NULL, &q);
    if (st) return st;
    hash_bytes(code, size.codes);
    hash_halves(scale, size.scales);
    hash_bytes(zero, size.scales);
    return TINY_OK;
}

static tiny_status rounded(tiny_ctx *ctx, uint64_t seed, const float *w, const tiny_tensor *h, int *n)
{
    static const int format[] = { TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0, TLLM_FORMAT_Q5_1, TLLM_FORMAT_Q4_K,
                                  TLLM_FORMAT_Q6_K };
    static unsigned char blocks[ROWS * WIDE * 2];
    tllm_plain_desc desc;
    tiny_status st = TINY_OK;
    size_t i;
    int gptq;
    for (gptq = 0; gptq < 2 && !st; gptq++) {
        hash_start();
        for (i = 0; i < 9 && !st; i++) {
            memset(&desc, 0, sizeof desc);
            desc.kind = (int)(i % 3);
            desc.bits = 2 + (int)(i / 3);
            desc.group = i % 2 ? 64 : TLLM_PLAIN_ROW;
            desc.clip = i == 4 ? 20 : 0;
            st = round_weights(ctx, &desc, w, gptq ? h : NULL);
        }
        if (!st) *n += print_line(gptq ? "gptq" : "plain_round", seed);
    }
    hash_start();
    for (i = 0; i < sizeof format / sizeof *format && !st; i++) {
        st = tllm_gptq_blocks(ctx, NULL, format[i], w, ROWS, WIDE, h, blocks, NULL);
        if (!st) hash_bytes(blocks, ROWS * tllm_format_bytes(tllm_format_of(format[i]), WIDE));
    }
    if (!st) *n += print_line("gptq_blocks", seed);
    return st;
}

static tiny_status packed(tiny_ctx *ctx, uint64_t seed, float *w, int *n)
{
    const tiny_tensor t = tiny_tensor_2d(w, TINY_F32, ROWS, WIDE);
    tllm_bipolar planes;
    tllm_csl_desc desc;
    tllm_csl csl;
    void *bytes;
    size_t n_bytes;
    tiny_status st = TINY_OK;
    int i;
    hash_start();
    for (i = 1; i <= TLLM_BIPOLAR_BITS && !st; i++) {
        st = tllm_bipolar_make(ctx, &t, NULL, i, i % 2 ? 64 : 0, &planes);
        if (st) break;
        hash_bytes(planes.planes, planes.n_bytes);
        hash_floats(planes.scale, (size_t)(planes.n * tllm_bipolar_groups(planes.k, planes.group)));
        tllm_bipolar_free(ctx, &planes);
    }
    if (!st) *n += print_line("bipolar_planes", seed);
    if (!st) st = tllm_csl_prune(ctx, &t, NULL, 0.7);
    hash_start();
    for (i = 0; i < TLLM_CSL_PROFILES && !st; i++) {
        memset(&desc, 0, sizeof desc);
        desc.profile = i;
        desc.bf16 = i == 1;
        st = tllm_csl_build(ctx, &t, &desc, &csl);
        if (st) break;
        st = tllm_csl_pack(ctx, &csl, &bytes, &n_bytes);
        if (!st) {
            hash_older(bytes, 36 + tllm_csl_bytes(&csl));
            tiny_free(ctx, bytes);
        }
        tllm_csl_free(ctx, &csl);
    }
    if (!st) *n += print_line("csl", seed);
    return st;
}

/* factors of AWQ and SmoothQuant, clipped ranges, layers of bytes, inputs in few bits, means of vectors */
static tiny_status eased(tiny_ctx *ctx, uint64_t seed, const float *w, const float *x, const tllm_calib *c, int *n)
{
    static float mean[WIDE], x_most[WIDE], w_most[WIDE], s[WIDE], v[TOKENS * WIDE], scale[TOKENS], centre[16 * 8];
    static uint8_t step[ROWS * WIDE];
    static int8_t code[TOKENS * WIDE];
    static uint32_t nearest[ROWS * WIDE / 8];
    tllm_awq_matrix m;
    tllm_awq_about about;
    tllm_w8a8 q;
    tllm_kmeans_desc k;
    tiny_idx i;
    tiny_status st;
    int bits;
    memset(&m, 0, sizeof m);
    memset(&k, 0, sizeof k);
    memset(w_most, 0, sizeof w_most);
    m.w = w;
    m.rows = ROWS;
    m.format = TLLM_FORMAT_Q4_0;
    tllm_calib_mean(c, mean);
    tllm_calib_largest(c, x_most);
    hash_start();
    st = tllm_awq_scale(ctx, NULL, &m, 1, WIDE, mean, x, 64, s, &about);
    if (!st) st = tllm_awq_clip(ctx, NULL, m.format, w, ROWS, WIDE, x, 64, step);
    hash_floats(s, WIDE);
    hash_bytes(step, (size_t)(ROWS * tllm_awq_groups(NULL, m.format, WIDE)));
    if (!st) *n += print_line("awq", seed);
    hash_start();
    if (!st) st = tllm_smooth_largest(ctx, w, ROWS, WIDE, w_most);
    if (!st) st = tllm_smooth_factors(ctx, 0.5f, x_most, w_most, WIDE, s);
    hash_floats(s, WIDE);
    q.code = code;
    q.scale = scale;
    if (!st) st = tllm_w8a8_inputs(ctx, x, TOKENS, WIDE, WIDE, 0.0f, &q);
    hash_bytes(code, sizeof code);
    hash_floats(scale, TOKENS);
    if (!st) *n += print_line("smooth", seed);
    hash_start();
    for (bits = 2; bits <= 8 && !st; bits++) {
        memcpy(v, x, sizeof v);
        st = tllm_round_rows(ctx, v, TOKENS, WIDE, WIDE, bits, bits % 2 ? 1.0f : 0.9f);
        hash_floats(v, TOKENS * WIDE);
    }
    if (!st) *n += print_line("round_rows", seed);
    hash_start();
    k.k = 16;
    if (!st) st = tllm_kmeans(ctx, &k, w, ROWS * WIDE / 8, 8, NULL, centre, nearest, NULL);
    hash_floats(centre, 16 * 8);
    for (i = 0; i < ROWS * WIDE / 8; i++) hash_bits(nearest[i], 4);
    if (!st) *n += print_line("kmeans", seed);
    return st;
}

static tiny_status trained(tiny_ctx *ctx, uint64_t seed, float *x, int *n)
{
    static float label[TOKENS], model[WIDE + 1];
    const tiny_tensor t = tiny_tensor_2d(x, TINY_F32, TOKENS, WIDE);
    tllm_weave data;
    tllm_weave_sgd_desc desc;
    tllm_weave_state state;
    tiny_status st = tllm_weave_make(ctx, &t, &data);
    tiny_idx i;
    if (st) return st;
    hash_start();
    hash_bytes(data.lines, data.n_bytes);
    *n += print_line("weave", seed);
    hash_start();
    for (i = 0; i < TOKENS; i++) label[i] = x[i * WIDE] + x[i * WIDE + 3] > 0.0f ? 1.0f : 0.0f;
    memset(&desc, 0, sizeof desc);
    desc.intercept = 1;
    for (desc.task = TLLM_WEAVE_LINEAR; desc.task <= TLLM_WEAVE_LOGISTIC && !st; desc.task++) {
        memset(&state, 0, sizeof state);
        memset(model, 0, sizeof model);
        while (!st && state.epoch < 3) st = tllm_weave_epoch(ctx, &data, label, &desc, &state, model);
        hash_floats(model, WIDE + 1);
    }
    if (!st) *n += print_line("weave_sgd", seed);
    tllm_weave_close(ctx, &data);
    return st;
}

static tiny_status counted(tiny_ctx *ctx, uint64_t seed, int *n)
{
    static int8_t a[ROWS * 40], b[40 * 36];
    static int32_t c[ROWS * 36];
    const tiny_tensor ta = tiny_tensor_2d(a, TINY_I8, ROWS, 40), tb = tiny_tensor_2d(b, TINY_I8, 40, 36),
                      tc = tiny_tensor_2d(c, TINY_I32, ROWS, 36);
    const tllm_bw_unit *unit;
    tllm_bw_design design;
    tllm_bw_stats stats;
    tiny_rng r = tiny_rng_make(seed, 5);
    tiny_status st = TINY_OK;
    size_t i, j;
    for (i = 0; i < sizeof a; i++) a[i] = (int8_t)((int)tiny_rng_below(&r, 256) - 128);
    for (i = 0; i < sizeof b; i++) b[i] = (int8_t)((int)tiny_rng_below(&r, 256) - 128);
    hash_start();
    for (i = 0; !st && (unit = tllm_bw_unit_at(i)) != NULL; i++) {
        st = tllm_bw_design_of(ctx, unit->name, &design);
        if (!st) st = tllm_bw_gemm(ctx, &design, &ta, &tb, &tc, &stats);
        if (st) break;
        for (j = 0; j < ROWS * 36; j++) hash_bits((uint32_t)c[j], 4);
        hash_bits(stats.cycles, 8);
        hash_bits(stats.bubbles, 8);
    }
    if (!st) *n += print_line("bitweight", seed);
    return st;
}

int print_procedures(uint64_t seed)
{
    static float w[ROWS * WIDE], x[TOKENS * WIDE];
    tiny_rng r = tiny_rng_make(seed, 4);
    tiny_ctx_desc desc;
    tiny_ctx *ctx;
    tllm_calib *calib = NULL;
    tiny_tensor h;
    tiny_status st;
    int n = 0;
    memset(&desc, 0, sizeof desc);
    desc.n_threads = 1;
    desc.target = TINY_TARGET_REFERENCE;
    if (tiny_ctx_open(&desc, &ctx)) return -1;
    fill(&r, w, x);
    st = tllm_calib_open(ctx, WIDE, TLLM_CALIB_PRODUCTS, &calib);
    if (!st) st = tllm_calib_add(ctx, calib, x, TOKENS, WIDE);
    if (!st) {
        h = tllm_calib_products(calib);
        st = rounded(ctx, seed, w, &h, &n);
    }
    if (!st) st = eased(ctx, seed, w, x, calib, &n);
    tllm_calib_close(ctx, calib);
    if (!st) st = packed(ctx, seed, w, &n);
    if (!st) st = trained(ctx, seed, x, &n);
    if (!st) st = counted(ctx, seed, &n);
    if (st) printf("procedures failed: %s\n", tiny_ctx_message(ctx));
    tiny_ctx_close(ctx);
    return st ? -1 : n;
}
