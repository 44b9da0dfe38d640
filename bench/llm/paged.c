/* bench/llm/paged.c - attention over pages: compared with contiguous keys, with heads one by one, and with fewer bits
 *
 * One token after 4096 (32 heads, 8 key heads, of 128 numbers): 32 MB of keys and values in f32, more than the
 * second-level cache holds. The pages have no order in the pool. Rivals: tiny_attention on contiguous keys, for the
 * group of heads at once and head by head (the order that reads each key four times), and the scalar reference. Then
 * eight sequences at once.
 *
 * A second contest measures the share of the read bandwidth, in turns with a plain stream through the same pages: 4096
 * cells of each of eight sequences in turn, so that no cache holds them (as in the layers of a model), and one
 * sequence of 32768 cells; heads of 128 and 64, groups and heads alone. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { KEYS = 4096, HEADS = 32, KV = 8, DIM = 128, PAGE = 16, SEQS = 8 };

typedef struct bp_arg { tiny_ctx *ctx; tiny_tensor q, k, v, table, rows, o; tllm_paged_params p; } bp_arg;

static void bp_paged(void *arg)
{
    bp_arg *a = (bp_arg *)arg;
    b_must(a->ctx,
           tllm_paged_attention(a->ctx, &a->q, &a->k, &a->v, &a->table, &a->rows, NULL, NULL, NULL, &a->p, &a->o));
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

/* one row of a part is DIM numbers: packed in its format, or as floats of this machine */
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

/* ---- the share of the read bandwidth */

enum { LONG = 8 * KEYS };

/* bytes: of the keys of a sequence */
typedef struct bp_long { bp_arg a; int32_t row[4]; unsigned char *k, *v; size_t bytes; int n_seq; } bp_long;

/* the next sequence: its pages are in no cache */
static void bp_turn(bp_long *l) { l->row[0] = (l->row[0] + 1) % l->n_seq; }
static void bp_decode(void *arg)
{
    bp_long *l = (bp_long *)arg;
    bp_turn(l);
    bp_paged(&l->a);
}
static void bp_stream(void *arg)
{
    bp_long *l = (bp_long *)arg;
    bp_turn(l);
    b_stream(l->a.ctx, l->k + (size_t)l->row[0] * l->bytes, l->bytes);
    b_stream(l->a.ctx, l->v + (size_t)l->row[0] * l->bytes, l->bytes);
}

static void bp_bandwidth(tiny_ctx *ctx, int threads, int n_seq)
{
    enum { ROWS = 7, STREAM = ROWS - 1 };
    static const struct { const char *what; int format, heads, kv, dim;
    } kind[ROWS] = { { "pages, f32", TLLM_FORMAT_F32, HEADS, KV, DIM },
                     { "pages, f16", TLLM_FORMAT_F16, HEADS, KV, DIM },
                     { "pages, q8_0", TLLM_FORMAT_Q8_0, HEADS, KV, DIM },
                     { "pages, f16", TLLM_FORMAT_F16, 2 * HEADS, 2 * KV, DIM / 2 },
                     { "pages, f16", TLLM_FORMAT_F16, KV, KV, DIM },
                     { "pages, q8_0", TLLM_FORMAT_Q8_0, KV, KV, DIM },
                     { "read alone", TLLM_FORMAT_F16, KV, KV, DIM } };
    static int32_t table[LONG / PAGE];
    static unsigned char *pool[4];          /* by format: keys, then values; all kinds have as many numbers */
    const size_t row_floats = (size_t)KV * DIM;
    float *q = (float *)b_alloc(2 * HEADS * DIM * sizeof *q), *o = (float *)b_alloc(2 * HEADS * DIM * sizeof *o);
    bp_long l[ROWS];
    b_row r[ROWS];
    char text[96];
    int i, j;
    memset(l, 0, sizeof l);
    memset(r, 0, sizeof r);
    for (j = 0; j < LONG / PAGE; j++) table[j] = (int32_t)(j / 256 * 256 + (j * 37 + 11) % 256);
    for (i = 0; i < ROWS; i++) {
        const tllm_format *f = tllm_format_of(kind[i].format);
        const int at = f->id == TLLM_FORMAT_F32 ? 0 : f->id == TLLM_FORMAT_F16 ? 1 : 2, n = LONG / n_seq;
        const size_t cell = tllm_format_bytes(f, row_floats), bytes = cell * LONG;
        const tiny_idx numbers = f->values > 1 ? (tiny_idx)tllm_format_bytes(f, (uint64_t)kind[i].dim) : kind[i].dim;
        const tiny_dtype dtype = at == 0 ? TINY_F32 : at == 1 ? TINY_F16 : TINY_U8;
        if (!pool[at]) {                    /* the cells of a page, again and again */
            float *x = (float *)b_alloc(row_floats * PAGE * sizeof *x);
            pool[at] = (unsigned char *)b_alloc(2 * bytes);
            f->pack(x, pool[at], row_floats * PAGE, NULL);
            for (j = 1; j < 2 * LONG / PAGE; j++) memcpy(pool[at] + (size_t)j * cell * PAGE, pool[at], cell * PAGE);
            b_free(x);
        }
        l[i].n_seq = n_seq;
        l[i].row[2] = l[i].row[3] = n;
        l[i].k = pool[at];
        l[i].v = pool[at] + bytes;
        l[i].bytes = bytes / (size_t)n_seq;
        l[i].a.ctx = ctx;
        l[i].a.q = tiny_tensor_3d(q, TINY_F32, 1, kind[i].heads, kind[i].dim);
        l[i].a.o = tiny_tensor_3d(o, TINY_F32, 1, kind[i].heads, kind[i].dim);
        l[i].a.k = tiny_tensor_4d(l[i].k, dtype, LONG / PAGE, kind[i].kv, PAGE, numbers);
        l[i].a.v = tiny_tensor_4d(l[i].v, dtype, LONG / PAGE, kind[i].kv, PAGE, numbers);
        l[i].a.table = tiny_tensor_2d(table, TINY_I32, n_seq, n / PAGE);
        l[i].a.rows = tiny_tensor_2d(l[i].row, TINY_I32, 1, 4);
        l[i].a.p.format_k = l[i].a.p.format_v = f->id;
        r[i].run = i == STREAM ? bp_stream : bp_decode;
        r[i].arg = &l[i];
        r[i].what = kind[i].what;
        r[i].target = i == STREAM ? "limit" : tiny_target_name(tiny_op_target(ctx, TINY_OP_ATTENTION));
        r[i].threads = threads;
        r[i].flops = i == STREAM ? 0.0 : 4.0 * kind[i].heads * (double)n * kind[i].dim;
        r[i].bytes = 2.0 * (double)cell * n;
        r[i].limit = B_READ;
        b_shape(&r[i], "1x%d h%d/%d d%d", n, kind[i].heads, kind[i].kv, kind[i].dim);
    }
    b_contest("Attention over pages, one token, in turns with reading", r, ROWS);
    for (i = 0; i < STREAM; i++) {
        (void)snprintf(text, sizeof text, "%s %s, %d threads, over reading alone", r[i].what, r[i].shape, threads);
        b_verdict(text, r[i].bytes / r[i].median_ns / (r[STREAM].bytes / r[STREAM].median_ns), ">", 0.85);
    }
    b_free(q);
    b_free(o);
}

void bench_paged(void)
{
    static const int format[4] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    static int32_t table[SEQS][KEYS / PAGE], rows[SEQS][4];
    const size_t floats = (size_t)KEYS * KV * DIM;
    float *k = (float *)b_alloc(floats * sizeof *k), *v = (float *)b_alloc(floats * sizeof *v),
          *q = (float *)b_alloc(SEQS * HEADS * DIM * sizeof *q);
    float *o = (float *)b_alloc(SEQS * HEADS * DIM * sizeof *o);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads), *ref = b_ctx(TINY_TARGET_REFERENCE, 1);
    const char *target = tiny_target_name(tiny_op_target(ctx, TINY_OP_ATTENTION));
    bp_arg a[8];
    b_row r[8];
    int i, j;
    memset(a, 0, sizeof a);
    memset(r, 0, sizeof r);
    for (i = 0; i < SEQS; i++) {
        /* 37 and 256 have no divisor in common */
        for (j = 0; j < KEYS / PAGE; j++) table[i][j] = (int32_t)((j * 37 + 11 + 31 * i) % (KEYS / PAGE));
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
        r[i].what = i == 4   ? "one after the other, f32"
                    : i == 5 ? "head by head, f32"
                    : i == 6 ? "scalar reference"
                    : i == 0 ? "pages, f32"
                    : i == 1 ? "pages, f16"
                    : i == 2 ? "pages, q8_0"
                    : i == 3 ? "pages, q4_0"
                             : "pages, 8 sequences";
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
    b_headline("attention", "grouped heads: keys are read once a group",
               "one token after 4096, 32 heads, 8 key heads of 128, f32", "head by head / pages in groups %.2f",
               r[5].median_ns / r[0].median_ns);
    b_headline("attention", "PagedAttention: pages cost little",
               "one token after 4096, 32 heads, 8 key heads of 128; goal: at most 1.1",
               "pages / contiguous keys in `tiny_attention` %.2f in time; of the read bandwidth: f32 %.2f, f16 "
               "%.2f, q8_0 %.2f",
               r[0].median_ns / r[4].median_ns, r[0].bytes / r[0].median_ns * 1e9 / b_max[1].read,
               r[1].bytes / r[1].median_ns * 1e9 / b_max[1].read, r[2].bytes / r[2].median_ns * 1e9 / b_max[1].read);
    tiny_ctx_close(ref);
    for (i = 0; i < 2; i++) bp_bandwidth(ctx, b_threads, i ? 1 : SEQS);
    tiny_ctx_close(ctx);
    if (b_threads < 2) return;
    ctx = b_ctx(TINY_TARGET_AUTO, 1);
    for (i = 0; i < 2; i++) bp_bandwidth(ctx, 1, i ? 1 : SEQS);
    tiny_ctx_close(ctx);
}
