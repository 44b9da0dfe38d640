/* bench/llm/tree.c - attention over a tree of sequences: compared with each leaf alone on the same pages, whose keys
 * are split
 *
 * DeFT (arXiv 2404.00242) reports 73 to 99 % fewer bytes of keys and values and up to 3.59 times faster attention.
 * Here: a prompt of 4096, b leaves of 100 private tokens, 8 key heads of 64 numbers; and a tree of 64 draft tokens
 * after 4096: one query each. */
#include "../bench.h"
#include <string.h>

enum { PROMPT = 4096, OWN = 100, KV = 8, DIM = 64, PAGE = 16, LEAVES = 64 };

typedef struct bt_arg { tiny_ctx *ctx; tiny_tensor q, k, v, table, rows, o; tllm_paged_params p; } bt_arg;

static void bt_run(void *arg)
{
    bt_arg *a = (bt_arg *)arg;
    b_must(a->ctx,
           tllm_paged_attention(a->ctx, &a->q, &a->k, &a->v, &a->table, &a->rows, NULL, NULL, NULL, &a->p, &a->o));
}
typedef struct bt_set { tllm_tree_plan *plan; tiny_tensor rows, table; tiny_ctx *ctx; } bt_set;
static void bt_plan(void *arg)
{
    bt_set *s = (bt_set *)arg;
    b_must(s->ctx, tllm_tree_plan_set(s->plan, &s->rows, &s->table, PAGE));
}

/* n leaves after the prompt, each with `own` tokens; or, own 0, a binary tree of n draft tokens, each a query that
 * sees its path */
static tiny_idx bt_grow(tiny_ctx *ctx, tllm_pages *p, int32_t *rows, tiny_idx n, tiny_idx own)
{
    tllm_page_copy copy;
    tiny_idx i, depth[LEAVES];
    b_must(ctx, tllm_pages_append(p, 0, PROMPT, &copy));
    for (i = n; i-- > 0; ) if (i) b_must(ctx, tllm_pages_fork(p, 0, i));
    for (i = 0; i < n; i++) {
        if (!own && i) {                    /* after its parent's path */
            b_must(ctx, tllm_pages_fork(p, (i - 1) / 2, i));
            b_must(ctx, tllm_pages_trim(p, i, PROMPT + depth[(i - 1) / 2]));
        }
        depth[i] = own ? own : i ? depth[(i - 1) / 2] + 1 : 1;
        b_must(ctx, tllm_pages_append(p, i, own ? own : 1, &copy));
        rows[4 * i] = (int32_t)i;
        rows[4 * i + 1] = 0;
        rows[4 * i + 2] = (int32_t)(PROMPT + depth[i]);
        rows[4 * i + 3] = rows[4 * i + 2] - 1;
    }
    return n;
}

void bench_tree(void)
{
    static const struct { tiny_idx n, own, heads; int format; const char *what;
    } each[] = { { 8, OWN, 8, TLLM_FORMAT_F16, "b=8" },
                 { 20, OWN, 8, TLLM_FORMAT_F16, "b=20" },
                 { 50, OWN, 8, TLLM_FORMAT_F16, "b=50" },
                 { 20, OWN, 32, TLLM_FORMAT_F16, "b=20, groups of 4" },
                 { 64, 0, 8, TLLM_FORMAT_F16, "64 draft tokens" } };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const char *target = tiny_target_name(tiny_op_target(ctx, TINY_OP_ATTENTION));
    double fewer[5], faster[5], leaves[3], us[2][3];
    b_curve curve[2];
    tiny_idx e;
    for (e = 0; e < (tiny_idx)(sizeof each / sizeof *each); e++) {
        const tiny_idx n_block = PROMPT / PAGE + LEAVES * (OWN / PAGE + 2), H = each[e].heads, n = each[e].n;
        const tllm_format *f = tllm_format_of(each[e].format);
        const size_t bytes = (size_t)(n_block * KV * PAGE) * tllm_format_bytes(f, DIM);
        static int32_t rows[4 * LEAVES];
        static tiny_idx each_load[TINY_MAX_THREADS];
        tllm_pages_desc d;
        tllm_pages *pages;
        const tllm_tree_plan_desc blocks = { 256, 0, TLLM_TREE_FLAT };       /* as sessions take them */
        tllm_tree_plan *plan;
        tllm_tree_counts c;
        bt_set set;
        bt_arg a[2];
        b_row r[3];
        size_t i, j;
        tiny_idx load[2] = { 0, 0 };        /* cells that the kernels take out of the pages */
        uint16_t *k = (uint16_t *)b_alloc(bytes), *v = (uint16_t *)b_alloc(bytes);
        for (i = 0; i < bytes / 2; i++) {   /* f16 between -2 and 2 */
            k[i] = (uint16_t)((i * 40503u >> 3 & 0x83ff) | 0x3c00);
            v[i] = (uint16_t)((i * 52711u >> 3 & 0x83ff) | 0x3800);
        }
        memset(&d, 0, sizeof d);
        d.n_block = n_block;
        d.block = PAGE;
        d.n_seq = LEAVES;
        b_must(ctx, tllm_pages_open(ctx, &d, &pages));
        bt_grow(ctx, pages, rows, n, each[e].own);
        memset(a, 0, sizeof a);
        memset(r, 0, sizeof r);
        b_must(ctx, tllm_tree_plan_open(ctx, &blocks, &plan));
        set.ctx = ctx;
        set.plan = plan;
        set.rows = tiny_tensor_2d(rows, TINY_I32, n, 4);
        set.table = tiny_tensor_2d((void *)(uintptr_t)tllm_pages_table(pages, 0), TINY_I32, LEAVES,
                                   tllm_pages_table(pages, 1) - tllm_pages_table(pages, 0));
        bt_plan(&set);
        c = tllm_tree_plan_counts(plan);
        for (i = 0; i < 2; i++) {
            a[i].ctx = ctx;
            a[i].q = tiny_tensor_3d(b_alloc((size_t)(n * H * DIM) * sizeof(float)), TINY_F32, n, H, DIM);
            a[i].o = tiny_tensor_3d(b_alloc((size_t)(n * H * DIM) * sizeof(float)), TINY_F32, n, H, DIM);
            a[i].k = tiny_tensor_4d(k, TINY_F16, n_block, KV, PAGE, DIM);
            a[i].v = tiny_tensor_4d(v, TINY_F16, n_block, KV, PAGE, DIM);
            a[i].table = set.table;
            a[i].rows = set.rows;
            a[i].p.tree = i ? NULL : plan;
            a[i].p.n_load = each_load;
            memset(each_load, 0, sizeof each_load);
            bt_run(&a[i]);
            a[i].p.n_load = NULL;
            for (j = 0; j < sizeof each_load / sizeof *each_load; j++) load[i] += each_load[j];
            load[i] /= KV;
            r[i].run = bt_run;
            r[i].arg = &a[i];
            r[i].what = i ? "each leaf alone" : "over the tree";
            r[i].bytes = 4.0 * KV * DIM * (double)load[i];
        }
        r[2].run = bt_plan;
        r[2].arg = &set;
        r[2].what = "the plan";
        for (i = 0; i < 3; i++) {
            r[i].target = i == 2 ? "scalar" : target;
            r[i].threads = i == 2 ? 1 : b_threads;
            if (i < 2) r[i].flops = 4.0 * (double)(c.n_needed * H * DIM);
            b_shape(&r[i], "%s, prompt %d, h%td/%d d%d", each[e].what, (int)PROMPT, H, KV, DIM);
        }
        b_contest("Attention over a tree", r, 3);
        b_note("%s: keys and values of %td cells are read instead of %td: %.1f %% fewer bytes; %td partial results, "
               "%td of %td pairs hidden",
               each[e].what, load[0], load[1], 100.0 * (1.0 - (double)load[0] / (double)load[1]), c.n_part,
               c.n_pair - c.n_needed, c.n_pair);
        if (n == 20 && H == 8)
            b_verdict("b=20, prompt 4096: each leaf alone / tree", r[1].median_ns / r[0].median_ns, ">", 2.0);
        if (!each[e].own)
            b_verdict("64 draft tokens, prompt 4096: one by one / tree", r[1].median_ns / r[0].median_ns, ">", 3.0);
        fewer[e] = 100.0 * (1.0 - (double)load[0] / (double)load[1]);
        faster[e] = r[1].median_ns / r[0].median_ns;
        if (e < 3) {
            leaves[e] = (double)n;
            for (i = 0; i < 2; i++) us[i][e] = r[i].median_ns * 1e-3;
        }
        tllm_tree_plan_close(ctx, plan);
        tllm_pages_close(ctx, pages);
    }
    for (e = 0; e < 2; e++) {
        curve[e].name = e ? "each leaf alone" : "over the tree";
        curve[e].x = leaves;
        curve[e].y = us[e];
        curve[e].n = 3;
    }
    b_svg("tree", "Attention of leaves after a prompt of 4096, 8 key heads of 64, f16", "leaves", "us", curve, 2);
    b_headline("deft", "DeFT: 73 to 99 % fewer bytes of keys and values",
               "prompt of 4096, 100 tokens a leaf, 8 key heads of 64, f16 pages of 16; the kernels count the cells "
               "that they take out of pages",
               "%.1f %% (8 leaves), %.1f %% (20), %.1f %% (50), %.1f %% (64 draft tokens)", fewer[0], fewer[1],
               fewer[2], fewer[4]);
    b_headline("deft", "DeFT: attention up to 3.59 times faster",
               "against each leaf alone on the same pages, blocks of 256",
               "8 leaves %.2f, 20 %.2f, 50 %.2f; 20 with groups of 4 heads %.2f; 64 draft tokens %.2f", faster[0],
               faster[1], faster[2], faster[3], faster[4]);
    tiny_ctx_close(ctx);
}
