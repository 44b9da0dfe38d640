/* src/math/gemm.c - the f32 product: blocks, panels, and the work of each thread
 * Papers   K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", 2008; F. Van Zee, R. van de
 *          Geijn, "BLIS: a framework for rapidly instantiating BLAS functionality", 2015: panels, tiles, five loops.
 * Work     y is cut into pieces, which threads take one by one. A piece covers all of k, so pieces never wait for each
 *          other. In a piece k is cut into blocks of kc: kc x nc numbers of b are kept as panels in the second-level
 *          cache. A few rows of a are packed into the first-level cache and multiplied with all panels of b.
 *          In larger products, rows of a are first packed for all threads, at most 16 MB in a phase: all rows and a
 *          part of k, if they fit. The thread that takes a column block packs it into its own buffer. Several threads
 *          may pack the same block at the end of a phase, when pieces are parts of a column. Data that are packed or
 *          read next are prefetched while tiles are computed.
 * Forms    PANELS  as above.
 *          ROWS    b has at most 96 rows: it is packed once. Rows of a are read in place, one stream for each row of a
 *                  tile. Weights stored (n, k) times a small batch use this form with the factors exchanged: they are
 *                  read once, without packing.
 *          SMALL   the same for many products, each done by one thread, b packed only where it must be.
 *          DOT, AXPY: see math/matvec.c.
 * Memory   own: a block of b and a panel of a, about half a MB; shared: the narrow factor of ROWS, 16 MB at most.
 * Left out Strassen's recursion, whose error does not keep the bound; packed weights kept from call to call. */
#include <string.h>
#include "math/gemm_inside.h"
#include "math/matvec_inside.h"
#include "math/binary.h"
#include "math/layout.h"
#include "core/half_inside.h"

/* ---- the product as the drivers see it */

static void tinyi_gemm_side_of(tinyi_gemm_side *s, const tiny_tensor *t, int row_axis_from_end)
{
    int r = t->rank, i;
    s->data = (const unsigned char *)t->data;
    s->dtype = (int)t->dtype;
    s->row = t->stride[r - row_axis_from_end];
    s->k = t->stride[r - 3 + row_axis_from_end];
    for (i = 0; i < 2; i++) s->batch[i] = r - 4 + i >= 0 && t->dim[r - 4 + i] > 1 ? t->stride[r - 4 + i] : 0;
}

/* Batch i joins the rows of a where b is the same for all of the batch and rows follow each other. */
static void tinyi_gemm_fold(tinyi_gemm *g, int i)
{
    if (g->batch[i] == 1 || g->b.batch[i] != 0 || g->bias_m || g->scale_m) return;
    if (g->m == 1) {
        g->a.row = g->a.batch[i];
        g->y_m = g->y_batch[i];
    } else if (g->a.batch[i] != g->m * g->a.row || g->y_batch[i] != g->m * g->y_m) return;
    g->m *= g->batch[i];
    g->batch[i] = 1;
    g->a.batch[i] = g->y_batch[i] = 0;
}

TINYI_FN void tinyi_gemm_of(tinyi_gemm *g, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *scale_a,
                            const tiny_tensor *scale_b, const tiny_tensor *bias, int act, const tiny_tensor *y)
{
    int r = y->rank, i;
    memset(g, 0, sizeof *g);
    tinyi_gemm_side_of(&g->a, a, 2);
    tinyi_gemm_side_of(&g->b, b, 1);
    g->m = y->dim[r - 2];
    g->n = y->dim[r - 1];
    g->k = a->dim[a->rank - 1];
    g->y = (unsigned char *)y->data;
    g->y_m = y->stride[r - 2];
    g->y_n = y->stride[r - 1];
    for (i = 0; i < 2; i++) {
        g->batch[i] = r - 4 + i >= 0 ? y->dim[r - 4 + i] : 1;
        g->y_batch[i] = r - 4 + i >= 0 ? y->stride[r - 4 + i] : 0;
    }
    /* the step of an axis of length 1 says nothing: let it look dense */
    if (g->k <= 1) g->a.k = g->b.k = 1;
    if (g->n == 1) g->y_n = g->b.row = 1;
    if (bias) {
        g->bias = (const float *)bias->data;
        g->bias_n = bias->stride[0];
    }
    if (scale_a) {
        g->scale_m = (const float *)scale_a->data;
        g->scale_m_step = scale_a->stride[0];
    }
    if (scale_b) {
        g->scale_n = (const float *)scale_b->data;
        g->scale_n_step = scale_b->stride[0];
    }
    g->act = act;
    tinyi_gemm_fold(g, 1);
    if (g->batch[1] == 1) tinyi_gemm_fold(g, 0);
    if (g->m == 1) g->y_m = g->a.row = g->n;
}

TINYI_FN void tinyi_gemm_swap(tinyi_gemm *g)
{
    tinyi_gemm h = *g;
    g->a = h.b; g->b = h.a;
    g->m = h.n; g->n = h.m;
    g->y_m = h.y_n; g->y_n = h.y_m;
    g->bias_m = h.bias_n; g->bias_n = h.bias_m;
    g->scale_m = h.scale_n; g->scale_n = h.scale_m;
    g->scale_m_step = h.scale_n_step; g->scale_n_step = h.scale_m_step;
}

TINYI_FN tinyi_gemm tinyi_gemm_batch(const tinyi_gemm *g, tiny_idx i, tiny_idx y_bytes)
{
    tinyi_gemm one = *g;
    tiny_idx at[2];
    int r;
    at[0] = i / g->batch[1];
    at[1] = i % g->batch[1];
    for (r = 0; r < 2; r++) {
        one.a.data += at[r] * g->a.batch[r] * (tiny_idx)tiny_dtype_bytes((tiny_dtype)g->a.dtype);
        one.b.data += at[r] * g->b.batch[r] * (tiny_idx)tiny_dtype_bytes((tiny_dtype)g->b.dtype);
        one.y += at[r] * g->y_batch[r] * y_bytes;
    }
    return one;
}

TINYI_FN void tinyi_gemm_finish(const tinyi_kernels *k, const tinyi_gemm *g, float *row, tiny_idx i, tiny_idx j,
                                tiny_idx n)
{
    if (g->bias) {
        const float *b = g->bias + i * g->bias_m + j * g->bias_n;
        tiny_idx q;
        if (g->bias_n == 0 || g->bias_n == 1)
            TINYI_OF(k, binary_f32)(TINYI_BINARY_ADD, row, row, b, (size_t)n, 1, g->bias_n);
        else
            for (q = 0; q < n; q++) row[q] += b[q * g->bias_n];
    }
#ifndef TINYI_NO_OPS /* models have operations of their own for activations: llm/model/step.c */
    switch (g->act) {
    case TINY_ACT_RELU: TINYI_OF(k, relu_f32)(row, row, (size_t)n); break;
    case TINY_ACT_RELU2: TINYI_OF(k, relu2_f32)(row, row, (size_t)n); break;
    case TINY_ACT_SILU: TINYI_OF(k, silu_f32)(row, row, (size_t)n); break;
    case TINY_ACT_GELU: TINYI_OF(k, gelu_f32)(row, row, (size_t)n); break;
    case TINY_ACT_GELU_TANH: TINYI_OF(k, gelu_tanh_f32)(row, row, (size_t)n); break;
    default: break;
    }
#endif
}

TINYI_FN void tinyi_gemm_put(const tinyi_kernels *k, const tinyi_gemm *g, const float *t, tiny_idx t_row, tiny_idx i,
                             tiny_idx j, tiny_idx rows, tiny_idx cols)
{
    float *y = (float *)(void *)g->y + i * g->y_m + j * g->y_n;
    tiny_idx r, c;
    if (g->y_n == 1)
        TINYI_OF(k, copy_rows)
        ((unsigned char *)y, g->y_m * 4, (const unsigned char *)t, t_row * 4, (size_t)rows, (size_t)cols * 4);
    else if (g->y_m == 1)
        TINYI_OF(k, transpose_b4)
        ((unsigned char *)y, g->y_n * 4, (const unsigned char *)t, t_row * 4, (size_t)cols, (size_t)rows);
    else
        for (r = 0; r < rows; r++)
            for (c = 0; c < cols; c++) y[r * g->y_m + c * g->y_n] = t[r * t_row + c];
}

TINYI_FN void tinyi_gemm_row_f32(const tinyi_kernels *k, float *to, const tinyi_gemm_side *s, tiny_idx row, tiny_idx k0,
                                 tiny_idx n)
{
    const unsigned char *from = tinyi_gemm_at(s, row, k0);
    tiny_idx i;
    if (s->dtype == TINY_F32) {
        const float *x = (const float *)(const void *)from;
        if (s->k == 1) memcpy(to, x, (size_t)n * sizeof *to);
        else
            for (i = 0; i < n; i++) to[i] = x[i * s->k];
    } else {
        const uint16_t *x = (const uint16_t *)(const void *)from;
        const int half = s->dtype == TINY_F16;
        if (s->k == 1) (half ? TINYI_OF(k, f16_to_f32) : TINYI_OF(k, bf16_to_f32))(to, x, (size_t)n);
        else
            for (i = 0; i < n; i++) to[i] = half ? tinyi_f16_to_f32(x[i * s->k]) : tinyi_bf16_to_f32(x[i * s->k]);
    }
}

/* ---- packing */

/* `rows` rows of s, numbers k0 .. k0 + n, as [n][width], zeros from rows to width. t holds rows x n floats. */
static void tinyi_gemm_turn(const tinyi_kernels *k, float *to, tiny_idx width, const tinyi_gemm_side *s, tiny_idx row,
                            tiny_idx rows, tiny_idx k0, tiny_idx n, float *t)
{
    tiny_idx i, r;
    if (s->dtype == TINY_F32 && s->row == 1 && s->k != 1) {
        TINYI_OF(k, copy_rows)
        ((unsigned char *)to, width * 4, tinyi_gemm_at(s, row, k0), s->k * 4, (size_t)n, (size_t)rows * 4);
        for (i = 0; rows < width && i < n; i++)
            for (r = rows; r < width; r++) to[i * width + r] = 0.0f;
        return;
    }
    if (s->k == 1) {
        TINYI_GEMM_OF(k, turn)(to, width, tinyi_gemm_at(s, row, k0), s->dtype, s->row, (size_t)rows, (size_t)n);
        return;
    }
    for (r = 0; r < rows; r++) tinyi_gemm_row_f32(k, t + r * n, s, row + r, k0, n);
    TINYI_GEMM_OF(k, turn)(to, width, t, TINY_F32, n, (size_t)rows, (size_t)n);
}

/* Panels of nr rows of b, side by side: [panel][n][nr]. */
static void tinyi_gemm_panels(const tinyi_kernels *k, float *v, tiny_idx nr, const tinyi_gemm_side *b, tiny_idx row,
                              tiny_idx rows, tiny_idx k0, tiny_idx n, float *t)
{
    tiny_idx r;
    if (b->row == 1) TINYI_GEMM_OF(k, pack)(v, tinyi_gemm_at(b, row, k0), b->dtype, b->k, (size_t)n, (size_t)rows);
    else
        for (r = 0; r < rows; r += nr, v += n * nr)
            tinyi_gemm_turn(k, v, nr, b, row + r, TINYI_MIN(rows - r, nr), k0, n, t);
}

/* ---- PANELS */

/* the size of the even parts into which n is cut, of at most `most` */
static tiny_idx tinyi_gemm_even(tiny_idx n, tiny_idx most) { return (n - 1) / ((n - 1) / most + 1) + 1; }

typedef struct tinyi_gemm_job {             /* of one thread */
    const tinyi_kernels *k;
    tinyi_gemm_shape shape;
    /* block of b, panel of a, room for conversions, a piece of y that cannot be written directly */
    float *v, *s, *t, *y;
} tinyi_gemm_job;

/* where these start in the own workspace, in floats */
typedef struct tinyi_gemm_own { tiny_idx s, t, y, all; } tinyi_gemm_own;

static tinyi_gemm_own tinyi_gemm_own_of(const tinyi_gemm *g)
{
    tinyi_gemm_own o;
    tiny_idx kc = tinyi_gemm_up(TINYI_MIN(g->k, TINYI_GEMM_KC_MAX), 16);
    o.s = TINYI_MIN(kc * TINYI_MIN(tinyi_gemm_up(g->n, TINYI_GEMM_NR_MAX), TINYI_GEMM_NC_MAX), TINYI_GEMM_BLOCK);
    o.t = o.s + kc * TINYI_GEMM_MR_MAX;
    o.y = o.t + kc * TINYI_GEMM_NR_MAX;
    o.all = o.y + (g->y_n == 1 ? 0 : (tiny_idx)4 * TINYI_GEMM_MR_MAX * 4 * TINYI_GEMM_NR_MAX);
    return o;
}

static void tinyi_gemm_job_of(tinyi_gemm_job *job, const tiny_team *team, const tinyi_gemm *g, const tinyi_gemm_own *o)
{
    job->k = team->k;
    TINYI_GEMM_OF(team->k, shape)(&job->shape);
    if (g->m <= TINYI_GEMM_FEW) {           /* b is used little: longer runs of it, fetched better */
        job->shape.nc = TINYI_MIN(4 * job->shape.nc, TINYI_GEMM_NC_MAX);
        job->shape.kc /= 3;
    }
    /* even blocks: a short one costs as much beside its products as a long one */
    if (g->k > job->shape.kc) job->shape.kc = (int)tinyi_gemm_up(tinyi_gemm_even(g->k, job->shape.kc), 2);
    job->v = (float *)team->own;
    job->s = job->v + o->s;
    job->t = job->v + o->t;
    job->y = job->v + o->y;
}

/* m rows are cut into panels of mr; the last two share what is left if it is little more than one: 8 + 8, not 12 +
 * 4. */
static tiny_idx tinyi_gemm_start(tiny_idx m, tiny_idx mr, tiny_idx panel)
{
    const tiny_idx n = (m - 1) / mr + 1, left = m - (n - 2) * mr;
    if (panel >= n) return m;
    return n > 1 && panel == n - 1 && left <= mr + mr / 3 ? m - left + (left + 1) / 2 : panel * mr;
}

/* What will be packed or read next is fetched while tiles are computed: the next panel of a, and the next block of b,
 * which is asked for by the last tiles of this one, so that it is still there when it is packed. A line too many does
 * no harm. */
typedef struct tinyi_gemm_fetch {
    const unsigned char *a, *b;
    /* runs that are left, one a tile; tiles before the first run of b */
    tiny_idx a_step, b_step, a_left, b_left, b_wait;
    ptrdiff_t step;                         /* a run is as many bytes as steps of two k make */
} tinyi_gemm_fetch;

static void tinyi_gemm_fetch_next(tinyi_gemm_fetch *f, tinyi_gemm_ahead *ahead)
{
    const int a = f->a_left > 0, b = f->b_wait-- <= 0 && f->b_left > 0;
    ahead->step = a || b ? f->step : 0;
    ahead->a = a ? f->a : f->b;
    ahead->b = b ? f->b : f->a;
    if (a) {
        f->a += f->a_step;
        f->a_left--;
    }
    if (b) {
        f->b += f->b_step;
        f->b_left--;
    }
}

/* What a phase has packed of a: k0..k1 of its rows, [block of kc][panel][k][mr]; s NULL: every piece packs for
 * itself. */
typedef struct tinyi_gemm_phase {
    const float *s;
    tiny_idx k0, k1, panel0, panel1;
} tinyi_gemm_phase;

/* Panels i0..i1 of a and columns j0..j1 of y. */
static void tinyi_gemm_piece(const tinyi_gemm_job *job, const tinyi_gemm *g, const tinyi_gemm_phase *ph, tiny_idx i0,
                             tiny_idx i1, tiny_idx j0, tiny_idx j1)
{
    const tiny_idx mr = job->shape.mr, nr = job->shape.nr, kc = job->shape.kc, r0 = tinyi_gemm_start(g->m, mr, i0);
    const tinyi_fn_gemm_f32_tile tile = TINYI_GEMM_OF(job->k, tile);
    const int direct = g->y_n == 1;
    float *y = direct ? (float *)(void *)g->y + r0 * g->y_m + j0 : job->y;
    const tiny_idx y_row = direct ? g->y_m : j1 - j0, tiles = (j1 - j0 - 1) / nr + 1,
                   bytes = (tiny_idx)tiny_dtype_bytes((tiny_dtype)g->b.dtype);
    const tiny_idx r_last = tinyi_gemm_start(g->m, mr, i1) - 1;
    tiny_idx p = ph->k0, i, j;
    tinyi_gemm_fetch fetch;
    tinyi_gemm_ahead ahead;
    do {
        const tiny_idx n = TINYI_MIN(ph->k1 - p, kc), next = p + n < ph->k1 ? p + n : ph->k0,
                       n_next = TINYI_MIN(ph->k1 - next, kc);
        const float *s = job->s;
        tiny_idx run;                       /* bytes that are fetched with a tile */
        tinyi_gemm_panels(job->k, job->v, nr, &g->b, j0, j1 - j0, p, n, job->t);
        fetch.b = tinyi_gemm_at(&g->b, j0, next);
        fetch.b_step = (g->b.row == 1 ? g->b.k : g->b.row) * bytes;
        fetch.b_left = next == ph->k0 ? 0 : g->b.row == 1 ? n_next : j1 - j0;
        fetch.b_wait = (i1 - i0) * tiles - fetch.b_left;
        run = TINYI_MAX(TINYI_MIN((g->b.row == 1 ? j1 - j0 : n_next) * bytes, 2048),
                        ph->s ? (mr * n - 1) / tiles * 4 + 4 : n * 4);
        fetch.step = (ptrdiff_t)TINYI_MIN(run / (n / 2 + 1) + 1, 64);
        for (i = i0; i < i1; i++) {
            const tiny_idx r = tinyi_gemm_start(g->m, mr, i), rows = tinyi_gemm_start(g->m, mr, i + 1) - r;
            float *row = y + (r - r0) * y_row;
            if (ph->s) {
                s = ph->s + (p - ph->k0) * (ph->panel1 - ph->panel0) * mr + (i - ph->panel0) * mr * n;
                fetch.a = (const unsigned char *)(s + mr * n);
                fetch.a_step = run;
                fetch.a_left = tiles;
            } else {
                tinyi_gemm_turn(job->k, job->s, tinyi_gemm_height(mr, rows), &g->a, r, rows, p, n, job->t);
                fetch.a = i + 1 < i1 ? tinyi_gemm_at(&g->a, r + rows, p) : tinyi_gemm_at(&g->a, r0, next);
                fetch.a_step = g->a.row * (tiny_idx)tiny_dtype_bytes((tiny_dtype)g->a.dtype);
                fetch.a_left = g->a.k == 1 ? mr : 0;
            }
            for (j = j0; j < j1; j += nr) {
                tinyi_gemm_fetch_next(&fetch, &ahead);
                /* a row of y in the next panel: on a page of its own it is slow to find */
                if (i + 1 < i1) TINYI_PREFETCH(row + TINYI_MIN(rows + (j - j0) / nr, r_last - r) * y_row);
                tile(row + (j - j0), y_row, s, job->v + (j - j0) * n, (size_t)n, (int)rows, (int)TINYI_MIN(j1 - j, nr),
                     p > 0, &ahead);
            }
            if (p + n == g->k && (g->bias || g->act))
                for (j = 0; j < rows; j++) tinyi_gemm_finish(job->k, g, row + j * y_row, r + j, j0, j1 - j0);
        }
        p += n;
    } while (p < ph->k1);
    if (!direct) tinyi_gemm_put(job->k, g, y, y_row, r0, j0, tinyi_gemm_start(g->m, mr, i1) - r0, j1 - j0);
}

/* Panels and columns of a piece: as large as the caches like it, but enough pieces for everybody. */
static void tinyi_gemm_cut(const tinyi_gemm_shape *s, tiny_idx panels, tiny_idx columns, tiny_idx n_pieces,
                           tiny_idx *mp, tiny_idx *np)
{
    tiny_idx m = TINYI_MIN(panels, s->mc / s->mr), n = TINYI_MIN(columns, s->nc);
    for (;;) {
        m = tinyi_gemm_even(panels, m);
        n = tinyi_gemm_up(tinyi_gemm_even(columns, n), s->nr);
        if (((panels - 1) / m + 1) * ((columns - 1) / n + 1) >= n_pieces) break;
        if (n >= 4 * s->nr) n /= 2;
        else if (m >= 4) m /= 2;
        else if (n >= 2 * s->nr) n /= 2;
        else break;
    }
    *mp = m;
    *np = n;
}

/* Many products, or one whose result is not dense along n: pieces over all of k, which depend on nothing. */
static void tinyi_gemm_run_pieces(tiny_team *team, const tinyi_gemm *g)
{
    const tiny_idx n_batch = g->batch[0] * g->batch[1];
    const tinyi_gemm_own o = tinyi_gemm_own_of(g);
    tinyi_gemm_job job;
    tinyi_gemm_phase ph;
    tiny_idx panels, mp, np, across, down, q, q0, q1;
    tinyi_gemm_job_of(&job, team, g, &o);
    if (g->y_n != 1) {
        job.shape.mc = 4 * job.shape.mr;
        job.shape.nc = 4 * job.shape.nr;
    }
    panels = (g->m - 1) / job.shape.mr + 1;
    memset(&ph, 0, sizeof ph);
    ph.k1 = g->k;
    tinyi_gemm_cut(&job.shape, panels, g->n, team->n == 1 ? 1 : (4 * team->n - 1) / n_batch + 1, &mp, &np);
    down = (panels - 1) / mp + 1;
    across = (g->n - 1) / np + 1;
    while (tiny_take(team, n_batch * down * across, 1, &q0, &q1))
        for (q = q0; q < q1; q++) {
            const tinyi_gemm one = tinyi_gemm_batch(g, q / (down * across), 4);
            const tiny_idx i = q / across % down * mp, j = q % across * np;
            tinyi_gemm_piece(&job, &one, &ph, i, TINYI_MIN(i + mp, panels), j, TINYI_MIN(j + np, g->n));
        }
}

/* Rows of a and depth of a phase: what TINYI_GEMM_SHARED floats hold. All rows, if a depth of four blocks is left for
 * them: then nothing of b is packed twice. Parts are even. */
static void tinyi_gemm_phase_size(const tinyi_gemm *g, tiny_idx mr, tiny_idx kc, tiny_idx *panels, tiny_idx *deep)
{
    const tiny_idx all = (g->m - 1) / mr + 1, blocks = (g->k - 1) / kc + 1;
    tiny_idx d = TINYI_MIN(blocks, TINYI_MAX(TINYI_GEMM_SHARED / (all * mr) / kc, 4)), high;
    d = tinyi_gemm_even(blocks, d);
    high = TINYI_MIN(all, TINYI_GEMM_SHARED / (TINYI_MIN(g->k, d * kc) * mr));
    *deep = d * kc;
    *panels = tinyi_gemm_even(all, high);
}

/* The number of column parts that the next thread takes: as many columns as fit its second-level cache, fewer later,
 * and parts of one column at the end, so that all threads finish together. */
static tiny_idx tinyi_gemm_grain(const tinyi_gemm_shape *s, tiny_idx parts, tiny_idx left, int threads)
{
    const tiny_idx n = TINYI_MIN(left / (2 * threads), s->nc / s->nr * parts);
    return n > parts ? n / parts * parts : n;
}

/* One product: a phase packs rows of a for all threads. Then each piece of y packs the columns of b that it covers. */
static void tinyi_gemm_run_phases(tiny_team *team, const tinyi_gemm *g)
{
    const tinyi_gemm_own o = tinyi_gemm_own_of(g);
    tinyi_gemm_job job;
    tinyi_gemm_phase ph;
    tiny_idx mr, kc, panels, high, deep, across, down, parts, total, n, blocks, q, q0, q1;
    float *s = (float *)team->shared;
    tinyi_gemm_job_of(&job, team, g, &o);
    mr = job.shape.mr;
    kc = job.shape.kc;
    panels = (g->m - 1) / mr + 1;
    across = (g->n - 1) / job.shape.nr + 1;
    tinyi_gemm_phase_size(g, mr, kc, &high, &deep);
    ph.s = s;
    for (ph.panel0 = 0; ph.panel0 < panels; ph.panel0 = ph.panel1)
        for (ph.k0 = 0; ph.k0 < g->k; ph.k0 = ph.k1) {
            ph.panel1 = TINYI_MIN(ph.panel0 + high, panels);
            ph.k1 = TINYI_MIN(ph.k0 + deep, g->k);
            if (ph.panel0 || ph.k0) tiny_barrier(team);
            blocks = (ph.k1 - ph.k0 - 1) / kc + 1;
            while (tiny_take(team, (ph.panel1 - ph.panel0) * blocks, 4, &q0, &q1))
                for (q = q0; q < q1; q++) {
                    const tiny_idx i = ph.panel0 + q / blocks, r = tinyi_gemm_start(g->m, mr, i),
                                   rows = tinyi_gemm_start(g->m, mr, i + 1) - r;
                    const tiny_idx p = ph.k0 + q % blocks * kc;
                    n = TINYI_MIN(ph.k1 - p, kc);
                    tinyi_gemm_turn(job.k, s + (p - ph.k0) * (ph.panel1 - ph.panel0) * mr + (i - ph.panel0) * mr * n,
                                    tinyi_gemm_height(mr, rows), &g->a, r, rows, p, n, job.t);
                }
            tiny_barrier(team);
            /* strips of rows, in each all columns (panels of nr), each of them in parts */
            n = ph.panel1 - ph.panel0;
            down = (n - 1) / (job.shape.mc / mr) + 1;
            parts = TINYI_MAX(TINYI_MIN(n / (down * TINYI_GEMM_PART), 8), (2 * team->n - 1) / (down * across) + 1);
            parts = TINYI_MIN(parts, n / down);
            total = down * across * parts;
            for (q1 = 0; tiny_take(team, total, tinyi_gemm_grain(&job.shape, parts, total - q1, team->n), &q0, &q1);)
                while (q0 < q1) {
                    const tiny_idx column = q0 / parts % across, part = q0 % parts,
                                   i = q0 / (parts * across) * parts + part;
                    /* of one column, or whole ones; one thread takes all at once */
                    const int some = part || q1 - q0 < parts;
                    const tiny_idx rows = some ? TINYI_MIN(q1 - q0, parts - part) : parts;
                    const tiny_idx wide =
                        some ? 1
                             : TINYI_MIN(TINYI_MIN((q1 - q0) / parts, across - column), job.shape.nc / job.shape.nr);
                    tinyi_gemm_piece(&job, g, &ph, ph.panel0 + i * n / (down * parts),
                                     ph.panel0 + (i + rows) * n / (down * parts), column * job.shape.nr,
                                     TINYI_MIN((column + wide) * job.shape.nr, g->n));
                    q0 += rows * wide;
                }
        }
}

/* ---- ROWS and SMALL */

/* Where the rows of a lie: in place, or converted in t, `deep` apart. */
static const float *tinyi_gemm_rows_of(const tinyi_gemm_job *job, const tinyi_gemm_side *a, tiny_idx row, tiny_idx rows,
                                       tiny_idx k0, tiny_idx n, tiny_idx *step)
{
    tiny_idx r;
    if (tinyi_gemm_is_f32_rows(a)) {
        *step = a->row;
        return (const float *)(const void *)tinyi_gemm_at(a, row, k0);
    }
    *step = n + 16;                         /* rows a power of two apart would fight for the same places in the cache */
    for (r = 0; r < rows; r++) tinyi_gemm_row_f32(job->k, job->s + r * *step, a, row + r, k0, n);
    return job->s;
}

/* depth of a block in ROWS: all panels of it in about 256 KB */
static tiny_idx tinyi_gemm_rows_depth(const tinyi_gemm *g)
{
    tiny_idx n = 65536 / tinyi_gemm_up(g->n, TINYI_GEMM_NR_MAX);
    return g->k <= n + n / 2 ? g->k : n;
}

#define TINYI_GEMM_STRIPS 4                 /* tiles of rows in a piece */

/* Rows of a that one take gives: four tiles, less where that would leave threads without work. */
static void tinyi_gemm_run_rows(tiny_team *team, const tinyi_gemm *g)
{
    const tinyi_kernels *k = team->k;
    tinyi_gemm_job job;
    tiny_idx nr, mr, columns, deep = tinyi_gemm_rows_depth(g), q0, q1, i, r, p, j, rows, high, n;
    float *v = (float *)team->shared, *t = (float *)team->own;      /* t: rows x columns of y */
    TINYI_GEMM_OF(k, shape)(&job.shape);
    nr = job.shape.nr;
    mr = job.shape.mr;
    job.k = k;
    job.t = t + TINYI_GEMM_STRIPS * TINYI_GEMM_MR_MAX * tinyi_gemm_up(g->n, TINYI_GEMM_NR_MAX);
    job.s = job.t + TINYI_GEMM_NR_MAX * 256;
    columns = tinyi_gemm_up(g->n, nr);
    /* panels in blocks of 256 of k, so that many can pack */
    while (tiny_take(team, (g->k - 1) / 256 + 1, 1, &q0, &q1))
        for (p = q0 * 256; p < g->k && p < q1 * 256; p += 256)
            for (j = 0; j < g->n; j += nr) {
                n = TINYI_MIN(g->k - p, 256);
                tinyi_gemm_panels(k, v + j * g->k + p * nr, nr, &g->b, j, TINYI_MIN(g->n - j, nr), p, n, job.t);
            }
    tiny_barrier(team);
    high = TINYI_GEMM_STRIPS * mr;
    while (high > mr && (g->m - 1) / high + 1 < 4 * team->n) high -= mr;
    while (tiny_take(team, (g->m - 1) / high + 1, 1, &q0, &q1))
        for (; q0 < q1; q0++) {
            const tiny_idx i0 = q0 * high, i1 = TINYI_MIN(i0 + high, g->m);
            for (p = 0; p < g->k; p += n) {
                n = TINYI_MIN(g->k - p, deep);
                for (i = i0; i < i1; i += rows) {
                    tiny_idx step;
                    const float *s;
                    rows = tinyi_gemm_next(mr, i1 - i);
                    s = tinyi_gemm_rows_of(&job, &g->a, i, rows, p, n, &step);
                    for (j = 0; j < g->n; j += nr) /* a panel that is half empty takes half of the time */
                        TINYI_GEMM_OF(k, rows)
                        (t + (i - i0) * columns + j, columns, s, step, v + j * g->k + p * nr, nr, (size_t)n, (int)rows,
                         (int)(g->n - j > nr / 2 ? nr : nr / 2), p > 0);
                }
            }
            for (r = i0; r < i1 && (g->bias || g->act); r++)
                tinyi_gemm_finish(k, g, t + (r - i0) * columns, r, 0, g->n);
            tinyi_gemm_put(k, g, t, columns, i0, 0, i1 - i0, g->n);
        }
}

static void tinyi_gemm_small(const tinyi_gemm_job *job, const tinyi_gemm *g)
{
    const tinyi_kernels *k = job->k;
    const tiny_idx nr = job->shape.nr, mr = job->shape.mr, columns = tinyi_gemm_up(g->n, nr);
    const int in_place = g->b.dtype == TINY_F32 && g->b.row == 1, direct = g->y_n == 1;
    float *t = direct ? (float *)(void *)g->y : job->y;
    const tiny_idx t_row = direct ? g->y_m : columns;
    tiny_idx i, j, r, rows, step;
    if (!in_place) tinyi_gemm_panels(k, job->v, nr, &g->b, 0, g->n, 0, g->k, job->t);
    for (i = 0; i < g->m; i += rows) {
        float *y = direct ? t + i * t_row : t;
        const float *s;
        rows = tinyi_gemm_next(mr, g->m - i);
        s = tinyi_gemm_rows_of(job, &g->a, i, rows, 0, g->k, &step);
        for (j = 0; j < g->n; j += nr)
            TINYI_GEMM_OF(k, rows)
            (y + j, t_row, s, step,
             in_place ? (const float *)(const void *)tinyi_gemm_at(&g->b, j, 0) : job->v + j * g->k,
             in_place ? g->b.k : nr, (size_t)g->k, (int)rows, (int)TINYI_MIN(g->n - j, nr), 0);
        for (r = 0; r < rows && (g->bias || g->act); r++) tinyi_gemm_finish(k, g, y + r * t_row, i + r, 0, g->n);
        if (!direct) tinyi_gemm_put(k, g, y, t_row, i, 0, rows, g->n);
    }
}

/* own workspace of SMALL, in floats: panels, rows of a, conversions, a strip of y */
static tinyi_gemm_own tinyi_gemm_small_own(const tinyi_gemm *g)
{
    tinyi_gemm_own o;
    tiny_idx n = tinyi_gemm_up(g->n, TINYI_GEMM_NR_MAX);
    o.s = g->b.dtype == TINY_F32 && g->b.row == 1 ? 0 : g->k * n;
    o.t = o.s + (tinyi_gemm_is_f32_rows(&g->a) ? 0 : (g->k + 16) * TINYI_GEMM_MR_MAX);
    o.y = o.t + (o.s ? g->k * TINYI_GEMM_NR_MAX : 0);
    o.all = o.y + (g->y_n == 1 ? 0 : TINYI_GEMM_MR_MAX * n);
    return o;
}

static void tinyi_gemm_run_small(tiny_team *team, const tinyi_gemm *g)
{
    tinyi_gemm_job job;
    const tinyi_gemm_own o = tinyi_gemm_small_own(g);
    const double work = (double)g->m * (double)g->n * (double)g->k;
    tiny_idx q0, q1, grain = work > 1e6 ? 1 : 1 + (tiny_idx)(1e6 / (work + 100.0));
    job.k = team->k;
    TINYI_GEMM_OF(team->k, shape)(&job.shape);
    job.v = (float *)team->own;
    job.s = job.v + o.s;
    job.t = job.v + o.t;
    job.y = job.v + o.y;
    while (tiny_take(team, g->batch[0] * g->batch[1], grain, &q0, &q1))
        for (; q0 < q1; q0++) {
            const tinyi_gemm one = tinyi_gemm_batch(g, q0, 4);
            tinyi_gemm_small(&job, &one);
        }
}

/* ---- which form */

/* Some rows times a large factor that is dense one way or the other. */
static int tinyi_gemm_plan_vectors(tinyi_gemm_plan *p)
{
    tinyi_gemm *g = &p->g;
    if (g->m > g->n || (g->m == g->n && g->b.dtype == TINY_F32 && g->b.k != 1)) tinyi_gemm_swap(g);
    if (g->m > TINYI_GEMM_THIN || (g->b.k != 1 && g->b.row != 1) || g->m * g->k > TINYI_GEMM_SHARED) return 0;
    if (g->batch[0] * g->batch[1] > 1 && !tinyi_gemm_is_f32_rows(&g->a)) return 0;
    p->form = g->b.k == 1 ? TINYI_GEMM_DOT : TINYI_GEMM_AXPY;
    p->gather = !tinyi_gemm_is_f32_rows(&g->a);
    p->shared_bytes = p->gather ? (size_t)(g->m * g->k) * sizeof(float) : 0;
    p->own_bytes = TINYI_GEMM_THIN * TINYI_GEMM_NC_MAX * sizeof(float);
    return 1;
}

TINYI_FN void tinyi_gemm_plan_f32(tinyi_gemm_plan *p, const tinyi_gemm *g)
{
    tinyi_gemm *h = &p->g;
    const tiny_idx n_batch = g->batch[0] * g->batch[1];
    double work = (double)g->m * (double)g->n * (double)g->k;
    p->form = TINYI_GEMM_NOTHING;
    p->gather = p->phases = 0;
    p->shared_bytes = p->own_bytes = 0;
    *h = *g;
    if (g->m == 0 || g->n == 0 || n_batch == 0) return;
    if (tinyi_gemm_plan_vectors(p)) return;
    *h = *g;
    if (h->y_n != 1 && h->y_m == 1) tinyi_gemm_swap(h);
    if (work <= 300e3 && g->k <= 4096) {
        tinyi_gemm_own o = tinyi_gemm_small_own(h);
        p->form = TINYI_GEMM_SMALL;
        p->own_bytes = (size_t)o.all * sizeof(float);
        return;
    }
    if (n_batch == 1 && TINYI_MIN(g->m, g->n) <= TINYI_GEMM_NARROW) {
        *h = *g;
        if (h->m < h->n) tinyi_gemm_swap(h);
        if (h->a.k == 1 && h->k * tinyi_gemm_up(h->n, TINYI_GEMM_NR_MAX) <= TINYI_GEMM_SHARED) {
            p->form = TINYI_GEMM_ROWS;
            p->shared_bytes = (size_t)(h->k * tinyi_gemm_up(h->n, TINYI_GEMM_NR_MAX)) * sizeof(float);
            p->own_bytes =
                (size_t)(TINYI_GEMM_STRIPS * TINYI_GEMM_MR_MAX * tinyi_gemm_up(h->n, TINYI_GEMM_NR_MAX) +
                         TINYI_GEMM_NR_MAX * 256 +
                         (tinyi_gemm_is_f32_rows(&h->a) ? 0 : TINYI_GEMM_MR_MAX * (tinyi_gemm_rows_depth(h) + 16))) *
                sizeof(float);
            return;
        }
        *h = *g;
        if (h->y_n != 1 && h->y_m == 1) tinyi_gemm_swap(h);
    }
    p->form = TINYI_GEMM_PANELS;
    p->own_bytes = (size_t)tinyi_gemm_own_of(h).all * sizeof(float);
    /* a barrier and the other thread's half of a cost more than packing a twice in what takes some 100 us (128^3 with
     * two threads: 31 us, 22 without) */
    p->phases = n_batch == 1 && h->y_n == 1 && work >= 32e6;
    if (p->phases)
        p->shared_bytes = (size_t)TINYI_MIN(TINYI_GEMM_SHARED, (h->m + TINYI_GEMM_MR_MAX) * h->k) * sizeof(float);
}

TINYI_FN void tinyi_gemm_run_f32(tiny_team *team, const tinyi_gemm_plan *p)
{
    switch (p->form) {
    case TINYI_GEMM_NOTHING: break;
    case TINYI_GEMM_DOT:
    case TINYI_GEMM_AXPY: tinyi_gemm_run_vectors(team, p); break;
    case TINYI_GEMM_SMALL: tinyi_gemm_run_small(team, &p->g); break;
    case TINYI_GEMM_ROWS: tinyi_gemm_run_rows(team, &p->g); break;
    default: (p->phases ? tinyi_gemm_run_phases : tinyi_gemm_run_pieces)(team, &p->g); break;
    }
}
