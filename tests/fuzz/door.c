/* tests/fuzz/door.c - any operation, any shapes, strides, types and params: tiny_run returns, and nothing outside is
 * touched
 *
 * The bytes choose a row, tensors and the params (as raw bytes: NaN, negative, huge). Each tensor that passes the check
 * gets memory of exactly its span, so that the address sanitizer sees the first byte beyond. Half of the time the
 * outputs are those of the shape rule, so that operations really run; the other half they are as random as the rest. */
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes { const unsigned char *at; size_t left; } bytes;

static unsigned take(bytes *b)
{
    if (!b->left) return 0;
    b->left--;
    return *b->at++;
}

static tiny_idx take_dim(bytes *b)
{
    static const tiny_idx hostile[] = { -1, -7, TINY_IDX_MAX, -TINY_IDX_MAX - 1, TINY_IDX_MAX / 2, 65537, 1 << 30 };
    static const tiny_idx usual[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100 };
    unsigned v = take(b);
    return v >= 250 ? hostile[v % 7] : usual[v % 16];
}

static void take_tensor(bytes *b, tiny_tensor *t)
{
    static const tiny_dtype plain[] = { TINY_F32, TINY_F32,  TINY_F32, TINY_F32, TINY_I32,
                                        TINY_F16, TINY_BF16, TINY_I8,  TINY_U8,  TINY_I64 };
    tiny_idx dim[TINY_MAX_RANK];
    unsigned how = take(b), v = take(b);
    int i, rank = v > 248 ? (int)(v - 250) : (int)(v % 5);
    for (i = 0; i < TINY_MAX_RANK; i++) dim[i] = take_dim(b);
    *t = tiny_tensor_nd(NULL, how % 32 == 31 ? (tiny_dtype)take(b) : plain[how % 10], rank < 0 || rank > 4 ? 0 : rank,
                        dim);
    t->rank = rank;
    if (how >= 128)
        for (i = 0; i < TINY_MAX_RANK; i++) t->stride[i] = how >= 240 ? take_dim(b) : (tiny_idx)(take(b) % 40) - 4;
}

/* memory of exactly the span; 0: too large for this test */
static int place(bytes *b, tiny_tensor *t, void **held)
{
    ptrdiff_t lowest, end;
    size_t i, n;
    unsigned char *p, kind;
    static char anywhere;
    t->data = &anywhere;
    if (tiny_tensor_check(t)) return 1;     /* tiny_run must refuse it before it reads the data */
    if (tiny_tensor_count(t) > 40000) return 0;
    tiny_tensor_span(t, &lowest, &end);
    n = (size_t)(end - lowest);
    if (n > 1u << 20) return 0;
    *held = p = (unsigned char *)malloc(n ? n : 1);
    if (!p) return 0;
    kind = (unsigned char)take(b);
    for (i = 0; i < n; i++)
        p[i] = kind < 160 ? (unsigned char)(i % 4 == 0 ? kind & 3 : 0) : (unsigned char)(kind * (i + 1) >> 3);
    t->data = p - lowest;
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tiny_ctx *ctx[2];
    tiny_tensor in[TINY_OP_MAX_IN], out[TINY_OP_MAX_OUT], want[TINY_OP_MAX_OUT];
    void *held[TINY_OP_MAX_IN + TINY_OP_MAX_OUT] = { NULL };
    union { unsigned char bytes[TINY_OP_MAX_PARAMS]; double align; tiny_fft_params fft; } params;
    const tiny_op_row *row;
    bytes b;
    tiny_op op;
    int i, n_held = 0, ok = 1, polite, ref;
    if (!ctx[0]) {
        tiny_ctx_desc d;
        memset(&d, 0, sizeof d);
        d.n_threads = 2;
        d.max_bytes = (size_t)1 << 28;
        if (tiny_ctx_open(&d, &ctx[0])) abort();
        d.target = TINY_TARGET_REFERENCE;
        if (tiny_ctx_open(&d, &ctx[1])) abort();
    }
    b.at = data;
    b.left = size;
    memset(&op, 0, sizeof op);
    i = (int)take(&b);
    row = tiny_op_row_of(1 + i % (TINY_OP_COUNT - 1));
    op.kind = row->kind;
    polite = (int)take(&b) & 1;
    ref = (int)take(&b) % 4 == 0;
    memset(&params, 0, sizeof params);
    i = (int)take(&b);
    if (i & 3) {
        size_t k;
        for (k = 0; k < row->params_size; k++) {
            unsigned v = take(&b);
            /* small numbers are the likely ones */
            params.bytes[k] = (unsigned char)((i & 3) == 1 ? v : k % 4 == 0 ? v % 5 : 0);
        }
        /* a plan is a promise of the caller, not a checked number */
        if (op.kind == TINY_OP_FFT || op.kind == TINY_OP_RFFT || op.kind == TINY_OP_IRFFT) params.fft.plan = NULL;
        op.params = params.bytes;
    }
    for (i = 0; ok && i < row->n_in; i++) {
        if (take(&b) % 16 == 0 && i >= row->n_in_needed) continue;
        take_tensor(&b, &in[i]);
        /* shapes that fit are rare by chance: often repeat the one before */
        if (polite && i && op.in[i - 1] && take(&b) % 2) in[i] = in[i - 1];
        ok = place(&b, &in[i], &held[n_held++]);
        op.in[i] = &in[i];
    }
    memset(want, 0, sizeof want);
    if (ok && polite && tiny_op_shape(ctx[0], &op, want)) ok = 0;
    for (i = 0; ok && i < row->n_out; i++) {
        if (polite) out[i] = tiny_tensor_nd(NULL, want[i].dtype, want[i].rank, want[i].dim);
        else take_tensor(&b, &out[i]);
        ok = place(&b, &out[i], &held[n_held++]);
        op.out[i] = &out[i];
    }
    if (ok) (void)tiny_run(ctx[ref], &op);
    for (i = 0; i < n_held; i++) free(held[i]);
    return 0;
}

#ifndef WITH_LIBFUZZER
/* without a fuzzing engine: random bytes, the same in every run; build/fuzz/door SECONDS [SEED] */
int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 10;
    tiny_rng r = tiny_rng_make(argc > 2 ? (uint64_t)atoll(argv[2]) : 1, 77);
    uint64_t start = tiny_now_ns();
    unsigned long n = 0;
    unsigned char data[256];
    while ((double)(tiny_now_ns() - start) * 1e-9 < seconds) {
        size_t i;
        uint64_t at = r.at;
        for (i = 0; i < sizeof data; i += 4) {
            uint32_t v = tiny_rng_u32(&r);
            memcpy(data + i, &v, 4);
        }
        if (argc > 3) { printf("at %llu\n", (unsigned long long)at); fflush(stdout); }
        (void)LLVMFuzzerTestOneInput(data, sizeof data);
        n++;
    }
    printf("door: %lu inputs, no fault\n", n);
    return 0;
}
#endif
