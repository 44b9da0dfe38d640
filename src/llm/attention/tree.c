/* src/llm/attention/tree.c - the plan of attention over a tree of sequences, and the tree
 * Paper    J. Yao et al., 2024 (arXiv 2404.00242): guided by keys and values (3.2), flattened tree, equal blocks, bit
 *          masks (3.3)
 * Formula  stream: the cells of the tree, depth first, children in the order of their first query; block b: cells
 *          b block_len .. of it; its queries U: those that see a cell of it, ascending, in groups of at most max_q;
 *          mask[cell]: bit i: query i of the group sees the cell. Depth first, a parent's queries contain its
 *          children's. Neighbouring cells thus have nearly the same queries, and few hidden pairs are computed.
 * Sharing  two cells are the same if their tables name the same page at the same index, after the same pages (the
 *          invariant of pages.c). The tables are thus a trie, which is walked page by page with the queries of each
 *          branch.
 * Cost     n_query comparisons per page of the tree, and a mask per cell. Keys and values: n_tree cells are read
 *          instead of n_path (see tree.h).
 * Left out changing a plan by one token instead of setting it again: the walk takes a few microseconds per step, once
 *          for all layers. */
#include "llm/attention/tree.h"
#include "llm/attention/paged.h"
#include "core/state_inside.h"
#include <string.h>

#define TINYI_TREE_MOST (1 << 26)           /* cells, as in pages.c */

/* pages i0 .. i1 of the sequences of its queries, which are the same ones throughout */
typedef struct tllm_tree_run {
    int32_t seq, i0, i1, level;
    int32_t member, n_member;               /* in list */
} tinyi_tree_run;

TINY_API tiny_status tllm_tree_plan_open(tiny_ctx *ctx, const tllm_tree_plan_desc *desc, tllm_tree_plan **out)
{
    static const tllm_tree_plan_desc zero = { 0, 0, 0 };
    tllm_tree_plan *p;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tree: the pointer to the plan is NULL");
    if (!desc) desc = &zero;
    if (desc->block_len < 0 || desc->block_len > TINYI_TREE_MOST || desc->max_q < 0 || desc->max_q > 64 ||
        desc->mode < TLLM_TREE_FLAT || desc->mode > TLLM_TREE_BREADTH)
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "tree: blocks of %td cells (1 to %d), %d queries at once (1 to 64, the bits of a mask), mode %d (0 to 2)",
            desc->block_len, TINYI_TREE_MOST, desc->max_q, desc->mode);
    p = (tllm_tree_plan *)tiny_alloc(ctx, sizeof *p);
    if (!p) return tiny_ctx_status(ctx);
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    p->block_len = desc->block_len ? desc->block_len : 128;
    p->max_q = desc->max_q ? desc->max_q : 32;
    p->mode = desc->mode;
    *out = p;
    return TINY_OK;
}
TINY_API void tllm_tree_plan_close(tiny_ctx *ctx, tllm_tree_plan *p)
{
    if (!p) return;
    tiny_free(ctx, p->item);
    tiny_free(ctx, p->piece);
    tiny_free(ctx, p->query);
    tiny_free(ctx, p->part);
    tiny_free(ctx, p->part_at);
    tiny_free(ctx, p->mask);
    tiny_free(ctx, p->scratch);
    tiny_free(ctx, p->run);
    tiny_free(ctx, p->member);
    tiny_free(ctx, p->piece_run);
    tiny_free(ctx, p);
}
TINY_API tllm_tree_counts tllm_tree_plan_counts(const tllm_tree_plan *p)
{
    tllm_tree_counts none;
    memset(&none, 0, sizeof none);
    return p ? p->counts : none;
}
TINY_API const tllm_tree_item *tllm_tree_plan_items(const tllm_tree_plan *p, tiny_idx *n,
                                                    const tllm_tree_piece **pieces, const int32_t **queries,
                                                    const uint64_t **masks)
{
    if (n) *n = p ? p->n_item : 0;
    if (pieces) *pieces = p ? p->piece : NULL;
    if (queries) *queries = p ? p->query : NULL;
    if (masks) *masks = p ? p->mask : NULL;
    return p ? p->item : NULL;
}

/* room for n items in total: at least doubled when it grows, so that a growing text seldom reallocates */
static tiny_status tinyi_tree_room(tiny_ctx *ctx, void *array, tiny_idx *most, tiny_idx n, size_t each)
{
    tiny_idx want = TINYI_MAX(n, 2 * *most);
    void *old, *grown;
    size_t bytes;
    if (n <= *most) return TINY_OK;
    memcpy(&old, array, sizeof old);
    if (want > INT32_MAX / 2 || !tinyi_size_mul((size_t)want, each, &bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "tree: a plan of %td parts is too large", n);
    grown = tiny_alloc(ctx, bytes);
    if (!grown) return tiny_ctx_status(ctx);
    if (old) memcpy(grown, old, (size_t)*most * each);
    tiny_free(ctx, old);
    memcpy(array, &grown, sizeof grown);
    *most = want;
    return TINY_OK;
}

/* ---- the walk: tables to runs ------------------------------------------------------------------------------------ */

typedef struct tinyi_tree_walk {
    tllm_tree_plan *p;
    const int32_t *rows, *table;
    tiny_idx n_table, block;
    /* (n_query) queries of a class side by side; room; (n_query, 4) classes to come */
    int32_t *perm, *rest, *stack;
} tinyi_tree_walk;

/* Those of perm[s .. s + n) whose page i is that of the first go to the front, the others after them, in their
 * order. */
static tiny_idx tinyi_tree_part(const tinyi_tree_walk *w, tiny_idx s, tiny_idx n, tiny_idx i)
{
    int32_t *x = w->perm + s;
    const int32_t page = w->table[w->rows[4 * x[0]] * w->n_table + i];
    tiny_idx k = 0, r = 0, j;
    for (j = 0; j < n; j++) {
        if (w->table[w->rows[4 * x[j]] * w->n_table + i] == page) x[k++] = x[j];
        else w->rest[r++] = x[j];
    }
    memcpy(x + k, w->rest, (size_t)r * sizeof *x);
    return k;
}
/* drops those that end in front of cell c */
static tiny_idx tinyi_tree_live(const tinyi_tree_walk *w, tiny_idx s, tiny_idx n, tiny_idx c)
{
    tiny_idx k = 0, j;
    for (j = 0; j < n; j++) if (w->rows[4 * w->perm[s + j] + 2] > c) w->perm[s + k++] = w->perm[s + j];
    return k;
}

static tiny_status tinyi_tree_runs(tinyi_tree_walk *w, tiny_idx n)
{
    tllm_tree_plan *p = w->p;
    tiny_idx n_stack = 0, n_member = 0, i, j, k, s;
    tiny_status st = TINY_OK;
    p->n_run = 0;
    if (n) {
        int32_t *t = w->stack;
        t[0] = 0; t[1] = (int32_t)n; t[2] = t[3] = 0;
        n_stack = 1;
    }
    while (n_stack && !st) {
        const int32_t *top = w->stack + 4 * --n_stack;
        const int32_t level = top[3];
        int open = 0;
        s = top[0]; n = top[1]; i = top[2];
        for (;; i++) {
            const tiny_idx live = tinyi_tree_live(w, s, n, i * w->block);
            int seen = 0;
            if (live != n) open = 0;
            n = live;
            if (!n) break;
            k = tinyi_tree_part(w, s, n, i);
            if (k < n) {                    /* they part: the first branch is on top, to be taken first */
                tiny_idx n_way = 1, at = k;
                while (at < n) {
                    at += tinyi_tree_part(w, s + at, n - at, i);
                    n_way++;
                }
                for (at = 0, j = n_way - 1; at < n; j--) {
                    int32_t *t = w->stack + 4 * (n_stack + j);
                    k = tinyi_tree_part(w, s + at, n - at, i);
                    t[0] = (int32_t)(s + at); t[1] = (int32_t)k; t[2] = (int32_t)i; t[3] = level + 1;
                    at += k;
                }
                n_stack += n_way;
                break;
            }
            for (j = 0; j < n && !seen; j++) seen = w->rows[4 * w->perm[s + j] + 1] < (i + 1) * w->block;
            /* in front of every window: not read, and not to be looked at */
            if (!seen) { open = 0; continue; }
            if (!open) {
                tinyi_tree_run *r;
                st = tinyi_tree_room(p->ctx, &p->run, &p->most_run, p->n_run + 1, sizeof *p->run);
                if (!st) st = tinyi_tree_room(p->ctx, &p->member, &p->most_member, n_member + n, sizeof *p->member);
                if (st) break;
                r = &p->run[p->n_run++];
                r->seq = w->rows[4 * w->perm[s]];
                r->i0 = (int32_t)i;
                r->level = level;
                r->member = (int32_t)n_member;
                r->n_member = (int32_t)n;
                memcpy(p->member + n_member, w->perm + s, (size_t)n * sizeof *p->member);
                n_member += n;
                open = 1;
            }
            p->run[p->n_run - 1].i1 = (int32_t)(i + 1);
        }
    }
    return st;
}

/* ---- the stream: runs to blocks ---------------------------------------------------------------------------------- */

typedef struct tinyi_tree_cut {
    tinyi_tree_walk w;
    int32_t *in;                            /* (n_query) the place of a query in its group, or -1 */
    tiny_idx first, n_cell;                 /* of the open block: its first piece, its cells so far */
} tinyi_tree_cut;

static int tinyi_tree_sees(const tinyi_tree_cut *c, int32_t q, const tllm_tree_piece *x)
{
    return c->w.rows[4 * q + 1] < x->cell + x->n && c->w.rows[4 * q + 2] > x->cell;
}

/* the masks of one item, from the pieces first ..; run: of each piece */
static void tinyi_tree_masks(tinyi_tree_cut *c, const tllm_tree_item *item)
{
    tllm_tree_plan *p = c->w.p;
    uint64_t *mask = p->mask + item->mask;
    tiny_idx k, j, i;
    for (k = 0; k < item->n_piece; k++) {
        const tllm_tree_piece *x = &p->piece[item->piece + k];
        const tinyi_tree_run *r = &p->run[p->piece_run[item->piece + k]];
        for (i = 0; i < x->n; i++) mask[i] = 0;
        for (j = 0; j < r->n_member; j++) {
            const int32_t q = p->member[r->member + j], *row = c->w.rows + 4 * q;
            if (c->in[q] < 0) continue;
            for (i = TINYI_MAX(row[1] - x->cell, 0); i < TINYI_MIN(row[2] - x->cell, x->n); i++) {
                mask[i] |= (uint64_t)1 << c->in[q];
                p->counts.n_needed++;
            }
        }
        mask += x->n;
    }
    p->counts.n_pair += (tiny_idx)item->n_cell * item->n_query;
}

/* the open block is full */
static tiny_status tinyi_tree_close(tinyi_tree_cut *c)
{
    tllm_tree_plan *p = c->w.p;
    int32_t *found = c->w.rest;             /* the queries that see a cell of it, then all of them ascending */
    tiny_idx k, j, n = 0, g, head = p->n_item;
    tiny_status st = TINY_OK;
    if (!c->n_cell) return TINY_OK;
    for (k = c->first; k < p->n_piece; k++) {
        const tinyi_tree_run *r = &p->run[p->piece_run[k]];
        for (j = 0; j < r->n_member; j++) {
            const int32_t q = p->member[r->member + j];
            if (c->in[q] == -1 && tinyi_tree_sees(c, q, &p->piece[k])) {
                c->in[q] = -2;
                n++;
            }
        }
    }
    for (j = k = 0; k < n; j++) if (c->in[j] == -2) {
        c->in[j] = -1;
        found[k++] = (int32_t)j;
    }
    for (g = 0; g < n && !st; g += p->max_q) {
        tllm_tree_item *item;
        const tiny_idx n_q = TINYI_MIN(n - g, p->max_q);
        st = tinyi_tree_room(p->ctx, &p->item, &p->most_item, p->n_item + 1, sizeof *p->item);
        if (!st) st = tinyi_tree_room(p->ctx, &p->query, &p->most_list, p->n_list + n_q, sizeof *p->query);
        if (!st) st = tinyi_tree_room(p->ctx, &p->mask, &p->most_mask, p->n_mask + c->n_cell, sizeof *p->mask);
        if (st) break;
        item = &p->item[p->n_item++];
        item->piece = (int32_t)c->first;
        item->n_piece = (int32_t)(p->n_piece - c->first);
        item->n_cell = (int32_t)c->n_cell;
        item->first = (int32_t)head;
        item->query = (int32_t)p->n_list;
        item->n_query = (int32_t)n_q;
        item->mask = (int32_t)p->n_mask;
        memcpy(p->query + p->n_list, found + g, (size_t)n_q * sizeof *found);
        for (j = 0; j < n_q; j++) c->in[found[g + j]] = (int32_t)j;
        tinyi_tree_masks(c, item);
        for (j = 0; j < n_q; j++) c->in[found[g + j]] = -1;
        p->n_list += n_q;
        p->n_mask += c->n_cell;
    }
    p->counts.n_tree += c->n_cell;          /* each is seen: n > 0 */
    p->counts.n_block++;
    c->first = p->n_piece;
    c->n_cell = 0;
    return st;
}

/* The cells of the run from *lo on that its queries see, up to a gap between their windows at most: *lo .. the cell
 * returned. None: 0. */
static tiny_idx tinyi_tree_seen(const tinyi_tree_cut *c, const tinyi_tree_run *r, tiny_idx *lo)
{
    const int32_t *rows = c->w.rows, *member = c->w.p->member + r->member;
    tiny_idx first = (tiny_idx)r->i1 * c->w.block, hi = 0, j;
    for (j = 0; j < r->n_member; j++)
        if (rows[4 * member[j] + 2] > *lo) first = TINYI_MIN(first, (tiny_idx)rows[4 * member[j] + 1]);
    *lo = first = TINYI_MAX(first, *lo);
    if (first >= (tiny_idx)r->i1 * c->w.block) return 0;
    for (j = 0; j < r->n_member; j++)       /* windows that touch what is found so far: of ascending ones all */
        if (rows[4 * member[j] + 1] <= TINYI_MAX(first, hi)) hi = TINYI_MAX(hi, (tiny_idx)rows[4 * member[j] + 2]);
    return TINYI_MIN(hi, (tiny_idx)r->i1 * c->w.block);
}

static tiny_status tinyi_tree_emit(tinyi_tree_cut *c, tiny_idx run)
{
    tllm_tree_plan *p = c->w.p;
    const tinyi_tree_run r = p->run[run];
    tiny_idx lo = (tiny_idx)r.i0 * c->w.block, hi;
    tiny_status st = TINY_OK;
    while (!st && (hi = tinyi_tree_seen(c, &r, &lo)) > 0)
        while (lo < hi && !st) {
            tllm_tree_piece *x;
            st = tinyi_tree_room(p->ctx, &p->piece, &p->most_piece, p->n_piece + 1, sizeof *p->piece);
            if (!st)
                st = tinyi_tree_room(p->ctx, &p->piece_run, &p->most_piece_run, p->n_piece + 1, sizeof *p->piece_run);
            if (st) break;
            p->piece_run[p->n_piece] = (int32_t)run;
            x = &p->piece[p->n_piece++];
            x->page = c->w.table[r.seq * c->w.n_table + lo / c->w.block];
            x->in = (int32_t)(lo % c->w.block);
            x->n = (int32_t)TINYI_MIN(TINYI_MIN(c->w.block - x->in, hi - lo), p->block_len - c->n_cell);
            x->cell = (int32_t)lo;
            lo += x->n;
            c->n_cell += x->n;
            if (c->n_cell == p->block_len) st = tinyi_tree_close(c);
        }
    if (!st && p->mode == TLLM_TREE_NODE) st = tinyi_tree_close(c);
    return st;
}

/* partial results of each query, in the order of the blocks */
static tiny_status tinyi_tree_parts(tllm_tree_plan *p, tiny_idx n_query)
{
    tiny_idx i, sum = 0;
    tiny_status st = tinyi_tree_room(p->ctx, &p->part_at, &p->most_query, n_query + 2, sizeof *p->part_at);
    if (!st) st = tinyi_tree_room(p->ctx, &p->part, &p->most_part, p->n_list, sizeof *p->part);
    if (st) return st;
    for (i = 0; i < n_query + 2; i++) p->part_at[i] = 0;
    for (i = 0; i < p->n_list; i++) p->part_at[p->query[i] + 2]++;
    for (i = 0; i < n_query + 2; i++) p->part_at[i] = (int32_t)(sum += p->part_at[i]);
    for (i = 0; i < p->n_list; i++) p->part[p->part_at[p->query[i] + 1]++] = (int32_t)i;
    return TINY_OK;
}

static tiny_status tinyi_tree_check(const tllm_tree_plan *p, const tiny_tensor *rows, const tiny_tensor *table,
                                    tiny_idx block)
{
    tiny_idx t;
    if (!rows || !table || rows->rank != 2 || table->rank != 2 || rows->dim[1] != 4 || rows->dtype != TINY_I32 ||
        table->dtype != TINY_I32 || !tiny_tensor_is_dense(rows) || !tiny_tensor_is_dense(table) ||
        (rows->dim[0] && !rows->data) || block < 1 || rows->dim[0] > TINYI_TREE_MOST)
        return tinyi_fail(
            p->ctx, TINY_E_SHAPE,
            "tree: rows must be (queries, 4) and the table (sequences, pages), dense i32, and a page must have cells");
    for (t = 0; t < rows->dim[0]; t++) {
        const int32_t *r = (const int32_t *)rows->data + 4 * t;
        if (r[0] < 0 || r[0] >= table->dim[0] || r[1] < 0 || r[2] > TINYI_TREE_MOST ||
            (r[1] < r[2] && (r[2] - 1) / block >= table->dim[1]))
            return tinyi_fail(
                p->ctx, TINY_E_ARGUMENT,
                "tree: row %td asks for cells %d to %d of sequence %d; there are %td sequences of %td pages of %td", t,
                (int)r[1], (int)r[2], (int)r[0], table->dim[0], table->dim[1], block);
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_tree_plan_set(tllm_tree_plan *p, const tiny_tensor *rows, const tiny_tensor *table,
                                        tiny_idx block)
{
    tinyi_tree_cut c;
    tiny_idx n, i, live = 0, level, most = 0, done, cells;
    tiny_status st;
    if (!p) return TINY_E_ARGUMENT;
    p->n_query = p->n_item = p->n_piece = p->n_list = p->n_mask = 0;
    memset(&p->counts, 0, sizeof p->counts);
    st = tinyi_tree_check(p, rows, table, block);
    if (st) return st;
    n = rows->dim[0];
    st = tinyi_tree_room(p->ctx, &p->scratch, &p->most_scratch, 7 * n, sizeof *p->scratch);
    if (st) return st;
    memset(&c, 0, sizeof c);
    c.w.p = p;
    c.w.rows = (const int32_t *)rows->data;
    c.w.table = (const int32_t *)table->data;
    c.w.n_table = table->dim[1];
    c.w.block = block;
    c.w.perm = p->scratch;
    c.w.rest = p->scratch + n;
    c.in = p->scratch + 2 * n;
    c.w.stack = p->scratch + 3 * n;
    for (i = 0; i < n; i++) {
        const int32_t *r = c.w.rows + 4 * i;
        c.in[i] = -1;
        if (r[1] >= r[2]) continue;
        c.w.perm[live++] = (int32_t)i;
    }
    for (i = 0; i < n; i += tinyi_paged_run(c.w.rows, n, i, &cells), p->counts.n_path += cells) {}
    st = tinyi_tree_runs(&c.w, live);
    for (i = 0; i < p->n_run; i++) most = TINYI_MAX(most, p->run[i].level);
    for (level = 0, done = 0; !st && done < p->n_run && level <= most; level++)
        for (i = 0; i < p->n_run && !st; i++) {
            if (p->mode == TLLM_TREE_BREADTH && p->run[i].level != level) continue;
            st = tinyi_tree_emit(&c, i);
            done++;
        }
    if (!st) st = tinyi_tree_close(&c);
    if (!st) st = tinyi_tree_parts(p, n);
    if (st) {
        p->n_item = 0;
        memset(&p->counts, 0, sizeof p->counts);
        return st;
    }
    p->n_query = n;
    p->block = block;
    p->counts.n_part = p->n_list;
    p->counts.mask_bytes = p->n_mask * (tiny_idx)sizeof *p->mask;
    return TINY_OK;
}

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

/* leaves 0: dead; seq -1: inner */
typedef struct tinyi_tree_node { int32_t parent, n_child, seq; tiny_idx cells, leaves; } tinyi_tree_node;
struct tllm_tree {
    tiny_ctx *ctx;
    tllm_pages *pages;
    tinyi_tree_node *node;
    int32_t *taken;                         /* (sequences): the leaf that has it, or -1 */
    tiny_idx n_node, most_node;
};

TINY_API tiny_status tllm_tree_open(tiny_ctx *ctx, tllm_pages *pages, tllm_tree **out)
{
    tllm_tree *t;
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out || !pages) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tree: the pages or the result pointer is NULL");
    for (i = 0; i < pages->n_seq; i++)
        if (tllm_pages_length(pages, i))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "tree: sequence %td holds %td cells: all must be empty", i,
                              tllm_pages_length(pages, i));
    t = (tllm_tree *)tiny_alloc(ctx, sizeof *t);
    if (!t) return tiny_ctx_status(ctx);
    memset(t, 0, sizeof *t);
    t->ctx = ctx;
    t->pages = pages;
    t->taken = (int32_t *)tiny_alloc(ctx, (size_t)pages->n_seq * sizeof *t->taken);
    if (!t->taken) {
        tiny_free(ctx, t);
        return tiny_ctx_status(ctx);
    }
    for (i = 0; i < pages->n_seq; i++) t->taken[i] = -1;
    *out = t;
    return TINY_OK;
}
TINY_API void tllm_tree_close(tiny_ctx *ctx, tllm_tree *t)
{
    tiny_idx i;
    if (!t) return;
    for (i = 0; i < t->pages->n_seq; i++) if (t->taken[i] >= 0) (void)tllm_pages_trim(t->pages, i, 0);
    tiny_free(ctx, t->node);
    tiny_free(ctx, t->taken);
    tiny_free(ctx, t);
}

static int tinyi_tree_lives(const tllm_tree *t, int32_t node)
{
    return t && node >= 0 && node < t->n_node && t->node[node].leaves > 0;
}
TINY_API int32_t tllm_tree_parent(const tllm_tree *t, int32_t node)
{
    return tinyi_tree_lives(t, node) ? t->node[node].parent : -1;
}
TINY_API tiny_idx tllm_tree_leaves(const tllm_tree *t, int32_t node)
{
    return tinyi_tree_lives(t, node) ? t->node[node].leaves : 0;
}
TINY_API tiny_idx tllm_tree_cells(const tllm_tree *t, int32_t node)
{
    return tinyi_tree_lives(t, node) ? t->node[node].cells : 0;
}
TINY_API tiny_idx tllm_tree_seq(const tllm_tree *t, int32_t leaf)
{
    return tinyi_tree_lives(t, leaf) ? t->node[leaf].seq : -1;
}

static tiny_status tinyi_tree_leaf(const tllm_tree *t, int32_t node)
{
    if (!t) return TINY_E_ARGUMENT;
    if (!tinyi_tree_lives(t, node))
        return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "tree: node %d is not alive; %td nodes have been made", (int)node,
                          t->n_node);
    if (t->node[node].seq < 0)
        return tinyi_fail(t->ctx, TINY_E_ARGUMENT,
                          "tree: node %d has %d children: only a leaf can grow, branch or be cut", (int)node,
                          (int)t->node[node].n_child);
    return TINY_OK;
}

/* an unused number; there is room for it */
static int32_t tinyi_tree_new(tllm_tree *t, int32_t parent, int32_t seq)
{
    tinyi_tree_node *x;
    tiny_idx i = 0;
    while (i < t->n_node && t->node[i].leaves) i++;
    if (i == t->n_node) t->n_node++;
    x = &t->node[i];
    x->parent = parent;
    x->n_child = 0;
    x->seq = seq;
    x->cells = 0;
    x->leaves = 1;
    t->taken[seq] = (int32_t)i;
    return (int32_t)i;
}

TINY_API tiny_status tllm_tree_prompt(tllm_tree *t, tiny_idx n, int32_t *leaf)
{
    tllm_page_copy copy;
    tiny_idx i;
    tiny_status st;
    if (!t || !leaf) return tinyi_fail(t ? t->ctx : NULL, TINY_E_ARGUMENT, "tree: the result pointer is NULL");
    for (i = 0; i < t->n_node; i++)
        if (t->node[i].leaves)
            return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "tree: it already has a prompt: node %td is alive", i);
    st = tinyi_tree_room(t->ctx, &t->node, &t->most_node, 1, sizeof *t->node);
    if (!st) st = tllm_pages_append(t->pages, 0, n, &copy);
    if (st) return st;
    *leaf = tinyi_tree_new(t, -1, 0);
    t->node[*leaf].cells = n;
    return TINY_OK;
}

TINY_API tiny_status tllm_tree_branch(tllm_tree *t, int32_t leaf, tiny_idx n, int32_t *leaves)
{
    tiny_idx i, s = 0, n_free = 0;
    int32_t up;
    tiny_status st = tinyi_tree_leaf(t, leaf);
    if (st) return st;
    if (!leaves) return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "tree: the result pointer is NULL");
    for (i = 0; i < t->pages->n_seq; i++) n_free += t->taken[i] < 0;
    if (n < 1 || n - 1 > n_free)
        return tinyi_fail(t->ctx, TINY_E_ARGUMENT,
                          "tree: %td children of node %d: at least one is needed, and %td sequences are left", n,
                          (int)leaf, n_free);
    st = tinyi_tree_room(t->ctx, &t->node, &t->most_node, t->n_node + n, sizeof *t->node);
    if (st) return st;
    for (i = 0; i < n; i++) {
        int32_t seq = t->node[leaf].seq;
        if (i) {
            while (t->taken[s] >= 0) s++;
            (void)tllm_pages_fork(t->pages, seq, s);    /* both sequences are there: it cannot fail */
            seq = (int32_t)s;
        }
        leaves[i] = tinyi_tree_new(t, leaf, seq);
    }
    t->node[leaf].seq = -1;
    t->node[leaf].n_child = (int32_t)n;
    for (up = leaf; up >= 0; up = t->node[up].parent) t->node[up].leaves += n - 1;
    return TINY_OK;
}

TINY_API tiny_status tllm_tree_append(tllm_tree *t, int32_t leaf, tiny_idx n, tllm_page_copy *copy)
{
    tiny_status st = tinyi_tree_leaf(t, leaf);
    if (!copy)
        return tinyi_fail(t ? t->ctx : NULL, TINY_E_ARGUMENT, "tree: the pointer to the copy is NULL");
    copy->from = copy->to = -1;
    copy->n = 0;
    if (!st) st = tllm_pages_append(t->pages, t->node[leaf].seq, n, copy);
    if (!st) t->node[leaf].cells += n;
    return st;
}

TINY_API tiny_status tllm_tree_cut(tllm_tree *t, int32_t leaf)
{
    int32_t up;
    tiny_status st = tinyi_tree_leaf(t, leaf);
    if (st) return st;
    (void)tllm_pages_trim(t->pages, t->node[leaf].seq, 0);
    t->taken[t->node[leaf].seq] = -1;
    for (up = leaf; up >= 0; up = t->node[up].parent)
        if (!--t->node[up].leaves && t->node[up].parent >= 0) t->node[t->node[up].parent].n_child--;
    return TINY_OK;
}

TINY_API tiny_status tllm_tree_merge(tllm_tree *t, int32_t node, int32_t child)
{
    if (!t) return TINY_E_ARGUMENT;
    if (!tinyi_tree_lives(t, node) || !tinyi_tree_lives(t, child) || t->node[child].parent != node ||
        t->node[node].n_child != 1)
        return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "tree: node %d is not the only child of node %d", (int)child,
                          (int)node);
    t->node[child].cells += t->node[node].cells;
    t->node[child].parent = t->node[node].parent;
    t->node[node].leaves = 0;
    return TINY_OK;
}
