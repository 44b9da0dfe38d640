/* bench/llm/paged.c - attention over pages: against the same keys one after the other, against heads one by one, and what fewer bits bring
 *
 * One token after 4096 (32 heads, 8 key heads, of 128 numbers): 32 MB of keys and values in f32, more than the second-level cache
 * holds. The pages lie in the pool in no order. Rivals: tiny_attention on keys that lie one after the other, for the group of heads
 * at once and head by head (the order that reads each key four times), and the scalar reference. Then eight sequences at once.      */
#include "../bench.h"
#include <string.h>

enum { KEYS = 4096, HEADS = 32, KV = 8, DIM = 128, PAGE = 16, SEQS = 8 };

typedef struct bp_arg { tiny_ctx *ctx; tiny_tensor q, k, v, table, rows, o; tllm_paged_params p; } bp_arg;

static void bp_paged(void *arg)
{
    bp_arg *a = (bp_arg *)arg;
    b_must(a->ctx, tllm_paged_attention(a->ctx, &a->q, &a->k, &a->v, &a->table, &a->rows, NULL, NULL, NULL, &a->p, &a->o));
}
static void bp_plain(void *arg)
{
    bp_arg *a = (bp_arg *)arg;
    b_must(a->ctx, tiny_attention(a->ctx, &a->q, &a->k, &a->v, NULL, NULL, &a->o));
}
static void bp_by_head(void *arg)
{
    bp_arg *a = (bp_arg *)arg;
    tiny_idx h;
    for (h = 0; h < HEADS; h++) {
        tiny_tensor q = a->q, k = a->k, v = a->v, o = a->o;
        q.dim[1] = k.dim[1] = v.dim[1] = o.dim[1] = 1;
        q.data = (float *)q.data + h * DIM;
        o.data = (float *)o.data + h * DIM;
        k.data = (float *)k.data + h / (HEADS / KV) * DIM;
        v.data = (float *)v.data + h / (HEADS / KV) * DIM;
        b_must(a->ctx, tiny_attention(a->ctx, &q, &k, &v, NULL, NULL, &o));
    }
}

/* one row of a part is DIM numbers: packed as its format says, or as this machine has them */
static tiny_tensor bp_pages(const float *x, int format, tiny_idx blocks)
{
    const tllm_format *f = tllm_format_of(format);
    const size_t rows = (size_t)(blocks * KV * PAGE), bytes = tllm_format_bytes(f, DIM);
    unsigned char *p = (unsigned char *)b_alloc(rows * bytes);
    size_t i;
    for (i = 0; i < rows; i++) f->pack(x + i % ((size_t)KEYS * KV) * DIM, p + i * bytes, DIM, NULL);
    if (format == TLLM_FORMAT_F32) return tiny_tensor_4d(p, TINY_F32, blocks, KV, PAGE, DIM);
    if (format == TLLM_FORMAT_F16) return tiny_tensor_4d(p, TINY_F16, blocks, KV, PAGE, DIM);
    return tiny_tensor_4d(p, TINY_U8, blocks, KV, PAGE, (tiny_idx)bytes);
}

void bench_paged(void)
{
    static const int format[4] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    static int32_t table[SEQS][KEYS / PAGE], rows[SEQS][4];
    const size_t floats = (size_t)KEYS * KV * DIM;
    float *k = (float *)b_alloc(floats * sizeof *k), *v = (float *)b_alloc(floats * sizeof *v), *q = (float *)b_alloc(SEQS * HEADS * DIM * sizeof *q);
    float *o = (float *)b_alloc(SEQS * HEADS * DIM * sizeof *o);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads), *ref = b_ctx(TINY_TARGET_REFERENCE, 1);
    const char *target = tiny_target_name(tiny_op_target(ctx, TINY_OP_ATTENTION));
    bp_arg a[8];
    b_row r[8];
    int i, j;
    memset(a, 0, sizeof a);
    memset(r, 0, sizeof r);
    for (i = 0; i < SEQS; i++) {
        for (j = 0; j < KEYS / PAGE; j++) table[i][j] = (int32_t)((j * 37 + 11 + 31 * i) % (KEYS / PAGE));      /* 37 and 256 have no divisor in common */
        rows[i][0] = (int32_t)i;
        rows[i][1] = 0;
        rows[i][2] = rows[i][3] = KEYS;
    }
    for (i = 0; i < 8; i++) {
        const int n = i == 7 ? SEQS : 1, f = i < 4 ? format[i] : TLLM_FORMAT_F32;
        a[i].ctx = i == 6 ? ref : ctx;
        a[i].q = tiny_tensor_3d(q, TINY_F32, n, HEADS, DIM);
        a[i].o = tiny_tensor_3d(o, TINY_F32, n, HEADS, DIM);
        if (i < 4) {
            a[i].k = bp_pages(k, f, KEYS / PAGE);
            a[i].v = bp_pages(v, f, KEYS / PAGE);
        } else if (i == 7) {
            a[i].k = a[0].k;
            a[i].v = a[0].v;
        } else {
            a[i].k = tiny_tensor_3d(k, TINY_F32, KEYS, KV, DIM);
            a[i].v = tiny_tensor_3d(v, TINY_F32, KEYS, KV, DIM);
        }
        a[i].table = tiny_tensor_2d(table, TINY_I32, SEQS, KEYS / PAGE);
        a[i].rows = tiny_tensor_2d(rows, TINY_I32, n, 4);
        a[i].p.format_k = a[i].p.format_v = f;
        r[i].run = i < 4 || i == 7 ? bp_paged : i == 5 ? bp_by_head : bp_plain;
        r[i].arg = &a[i];
        r[i].what = i == 4 ? "one after the other, f32" : i == 5 ? "head by head, f32" : i == 6 ? "scalar reference" : i == 0 ? "pages, f32" : i == 1 ? "pages, f16" :
                    i == 2 ? "pages, q8_0" : i == 3 ? "pages, q4_0" : "pages, 8 sequences";
        r[i].target = i == 6 ? "reference" : target;
        r[i].threads = i == 6 ? 1 : b_threads;
        r[i].flops = 4.0 * n * HEADS * (double)KEYS * DIM;
        r[i].bytes = 2.0 * (double)tllm_format_bytes(tllm_format_of(f), DIM) * KV * KEYS * n;
        r[i].limit = B_READ;
        b_shape(&r[i], "%dx%d h%d/%d d%d", n, (int)KEYS, HEADS, KV, DIM);
    }
    b_contest("Attention over pages, decode", r, 8);
    b_verdict("one token: pages / one after the other", r[0].median_ns / r[4].median_ns, "<", 1.1);
    b_verdict("one token: head by head / pages in groups", r[5].median_ns / r[0].median_ns, ">", 2.0);
    b_verdict("one token: scalar reference / pages", r[6].median_ns / r[0].median_ns, ">", 10.0);
    b_headline("attention", "grouped heads: keys are read once a group", "one token after 4096, 32 heads, 8 key heads of 128, f32", "head by head / pages in groups %.2f",
               r[5].median_ns / r[0].median_ns);
    b_headline("attention", "PagedAttention: pages cost little", "one token after 4096, 32 heads, 8 key heads of 128; at most 1.1 is wanted", "pages / one after the other %.2f in time; of the read bandwidth: f32 %.2f, f16 %.2f, q8_0 %.2f",
               r[0].median_ns / r[4].median_ns, r[0].bytes / r[0].median_ns * 1e9 / b_max[1].read, r[1].bytes / r[1].median_ns * 1e9 / b_max[1].read, r[2].bytes / r[2].median_ns * 1e9 / b_max[1].read);
    tiny_ctx_close(ref);
    tiny_ctx_close(ctx);
}
