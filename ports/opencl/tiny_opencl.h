/* ports/opencl/tiny_opencl.h - a back end for OpenCL 1.2 devices
 *
 *     #include "tinyllm.h"                     or tinygnn.h; before this one
 *     #include "ports/opencl/tiny_opencl.h"    in one file; link with -lOpenCL
 *
 *     char says[256];
 *     tiny_opencl *cl;
 *     if (tiny_opencl_open(&cl, says)) puts(says);            no device: prints why, and the processor runs everything
 *     else desc.accel = tiny_opencl_accel(cl);                then tiny_ctx_open(&desc, &ctx)
 *     ...
 *     tiny_ctx_close(ctx);
 *     tiny_opencl_close(cl);
 *
 * Runs      the operations of a llama-like model: matmul (f32; f32, f16, bf16 weights; int8) and matmul_blocks (Q8_0,
 *           Q4_0), rmsnorm, layernorm, turn_pairs, put_rows and paged_attention (pages of f32 and f16), add, mul,
 *           swiglu; softmax and attention. Declines the rest.
 * Device    TINY_OPENCL_DEVICE in the environment: a number counted over all platforms, or a part of a device's name.
 *           Without it the first GPU, else the first accelerator, else the first device.
 * Memory    Inputs are sent for each operation, unless they are in memory that tiny_upload sent before, or are outputs
 *           that stayed. (Views of uploaded memory, also transposed ones, are read from the device; upload again after
 *           a change on the host.) Outputs without gaps stay until they are fetched; those with gaps go to the host at
 *           once. An output in uploaded memory changes the uploaded copy when it is fetched.
 * Threads   One tiny_opencl serves one context at a time.
 * Numbers   Denormals are kept where the device keeps them (CL_FP_DENORM), as the conformance kit requires. */
#ifndef TINY_OPENCL_H
#define TINY_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined __GNUC__ || defined __clang__
#define TINY_OPENCL_FN static __attribute__((unused))
#else
#define TINY_OPENCL_FN static
#endif

#ifdef TLLM_MAX_RANK                        /* tinyllm.h is included, with its operations */
#define TINY_OPENCL_LLM
#endif

typedef struct tiny_opencl tiny_opencl;

/* On failure *out is NULL and `says`, 256 bytes, holds a sentence: TINY_E_ACCEL, or TINY_E_MEMORY. */
TINY_OPENCL_FN tiny_status tiny_opencl_open(tiny_opencl **out, char *says);
TINY_OPENCL_FN const tiny_accel *tiny_opencl_accel(tiny_opencl *cl);    /* lives as long as cl */
TINY_OPENCL_FN const char *tiny_opencl_device(const tiny_opencl *cl);   /* its name */
/* Transfers since it was opened: tensors that were uploaded; inputs that were sent for one operation; waits for
 * results. */
typedef struct tiny_opencl_traffic {
    size_t n_upload, upload_bytes, n_send, send_bytes, n_wait, wait_bytes;
} tiny_opencl_traffic;
TINY_OPENCL_FN tiny_opencl_traffic tiny_opencl_travelled(const tiny_opencl *cl);
TINY_OPENCL_FN void tiny_opencl_close(tiny_opencl *cl);                 /* takes NULL; after the contexts that use it */

/* ---- the device's side ----
 * Inputs are views: an offset and four strides, in elements, the missing axes in front; outputs are dense. One text of
 * the matrix product serves all types: it is compiled once for each, with WT, LOAD_A and LOAD_B defined before it. */

#define TINY_OPENCL_GROUP 64                /* work items that share a row; a power of two */

static const char tiny_opencl_common[] =
    "#define GROUP 64\n"
    "#define VIEW(T, x) global const T *x, long x##_at, long4 x##_by\n"
    "#define AT4(x, i, j, k, l) (x##_at + (i) * x##_by.s0 + (j) * x##_by.s1 + (k) * x##_by.s2 + (l) * x##_by.s3)\n"
    /* by the numbers of tiny_act; the branches keep -inf from becoming NaN */
    "float activation(float x, int act)\n"
    "{\n"
    "    switch (act) {\n"
    "    case 1: return x < 0.0f ? 0.0f : x;\n"
    "    case 2: return x < 0.0f ? 0.0f : x * x;\n"
    "    case 3: return x < -1e4f ? 0.0f : x / (1.0f + exp(-x));\n"
    "    case 4: return x < -1e4f ? 0.0f : 0.5f * x * erfc(-0.70710678f * x);\n"
    "    case 5: return x < -1e4f ? 0.0f : x / (1.0f + exp(-1.5957691f * (x + 0.044715f * x * x * x)));\n"
    "    default: return x;\n"
    "    }\n"
    "}\n"    "float group_sum(float v, local float *r)\n"
    "{\n"
    "    int i = (int)get_local_id(0), s;\n"
    "    r[i] = v;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (s = GROUP / 2; s > 0; s >>= 1) {\n"
    "        if (i < s) r[i] += r[i + s];\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    v = r[0];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    return v;\n"
    "}\n"
    "float group_max(float v, local float *r)\n"
    "{\n"
    "    int i = (int)get_local_id(0), s;\n"
    "    r[i] = v;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (s = GROUP / 2; s > 0; s >>= 1) {\n"
    "        if (i < s && (r[i + s] > r[i] || isnan(r[i + s]))) r[i] = r[i + s];\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    v = r[0];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    return v;\n"
    "}\n";

/* One group a query and head; keys in blocks of GROUP with a running maximum and sum (Dao et al. 2022). Each work item
 * holds up to eight outputs: d_v <= 8 * GROUP. */
static const char tiny_opencl_attention[] =
    "kernel void attention(VIEW(float, q), VIEW(float, k), VIEW(float, v), VIEW(float, b), global float *o, int "
    "n_head, int n_query, int n_key,\n"
    "    int shared_by, int d, int d_v, float scale, float softcap, int causal, int has_bias, local float *qs)\n"
    "{\n"
    "    local float p[GROUP], r[GROUP];\n"
    "    int t = (int)get_group_id(0) / n_head, h = (int)get_group_id(0) % n_head, g = h / shared_by, me = "
    "(int)get_local_id(0);\n"
    "    int sees = causal ? min(n_key, max(0, n_key - n_query + t + 1)) : n_key, c0, i, j;\n"
    "    float m = -INFINITY, l = 0.0f, acc[8];\n"
    "    for (j = 0; j < 8; j++) acc[j] = 0.0f;\n"
    "    if (scale == 0.0f) scale = 1.0f / sqrt((float)max(d, 1));\n"
    "    for (i = me; i < d; i += GROUP) qs[i] = q[AT4(q, 0, t, h, i)] * scale;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (c0 = 0; c0 < sees; c0 += GROUP) {\n"
    "        int c = c0 + me, n = min(GROUP, sees - c0);\n"
    "        float s = -INFINITY, e, f, top;\n"
    "        if (c < sees) {\n"
    "            s = 0.0f;\n"
    "            for (i = 0; i < d; i++) s += qs[i] * k[AT4(k, 0, c, g, i)];\n"
    "            if (softcap > 0.0f) s = softcap * tanh(s / softcap);\n"
    "            if (has_bias) s += b[AT4(b, 0, h, t, c)];\n"
    "        }\n"
    "        top = fmax(m, group_max(s, r));\n"
    "        f = top == -INFINITY ? 1.0f : exp(m - top);\n"
    "        e = s == -INFINITY ? 0.0f : exp(s - top);\n"
    "        p[me] = e;\n"
    "        l = l * f + group_sum(e, r);\n"
    "        m = top;\n"
    "        for (j = 0; j < 8; j++) {\n"
    "            i = me + j * GROUP;\n"
    "            if (i < d_v) {\n"
    "                float a = acc[j] * f;\n"
    "                for (c = 0; c < n; c++) a += p[c] * v[AT4(v, 0, c0 + c, g, i)];\n"
    "                acc[j] = a;\n"
    "            }\n"
    "        }\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    for (j = 0; j < 8; j++) {\n"
    "        i = me + j * GROUP;\n"
    "        if (i < d_v) o[((long)t * n_head + h) * d_v + i] = l != 0.0f ? acc[j] / l : 0.0f;\n"
    "    }\n"
    "}\n";

/* One group a row. Row number r of the leading axes (., d1, d2). */
static const char tiny_opencl_softmax[] =
    "kernel void softmax(VIEW(float, x), global float *y, int d1, int d2, int n, float scale, int logarithm)\n"
    "{\n"
    "    local float r[GROUP];\n"
    "    int row = (int)get_group_id(0), me = (int)get_local_id(0), i;\n"
    "    long at = AT4(x, row / d2 / d1, row / d2 % d1, row % d2, 0);\n"
    "    float top = -INFINITY, sum = 0.0f;\n"
    "    for (i = me; i < n; i += GROUP) top = fmax(top, scale * x[at + i * x_by.s3]);\n"
    "    top = group_max(top, r);\n"
    "    for (i = me; i < n; i += GROUP) {\n"
    "        float s = scale * x[at + i * x_by.s3];\n"
    "        sum += s == -INFINITY ? 0.0f : exp(s - top);\n"
    "    }\n"
    "    sum = group_sum(sum, r);\n"
    "    if (logarithm) sum = log(sum);\n"
    "    for (i = me; i < n; i += GROUP) {\n"
    "        float s = scale * x[at + i * x_by.s3];\n"
    "        int hidden = s == -INFINITY && !isnan(sum);\n"
    "        y[(long)row * n + i] = logarithm ? (hidden ? s : (s - top) - sum) : hidden ? 0.0f : exp(s - top) / sum;\n"
    "    }\n"
    "}\n";

/* rmsnorm, and layernorm where centre is not 0. The row is first scaled to about 1 by a power of two, so that squares
 * neither overflow nor vanish; the factor stays small enough for eps. The mean is subtracted twice: the second one is
 * the mean of the remainder. */
static const char tiny_opencl_norm[] =
    "kernel void norm(VIEW(float, x), VIEW(float, g), VIEW(float, b), global float *y, int d1, int d2, int n, float "
    "eps, int centre,\n"
    "    int has_g, int has_b)\n"
    "{\n"
    "    local float r[GROUP];\n"
    "    int row = (int)get_group_id(0), me = (int)get_local_id(0), i, e;\n"
    "    long at = AT4(x, row / d2 / d1, row / d2 % d1, row % d2, 0);\n"
    "    float top = sqrt(eps) * 1e-18f, mean = 0.0f, rest = 0.0f, sum = 0.0f;\n"
    "    for (i = me; i < n; i += GROUP) top = fmax(top, fabs(x[at + i * x_by.s3]));\n"
    "    top = group_max(top, r);\n"
    "    e = top > 0.0f && isfinite(top) ? ilogb(top) : 0;\n"
    "    if (centre) {\n"
    "        for (i = me; i < n; i += GROUP) mean += ldexp(x[at + i * x_by.s3], -e);\n"
    "        mean = group_sum(mean, r) / (float)n;\n"
    "        for (i = me; i < n; i += GROUP) rest += ldexp(x[at + i * x_by.s3], -e) - mean;\n"
    "        rest = group_sum(rest, r) / (float)n;\n"
    "    }\n"
    "    for (i = me; i < n; i += GROUP) {\n"
    "        float v = (ldexp(x[at + i * x_by.s3], -e) - mean) - rest;\n"
    "        sum += v * v;\n"
    "    }\n"
    "    sum = sqrt(group_sum(sum, r) / (float)n + ldexp(eps, -2 * e));\n"
    "    for (i = me; i < n; i += GROUP) {\n"
    "        float v = ((ldexp(x[at + i * x_by.s3], -e) - mean) - rest) / sum;\n"
    "        if (has_g) v *= g[g_at + i * g_by.s3];\n"
    "        if (has_b) v += b[b_at + i * b_by.s3];\n"
    "        y[(long)row * n + i] = v;\n"
    "    }\n"
    "}\n";

/* y = a b: a tile of 32 x 32 outputs a group of 8 x 8 work items, four by four each. Defined before each copy of the
 * text:
 * MATMUL and VECMAT the names, AT BT YT the types in memory, ACC the type of the sums, LOAD_A LOAD_B, STORE. d1 is the
 * inner one of the two batch axes. */
static const char tiny_opencl_matmul[] =
    "kernel __attribute__((reqd_work_group_size(8, 8, 1))) void MATMUL(VIEW(AT, a), VIEW(BT, b), VIEW(float, bias), "
    "global YT *y,\n"
    "    int d1, int m, int n, int k, int act, int has_bias)\n"
    "{\n"
    "    local ACC la[16][33], lb[16][33];\n"
    "    int x = (int)get_local_id(0), z = (int)get_local_id(1), me = z * 8 + x, batch = (int)get_group_id(2);\n"
    "    int col = (int)get_group_id(0) * 32, row = (int)get_group_id(1) * 32, i0 = batch / d1, i1 = batch % d1, k0, "
    "i, j, l;\n"
    "    ACC sum[4][4];\n"
    "    for (i = 0; i < 4; i++) for (j = 0; j < 4; j++) sum[i][j] = 0;\n"
    "    for (k0 = 0; k0 < k; k0 += 16) {\n"
    "        for (i = me; i < 512; i += 64) {\n"
    "            int r = row + i / 16, c = k0 + i % 16;\n"
    "            la[i % 16][i / 16] = r < m && c < k ? LOAD_A(a, AT4(a, i0, i1, r, c)) : 0;\n"
    "            r = k0 + i / 32;\n"
    "            c = col + i % 32;\n"
    "            lb[i / 32][i % 32] = r < k && c < n ? LOAD_B(b, AT4(b, i0, i1, r, c)) : 0;\n"
    "        }\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        for (l = 0; l < 16; l++)\n"
    "            for (i = 0; i < 4; i++)\n"
    "                for (j = 0; j < 4; j++) sum[i][j] += la[l][z + 8 * i] * lb[l][x + 8 * j];\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    for (i = 0; i < 4; i++)\n"
    "        for (j = 0; j < 4; j++) {\n"
    "            int r = row + z + 8 * i, c = col + x + 8 * j;\n"
    "            if (r < m && c < n) y[((long)batch * m + r) * n + c] = STORE(sum[i][j]);\n"
    "        }\n"
    "}\n"
    /* few rows: one work item an output, neighbours read neighbouring columns */
    "kernel void VECMAT(VIEW(AT, a), VIEW(BT, b), VIEW(float, bias), global YT *y, int d1, int m, int n, int k, int "
    "act, int has_bias)\n"
    "{\n"
    "    int c = (int)get_global_id(0), r = (int)get_global_id(1), batch = (int)get_global_id(2), i0 = batch / d1, i1 "
    "= batch % d1, l;\n"
    "    ACC sum = 0;\n"
    "    if (c >= n) return;\n"
    "    for (l = 0; l < k; l++) sum += LOAD_A(a, AT4(a, i0, i1, r, l)) * LOAD_B(b, AT4(b, i0, i1, l, c));\n"
    "    y[((long)batch * m + r) * n + c] = STORE(sum);\n"
    "}\n"
    "#undef MATMUL\n#undef VECMAT\n#undef AT\n#undef BT\n#undef YT\n#undef ACC\n#undef LOAD_A\n#undef LOAD_B\n#undef "
    "STORE\n";

/* Scales and activation after the sums of int8 products. */
static const char tiny_opencl_rescale[] = "kernel void rescale(global const int *sum, VIEW(float, u), VIEW(float, v), "
                                          "VIEW(float, bias), global float *y, int d1, int m, int n,\n"
                                          "    int k, int act, int has_u, int has_v, int has_bias)\n"
                                          "{\n"
                                          "    int c = (int)get_global_id(0), r = (int)get_global_id(1);\n"
                                          "    long i = ((long)get_global_id(2) * m + r) * n + c;\n"
                                          "    float x = (float)sum[i];\n"
                                          "    if (has_u) x *= u[AT4(u, 0, 0, 0, r)];\n"
                                          "    if (has_v) x *= v[AT4(v, 0, 0, 0, c)];\n"
                                          "    if (has_bias) x += bias[AT4(bias, 0, 0, 0, c)];\n"
                                          "    y[i] = activation(x, act);\n"
                                          "}\n";

/* Element by element: out is dense, inputs are views of its shape, so that repeated axes need nothing. */
static const char tiny_opencl_pairs[] =
    "kernel void pairs(VIEW(float, a), VIEW(float, b), global float *y, int d1, int d2, int n, int total, int how)\n"
    "{\n"
    "    int at = (int)get_global_id(0), row = at / n, i = at % n;\n"
    "    float u, v;\n"
    "    if (at >= total) return;\n"
    "    u = a[AT4(a, row / d2 / d1, row / d2 % d1, row % d2, i)];\n"
    "    v = b[AT4(b, row / d2 / d1, row / d2 % d1, row % d2, i)];\n"
    "    y[at] = how == 0 ? u + v : how == 1 ? u * v : activation(u, 3) * v;\n"
    "}\n"
    /* rotary positions: one work item a pair, or a number past the pairs */
    "kernel void turn(VIEW(float, x), VIEW(float, c), VIEW(float, s), global float *y, int n_head, int d,\n"
    "    int n_pair, int halves, int total)\n"
    "{\n"
    "    int items = d - n_pair, at = (int)get_global_id(0);\n"
    "    int j = at % items, h = at / items % n_head, t = at / items / n_head;\n"
    "    int p = halves ? j : 2 * j, q = halves ? j + n_pair : 2 * j + 1;\n"
    "    global float *out = y + ((long)t * n_head + h) * d;\n"
    "    if (at >= total) return;\n"
    "    if (j < n_pair) {\n"
    "        float u = x[AT4(x, 0, t, h, p)], v = x[AT4(x, 0, t, h, q)];\n"
    "        float a = c[AT4(c, 0, 0, t, j)], b = s[AT4(s, 0, 0, t, j)];\n"
    "        out[p] = u * a - v * b;\n"
    "        out[q] = u * b + v * a;\n"
    "    } else out[j + n_pair] = x[AT4(x, 0, t, h, j + n_pair)];\n"
    "}\n";

/* y = x w^T, w in blocks of 32 as the file has them: one group an output, its items take blocks in turn. Defined before
 * each copy of the text: PRODUCT, BYTES of a block, NUMBER(b, j) without the scale that the block begins with. */
static const char tiny_opencl_blocks[] =
    "kernel void PRODUCT(VIEW(float, x), VIEW(uchar, w), VIEW(float, bias), global float *y, int n_out, int n_block,\n"
    "    int has_bias)\n"
    "{\n"
    "    local float r[GROUP];\n"
    "    int c = (int)get_group_id(0), t = (int)get_group_id(1), me = (int)get_local_id(0), i, j;\n"
    "    global const uchar *row = w + AT4(w, 0, 0, c, 0);\n"
    "    float sum = 0.0f;\n"
    "    for (i = me; i < n_block; i += GROUP) {\n"
    "        global const uchar *b = row + (long)i * BYTES;\n"
    "        ushort scale = (ushort)(b[0] | b[1] << 8);\n"
    "        float part = 0.0f;\n"
    "        for (j = 0; j < 32; j++) part += NUMBER(b, j) * x[AT4(x, 0, 0, t, 32 * i + j)];\n"
    "        sum += vload_half(0, (const half *)&scale) * part;\n"
    "    }\n"
    "    sum = group_sum(sum, r);\n"
    "    if (me == 0) y[(long)t * n_out + c] = has_bias ? sum + bias[AT4(bias, 0, 0, 0, c)] : sum;\n"
    "}\n"
    "#undef PRODUCT\n#undef BYTES\n#undef NUMBER\n";
static const char *const tiny_opencl_block_text[2] = {
    "#define PRODUCT blocks_q8_0\n#define BYTES 34\n#define NUMBER(b, j) (float)(char)(b)[2 + (j)]\n",
    "#define PRODUCT blocks_q4_0\n#define BYTES 18\n"
    "#define NUMBER(b, j) ((float)((j) < 16 ? (b)[2 + (j)] & 15 : (b)[(j) - 14] >> 4) - 8.0f)\n"
};

/* Keys and values in pages (n_block, n_part, block, row), of float or half: PAGED, PUT, PT, and LOAD(p, i), SAVE(v, p,
 * i). Attention as above, over the cells rows[1] .. rows[2] of a sequence. */
static const char tiny_opencl_paged[] =
    "kernel void PAGED(VIEW(float, q), VIEW(PT, k), VIEW(int, table), VIEW(int, rows), VIEW(PT, v), global float *o, "
    "int n_head, int n_part,\n"
    "    int block, int n_table, int n_kv, int d, int d_v, float scale, float softcap, local float *qs)\n"
    "{\n"
    "    local float p[GROUP], r[GROUP];\n"
    "    int t = (int)get_group_id(0) / n_head, h = (int)get_group_id(0) % n_head, g = h / (n_head / n_kv), me = "
    "(int)get_local_id(0);\n"
    "    int heads = n_kv / n_part, part = g / heads, in = g % heads, c0, i, j;\n"
    "    global const int *row = rows + rows_at + 4 * t, *pages = table + table_at + (long)row[0] * n_table;\n"
    "    int lo = row[1], hi = row[2];\n"
    "    float m = -INFINITY, l = 0.0f, acc[8];\n"
    "    for (j = 0; j < 8; j++) acc[j] = 0.0f;\n"
    "    for (i = me; i < d; i += GROUP) qs[i] = q[AT4(q, 0, t, h, i)] * scale;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (c0 = lo; c0 < hi; c0 += GROUP) {\n"
    "        int c = c0 + me, n = min(GROUP, hi - c0);\n"
    "        float s = -INFINITY, e, f, top;\n"
    "        if (c < hi) {\n"
    "            long at = k_at + (((long)pages[c / block] * n_part + part) * block + c % block) * (long)(heads * d) + "
    "in * d;\n"
    "            s = 0.0f;\n"
    "            for (i = 0; i < d; i++) s += qs[i] * LOAD(k, at + i);\n"
    "            if (softcap > 0.0f) s = softcap * tanh(s / softcap);\n"
    "        }\n"
    "        top = fmax(m, group_max(s, r));\n"
    "        f = top == -INFINITY ? 1.0f : exp(m - top);\n"
    "        e = s == -INFINITY ? 0.0f : exp(s - top);\n"
    "        p[me] = e;\n"
    "        l = l * f + group_sum(e, r);\n"
    "        m = top;\n"
    "        for (j = 0; j < 8; j++) {\n"
    "            i = me + j * GROUP;\n"
    "            if (i < d_v) {\n"
    "                float a = acc[j] * f;\n"
    "                for (c = 0; c < n; c++)\n"
    "                    a += p[c] * LOAD(v, v_at + (((long)pages[(c0 + c) / block] * n_part + part) * block + (c0 + "
    "c) % block) * (long)(heads * d_v) + in * d_v + i);\n"
    "                acc[j] = a;\n"
    "            }\n"
    "        }\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    for (j = 0; j < 8; j++) {\n"
    "        i = me + j * GROUP;\n"
    "        if (i < d_v) o[((long)t * n_head + h) * d_v + i] = l != 0.0f ? acc[j] / l : 0.0f;\n"
    "    }\n"
    "}\n"
    /* one work item for each number of a row of all parts; it loops over the tokens: of two tokens for one place the
     * later one stays */
    "kernel void PUT(VIEW(float, x), VIEW(int, place), global PT *out, int n, int n_part, int block, int wide)\n"
    "{\n"
    "    int at = (int)get_global_id(0), part = at / wide, i = at % wide, t;\n"
    "    if (part >= n_part) return;\n"
    "    for (t = 0; t < n; t++) {\n"
    "        global const int *to = place + place_at + 2 * t;\n"
    "        SAVE(x[AT4(x, 0, 0, t, at)], out, (((long)to[0] * n_part + part) * block + to[1]) * wide + i);\n"
    "    }\n"
    "}\n"
    "#undef PAGED\n#undef PUT\n#undef PT\n#undef LOAD\n#undef SAVE\n";
static const char *const tiny_opencl_page_text[2] = {
    "#define PAGED paged_f32\n#define PUT put_f32\n#define PT float\n"
    "#define LOAD(p, i) (p)[i]\n#define SAVE(v, p, i) (p)[i] = (v)\n",
    "#define PAGED paged_f16\n#define PUT put_f16\n#define PT half\n"
    "#define LOAD(p, i) vload_half(i, p)\n#define SAVE(v, p, i) vstore_half_rte(v, i, p)\n"
};

/* of b; for int8 of a */
enum { TINY_OPENCL_F32, TINY_OPENCL_F16, TINY_OPENCL_BF16, TINY_OPENCL_I8, TINY_OPENCL_U8, TINY_OPENCL_TYPES };

#define TINY_OPENCL_FLOAT_TYPE(name, type, load)                                                                     \
    "#define MATMUL matmul_" name "\n#define VECMAT vecmat_" name "\n#define AT float\n#define BT " type "\n"         \
    "#define YT float\n#define ACC float\n#define LOAD_A(p, i) p[i]\n#define LOAD_B(p, i) " load "\n"                \
    "#define STORE(s) activation(has_bias ? (s) + bias[AT4(bias, 0, 0, 0, c)] : (s), act)\n"
#define TINY_OPENCL_INT_TYPE(name, type)                                                                        \
    "#define MATMUL matmul_" name "\n#define VECMAT vecmat_" name "\n#define AT " type "\n#define BT char\n"    \
    "#define YT int\n#define ACC int\n#define LOAD_A(p, i) (int)p[i]\n#define LOAD_B(p, i) (int)p[i]\n#define " \
    "STORE(s) (s)\n"
static const char *const tiny_opencl_type_text[TINY_OPENCL_TYPES] = {
    TINY_OPENCL_FLOAT_TYPE("f32", "float", "p[i]"),
    TINY_OPENCL_FLOAT_TYPE("f16", "half", "vload_half(i, p)"),
    TINY_OPENCL_FLOAT_TYPE("bf16", "ushort", "as_float((uint)p[i] << 16)"),
    TINY_OPENCL_INT_TYPE("i8", "char"),
    TINY_OPENCL_INT_TYPE("u8", "uchar")
};

enum {
    TINY_OPENCL_SOFTMAX, TINY_OPENCL_NORM, TINY_OPENCL_ATTENTION, TINY_OPENCL_RESCALE,
    TINY_OPENCL_MATMUL,                     /* one for each type */
    TINY_OPENCL_VECMAT = TINY_OPENCL_MATMUL + TINY_OPENCL_TYPES,
    TINY_OPENCL_PAIRS = TINY_OPENCL_VECMAT + TINY_OPENCL_TYPES,
    TINY_OPENCL_TURN,
    TINY_OPENCL_BLOCKS,                     /* Q8_0, Q4_0 */
    TINY_OPENCL_PAGED = TINY_OPENCL_BLOCKS + 2,     /* f32, f16 */
    TINY_OPENCL_PUT = TINY_OPENCL_PAGED + 2,
    TINY_OPENCL_KERNELS = TINY_OPENCL_PUT + 2
};
static const char *const tiny_opencl_kernel_name[TINY_OPENCL_KERNELS] = {
    "softmax", "norm", "attention", "rescale", "matmul_f32", "matmul_f16", "matmul_bf16", "matmul_i8", "matmul_u8",
    "vecmat_f32", "vecmat_f16", "vecmat_bf16", "vecmat_i8", "vecmat_u8",
    "pairs", "turn", "blocks_q8_0", "blocks_q4_0", "paged_f32", "paged_f16", "put_f32", "put_f16"
};

/* ---- the host's side ---- */

enum { TINY_OPENCL_SLOTS = TINY_OP_MAX_IN + TINY_OP_MAX_OUT };

typedef struct tiny_opencl_copy {           /* bytes [low, end) of the host: uploaded, or an output that is away */
    uintptr_t low, end;
    cl_mem mem;
    size_t bytes;                           /* of mem: outputs take a free one */
    int away;
} tiny_opencl_copy;

enum { TINY_OPENCL_SPARE = 32 };            /* buffers of outputs that are over, for others */

struct tiny_opencl {
    tiny_accel accel;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel[TINY_OPENCL_KERNELS];
    char name[160];
    size_t max_group, local_bytes;
    tiny_opencl_copy *copies;
    size_t n_copies, cap_copies;
    struct { cl_mem mem; size_t bytes; } spare[TINY_OPENCL_SPARE];
    cl_mem sent[TINY_OP_MAX_IN];            /* inputs of the operation that runs */
    int n_sent, fresh;                      /* fresh: its output is new in the list */
    tiny_opencl_traffic travelled;
    /* grow, and stay for the next operation */
    struct { cl_mem mem; size_t bytes; void *stage; size_t stage_bytes; } slot[TINY_OPENCL_SLOTS];
    char *says;                             /* of the call that runs */
    tiny_status status;
    cl_kernel k;                            /* the kernel whose arguments are set */
    cl_uint n_arg;
};

/* Keeps the first failure of a call; the rest of the call does nothing. */
static void tiny_opencl_fail(tiny_opencl *cl, tiny_status status, const char *what, cl_int code)
{
    if (cl->status) return;
    cl->status = status;
    if (cl->says) (void)snprintf(cl->says, 256, "opencl, %.60s: %.150s (error %d)", cl->name, what, (int)code);
}

static void tiny_opencl_forget(void *user, const tiny_tensor *host);

static void tiny_opencl_check(tiny_opencl *cl, cl_int code, const char *what)
{
    if (code != CL_SUCCESS) tiny_opencl_fail(cl, TINY_E_ACCEL, what, code);
}

static void *tiny_opencl_stage(tiny_opencl *cl, int slot, size_t bytes)
{
    if (cl->slot[slot].stage_bytes < bytes) {
        void *p = realloc(cl->slot[slot].stage, bytes);
        if (!p) {
            tiny_opencl_fail(cl, TINY_E_MEMORY, "no host memory to gather a tensor in", 0);
            return NULL;
        }
        cl->slot[slot].stage = p;
        cl->slot[slot].stage_bytes = bytes;
    }
    return cl->slot[slot].stage;
}

static cl_mem tiny_opencl_buffer(tiny_opencl *cl, int slot, size_t bytes)
{
    cl_int code = CL_SUCCESS;
    if (!cl->slot[slot].mem || cl->slot[slot].bytes < bytes) {
        if (cl->slot[slot].mem) (void)clReleaseMemObject(cl->slot[slot].mem);
        cl->slot[slot].bytes = bytes < 256 ? 256 : bytes;
        cl->slot[slot].mem = clCreateBuffer(cl->context, CL_MEM_READ_WRITE, cl->slot[slot].bytes, NULL, &code);
        if (!cl->slot[slot].mem) {
            cl->slot[slot].bytes = 0;
            tiny_opencl_fail(cl, TINY_E_ACCEL, "the device has no memory for a tensor", code);
        }
    }
    return cl->slot[slot].mem;
}

/* From a strided view to dense rows, or back. */
static void tiny_opencl_copy_view(const tiny_tensor *t, unsigned char *dense, int to_view)
{
    size_t es = tiny_dtype_bytes(t->dtype);
    tiny_idx d[4] = { 1, 1, 1, 1 }, s[4] = { 0, 0, 0, 0 }, i, j, k, l;
    int a;
    for (a = 0; a < t->rank; a++) {
        d[4 - t->rank + a] = t->dim[a];
        s[4 - t->rank + a] = t->stride[a];
    }
    for (i = 0; i < d[0]; i++)
        for (j = 0; j < d[1]; j++)
            for (k = 0; k < d[2]; k++) {
                unsigned char *p = (unsigned char *)t->data + (i * s[0] + j * s[1] + k * s[2]) * (tiny_idx)es;
                for (l = 0; l < d[3]; l++, p += s[3] * (tiny_idx)es, dense += es) {
                    if (to_view) memcpy(p, dense, es);
                    else memcpy(dense, p, es);
                }
            }
}

static void tiny_opencl_range(const tiny_tensor *t, uintptr_t *low, uintptr_t *end)
{
    ptrdiff_t a, b;
    tiny_tensor_span(t, &a, &b);
    *low = (uintptr_t)t->data + (uintptr_t)a;
    *end = (uintptr_t)t->data + (uintptr_t)b;
}

/* The copy that holds these bytes: an output on the device takes precedence over uploaded memory. */
static tiny_opencl_copy *tiny_opencl_find(tiny_opencl *cl, uintptr_t low, uintptr_t end)
{
    tiny_opencl_copy *up = NULL;
    size_t i;
    for (i = 0; i < cl->n_copies; i++)
        if (cl->copies[i].low <= low && end <= cl->copies[i].end) {
            if (cl->copies[i].away) return &cl->copies[i];
            up = &cl->copies[i];
        }
    return up;
}

/* A new entry of the list, without memory yet; NULL: no host memory. */
static tiny_opencl_copy *tiny_opencl_entry(tiny_opencl *cl, uintptr_t low, uintptr_t end, int away)
{
    tiny_opencl_copy *c;
    if (cl->n_copies == cl->cap_copies) {
        size_t cap = cl->cap_copies ? 2 * cl->cap_copies : 64;
        tiny_opencl_copy *more = (tiny_opencl_copy *)realloc(cl->copies, cap * sizeof *more);
        if (!more) {
            tiny_opencl_fail(cl, TINY_E_MEMORY, "no host memory for the list of tensors", 0);
            return NULL;
        }
        cl->copies = more;
        cl->cap_copies = cap;
    }
    c = &cl->copies[cl->n_copies];
    c->low = low;
    c->end = end;
    c->mem = NULL;
    c->bytes = (size_t)(end - low);
    c->away = away;
    return c;
}

static tiny_opencl_copy *tiny_opencl_away(tiny_opencl *cl, uintptr_t low, uintptr_t end)
{
    size_t i;
    for (i = 0; i < cl->n_copies; i++)
        if (cl->copies[i].away && cl->copies[i].low == low && cl->copies[i].end == end) return &cl->copies[i];
    return NULL;
}

static void tiny_opencl_let_go(tiny_opencl *cl, tiny_opencl_copy *c)
{
    int i, at = 0;
    for (i = 1; i < TINY_OPENCL_SPARE; i++) if (cl->spare[i].bytes < cl->spare[at].bytes) at = i;
    if (c->away && cl->spare[at].bytes < c->bytes) {        /* the smallest spare one makes room */
        cl_mem old = cl->spare[at].mem;
        cl->spare[at].mem = c->mem;
        cl->spare[at].bytes = c->bytes;
        c->mem = old;
    }
    if (c->mem) (void)clReleaseMemObject(c->mem);
    *c = cl->copies[--cl->n_copies];
}

/* A buffer for an output that stays: a spare one of about its size, or a new one. */
static cl_mem tiny_opencl_room(tiny_opencl *cl, size_t bytes, size_t *got)
{
    int i, best = -1;
    cl_int code = CL_SUCCESS;
    cl_mem mem;
    for (i = 0; i < TINY_OPENCL_SPARE; i++)
        if (cl->spare[i].mem && cl->spare[i].bytes >= bytes && cl->spare[i].bytes / 2 <= bytes + 1024 &&
            (best < 0 || cl->spare[i].bytes < cl->spare[best].bytes))
            best = i;
    if (best >= 0) {
        mem = cl->spare[best].mem;
        *got = cl->spare[best].bytes;
        cl->spare[best].mem = NULL;
        cl->spare[best].bytes = 0;
        return mem;
    }
    *got = bytes < 256 ? 256 : bytes;
    mem = clCreateBuffer(cl->context, CL_MEM_READ_WRITE, *got, NULL, &code);
    tiny_opencl_check(cl, code, "the device has no memory for a result");
    return mem;
}

/* ---- arguments ---- */

static void tiny_opencl_arg(tiny_opencl *cl, size_t bytes, const void *value)
{
    if (!cl->status) tiny_opencl_check(cl, clSetKernelArg(cl->k, cl->n_arg++, bytes, value), "clSetKernelArg");
}

static void tiny_opencl_arg_int(tiny_opencl *cl, tiny_idx v)
{
    cl_int i = (cl_int)v;
    tiny_opencl_arg(cl, sizeof i, &i);
}

static void tiny_opencl_arg_float(tiny_opencl *cl, float v)
{
    cl_float f = v;
    tiny_opencl_arg(cl, sizeof f, &f);
}

/* Input i of the operation as buffer, offset and strides. A tensor of lower rank has its axes at the end; an axis that
 * is missing or has length 1 has stride 0, so that the kernels repeat it. NULL: an argument that the kernel does not
 * read. */
static void tiny_opencl_arg_view(tiny_opencl *cl, int slot, const tiny_tensor *t)
{
    cl_long at = 0;
    cl_long4 by;
    cl_mem mem;
    uintptr_t low = 0, end = 0;
    size_t es, span = 0, count = 0;
    int a;
    if (cl->status) return;
    memset(&by, 0, sizeof by);
    if (t) {
        const tiny_opencl_copy *copy;
        es = tiny_dtype_bytes(t->dtype);
        tiny_opencl_range(t, &low, &end);
        span = (size_t)(end - low);
        count = (size_t)tiny_tensor_count(t) * es;
        for (a = 0; a < t->rank; a++) by.s[4 - t->rank + a] = t->dim[a] > 1 ? (cl_long)t->stride[a] : 0;
        copy = span ? tiny_opencl_find(cl, low, end) : NULL;
        if (copy) {
            at = (cl_long)((uintptr_t)t->data - copy->low);
            if (at % (cl_long)es == 0) {
                at /= (cl_long)es;
                tiny_opencl_arg(cl, sizeof copy->mem, &copy->mem);
                tiny_opencl_arg(cl, sizeof at, &at);
                tiny_opencl_arg(cl, sizeof by, &by);
                return;
            }
        }
    }
    if (t && span > 2 * count + 4096) {     /* mostly gaps: send the numbers only */
        tiny_tensor dense = tiny_tensor_nd(NULL, t->dtype, t->rank, t->dim);
        unsigned char *stage = (unsigned char *)tiny_opencl_stage(cl, slot, count);
        if (!stage) return;
        tiny_opencl_copy_view(t, stage, 0);
        for (a = 0; a < t->rank; a++) by.s[4 - t->rank + a] = t->dim[a] > 1 ? (cl_long)dense.stride[a] : 0;
        low = (uintptr_t)stage;
        span = count;
        at = 0;
    } else if (t) at = (cl_long)(((uintptr_t)t->data - low) / tiny_dtype_bytes(t->dtype));
    if (span) { /* copied at once: the host may change it when the operation is queued, and nothing waits for the queue
                 */
        cl_int code = CL_SUCCESS;
        mem = clCreateBuffer(cl->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, span, (void *)low, &code);
        tiny_opencl_check(cl, code, "sending an input");
        if (mem) cl->sent[cl->n_sent++] = mem;
        cl->travelled.n_send++;
        cl->travelled.send_bytes += span;
    } else mem = tiny_opencl_buffer(cl, slot, 0);
    tiny_opencl_arg(cl, sizeof mem, &mem);
    tiny_opencl_arg(cl, sizeof at, &at);
    tiny_opencl_arg(cl, sizeof by, &by);
}

/* Output j: dense, in the buffer that holds it on the device, in a new one that stays, or in the slot's buffer if it
 * has gaps. begin: it starts with the contents of in, in place or not. */
static void tiny_opencl_arg_out_from(tiny_opencl *cl, int j, const tiny_tensor *t, const tiny_tensor *in)
{
    const size_t bytes = (size_t)tiny_tensor_count(t) * tiny_dtype_bytes(t->dtype);
    tiny_opencl_copy *c = NULL, *from;
    uintptr_t low, end, in_low, in_end;
    cl_mem mem;
    if (cl->status) return;
    tiny_opencl_range(t, &low, &end);
    if (!tiny_tensor_is_dense(t)) mem = tiny_opencl_buffer(cl, TINY_OP_MAX_IN + j, bytes);
    else {
        c = tiny_opencl_away(cl, low, end);
        if (!c) {
            c = tiny_opencl_entry(cl, low, end, 1);
            if (!c) return;
            c->mem = tiny_opencl_room(cl, bytes, &c->bytes);
            if (!c->mem || cl->status) return;
            cl->n_copies++;
            cl->fresh = 1;
        } else if (in && in->data == t->data) in = NULL;    /* in place, and there already */
        mem = c->mem;
    }
    if (in) {
        tiny_opencl_range(in, &in_low, &in_end);
        from = NULL;
        if (tiny_tensor_is_dense(in)) {
            size_t i;
            for (i = 0; i < cl->n_copies; i++)
                if (&cl->copies[i] != c && cl->copies[i].low <= in_low && in_end <= cl->copies[i].end &&
                    (!from || cl->copies[i].away))
                    from = &cl->copies[i];
        }
        if (from)
            tiny_opencl_check(
                cl,
                clEnqueueCopyBuffer(cl->queue, from->mem, mem, (size_t)(in_low - from->low), 0, bytes, 0, NULL, NULL),
                "copying on the device");
        else {
            const void *p = in->data;
            if (!tiny_tensor_is_dense(in)) {
                unsigned char *stage = (unsigned char *)tiny_opencl_stage(cl, TINY_OP_MAX_IN + j, bytes);
                if (!stage) return;
                tiny_opencl_copy_view(in, stage, 0);
                p = stage;
            }
            cl->travelled.n_send++;
            cl->travelled.send_bytes += bytes;
            tiny_opencl_check(cl, clEnqueueWriteBuffer(cl->queue, mem, CL_TRUE, 0, bytes, p, 0, NULL, NULL),
                              "sending the old values of an output");
        }
    }
    tiny_opencl_arg(cl, sizeof mem, &mem);
}

static void tiny_opencl_arg_out(tiny_opencl *cl, int j, const tiny_tensor *t)
{
    tiny_opencl_arg_out_from(cl, j, t, NULL);
}

/* Intermediate sums, of the size of an output. */
static void tiny_opencl_arg_between(tiny_opencl *cl, const tiny_tensor *t)
{
    cl_mem mem;
    if (cl->status) return;
    mem = tiny_opencl_buffer(cl, TINY_OP_MAX_IN + 1, (size_t)tiny_tensor_count(t) * tiny_dtype_bytes(t->dtype));
    tiny_opencl_arg(cl, sizeof mem, &mem);
}

static void tiny_opencl_launch(tiny_opencl *cl, cl_uint n_dim, const size_t *global, const size_t *local)
{
    if (!cl->status)
        tiny_opencl_check(cl, clEnqueueNDRangeKernel(cl->queue, cl->k, n_dim, NULL, global, local, 0, NULL, NULL),
                          "starting a kernel");
}

/* Uploaded copies of bytes that the host has got. */
static void tiny_opencl_in_step(tiny_opencl *cl, uintptr_t low, uintptr_t end)
{
    size_t i;
    for (i = 0; i < cl->n_copies; i++) {
        uintptr_t a = low > cl->copies[i].low ? low : cl->copies[i].low,
                  b = end < cl->copies[i].end ? end : cl->copies[i].end;
        if (a < b && !cl->copies[i].away)
            tiny_opencl_check(cl,
                              clEnqueueWriteBuffer(cl->queue, cl->copies[i].mem, CL_TRUE,
                                                   (size_t)(a - cl->copies[i].low), (size_t)(b - a), (const void *)a, 0,
                                                   NULL, NULL),
                              "updating an uploaded tensor");
    }
}

static void tiny_opencl_bring(tiny_opencl *cl, cl_mem mem, size_t bytes, void *to)
{
    cl->travelled.n_wait++;
    cl->travelled.wait_bytes += bytes;
    tiny_opencl_check(cl, clEnqueueReadBuffer(cl->queue, mem, CL_TRUE, 0, bytes, to, 0, NULL, NULL),
                      "fetching a result");
}

/* An output with gaps goes to the host at once. */
static void tiny_opencl_scatter(tiny_opencl *cl, int j, const tiny_tensor *t)
{
    const size_t bytes = (size_t)tiny_tensor_count(t) * tiny_dtype_bytes(t->dtype);
    uintptr_t low, end;
    void *to;
    if (cl->status || bytes == 0 || tiny_tensor_is_dense(t)) return;
    to = tiny_opencl_stage(cl, TINY_OP_MAX_IN + j, bytes);
    if (!to) return;
    tiny_opencl_bring(cl, cl->slot[TINY_OP_MAX_IN + j].mem, bytes, to);
    if (cl->status) return;
    tiny_opencl_copy_view(t, (unsigned char *)to, 1);
    tiny_opencl_range(t, &low, &end);
    tiny_opencl_in_step(cl, low, end);
}

static tiny_status tiny_opencl_fetch(void *user, const tiny_tensor *out, char *says)
{
    tiny_opencl *cl = (tiny_opencl *)user;
    tiny_opencl_copy *c;
    uintptr_t low, end;
    cl->says = says;
    cl->status = TINY_OK;
    tiny_opencl_range(out, &low, &end);
    c = tiny_tensor_is_dense(out) ? tiny_opencl_away(cl, low, end) : NULL;
    if (!c) return TINY_OK;                 /* it has gaps, and is on the device */
    tiny_opencl_bring(cl, c->mem, (size_t)(end - low), out->data);
    tiny_opencl_let_go(cl, c);
    if (!cl->status) tiny_opencl_in_step(cl, low, end);
    cl->says = NULL;
    return cl->status;
}

static void tiny_opencl_discard(void *user, const tiny_tensor *out)
{
    tiny_opencl *cl = (tiny_opencl *)user;
    tiny_opencl_copy *c;
    uintptr_t low, end;
    tiny_opencl_range(out, &low, &end);
    c = tiny_tensor_is_dense(out) ? tiny_opencl_away(cl, low, end) : NULL;
    if (c) tiny_opencl_let_go(cl, c);
}

/* ---- operations ---- */

static int tiny_opencl_can_run(void *user, const tiny_op *op, const tiny_op_row *row)
{
    const tiny_opencl *cl = (const tiny_opencl *)user;
    int i, a;
    for (i = 0; i < row->n_in + row->n_out; i++) {      /* the kernels count in int */
        const tiny_tensor *t = i < row->n_in ? op->in[i] : op->out[i - row->n_in];
        for (a = 0; t && a < t->rank; a++) if (t->dim[a] > 0x3fffffff) return 0;
        if (t && tiny_tensor_count(t) > 0x3fffffff) return 0;
    }
    switch (op->kind) {
    case TINY_OP_MATMUL:
    case TINY_OP_MATMUL_I8:
    case TINY_OP_SOFTMAX:
    case TINY_OP_LOG_SOFTMAX:
    case TINY_OP_RMSNORM:
    case TINY_OP_LAYERNORM:
    case TINY_OP_SWIGLU:
        return 1;
    case TINY_OP_ADD:
    case TINY_OP_MUL:                       /* with a number in the place of a tensor: the processor's */
        return op->in[1] != NULL;
#ifdef TINY_OPENCL_LLM
    case TLLM_OP_TURN_PAIRS:
        return 1;
    case TLLM_OP_PUT_ROWS:                  /* blocks are packed by the processor */
        return op->in[0]->dtype != TINY_U8;
    case TLLM_OP_MATMUL_BLOCKS: {
        const tllm_matmul_params *p = (const tllm_matmul_params *)op->params;
        return p && !p->magnitude && (p->format == TLLM_FORMAT_Q8_0 || p->format == TLLM_FORMAT_Q4_0);
    }
    case TLLM_OP_PAGED_ATTENTION: { /* pages of numbers, both of one type; no slopes, no sinks; a plan only says how to
                                       read less */
        const tllm_paged_params *p = (const tllm_paged_params *)op->params;
        return op->in[1]->dtype != TINY_U8 && op->in[4] && op->in[4]->dtype == op->in[1]->dtype && !op->in[6] &&
               !op->in[7] && !(p && p->n_load) && (p && p->d_v ? p->d_v : op->in[0]->dim[2]) <= 8 * TINY_OPENCL_GROUP &&
               (size_t)op->in[0]->dim[2] * 4 + 4096 <= cl->local_bytes && tiny_tensor_is_dense(op->in[1]) &&
               tiny_tensor_is_dense(op->in[4]);
    }
#endif
    case TINY_OP_ATTENTION:                 /* no kernel for suppressed weights */
        return !op->in[4] && (!op->params || ((const tiny_attention_params *)op->params)->twist_s == 0.0f) &&
               op->in[2]->dim[2] <= 8 * TINY_OPENCL_GROUP && (size_t)op->in[0]->dim[2] * 4 + 4096 <= cl->local_bytes;
    default:
        return 0;
    }
}

/* Rows of x: how many, and the two leading dims that the kernels need to find row r. */
static size_t tiny_opencl_arg_rows(tiny_opencl *cl, const tiny_tensor *x)
{
    tiny_idx n = x->rank ? x->dim[x->rank - 1] : 1;
    tiny_opencl_arg_int(cl, x->rank >= 3 ? x->dim[x->rank - 3] : 1);
    tiny_opencl_arg_int(cl, x->rank >= 2 ? x->dim[x->rank - 2] : 1);
    tiny_opencl_arg_int(cl, n);
    return n ? (size_t)(tiny_tensor_count(x) / n) : 0;
}

static void tiny_opencl_run_softmax(tiny_opencl *cl, const tiny_op *op)
{
    const tiny_softmax_params *p = (const tiny_softmax_params *)op->params;
    size_t local = TINY_OPENCL_GROUP, global;
    cl->k = cl->kernel[TINY_OPENCL_SOFTMAX];
    tiny_opencl_arg_view(cl, 0, op->in[0]);
    tiny_opencl_arg_out(cl, 0, op->out[0]);
    global = tiny_opencl_arg_rows(cl, op->in[0]) * local;
    tiny_opencl_arg_float(cl, p && p->scale != 0.0f ? p->scale : 1.0f);
    tiny_opencl_arg_int(cl, op->kind == TINY_OP_LOG_SOFTMAX);
    tiny_opencl_launch(cl, 1, &global, &local);
}

static void tiny_opencl_run_norm(tiny_opencl *cl, const tiny_op *op)
{
    const tiny_norm_params *p = (const tiny_norm_params *)op->params;
    const tiny_tensor *b = op->kind == TINY_OP_LAYERNORM ? op->in[2] : NULL;
    size_t local = TINY_OPENCL_GROUP, global;
    float eps = p ? p->eps : 0.0f;
    cl->k = cl->kernel[TINY_OPENCL_NORM];
    tiny_opencl_arg_view(cl, 0, op->in[0]);
    tiny_opencl_arg_view(cl, 1, op->in[1]);
    tiny_opencl_arg_view(cl, 2, b);
    tiny_opencl_arg_out(cl, 0, op->out[0]);
    global = tiny_opencl_arg_rows(cl, op->in[0]) * local;
    tiny_opencl_arg_float(cl, eps == 0.0f ? 1e-5f : eps < 0.0f ? 0.0f : eps);
    tiny_opencl_arg_int(cl, op->kind == TINY_OP_LAYERNORM);
    tiny_opencl_arg_int(cl, op->in[1] != NULL);
    tiny_opencl_arg_int(cl, b != NULL);
    tiny_opencl_launch(cl, 1, &global, &local);
}

static void tiny_opencl_run_matmul(tiny_opencl *cl, const tiny_op *op)
{
    const tiny_matmul_params *p = (const tiny_matmul_params *)op->params;
    const tiny_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];
    tiny_idx m = y->dim[y->rank - 2], n = y->dim[y->rank - 1], k = a->dim[a->rank - 1];
    tiny_idx d1 = y->rank > 2 ? y->dim[y->rank - 3] : 1, batches = tiny_tensor_count(y) / (m * n);
    int integer = op->kind == TINY_OP_MATMUL_I8, few = m <= 4, i;
    int scaled = integer && (op->in[2] || op->in[3]);
    const tiny_tensor *bias = integer ? NULL : op->in[2];
    int type = a->dtype == TINY_I8     ? TINY_OPENCL_I8
               : a->dtype == TINY_U8   ? TINY_OPENCL_U8
               : b->dtype == TINY_F16  ? TINY_OPENCL_F16
               : b->dtype == TINY_BF16 ? TINY_OPENCL_BF16
                                       : TINY_OPENCL_F32;
    size_t global[3], local[3];
    cl->k = cl->kernel[(few ? TINY_OPENCL_VECMAT : TINY_OPENCL_MATMUL) + type];
    tiny_opencl_arg_view(cl, 0, a);
    tiny_opencl_arg_view(cl, 1, b);
    tiny_opencl_arg_view(cl, 2, bias);
    if (scaled) tiny_opencl_arg_between(cl, y);     /* sums before scaling have a buffer of their own */
    else tiny_opencl_arg_out(cl, 0, y);
    tiny_opencl_arg_int(cl, d1);
    tiny_opencl_arg_int(cl, m);
    tiny_opencl_arg_int(cl, n);
    tiny_opencl_arg_int(cl, k);
    tiny_opencl_arg_int(cl, p ? p->act : 0);
    tiny_opencl_arg_int(cl, bias != NULL);
    local[0] = few ? 64 : 8;
    local[1] = few ? 1 : 8;
    local[2] = 1;
    global[0] = few ? ((size_t)n + 63) / 64 * 64 : ((size_t)n + 31) / 32 * 8;
    global[1] = few ? (size_t)m : ((size_t)m + 31) / 32 * 8;
    global[2] = (size_t)batches;
    tiny_opencl_launch(cl, 3, global, local);
    if (!scaled || cl->status) return;
    cl->k = cl->kernel[TINY_OPENCL_RESCALE];
    cl->n_arg = 0;
    tiny_opencl_arg_between(cl, y);
    for (i = 2; i < 5; i++) tiny_opencl_arg_view(cl, i, op->in[i]);
    tiny_opencl_arg_out(cl, 0, y);
    tiny_opencl_arg_int(cl, d1);
    tiny_opencl_arg_int(cl, m);
    tiny_opencl_arg_int(cl, n);
    tiny_opencl_arg_int(cl, k);
    tiny_opencl_arg_int(cl, p ? p->act : 0);
    for (i = 2; i < 5; i++) tiny_opencl_arg_int(cl, op->in[i] != NULL);
    global[0] = (size_t)n;
    global[1] = (size_t)m;
    tiny_opencl_launch(cl, 3, global, NULL);
}

static void tiny_opencl_run_attention(tiny_opencl *cl, const tiny_op *op)
{
    const tiny_attention_params *p = (const tiny_attention_params *)op->params;
    const tiny_tensor *q = op->in[0], *k = op->in[1], *v = op->in[2];
    size_t local = TINY_OPENCL_GROUP, global = (size_t)q->dim[0] * (size_t)q->dim[1] * local;
    int i;
    cl->k = cl->kernel[TINY_OPENCL_ATTENTION];
    for (i = 0; i < 4; i++) tiny_opencl_arg_view(cl, i, op->in[i]);
    tiny_opencl_arg_out(cl, 0, op->out[0]);
    tiny_opencl_arg_int(cl, q->dim[1]);
    tiny_opencl_arg_int(cl, q->dim[0]);
    tiny_opencl_arg_int(cl, k->dim[0]);
    tiny_opencl_arg_int(cl, k->dim[1] ? q->dim[1] / k->dim[1] : 1);
    tiny_opencl_arg_int(cl, q->dim[2]);
    tiny_opencl_arg_int(cl, v->dim[2]);
    tiny_opencl_arg_float(cl, p ? p->scale : 0.0f);
    tiny_opencl_arg_float(cl, p ? p->softcap : 0.0f);
    tiny_opencl_arg_int(cl, p ? p->causal : 0);
    tiny_opencl_arg_int(cl, op->in[3] != NULL);
    tiny_opencl_arg(cl, sizeof(cl_float) * (size_t)(q->dim[2] ? q->dim[2] : 1), NULL);
    tiny_opencl_launch(cl, 1, &global, &local);
}

static void tiny_opencl_run_pairs(tiny_opencl *cl, const tiny_op *op)
{
    const tiny_idx total = tiny_tensor_count(op->out[0]);
    size_t local = TINY_OPENCL_GROUP, global = ((size_t)total + local - 1) / local * local;
    cl->k = cl->kernel[TINY_OPENCL_PAIRS];
    tiny_opencl_arg_view(cl, 0, op->in[0]);
    tiny_opencl_arg_view(cl, 1, op->in[1]);
    tiny_opencl_arg_out(cl, 0, op->out[0]);
    (void)tiny_opencl_arg_rows(cl, op->out[0]);
    tiny_opencl_arg_int(cl, total);
    tiny_opencl_arg_int(cl, op->kind == TINY_OP_ADD ? 0 : op->kind == TINY_OP_MUL ? 1 : 2);
    tiny_opencl_launch(cl, 1, &global, &local);
}

#ifdef TINY_OPENCL_LLM
static void tiny_opencl_run_blocks(tiny_opencl *cl, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    size_t local[2] = { TINY_OPENCL_GROUP, 1 }, global[2];
    cl->k = cl->kernel[TINY_OPENCL_BLOCKS + (((const tllm_matmul_params *)op->params)->format == TLLM_FORMAT_Q4_0)];
    tiny_opencl_arg_view(cl, 0, x);
    tiny_opencl_arg_view(cl, 1, op->in[1]);
    tiny_opencl_arg_view(cl, 2, op->in[2]);
    tiny_opencl_arg_out(cl, 0, y);
    tiny_opencl_arg_int(cl, y->dim[1]);
    tiny_opencl_arg_int(cl, x->dim[1] / 32);
    tiny_opencl_arg_int(cl, op->in[2] != NULL);
    global[0] = (size_t)y->dim[1] * TINY_OPENCL_GROUP;
    global[1] = (size_t)y->dim[0];
    tiny_opencl_launch(cl, 2, global, local);
}

static void tiny_opencl_run_turn(tiny_opencl *cl, const tiny_op *op)
{
    const tllm_turn_params *p = (const tllm_turn_params *)op->params;
    const tiny_tensor *x = op->in[0];
    const tiny_idx n_pair = op->in[1]->dim[1], total = x->dim[0] * x->dim[1] * (x->dim[2] - n_pair);
    size_t local = TINY_OPENCL_GROUP, global = ((size_t)total + local - 1) / local * local;
    int i;
    cl->k = cl->kernel[TINY_OPENCL_TURN];
    for (i = 0; i < 3; i++) tiny_opencl_arg_view(cl, i, op->in[i]);
    tiny_opencl_arg_out(cl, 0, op->out[0]);
    tiny_opencl_arg_int(cl, x->dim[1]);
    tiny_opencl_arg_int(cl, x->dim[2]);
    tiny_opencl_arg_int(cl, n_pair);
    tiny_opencl_arg_int(cl, p && p->halves);
    tiny_opencl_arg_int(cl, total);
    tiny_opencl_launch(cl, 1, &global, &local);
}

static void tiny_opencl_run_put(tiny_opencl *cl, const tiny_op *op)
{
    const tiny_tensor *pages = op->in[0], *x = op->in[1];
    size_t local = TINY_OPENCL_GROUP, global = ((size_t)x->dim[1] + local - 1) / local * local;
    cl->k = cl->kernel[TINY_OPENCL_PUT + (pages->dtype == TINY_F16)];
    tiny_opencl_arg_view(cl, 1, x);
    tiny_opencl_arg_view(cl, 2, op->in[2]);
    tiny_opencl_arg_out_from(cl, 0, op->out[0], pages);
    tiny_opencl_arg_int(cl, x->dim[0]);
    tiny_opencl_arg_int(cl, pages->dim[1]);
    tiny_opencl_arg_int(cl, pages->dim[2]);
    tiny_opencl_arg_int(cl, pages->dim[3]);
    if (x->dim[0]) tiny_opencl_launch(cl, 1, &global, &local);
}

static void tiny_opencl_run_paged(tiny_opencl *cl, const tiny_op *op)
{
    const tllm_paged_params *p = (const tllm_paged_params *)op->params;
    const tiny_tensor *q = op->in[0], *k = op->in[1];
    size_t local = TINY_OPENCL_GROUP, global = (size_t)q->dim[0] * (size_t)q->dim[1] * local;
    int i;
    cl->k = cl->kernel[TINY_OPENCL_PAGED + (k->dtype == TINY_F16)];
    for (i = 0; i < 5; i++) tiny_opencl_arg_view(cl, i, op->in[i]);
    tiny_opencl_arg_out(cl, 0, op->out[0]);
    tiny_opencl_arg_int(cl, q->dim[1]);
    tiny_opencl_arg_int(cl, k->dim[1]);
    tiny_opencl_arg_int(cl, k->dim[2]);
    tiny_opencl_arg_int(cl, op->in[2]->dim[1]);
    tiny_opencl_arg_int(cl, p && p->n_kv ? p->n_kv : k->dim[1]);
    tiny_opencl_arg_int(cl, q->dim[2]);
    tiny_opencl_arg_int(cl, p && p->d_v ? p->d_v : q->dim[2]);
    tiny_opencl_arg_float(cl, p && p->scale != 0.0f ? p->scale : (float)(1.0 / sqrt((double)q->dim[2])));
    tiny_opencl_arg_float(cl, p ? p->softcap : 0.0f);
    tiny_opencl_arg(cl, sizeof(cl_float) * (size_t)q->dim[2], NULL);
    tiny_opencl_launch(cl, 1, &global, &local);
}
#endif

static tiny_status tiny_opencl_run(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    tiny_opencl *cl = (tiny_opencl *)user;
    int j;
    for (j = 0; j < row->n_out; j++) if (tiny_tensor_count(op->out[j]) == 0) return TINY_OK;
    cl->says = says;
    cl->status = TINY_OK;
    cl->n_arg = 0;
    cl->fresh = 0;
    switch (op->kind) {
    case TINY_OP_MATMUL:
    case TINY_OP_MATMUL_I8: tiny_opencl_run_matmul(cl, op); break;
    case TINY_OP_SOFTMAX:
    case TINY_OP_LOG_SOFTMAX: tiny_opencl_run_softmax(cl, op); break;
    case TINY_OP_RMSNORM:
    case TINY_OP_LAYERNORM: tiny_opencl_run_norm(cl, op); break;
    case TINY_OP_ATTENTION: tiny_opencl_run_attention(cl, op); break;
    case TINY_OP_ADD:
    case TINY_OP_MUL:
    case TINY_OP_SWIGLU: tiny_opencl_run_pairs(cl, op); break;
#ifdef TINY_OPENCL_LLM
    case TLLM_OP_MATMUL_BLOCKS: tiny_opencl_run_blocks(cl, op); break;
    case TLLM_OP_TURN_PAIRS: tiny_opencl_run_turn(cl, op); break;
    case TLLM_OP_PUT_ROWS: tiny_opencl_run_put(cl, op); break;
    case TLLM_OP_PAGED_ATTENTION: tiny_opencl_run_paged(cl, op); break;
#endif
    default: tiny_opencl_fail(cl, TINY_E_UNSUPPORTED, "it has no kernel for this operation", 0);
    }
    for (j = 0; j < row->n_out; j++) tiny_opencl_scatter(cl, j, op->out[j]);
    /* the queue retains the buffers that it still reads */
    while (cl->n_sent) (void)clReleaseMemObject(cl->sent[--cl->n_sent]);
    if (cl->status && cl->fresh) tiny_opencl_let_go(cl, &cl->copies[cl->n_copies - 1]);
    cl->says = NULL;
    return cl->status;
}

/* ---- memory that stays ---- */

static tiny_status tiny_opencl_upload(void *user, const tiny_tensor *host, char *says)
{
    tiny_opencl *cl = (tiny_opencl *)user;
    tiny_opencl_copy *c;
    uintptr_t low, end;
    cl_int code = CL_SUCCESS;
    tiny_opencl_range(host, &low, &end);
    if (low == end) return TINY_OK;
    cl->says = says;
    cl->status = TINY_OK;
    c = tiny_opencl_find(cl, low, end);
    if (!c) {
        tiny_opencl_forget(user, host);     /* copies of parts of it */
        c = tiny_opencl_entry(cl, low, end, 0);
        if (!c) return cl->status;
        c->mem = clCreateBuffer(cl->context, CL_MEM_READ_WRITE, (size_t)(end - low), NULL, &code);
        tiny_opencl_check(cl, code, "the device has no memory for a tensor");
        if (cl->status) return cl->status;
        cl->n_copies++;
    }
    cl->travelled.n_upload++;
    cl->travelled.upload_bytes += (size_t)(end - low);
    tiny_opencl_check(cl,
                      clEnqueueWriteBuffer(cl->queue, c->mem, CL_TRUE, (size_t)(low - c->low), (size_t)(end - low),
                                           (const void *)low, 0, NULL, NULL),
                      "sending a tensor");
    if (cl->status) tiny_opencl_forget(user, host);
    return cl->status;
}

static tiny_status tiny_opencl_download(void *user, const tiny_tensor *host, char *says)
{
    tiny_opencl *cl = (tiny_opencl *)user;
    const tiny_opencl_copy *c;
    uintptr_t low, end;
    tiny_opencl_range(host, &low, &end);
    cl->says = says;
    cl->status = TINY_OK;
    c = low == end ? NULL : tiny_opencl_find(cl, low, end);
    if (c)
        tiny_opencl_check(cl,
                          clEnqueueReadBuffer(cl->queue, c->mem, CL_TRUE, (size_t)(low - c->low), (size_t)(end - low),
                                              (void *)low, 0, NULL, NULL),
                          "fetching a tensor");
    return cl->status;
}

static void tiny_opencl_forget(void *user, const tiny_tensor *host)
{
    tiny_opencl *cl = (tiny_opencl *)user;
    uintptr_t low, end;
    size_t i = 0;
    tiny_opencl_range(host, &low, &end);
    while (low < end && i < cl->n_copies) {
        if (!cl->copies[i].away && cl->copies[i].low < end && low < cl->copies[i].end)
            tiny_opencl_let_go(cl, &cl->copies[i]);
        else i++;
    }
}

/* ---- devices ---- */

/* Device number `wanted`, or the first whose name contains the given text, or the best kind. NULL: none. */
static cl_device_id tiny_opencl_choose(const char *wish)
{
    static const cl_device_type order[] = { CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL };
    cl_platform_id platforms[16];
    cl_device_id devices[64], best = NULL;
    cl_uint n_platforms = 0, p, d;
    size_t kind;
    long number = -1, at = 0;
    if (wish && *wish) {
        char *end;
        number = strtol(wish, &end, 10);
        if (*end) number = -1;
    }
    if (clGetPlatformIDs(16, platforms, &n_platforms) != CL_SUCCESS) return NULL;
    if (n_platforms > 16) n_platforms = 16;
    for (kind = wish && *wish ? 2 : 0; kind < 3 && !best; kind++)
        for (p = 0; p < n_platforms && !best; p++) {
            cl_uint n = 0;
            if (clGetDeviceIDs(platforms[p], order[kind], 64, devices, &n) != CL_SUCCESS) continue;
            if (n > 64) n = 64;
            for (d = 0; d < n && !best; d++, at++) {
                char name[160] = "";
                (void)clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof name - 1, name, NULL);
                if (!(wish && *wish) || (number >= 0 ? at == number : strstr(name, wish) != NULL)) best = devices[d];
            }
        }
    return best;
}

static tiny_status tiny_opencl_build(tiny_opencl *cl)
{
    const char *text[2 * TINY_OPENCL_TYPES + 16];
    cl_uint n = 0, i;
    cl_int code = CL_SUCCESS;
    cl_device_fp_config fp = 0;
    text[n++] = tiny_opencl_common;
    for (i = 0; i < TINY_OPENCL_TYPES; i++) {
        text[n++] = tiny_opencl_type_text[i];
        text[n++] = tiny_opencl_matmul;
    }
    text[n++] = tiny_opencl_rescale;
    text[n++] = tiny_opencl_softmax;
    text[n++] = tiny_opencl_norm;
    text[n++] = tiny_opencl_attention;
    text[n++] = tiny_opencl_pairs;
    for (i = 0; i < 2; i++) {
        text[n++] = tiny_opencl_block_text[i];
        text[n++] = tiny_opencl_blocks;
        text[n++] = tiny_opencl_page_text[i];
        text[n++] = tiny_opencl_paged;
    }
    cl->program = clCreateProgramWithSource(cl->context, n, text, NULL, &code);
    tiny_opencl_check(cl, code, "clCreateProgramWithSource");
    (void)clGetDeviceInfo(cl->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof fp, &fp, NULL);
    if (cl->status) return cl->status;
    code = clBuildProgram(cl->program, 1, &cl->device,
                          fp & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? "-cl-fp32-correctly-rounded-divide-sqrt" : "",
                          NULL, NULL);
    if (code != CL_SUCCESS) {
        char log[4096] = "", what[150];
        (void)clGetProgramBuildInfo(cl->program, cl->device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        (void)snprintf(what, sizeof what, "the kernels do not compile: %.110s", log);
        tiny_opencl_fail(cl, TINY_E_ACCEL, what, code);
        return cl->status;
    }
    for (i = 0; i < TINY_OPENCL_KERNELS; i++) {
        cl->kernel[i] = clCreateKernel(cl->program, tiny_opencl_kernel_name[i], &code);
        tiny_opencl_check(cl, code, tiny_opencl_kernel_name[i]);
    }
    return cl->status;
}

TINY_OPENCL_FN tiny_status tiny_opencl_open(tiny_opencl **out, char *says)
{
    const char *wish = getenv("TINY_OPENCL_DEVICE");
    cl_int code = CL_SUCCESS;
    tiny_opencl *cl;
    tiny_status st;
    if (!out || !says) return TINY_E_ARGUMENT;
    *out = NULL;
    says[0] = 0;
    cl = (tiny_opencl *)calloc(1, sizeof *cl);
    if (!cl) {
        (void)snprintf(says, 256, "opencl: no memory");
        return TINY_E_MEMORY;
    }
    cl->says = says;
    cl->device = tiny_opencl_choose(wish);
    if (!cl->device) {
        (void)snprintf(says, 256,
                       wish && *wish ? "opencl: no device matches TINY_OPENCL_DEVICE=%.100s"
                                     : "opencl: this machine has no device%.1s",
                       wish ? wish : "");
        free(cl);
        return TINY_E_ACCEL;
    }
    (void)clGetDeviceInfo(cl->device, CL_DEVICE_NAME, sizeof cl->name - 1, cl->name, NULL);
    {
        cl_ulong local = 0;
        (void)clGetDeviceInfo(cl->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof cl->max_group, &cl->max_group, NULL);
        (void)clGetDeviceInfo(cl->device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
        cl->local_bytes = (size_t)local;
    }
    if (cl->max_group < TINY_OPENCL_GROUP) tiny_opencl_fail(cl, TINY_E_ACCEL, "its work groups are smaller than 64", 0);
    if (!cl->status) {
        cl->context = clCreateContext(NULL, 1, &cl->device, NULL, NULL, &code);
        tiny_opencl_check(cl, code, "clCreateContext");
    }
    if (!cl->status) {
        cl->queue = clCreateCommandQueue(cl->context, cl->device, 0, &code);
        tiny_opencl_check(cl, code, "clCreateCommandQueue");
    }
    if (!cl->status) (void)tiny_opencl_build(cl);
    st = cl->status;
    cl->says = NULL;
    if (st) {
        tiny_opencl_close(cl);
        return st;
    }
    cl->accel.version = TINY_ACCEL_VERSION;
    cl->accel.name = "opencl";
    cl->accel.user = cl;
    cl->accel.can_run = tiny_opencl_can_run;
    cl->accel.run = tiny_opencl_run;
    cl->accel.upload = tiny_opencl_upload;
    cl->accel.download = tiny_opencl_download;
    cl->accel.forget = tiny_opencl_forget;
    cl->accel.fetch = tiny_opencl_fetch;
    cl->accel.discard = tiny_opencl_discard;
    *out = cl;
    return TINY_OK;
}

TINY_OPENCL_FN const tiny_accel *tiny_opencl_accel(tiny_opencl *cl) { return cl ? &cl->accel : NULL; }
TINY_OPENCL_FN const char *tiny_opencl_device(const tiny_opencl *cl) { return cl ? cl->name : ""; }

TINY_OPENCL_FN tiny_opencl_traffic tiny_opencl_travelled(const tiny_opencl *cl)
{
    tiny_opencl_traffic t;
    memset(&t, 0, sizeof t);
    return cl ? cl->travelled : t;
}

TINY_OPENCL_FN void tiny_opencl_close(tiny_opencl *cl)
{
    size_t i;
    if (!cl) return;
    if (cl->queue) (void)clFinish(cl->queue);
    for (i = 0; i < cl->n_copies; i++) (void)clReleaseMemObject(cl->copies[i].mem);
    for (i = 0; i < TINY_OPENCL_SPARE; i++) if (cl->spare[i].mem) (void)clReleaseMemObject(cl->spare[i].mem);
    for (i = 0; i < TINY_OPENCL_SLOTS; i++) {
        if (cl->slot[i].mem) (void)clReleaseMemObject(cl->slot[i].mem);
        free(cl->slot[i].stage);
    }
    for (i = 0; i < TINY_OPENCL_KERNELS; i++) if (cl->kernel[i]) (void)clReleaseKernel(cl->kernel[i]);
    if (cl->program) (void)clReleaseProgram(cl->program);
    if (cl->queue) (void)clReleaseCommandQueue(cl->queue);
    if (cl->context) (void)clReleaseContext(cl->context);
    free(cl->copies);
    free(cl);
}

#endif
