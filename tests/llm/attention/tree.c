/* tests/llm/attention/tree.c - attention over a tree of sequences: the proofs of attention 3 (DeFT, arXiv 2404.00242)
 *
 * Truth    a tree worked by hand; a plan that is carried out here in double, against each path alone; the reference of
 *          the operation, which ignores plans; a list of nodes that the test keeps itself. */
#include "t.h"

enum { MOST = 20000 };

static tllm_pages *open_pages(tiny_ctx *ctx, tiny_idx n_block, tiny_idx block, tiny_idx n_seq)
{
    tllm_pages_desc d;
    tllm_pages *p = NULL;
    memset(&d, 0, sizeof d);
    d.n_block = n_block;
    d.block = block;
    d.n_seq = n_seq;
    T_OK(tllm_pages_open(ctx, &d, &p));
    return p;
}

/* a row for each live leaf, in the order of their numbers, that sees all of its path */
static tiny_idx rows_of(const tllm_tree *tree, const tllm_pages *pages, int32_t n_node, int32_t *rows)
{
    tiny_idx n = 0;
    int32_t i;
    for (i = 0; i < n_node; i++) {
        const tiny_idx seq = tllm_tree_seq(tree, i);
        if (seq < 0) continue;
        rows[4 * n] = (int32_t)seq;
        rows[4 * n + 1] = 0;
        rows[4 * n + 2] = (int32_t)tllm_pages_length(pages, seq);
        rows[4 * n + 3] = rows[4 * n + 2] - 1;
        n++;
    }
    return n;
}

/* root 6 cells; A 3, its children A1 and A2 1 each; B 2; blocks of 4 */
static void test_proof_3_worked_tree(tiny_target target)
{
    static const uint64_t want[13] = { 7, 7, 7, 7, 7, 7, 3, 3, 3, 1, 2, 4, 1 };
    static const int32_t n_query[4] = { 3, 3, 3, 1 }, last[4] = { 4, 4, 4, 1 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_pages *pages = open_pages(ctx, 40, 1, 4);
    tllm_tree *tree;
    tllm_tree_plan *plan;
    tllm_tree_plan_desc d = { 4, 0, TLLM_TREE_FLAT };
    tllm_page_copy copy;
    int32_t root, ab[2], a[2], rows[12];
    tiny_tensor tr = tiny_tensor_2d(rows, TINY_I32, 3, 4), tt;
    tllm_tree_counts c;
    const tllm_tree_item *item;
    const tllm_tree_piece *piece;
    const uint64_t *mask;
    const int32_t *query;
    tiny_idx n, i;
    T_OK(tllm_tree_open(ctx, pages, &tree));
    T_OK(tllm_tree_plan_open(ctx, &d, &plan));
    T_OK(tllm_tree_prompt(tree, 6, &root));
    T_OK(tllm_tree_branch(tree, root, 2, ab));
    T_OK(tllm_tree_append(tree, ab[0], 3, &copy));
    T_OK(tllm_tree_append(tree, ab[1], 2, &copy));
    T_OK(tllm_tree_branch(tree, ab[0], 2, a));
    T_OK(tllm_tree_append(tree, a[0], 1, &copy));
    T_OK(tllm_tree_append(tree, a[1], 1, &copy));
    for (i = 0; i < 3; i++) {                       /* queries: A1, A2, B */
        const tiny_idx seq = tllm_tree_seq(tree, i < 2 ? a[i] : ab[1]);
        rows[4 * i] = (int32_t)seq;
        rows[4 * i + 1] = 0;
        rows[4 * i + 2] = (int32_t)tllm_pages_length(pages, seq);
        rows[4 * i + 3] = 0;
    }
    tt = tiny_tensor_2d((void *)(uintptr_t)tllm_pages_table(pages, 0), TINY_I32, 4,
                        tllm_pages_table(pages, 1) - tllm_pages_table(pages, 0));
    T_OK(tllm_tree_plan_set(plan, &tr, &tt, 1));
    c = tllm_tree_plan_counts(plan);
    item = tllm_tree_plan_items(plan, &n, &piece, &query, &mask);
    T_EQ_INT(n, 4);
    T_EQ_INT(c.n_tree, 13);
    T_EQ_INT(c.n_path, 28);
    T_EQ_INT(c.n_pair, 37);
    T_EQ_INT(c.n_needed, 28);
    T_EQ_INT(c.n_part, 10);
    for (i = 0; i < 4 && n == 4; i++) {
        T_EQ_INT(item[i].n_query, n_query[i]);
        T_EQ_INT(item[i].n_cell, last[i]);
    }
    if (n == 4) T_EQ_INT(query[item[3].query], 2);
    for (i = 0; i < 12; i++) T_EQ_INT(mask[i], want[i]);
    T_EQ_INT(mask[12], want[12]);
    /* partial results by blocks and masks, merged, against the path: a block's page is its place in the pool */
    for (i = 0; i < 3 && n == 4; i++) {
        const int32_t *table = tllm_pages_table(pages, rows[4 * i]);
        double own[2] = { 0, 0 }, m = -HUGE_VAL, merged[2] = { 0, 0 };
        tiny_idx j, k, at;
        for (j = 0; j < rows[4 * i + 2]; j++) {
            const double w = exp(sin(1.7 * table[j]));
            own[0] += w;
            own[1] += w * cos(2.3 * table[j]);
        }
        for (k = 0; k < 4; k++) {                   /* a state each: largest score, sums under it */
            double top = -HUGE_VAL, part[2] = { 0, 0 }, most;
            int pass;
            for (pass = 0; pass < 2; pass++) {
                tiny_idx cell = 0, c2;
                for (at = 0; at < item[k].n_piece; at++)
                    for (c2 = 0; c2 < piece[item[k].piece + at].n; c2++, cell++) {
                        const double slot = (double)piece[item[k].piece + at].page, score = sin(1.7 * slot);
                        tiny_idx q2;
                        for (q2 = 0; q2 < item[k].n_query; q2++)
                            if (query[item[k].query + q2] == i && mask[item[k].mask + cell] >> q2 & 1) {
                                if (!pass) top = fmax(top, score);
                                else { part[0] += exp(score - top); part[1] += exp(score - top) * cos(2.3 * slot); }
                            }
                    }
            }
            if (top == -HUGE_VAL) continue;         /* no bit of this query: weight 0 */
            most = fmax(m, top);
            for (pass = 0; pass < 2; pass++)
                merged[pass] = (m > -HUGE_VAL ? merged[pass] * exp(m - most) : 0.0) + part[pass] * exp(top - most);
            m = most;
        }
        T_CLOSE(merged[1] / merged[0], own[1] / own[0], 1e-15);
    }
    /* a paused leaf has no row */
    tr.dim[0] = 2;
    T_OK(tllm_tree_plan_set(plan, &tr, &tt, 1));
    c = tllm_tree_plan_counts(plan);
    T_EQ_INT(c.n_tree, 11);                         /* B's two cells belong to no leaf */
    tllm_tree_plan_close(ctx, plan);
    tllm_tree_close(ctx, tree);
    tllm_pages_close(ctx, pages);
    t_close(ctx);
    T_PROOF("attention 3", "worked tree: stream, blocks, queries, masks");
    T_PROOF("attention 3", "worked tree: merged outputs equal attention of each path to 1e-15");
    T_PROOF("attention 3", "worked tree: N_tree 13, sum N_i 28, pairs 37 and 28");
}

/* ---- random trees ---- */

typedef struct grown {
    tllm_pages *pages;
    tllm_tree *tree;
    int32_t n_node;
    tiny_idx cells;
    int32_t rows[4 * 64];
    tiny_idx n;
} grown;

/* A tree of at most `leaves` leaves, depth up to 8, fan-out up to 5, nodes of 0 .. longest cells, some of them empty.
 * cells: of all nodes. */
static void grow(tiny_ctx *ctx, grown *g, tiny_idx n_block, tiny_idx block, tiny_idx leaves, uint32_t longest)
{
    int32_t node[512], depth[512], kids[5], root;
    int n_live = 0, tries;
    tllm_page_copy copy;
    tiny_idx i;
    memset(g, 0, sizeof *g);
    g->pages = open_pages(ctx, n_block, block, leaves);
    T_OK(tllm_tree_open(ctx, g->pages, &g->tree));
    T_OK(tllm_tree_prompt(g->tree, 1 + (tiny_idx)t_rand_below(longest), &root));
    node[n_live] = root;
    depth[n_live++] = 1;
    g->n_node = 1;
    for (tries = 0; tries < 40; tries++) {
        const int at = (int)t_rand_below((uint32_t)n_live), d = depth[at];
        const tiny_idx n = 1 + (tiny_idx)t_rand_below(5);
        if (d == 8 || tllm_tree_leaves(g->tree, root) + n - 1 > leaves) continue;
        T_OK(tllm_tree_branch(g->tree, node[at], n, kids));
        node[at] = node[--n_live];
        depth[at] = depth[n_live];
        for (i = 0; i < n; i++) {
            if (t_rand_below(4)) T_OK(tllm_tree_append(g->tree, kids[i], (tiny_idx)t_rand_below(longest + 1), &copy));
            node[n_live] = kids[i];
            depth[n_live++] = d + 1;
            if (kids[i] >= g->n_node) g->n_node = kids[i] + 1;
        }
    }
    for (i = 0; i < g->n_node; i++) g->cells += tllm_tree_cells(g->tree, (int32_t)i);
    g->n = rows_of(g->tree, g->pages, g->n_node, g->rows);
}
static void fell(tiny_ctx *ctx, grown *g)
{
    tllm_tree_close(ctx, g->tree);
    tllm_pages_close(ctx, g->pages);
}

static tiny_tensor table_of(const tllm_pages *p, tiny_idx n_seq)
{
    return tiny_tensor_2d((void *)(uintptr_t)tllm_pages_table(p, 0), TINY_I32, n_seq,
                          tllm_pages_table(p, 1) - tllm_pages_table(p, 0));
}

static const struct { tiny_idx len; int q, mode;
} forms[] = { { 128, 32, TLLM_TREE_FLAT }, { 1, 1, TLLM_TREE_FLAT },    { 7, 32, TLLM_TREE_FLAT },
              { 128, 1, TLLM_TREE_FLAT },  { 7, 5, TLLM_TREE_BREADTH }, { 128, 64, TLLM_TREE_NODE },
              { 1, 32, TLLM_TREE_FLAT },   { 7, 1, TLLM_TREE_FLAT },    { 128, 32, TLLM_TREE_BREADTH } };

/* The plan carried out in double: partial results by items and masks, merged by query, equal those of each path
 * alone. */
static void test_proof_3_plan_in_double(tiny_target target)
{
    enum { D = 5 };
    tiny_ctx *ctx = t_ctx(target, 1);
    grown g;
    int round, other = 0;
    size_t form;
    tiny_idx deep = 0;
    for (round = 0; round < 6; round++) {
        float *kv;
        grow(ctx, &g, MOST, 1, 40, round < 3 ? 300 : 12);
        kv = t_rand((size_t)MOST * (D + 1), -1.0f, 1.0f);           /* score, then a value, of each block */
        for (form = 0; form < T_COUNT(forms); form++) {
            tllm_tree_plan_desc d = { forms[form].len, forms[form].q, forms[form].mode };
            tiny_tensor tr = tiny_tensor_2d(g.rows, TINY_I32, g.n, 4), tt = table_of(g.pages, 40);
            tllm_tree_plan *plan;
            const tllm_tree_item *item;
            const tllm_tree_piece *piece;
            const uint64_t *mask;
            const int32_t *query;
            tllm_tree_counts c;
            tiny_idx n, i, j, k, x, paths = 0, once = 0, needed = 0, pairs = 0;
            double sum[64][D + 1], w;
            memset(sum, 0, sizeof sum);
            T_OK(tllm_tree_plan_open(ctx, &d, &plan));
            T_OK(tllm_tree_plan_set(plan, &tr, &tt, 1));
            item = tllm_tree_plan_items(plan, &n, &piece, &query, &mask);
            c = tllm_tree_plan_counts(plan);
            for (i = 0; i < n; i++) {
                tiny_idx cell = 0;
                T_TRUE(item[i].n_cell <= forms[form].len && item[i].n_query <= forms[form].q && item[i].n_query > 0);
                if (item[i].first == i) once += item[i].n_cell;
                pairs += (tiny_idx)item[i].n_cell * item[i].n_query;
                for (k = 0; k < item[i].n_piece; k++)
                    for (j = 0; j < piece[item[i].piece + k].n; j++, cell++) {
                        const float *at = kv + (piece[item[i].piece + k].page + 0) * (D + 1);
                        const uint64_t m = mask[item[i].mask + cell];
                        int q;
                        T_TRUE(item[i].n_query == 64 || !(m >> item[i].n_query));
                        w = exp((double)at[0]);
                        for (q = 0; q < item[i].n_query; q++)
                            if (m >> q & 1) {
                                const int32_t who = query[item[i].query + q];
                                needed++;
                                sum[who][D] += w;
                                for (x = 0; x < D; x++) sum[who][x] += w * (double)at[1 + x];
                            }
                    }
                T_EQ_INT(cell, item[i].n_cell);
            }
            for (i = 0; i < g.n; i++) {
                const int32_t *table = tllm_pages_table(g.pages, g.rows[4 * i]);
                double own[D + 1] = { 0 };
                paths += g.rows[4 * i + 2];
                for (j = 0; j < g.rows[4 * i + 2]; j++) {
                    const float *at = kv + table[j] * (D + 1);
                    w = exp((double)at[0]);
                    own[D] += w;
                    for (x = 0; x < D; x++) own[x] += w * (double)at[1 + x];
                }
                for (x = 0; x < D; x++) if (!T_CLOSE(sum[i][x] / sum[i][D], own[x] / own[D], 1e-14)) break;
            }
            /* each cell of the tree once: the count of the nodes */
            T_EQ_INT(once, g.cells);
            T_EQ_INT(c.n_tree, g.cells);
            T_EQ_INT(c.n_path, paths);
            T_EQ_INT(c.n_needed, paths);
            T_EQ_INT(needed, paths);
            T_EQ_INT(c.n_pair, pairs);
            if (form == 0) deep = c.n_pair;
            /* the same cells in another order, the same answers above */
            if (form == 8) other += c.n_pair != deep;
            tllm_tree_plan_close(ctx, plan);
        }
        fell(ctx, &g);
    }
    T_TRUE(other > 0);
    t_close(ctx);
    T_PROOF("attention 3", "breadth-first order changes nothing but the pair count");
    T_PROOF("attention 3", "KV counted is N_tree exactly");
}

/* The operation with a plan against its reference, which ignores plans: pages of 1 and of 16, all forms, groups of
 * heads, slopes and sinks. */
static void attention(tiny_target target, int rounds)
{
    static const struct { tiny_idx block, kv, group, d, d_v; int format, extra;
    } shape[] = { { 1, 2, 1, 8, 8, TLLM_FORMAT_F32, 0 },
                  { 16, 1, 4, 33, 20, TLLM_FORMAT_F32, 1 },
                  { 16, 2, 3, 32, 32, TLLM_FORMAT_F16, 2 },
                  { 5, 1, 2, 32, 32, TLLM_FORMAT_Q8_0, 3 } };
    tiny_ctx *ctx = t_ctx(target, 2), *ref = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t c;
    for (c = 0; c < T_COUNT(shape) && (int)c < rounds; c++) {
        const tiny_idx H = shape[c].kv * shape[c].group, leaves = 24, n_block = shape[c].block == 1 ? 3000 : 500;
        const tllm_format *f = tllm_format_of(shape[c].format);
        const tiny_dtype type = f->values > 1 ? TINY_U8 : shape[c].format == TLLM_FORMAT_F16 ? TINY_F16 : TINY_F32;
        const size_t row_k = tllm_format_bytes(f, (uint64_t)shape[c].d),
                     row_v = tllm_format_bytes(f, (uint64_t)shape[c].d_v),
                     n_row = (size_t)(n_block * shape[c].kv * shape[c].block);
        float *want, *got, *slopes = t_rand((size_t)H, 0.0f, 0.02f), *sinks = t_rand((size_t)H, -1.0f, 1.0f),
                           top = 0.0f;
        unsigned char *k = (unsigned char *)t_keep(n_row * row_k), *v = (unsigned char *)t_keep(n_row * row_v);
        int32_t *pos;
        tiny_tensor tq, tk, tv, tt, tr, to, tp, ts = tiny_tensor_1d(slopes, TINY_F32, H),
                                                tz = tiny_tensor_1d(sinks, TINY_F32, H);
        tllm_paged_params p;
        grown g;
        size_t i, form, n;
        grow(ctx, &g, n_block, shape[c].block, leaves, shape[c].block == 1 ? 60 : 90);
        for (i = 0; i < n_row; i++) {
            float x[33];
            tiny_idx j;
            for (j = 0; j < 33; j++) x[j] = t_rand_float(-1.7f, 1.7f);
            f->pack(x, k + i * row_k, (size_t)shape[c].d, NULL);
            for (j = 0; j < 33; j++) x[j] = t_rand_float(-1.7f, 1.7f);
            f->pack(x, v + i * row_v, (size_t)shape[c].d_v, NULL);
        }
        tt = table_of(g.pages, leaves);
        pos = (int32_t *)t_keep((size_t)(leaves * tt.dim[1] * shape[c].block) * sizeof *pos);
        for (i = 0; i < (size_t)(leaves * tt.dim[1] * shape[c].block); i++)
            pos[i] = (int32_t)(i % (size_t)(tt.dim[1] * shape[c].block));
        tp = tiny_tensor_2d(pos, TINY_I32, leaves, tt.dim[1] * shape[c].block);
        n = (size_t)(g.n * H * shape[c].d_v);
        tq = tiny_tensor_3d(t_rand((size_t)(g.n * H * shape[c].d), -1.7f, 1.7f), TINY_F32, g.n, H, shape[c].d);
        tk = tiny_tensor_4d(k, type, n_block, shape[c].kv, shape[c].block,
                            type == TINY_U8 ? (tiny_idx)row_k : shape[c].d);
        tv = tiny_tensor_4d(v, type, n_block, shape[c].kv, shape[c].block,
                            type == TINY_U8 ? (tiny_idx)row_v : shape[c].d_v);
        /* two rows see less, one of them from the middle on, one sees nothing */
        if (shape[c].extra == 2 && g.n > 3) {
            g.rows[4 * 1 + 2] = g.rows[4 * 1 + 2] * 2 / 3;
            g.rows[4 * 2 + 1] = g.rows[4 * 2 + 2] / 2;
            g.rows[4 * 3 + 1] = g.rows[4 * 3 + 2];
        }
        tr = tiny_tensor_2d(g.rows, TINY_I32, g.n, 4);
        want = t_guarded(n);
        got = t_guarded(n);
        memset(&p, 0, sizeof p);
        p.format_k = p.format_v = shape[c].format;
        p.d_v = shape[c].d_v;
        if (shape[c].extra == 3) p.softcap = 3.0f;
        to = tiny_tensor_3d(want, TINY_F32, g.n, H, shape[c].d_v);
        T_OK(tllm_paged_attention(ref, &tq, &tk, &tv, &tt, &tr, shape[c].extra & 1 ? &tp : NULL,
                                  shape[c].extra & 1 ? &ts : NULL, shape[c].extra ? &tz : NULL, &p, &to));
        for (i = 0; i < n; i++) top = fabsf(want[i]) > top ? fabsf(want[i]) : top;
        to.data = got;
        for (form = 0; form < T_COUNT(forms); form++) {
            tllm_tree_plan_desc d = { forms[form].len, forms[form].q, forms[form].mode };
            tllm_tree_plan *plan;
            T_OK(tllm_tree_plan_open(ctx, &d, &plan));
            T_OK(tllm_tree_plan_set(plan, &tr, &tt, shape[c].block));
            p.tree = plan;
            memset(got, 0xff, n * sizeof *got);
            T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, shape[c].extra & 1 ? &tp : NULL,
                                      shape[c].extra & 1 ? &ts : NULL, shape[c].extra ? &tz : NULL, &p, &to));
            T_RAN_ON(ctx, t_vectors(target));
            for (i = 0; i < n; i++) if (!T_CLOSE(got[i], want[i], 200.0 * 5.9604645e-8 * (double)top)) break;
            T_WALLS(got, n);
            tllm_tree_plan_close(ctx, plan);
        }
        fell(ctx, &g);
    }
    t_close(ref);
    t_close(ctx);
}
static void test_proof_3_attention(tiny_target target)
{
    attention(target, 4);
    T_PROOF("attention 3", "equals attention of each leaf on random trees");
}

/* Cells that the kernels read from the pages, by their own report, against the distinct cells of the pages that the
 * items name: each once, however many queries and heads share it, and whatever tiles they fill. (40 queries read all of
 * it twice, in groups of 4 heads three times.) The bits are the same for any number of threads; only where there are
 * fewer than two blocks a thread may the groups of queries of a block be read apart. */
static void test_proof_3_each_cell_is_read_once(tiny_target target)
{
    enum { PAGE = 16, SHARED = 700, OWN = 5, LEAVES = 100, BLOCKS = SHARED / PAGE + 1 + LEAVES, THREADS = 4, D = 32 };
    static const struct { tiny_idx n, kv, group, len; int max_q, format, in_keys;
    } each[] = { { 1, 1, 1, 128, 32, TLLM_FORMAT_F32, 0 },    { 8, 1, 1, 128, 32, TLLM_FORMAT_F16, 0 },
                 { 32, 1, 1, 128, 32, TLLM_FORMAT_F32, 0 },   { 33, 2, 1, 128, 32, TLLM_FORMAT_F16, 0 },
                 { 40, 1, 1, 256, 32, TLLM_FORMAT_F32, 0 },   { 24, 1, 4, 256, 32, TLLM_FORMAT_Q8_0, 0 },
                 { 32, 1, 4, 256, 32, TLLM_FORMAT_F32, 0 },   { 40, 2, 4, 64, 32, TLLM_FORMAT_F16, 0 },
                 { 100, 1, 3, 1000, 64, TLLM_FORMAT_F32, 0 }, { 36, 1, 1, 300, 8, TLLM_FORMAT_Q8_0, 0 },
                 { 20, 1, 16, 256, 32, TLLM_FORMAT_F32, 1 },  { 5, 1, 40, 577, 2, TLLM_FORMAT_F16, 1 } };
    tiny_ctx *ref = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_pages *pages;
    static int32_t rows[4 * LEAVES];
    static unsigned char seen[BLOCKS * PAGE];
    tllm_page_copy copy;
    tiny_tensor tt;
    tiny_idx i, j, c, n_item;
    size_t e, x;
    if (target == TINY_TARGET_REFERENCE) { t_close(ref); return; }
    pages = open_pages(ref, BLOCKS, PAGE, LEAVES);
    T_OK(tllm_pages_append(pages, 0, SHARED / PAGE * PAGE, &copy));
    for (i = 1; i < LEAVES; i++) T_OK(tllm_pages_fork(pages, 0, i));
    for (i = 0; i < LEAVES; i++) {
        T_OK(tllm_pages_append(pages, i, OWN, &copy));
        rows[4 * i] = (int32_t)i;
        rows[4 * i + 1] = i % 7 == 3 ? 200 : 0;             /* some see less */
        rows[4 * i + 2] = (int32_t)tllm_pages_length(pages, i);
        rows[4 * i + 3] = rows[4 * i + 2] - 1;
    }
    tt = table_of(pages, LEAVES);
    for (e = 0; e < T_COUNT(each); e++) {
        const tiny_idx n = each[e].n, H = each[e].kv * each[e].group, n_row = BLOCKS * each[e].kv * PAGE;
        const tllm_format *f = tllm_format_of(each[e].format);
        const tiny_dtype type = f->values > 1 ? TINY_U8 : each[e].format == TLLM_FORMAT_F16 ? TINY_F16 : TINY_F32;
        const size_t bytes = tllm_format_bytes(f, D), n_o = (size_t)(n * H * D);
        unsigned char *k = (unsigned char *)t_keep((size_t)n_row * bytes),
                      *v = (unsigned char *)t_keep((size_t)n_row * bytes);
        float *want = t_guarded(n_o), *got = t_guarded(n_o), *first = NULL, top = 0.0f;
        tiny_tensor tq = tiny_tensor_3d(t_rand((size_t)(n * H * D), -1.7f, 1.7f), TINY_F32, n, H, D),
                    tr = tiny_tensor_2d(rows, TINY_I32, n, 4), to = tiny_tensor_3d(want, TINY_F32, n, H, D);
        tiny_tensor tk = tiny_tensor_4d(k, type, BLOCKS, each[e].kv, PAGE, type == TINY_U8 ? (tiny_idx)bytes : D),
                    tv = tk;
        tllm_tree_plan_desc d = { each[e].len, each[e].max_q, TLLM_TREE_FLAT };
        tllm_tree_plan *plan;
        tllm_paged_params p;
        const tllm_tree_item *item;
        const tllm_tree_piece *piece;
        int threads;
        for (i = 0; i < n_row; i++) {
            float number[D];
            for (j = 0; j < D; j++) number[j] = t_rand_float(-1.7f, 1.7f);
            f->pack(number, k + (size_t)i * bytes, D, NULL);
            for (j = 0; j < D; j++) number[j] = t_rand_float(-1.7f, 1.7f);
            f->pack(number, v + (size_t)i * bytes, D, NULL);
        }
        tv.data = v;
        memset(&p, 0, sizeof p);
        p.format_k = p.format_v = each[e].format;
        t_use(ref);
        T_OK(tllm_paged_attention(ref, &tq, &tk, each[e].in_keys ? NULL : &tv, &tt, &tr, NULL, NULL, NULL, &p, &to));
        for (x = 0; x < n_o; x++) top = fabsf(want[x]) > top ? fabsf(want[x]) : top;
        to.data = got;
        for (threads = 1; threads <= THREADS; threads *= 2) {
            tiny_ctx *ctx = t_ctx(target, threads);
            tiny_idx load[THREADS] = { 0 }, sum = 0, cells = 0;
            tllm_tree_counts counts;
            T_OK(tllm_tree_plan_open(ctx, &d, &plan));
            T_OK(tllm_tree_plan_set(plan, &tr, &tt, PAGE));
            counts = tllm_tree_plan_counts(plan);
            item = tllm_tree_plan_items(plan, &n_item, &piece, NULL, NULL);
            memset(seen, 0, sizeof seen);
            for (i = 0; i < n_item; i++)
                for (j = 0; j < item[i].n_piece; j++)
                    for (c = 0; c < piece[item[i].piece + j].n; c++) {
                        unsigned char *at =
                            &seen[piece[item[i].piece + j].page * PAGE + piece[item[i].piece + j].in + c];
                        cells += !*at;
                        *at = 1;
                    }
            T_EQ_INT(cells, SHARED / PAGE * PAGE + n * OWN);
            T_EQ_INT(counts.n_tree, cells);
            p.tree = plan;
            p.n_load = load;
            memset(got, 0xff, n_o * sizeof *got);
            T_OK(
                tllm_paged_attention(ctx, &tq, &tk, each[e].in_keys ? NULL : &tv, &tt, &tr, NULL, NULL, NULL, &p, &to));
            T_RAN_ON(ctx, t_vectors(target));
            for (i = 0; i < THREADS; i++) sum += load[i];
            if (threads == 1 || counts.n_block * each[e].kv >= 2 * threads ? !T_EQ_INT(sum, cells * each[e].kv)
                                                                           : !T_TRUE(sum >= cells * each[e].kv))
                printf("  case %d, %d threads\n", (int)e, threads);
            for (x = 0; x < n_o; x++) if (!T_CLOSE(got[x], want[x], 200.0 * 5.9604645e-8 * (double)top)) break;
            T_WALLS(got, n_o);
            if (threads == 1) {
                first = (float *)t_keep(n_o * sizeof *first);
                memcpy(first, got, n_o * sizeof *first);
            } else T_SAME(got, first, n_o);
            tllm_tree_plan_close(ctx, plan);
            t_close(ctx);
        }
    }
    tllm_pages_close(ref, pages);
    t_close(ref);
    T_PROOF("attention 3", "KV counted is N_tree exactly");
}

/* Random tries of pages, queries with windows anywhere in them, some empty, entries outside all windows without a page:
 * n_tree and n_path are the cells that a call takes out of pages with the plan and without, as the kernels report them,
 * against a plain count over windows and tables. */
static void test_counts_match_loads(tiny_target target)
{
    enum { SEQ = 6, TAB = 9, Q = 14, BLOCK = 9, D = 8, ROUNDS = T_SLOW ? 60 : 400, POOL = SEQ * TAB };
    tiny_ctx *ctx = t_ctx(target, 1), *ref = t_ctx(TINY_TARGET_REFERENCE, 1);
    static float k[POOL * 2 * BLOCK * D], v[POOL * 2 * BLOCK * D];
    long round, gaps = 0, backward = 0, shared = 0;
    size_t x;
    for (x = 0; x < T_COUNT(k); x++) {
        k[x] = t_rand_float(-1.0f, 1.0f);
        v[x] = t_rand_float(-1.0f, 1.0f);
    }
    for (round = 0; round < ROUNDS; round++) {
        static const int32_t nowhere[3] = { -1, -900000, POOL };
        static unsigned char cell[SEQ][TAB * BLOCK], mine[TAB * BLOCK + 2];
        const int block = 1 + (int)t_rand_below(BLOCK), n_seq = 1 + (int)t_rand_below(SEQ),
                  n_tab = 2 + (int)t_rand_below(TAB - 1), n = 1 + (int)t_rand_below(Q), cells = n_tab * block;
        const int parts = 1 + (int)t_rand_below(2), H = parts * (1 + (int)t_rand_below(3)),
                  style = (int)t_rand_below(3);
        int32_t whole[SEQ * TAB], table[SEQ * TAB], rows[4 * Q], next = 0;
        unsigned char wanted[SEQ * TAB] = { 0 };
        tiny_idx load[2] = { 0, 0 }, n_tree = 0, n_path = 0, needed = 0, n_item, masked = 0;
        float o[3][Q * 6 * D];
        const size_t n_o = (size_t)(n * H * D);
        tiny_tensor tq = tiny_tensor_3d(t_rand((size_t)(n * H * D), -1.0f, 1.0f), TINY_F32, n, H, D),
                    tk = tiny_tensor_4d(k, TINY_F32, POOL, parts, block, D), tv = tk;
        tiny_tensor tt = tiny_tensor_2d(table, TINY_I32, n_seq, n_tab), tr = tiny_tensor_2d(rows, TINY_I32, n, 4),
                    to = tiny_tensor_3d(o[0], TINY_F32, n, H, D);
        tllm_tree_plan_desc d = { 0, 0, 0 };
        tllm_tree_plan *plan;
        tllm_tree_counts c;
        tllm_paged_params p;
        const tllm_tree_item *item;
        const uint64_t *mask;
        int i, j, s;
        tv.data = v;
        d.block_len = 1 + (tiny_idx)t_rand_below(40);
        d.max_q = 1 + (int)t_rand_below(33);
        d.mode = (int)t_rand_below(3);
        for (s = 0; s < n_seq; s++) {                       /* the first pages of an earlier one, then its own */
            const int from = s ? (int)t_rand_below((uint32_t)s) : 0,
                      same = s ? (int)t_rand_below((uint32_t)n_tab + 1) : 0;
            for (j = 0; j < n_tab; j++) whole[s * n_tab + j] = j < same ? whole[from * n_tab + j] : next++;
        }
        for (i = s = 0; i < n; i++) {
            const int lo = style && t_rand_below(2) ? (int)t_rand_below((uint32_t)cells) : 0,
                      most = style == 2 ? block + 2 < cells - lo ? block + 2 : cells - lo : cells - lo;
            rows[4 * i] = s;
            rows[4 * i + 1] = lo;
            rows[4 * i + 2] = rows[4 * i + 3] = lo + (int)t_rand_below((uint32_t)most + 1);
            if (s + 1 < n_seq && !t_rand_below(3)) s++;
            else if (!t_rand_below(8)) s = (int)t_rand_below((uint32_t)n_seq);      /* and back again */
        }
        for (i = 0; i < n; i++)
            for (j = rows[4 * i + 1]; j < rows[4 * i + 2]; j++) wanted[rows[4 * i] * n_tab + j / block] = 1;
        for (i = 0; i < n_seq * n_tab; i++) table[i] = wanted[i] ? whole[i] : nowhere[t_rand_below(3)];
        /* n_tree: cells that a window shows, each under the first sequence that has the same pages up to it */
        memset(cell, 0, sizeof cell);
        for (i = 0; i < n; i++)
            for (j = rows[4 * i + 1]; j < rows[4 * i + 2]; j++) {
                for (s = 0;
                     memcmp(table + s * n_tab, table + rows[4 * i] * n_tab, (size_t)(j / block + 1) * sizeof *table);
                     s++) {}
                needed++;
                n_tree += !cell[s][j];
                cell[s][j] = 1;
            }
        /* n_path: neighbours of one sequence read their common cells together, as long as there is no gap; mine: cells
         * of those so far, from 1 on */
        memset(mine, 0, sizeof mine);
        for (i = 0; i < n; i++) {
            const int32_t *r = rows + 4 * i;
            int touches = r[1] >= r[2], any = 0;
            for (j = 1; j <= cells; j++) any |= mine[j];
            for (j = r[1]; j <= r[2] + 1 && !touches; j++) touches = mine[j];
            if (i && (r[0] != r[-4] || (any && !touches))) {
                gaps += r[0] == r[-4];
                for (j = 1; j <= cells; j++) n_path += mine[j];
                memset(mine, 0, sizeof mine);
            }
            for (j = r[1]; j < r[2]; j++) mine[j + 1] = 1;
            backward += i && r[0] == r[-4] && r[1] < r[2] && r[1] < r[-3];
        }
        for (j = 1; j <= cells; j++) n_path += mine[j];
        T_OK(tllm_tree_plan_open(ctx, &d, &plan));
        T_OK(tllm_tree_plan_set(plan, &tr, &tt, block));
        c = tllm_tree_plan_counts(plan);
        T_EQ_INT(c.n_needed, needed);
        T_EQ_INT(c.n_tree, n_tree);
        T_EQ_INT(c.n_path, n_path);
        shared += n_tree < n_path;
        item = tllm_tree_plan_items(plan, &n_item, NULL, NULL, &mask);
        for (i = 0; i < (int)n_item; i++)
            for (j = 0; j < item[i].n_cell; j++) {
                for (x = 0; x < 64; x++) masked += (tiny_idx)(mask[item[i].mask + j] >> x & 1);
            }
        T_EQ_INT(masked, needed);
        memset(&p, 0, sizeof p);
        for (i = 0; i < 3; i++) {                           /* with the plan, without, the reference */
            p.tree = i ? NULL : plan;
            p.n_load = i < 2 ? &load[i] : NULL;
            to.data = o[i];
            T_OK(tllm_paged_attention(i < 2 ? ctx : ref, &tq, &tk, &tv, &tt, &tr, NULL, NULL, NULL, &p, &to));
        }
        T_EQ_INT(load[0], c.n_tree * parts);
        T_EQ_INT(load[1], c.n_path * parts);
        for (x = 0; x < n_o; x++)
            if (!T_CLOSE(o[0][x], o[2][x], 200.0 * 5.9604645e-8) || !T_CLOSE(o[1][x], o[2][x], 200.0 * 5.9604645e-8))
                break;
        tllm_tree_plan_close(ctx, plan);
        if (t_now.checks_failed) {
            printf("  round %ld: block %d, %d queries, style %d\n", round, block, n, style);
            break;
        }
    }
    T_TRUE(t_now.checks_failed || (gaps > ROUNDS / 4 && backward > ROUNDS / 4 && shared > ROUNDS / 4));
    t_close(ref);
    t_close(ctx);
}

/* Random operations: leaves and cells equal a plain count, and no page is lost. */
static void test_proof_3_counts_conserved(tiny_target target)
{
    enum { SEQS = 12, NODES = 400 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_pages *pages = open_pages(ctx, 300, 1, SEQS);
    tllm_tree *tree;
    int32_t root, kids[8], up;
    long step, done[5] = { 0 }, refused = 0;
    T_OK(tllm_tree_open(ctx, pages, &tree));
    for (step = 0; step < 20000; step++) {
        tllm_page_copy copy;
        int32_t i, leaves[SEQS];
        tiny_idx n_live = 0, cells = 0, n;
        for (i = 0; i < NODES; i++) if (tllm_tree_seq(tree, i) >= 0 && n_live < SEQS) leaves[n_live++] = i;
        if (!n_live) {
            T_EQ_INT(tllm_pages_free(pages), 300);
            T_OK(tllm_tree_prompt(tree, 1 + (tiny_idx)t_rand_below(30), &root));
            done[0]++;
            continue;
        }
        i = leaves[t_rand_below((uint32_t)n_live)];
        n = 1 + (tiny_idx)t_rand_below(6);
        switch (t_rand_below(5)) {
        case 0:
            if (tllm_tree_branch(tree, i, n, kids) == TINY_OK) done[1]++;
            else { refused++; T_TRUE(n_live + n - 1 > SEQS && tllm_tree_seq(tree, i) >= 0); }
            break;
        case 1: case 2: {
            const tiny_idx before = tllm_pages_free(pages), had = tllm_tree_cells(tree, i);
            if (tllm_tree_append(tree, i, n, &copy) == TINY_OK) done[2]++;
            else {
                refused++;
                T_TRUE(before < n && tllm_pages_free(pages) == before && tllm_tree_cells(tree, i) == had);
            }
            break;
        }
        case 3: T_OK(tllm_tree_cut(tree, i)); T_EQ_INT(tllm_tree_leaves(tree, i), 0); done[3]++; break;
        default:
            up = tllm_tree_parent(tree, i);
            if (up >= 0 && tllm_tree_merge(tree, up, i) == TINY_OK) done[4]++;
        }
        for (i = 0, n_live = 0; i < NODES; i++) {
            cells += tllm_tree_cells(tree, i);
            n_live += tllm_tree_seq(tree, i) >= 0;
        }
        if (!T_EQ_INT(cells + tllm_pages_free(pages), 300)) break;
        for (i = 0; i < NODES; i++)
            if (tllm_tree_leaves(tree, i) && tllm_tree_parent(tree, i) < 0) T_EQ_INT(tllm_tree_leaves(tree, i), n_live);
    }
    T_TRUE(done[0] > 10 && done[1] > 500 && done[2] > 500 && done[3] > 500 && done[4] > 100 && refused > 100);
    tllm_tree_close(ctx, tree);
    T_EQ_INT(tllm_pages_free(pages), 300);
    tllm_pages_close(ctx, pages);
    t_close(ctx);
    T_PROOF("attention 3", "refs and free blocks conserved under random branch, append, cut");
    T_PROOF("attention 3", "bad input: pool exhausted half-way through append changes nothing");
}

static void test_proof_3_bad_input(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_pages *pages = open_pages(ctx, 20, 4, 3);
    tllm_tree *tree, *other;
    tllm_tree_plan *plan;
    tllm_tree_plan_desc d = { -1, 0, 0 };
    tllm_page_copy copy;
    int32_t root, kids[3], rows[8] = { 0, 0, 5, 4, 1, 0, 5, 4 };
    float x[64] = { 0 }, o[64];
    tiny_tensor tr = tiny_tensor_2d(rows, TINY_I32, 2, 4), tt, q = tiny_tensor_3d(x, TINY_F32, 2, 1, 1),
                k = tiny_tensor_4d(x, TINY_F32, 10, 1, 4, 1), to = tiny_tensor_3d(o, TINY_F32, 2, 1, 1);
    tllm_paged_params p;
    T_OK(tllm_tree_open(ctx, pages, &tree));
    T_OK(tllm_tree_prompt(tree, 5, &root));
    T_STATUS(tllm_tree_open(ctx, pages, &other), TINY_E_ARGUMENT, "sequence 0 holds 5 cells");
    T_STATUS(tllm_tree_prompt(tree, 5, &root), TINY_E_ARGUMENT, "it already has a prompt: node 0 is alive");
    T_STATUS(tllm_tree_branch(tree, root, 4, kids), TINY_E_ARGUMENT,
             "4 children of node 0: at least one is needed, and 2 sequences are left");
    T_OK(tllm_tree_branch(tree, root, 2, kids));
    T_STATUS(tllm_tree_cut(tree, root), TINY_E_ARGUMENT, "node 0 has 2 children: only a leaf");
    T_STATUS(tllm_tree_merge(tree, root, kids[0]), TINY_E_ARGUMENT, "is not the only child of node 0");
    T_STATUS(tllm_tree_merge(tree, kids[0], kids[0]), TINY_E_ARGUMENT, "is not the only child");
    T_STATUS(tllm_tree_append(tree, kids[1], 1000, &copy), TINY_E_ARGUMENT, "no room for 1000 more");
    T_STATUS(tllm_tree_branch(tree, 77, 2, kids), TINY_E_ARGUMENT, "node 77 is not alive");
    T_OK(tllm_tree_cut(tree, kids[1]));
    T_OK(tllm_tree_merge(tree, root, kids[0]));     /* the only child that is left */
    T_TRUE(tllm_tree_cells(tree, kids[0]) == 5 && tllm_tree_parent(tree, kids[0]) == -1 &&
           tllm_tree_leaves(tree, root) == 0);
    T_STATUS(tllm_tree_branch(tree, kids[1], 2, kids), TINY_E_ARGUMENT, "is not alive");
    tllm_tree_close(ctx, tree);
    T_STATUS(tllm_tree_plan_open(ctx, &d, &plan), TINY_E_ARGUMENT, "blocks of -1 cells");
    d.block_len = 0;
    d.max_q = 65;
    T_STATUS(tllm_tree_plan_open(ctx, &d, &plan), TINY_E_ARGUMENT, "65 queries at once (1 to 64, the bits of a mask)");
    T_OK(tllm_tree_plan_open(ctx, NULL, &plan));
    tt = table_of(pages, 3);
    T_STATUS(tllm_tree_plan_set(plan, &tr, &tt, 0), TINY_E_SHAPE, "a page must have cells");
    rows[4] = 3;
    T_STATUS(tllm_tree_plan_set(plan, &tr, &tt, 4), TINY_E_ARGUMENT, "row 1 asks for cells 0 to 5 of sequence 3");
    memset(&p, 0, sizeof p);
    p.tree = plan;
    rows[4] = 1;
    T_STATUS(tllm_paged_attention(ctx, &q, &k, NULL, &tt, &tr, NULL, NULL, NULL, &p, &to), TINY_E_ARGUMENT,
             "the plan was set for 0 queries");
    ((int32_t *)tt.data)[0] = 11;                   /* the plan has no pool: the operation has */
    T_OK(tllm_tree_plan_set(plan, &tr, &tt, 4));
    ((int32_t *)tt.data)[0] = 1;
    T_STATUS(tllm_paged_attention(ctx, &q, &k, NULL, &tt, &tr, NULL, NULL, NULL, &p, &to), TINY_E_ARGUMENT,
             "the plan reads block 11");
    tllm_tree_plan_close(ctx, plan);
    tllm_pages_close(ctx, pages);
    t_close(ctx);
    T_PROOF("attention 3", "bad input: cut of an inner node, branch of a dead leaf, 65 queries of a mask");
}

/* ---- sessions ---- */

static int planned(void *user, const tiny_op *op, const tiny_op_row *row)
{
    if (row == tllm_paged_attention_row() && ((const tllm_paged_params *)op->params)->tree) {
        const tllm_tree_counts c = tllm_tree_plan_counts(((const tllm_paged_params *)op->params)->tree);
        int *seen = (int *)user;
        seen[0]++;
        if (c.n_path > 3 * c.n_tree) seen[1]++;
    }
    return 0;
}
static tiny_status never(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    (void)user; (void)op; (void)row; (void)says;
    return TINY_E_UNSUPPORTED;
}

/* Eight texts after one prompt of 200 tokens: the steps go through the tree, and the logits are those without it. */
static void test_session_uses_the_tree(void)
{
    enum { N = 200, TEXTS = 8, STEPS = 3 };
    enum { VOCAB = 320 };
    /* in floats: eight bits would make steps of a hundredth of any difference */
    const char *path = t_shared("oracle/llm/llama.gguf");
    tiny_ctx_desc cd;
    tiny_accel spy;
    int seen[2] = { 0, 0 }, i, j, t;
    tiny_ctx *ctx = NULL, *alone_ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_state_desc d;
    tllm_session *s = NULL, *alone = NULL;
    int32_t prompt[N];
    if (!path) { t_close(alone_ctx); return; }
    memset(&spy, 0, sizeof spy);
    spy.version = TINY_ACCEL_VERSION;
    spy.name = "spy";
    spy.user = seen;
    spy.can_run = planned;
    spy.run = never;
    memset(&cd, 0, sizeof cd);
    cd.accel = &spy;
    cd.n_threads = 2;
    T_OK(tiny_ctx_open(&cd, &ctx));
    memset(&d, 0, sizeof d);
    d.n_ctx = 256;
    d.n_seq = TEXTS;
    T_OK(tllm_session_open(ctx, path, &d, &s));
    d.n_seq = 1;
    T_OK(tllm_session_open(alone_ctx, path, &d, &alone));
    for (i = 0; i < N; i++) prompt[i] = (int32_t)(3 + t_rand_below(300));
    if (s && alone) {
        tllm_state *state = tllm_session_state(s);
        const float *x;
        float *out = t_guarded(TEXTS * VOCAB);
        T_OK(tllm_session_feed(s, prompt, N, &x));
        T_EQ_INT(seen[0], 0);
        for (i = 1; i < TEXTS; i++) T_OK(tllm_seq_fork(state, 0, i));
        for (t = 0; t < STEPS; t++) {
            tllm_item item[TEXTS];
            memset(item, 0, sizeof item);
            for (i = 0; i < TEXTS; i++) {
                item[i].token = (int32_t)(10 + 7 * i + t);
                item[i].seq = (int32_t)i;
                item[i].pos = -1;
                item[i].want = 1;
            }
            T_OK(tllm_forward_batch(state, item, TEXTS, out));
        }
        T_TRUE(seen[0] >= STEPS && seen[1] == seen[0]);
        for (i = 0; i < TEXTS; i++) {
            T_OK(tllm_session_set(alone, prompt, N, NULL, NULL));
            for (t = 0; t < STEPS; t++) {
                const int32_t token = (int32_t)(10 + 7 * i + t);
                T_OK(tllm_session_feed(alone, &token, 1, &x));
            }
            for (j = 0; j < VOCAB; j++) if (!T_CLOSE(out[i * VOCAB + j], x[j], 2e-4)) break;
        }
    }
    tllm_session_close(alone);
    tllm_session_close(s);
    tiny_ctx_close(ctx);
    t_close(alone_ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_proof_3_worked_tree);
    T_RUN_TARGETS(test_proof_3_plan_in_double);
    T_RUN_TARGETS(test_proof_3_attention);
    T_RUN_TARGETS(test_proof_3_each_cell_is_read_once);
    T_RUN_TARGETS(test_counts_match_loads);
    T_RUN_TARGETS(test_proof_3_counts_conserved);
    T_RUN_TARGETS(test_proof_3_bad_input);
    T_RUN(test_session_uses_the_tree);
    return t_done();
}
