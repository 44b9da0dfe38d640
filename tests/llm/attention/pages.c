/* tests/llm/attention/pages.c - the owner of each page: compared after every step with a model that keeps every cell by
 * value */
#include "t.h"

enum { BLOCKS = 40, BLOCK = 4, SEQS = 7, MOST = 60 };

/* the expected cells of each sequence */
typedef struct plain { int32_t cell[SEQS][MOST]; tiny_idx n[SEQS]; } plain;

static int32_t stand[BLOCKS][BLOCK];        /* the contents of the blocks: the caller's part */

static void copy_block(const tllm_page_copy *c)
{
    tiny_idx i;
    for (i = 0; c->from >= 0 && i < c->n; i++) stand[c->to][i] = stand[c->from][i];
}

static int agrees(const tllm_pages *p, const plain *want)
{
    int named[BLOCKS] = { 0 };
    tiny_idx s, i, held = 0;
    for (s = 0; s < SEQS; s++) {
        const int32_t *table = tllm_pages_table(p, s);
        if (tllm_pages_length(p, s) != want->n[s]) return 0;
        for (i = 0; i < (want->n[s] + BLOCK - 1) / BLOCK; i++) {
            if (table[i] < 0 || table[i] >= BLOCKS) return 0;
            named[table[i]]++;
        }
        for (i = 0; i < want->n[s]; i++)
            if (stand[table[i / BLOCK]][i % BLOCK] != want->cell[s][i]) return 0;
    }
    for (i = 0; i < BLOCKS; i++) {
        if (tllm_pages_holders(p, i) != named[i]) return 0;
        held += named[i] > 0;
    }
    return held + tllm_pages_free(p) == BLOCKS;     /* none is lost, none occurs twice */
}

static tllm_pages *open_pages(tiny_ctx *ctx)
{
    tllm_pages_desc d;
    tllm_pages *p = NULL;
    memset(&d, 0, sizeof d);
    d.n_block = BLOCKS;
    d.block = BLOCK;
    d.n_seq = SEQS;
    d.n_most = MOST;
    T_OK(tllm_pages_open(ctx, &d, &p));
    return p;
}

/* 10^5 operations; tokens are few, so that common prefixes are frequent */
static void test_random_operations(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_pages *p = open_pages(ctx);
    static plain want;
    long done[6] = { 0 }, refused = 0, copied = 0, shared = 0, step;
    memset(&want, 0, sizeof want);
    for (step = 0; p && step < 100000; step++) {
        const tiny_idx s = (tiny_idx)t_rand_below(SEQS), o = (tiny_idx)t_rand_below(SEQS);
        const uint32_t what = t_rand_below(16);
        tllm_page_copy copy;
        tiny_idx i, n;
        if (what < 7) {
            const tiny_idx before = tllm_pages_free(p), at = want.n[s];
            n = 1 + (tiny_idx)t_rand_below(9);
            if (tllm_pages_append(p, s, n, &copy) == TINY_OK) {
                const int32_t *table = tllm_pages_table(p, s);
                copied += copy.from >= 0;
                copy_block(&copy);
                for (i = at; i < at + n; i++) {
                    want.cell[s][i] = (int32_t)t_rand_below(2);
                    /* a shared block is never written */
                    if (!T_TRUE(tllm_pages_holders(p, table[i / BLOCK]) == 1)) break;
                    stand[table[i / BLOCK]][i % BLOCK] = want.cell[s][i];
                }
                want.n[s] = at + n;
                tllm_pages_note(p, s, at, want.cell[s] + at, n);
                done[0]++;
            } else {
                refused++;
                T_TRUE(tllm_pages_free(p) == before);
                T_TRUE(at + n > MOST || before <= (n + BLOCK - 1) / BLOCK + 1);
            }
        } else if (what < 10) {
            if (T_OK(tllm_pages_fork(p, s, o))) done[1]++;
            memmove(want.cell[o], want.cell[s], sizeof want.cell[s]);
            want.n[o] = want.n[s];
        } else if (what < 12) {
            n = (tiny_idx)t_rand_below((uint32_t)want.n[s] + 1);
            if (T_OK(tllm_pages_trim(p, s, n))) done[2]++;
            want.n[s] = n;
        } else if (what < 13) {
            if (T_OK(tllm_pages_trim(p, s, 0))) done[3]++;
            want.n[s] = 0;
        } else if (what < 14 && want.n[s]) {
            n = (tiny_idx)t_rand_below((uint32_t)((want.n[s] + BLOCK - 1) / BLOCK));
            if (tllm_pages_own(p, s, n, &copy) == TINY_OK) {
                copy_block(&copy);
                T_EQ_INT(tllm_pages_holders(p, tllm_pages_table(p, s)[n]), 1);
                i = n * BLOCK;              /* and it is written */
                want.cell[s][i] = stand[tllm_pages_table(p, s)[n]][0] = 5;
                done[4]++;
            } else {
                T_EQ_INT(tllm_pages_free(p), 0);
                refused++;
            }
        } else if (!want.n[s]) {
            T_OK(tllm_pages_share(p, s, want.cell[o], want.n[o], &n));
            T_TRUE(n % BLOCK == 0 && n <= want.n[o]);
            memcpy(want.cell[s], want.cell[o], (size_t)n * sizeof want.cell[s][0]);
            want.n[s] = n;
            shared += n > 0;
            done[5]++;
        }
        if (!agrees(p, &want)) {
            t_fail(__FILE__, __LINE__, "the pages hold what was put there");
            printf("  after step %ld\n", step);
            break;
        }
    }
    T_TRUE(done[0] > 1000 && done[1] > 1000 && done[2] > 1000 && done[3] > 1000 && done[4] > 500 && done[5] > 500 &&
           refused > 100 && copied > 1000 && shared > 100);
    tllm_pages_close(ctx, p);
    t_close(ctx);
    T_PROOF("attention 0", "fork then write leaves the parent unchanged");
    T_PROOF("attention 0", "block counts conserved over 10^5 random operations");
}

/* Every prefix that was reported in order is found, by its full blocks and no further. */
static void test_prefix(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_pages *p = open_pages(ctx);
    tllm_page_copy c;
    int32_t tokens[20], other[20];
    tiny_idx n, i;
    for (i = 0; i < 20; i++) { tokens[i] = (int32_t)(100 + i); other[i] = tokens[i]; }
    T_OK(tllm_pages_append(p, 0, 18, &c));
    tllm_pages_note(p, 0, 0, tokens, 10);
    tllm_pages_note(p, 0, 12, tokens + 12, 6);      /* a gap: not taken */
    T_OK(tllm_pages_share(p, 1, tokens, 20, &n));
    T_EQ_INT(n, 8);
    T_TRUE(tllm_pages_table(p, 1)[0] == tllm_pages_table(p, 0)[0] &&
           tllm_pages_holders(p, tllm_pages_table(p, 0)[1]) == 2);
    tllm_pages_note(p, 0, 10, tokens + 10, 8);
    T_OK(tllm_pages_trim(p, 1, 0));
    T_OK(tllm_pages_share(p, 1, tokens, 15, &n));
    T_EQ_INT(n, 12);
    other[0] = 7;                                   /* the second block is the same, the cells before it are not */
    T_OK(tllm_pages_share(p, 2, other, 20, &n));
    T_EQ_INT(n, 0);
    other[0] = tokens[0];
    other[6] = 7;
    T_OK(tllm_pages_share(p, 2, other, 20, &n));
    T_EQ_INT(n, 4);
    T_OK(tllm_pages_trim(p, 2, 0));
    /* two sequences that hold the same tokens in pages of their own: either can be found, and the cells after one of
     * them too */
    T_OK(tllm_pages_append(p, 3, 20, &c));
    tllm_pages_note(p, 3, 0, tokens, 20);
    T_OK(tllm_pages_share(p, 2, tokens, 20, &n));
    T_EQ_INT(n, 20);
    T_OK(tllm_pages_trim(p, 2, 0));
    T_OK(tllm_pages_trim(p, 0, 0));
    T_OK(tllm_pages_trim(p, 1, 0));
    T_OK(tllm_pages_trim(p, 3, 7));                 /* rewritten from cell 7 on */
    T_OK(tllm_pages_append(p, 3, 5, &c));
    T_OK(tllm_pages_share(p, 2, tokens, 20, &n));
    T_TRUE(n <= 4);
    tllm_pages_close(ctx, p);
    t_close(ctx);
}

/* Earlier reports are forgotten, and new reports about the same cells are ignored; those of a sequence that starts
 * again are accepted. */
static void test_forget(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_pages *p = open_pages(ctx);
    tllm_page_copy c;
    int32_t tokens[8];
    tiny_idx n, i;
    for (i = 0; i < 8; i++) tokens[i] = (int32_t)(50 + i);
    T_OK(tllm_pages_append(p, 0, 8, &c));
    tllm_pages_note(p, 0, 0, tokens, 8);
    tllm_pages_forget(p);
    T_OK(tllm_pages_share(p, 1, tokens, 8, &n));
    T_EQ_INT(n, 0);
    tllm_pages_note(p, 0, 0, tokens, 8);
    T_OK(tllm_pages_share(p, 1, tokens, 8, &n));
    T_EQ_INT(n, 0);
    T_OK(tllm_pages_trim(p, 0, 0));
    T_OK(tllm_pages_append(p, 0, 8, &c));
    tllm_pages_note(p, 0, 0, tokens, 8);
    T_OK(tllm_pages_share(p, 1, tokens, 8, &n));
    T_EQ_INT(n, 8);
    tllm_pages_close(ctx, p);
    t_close(ctx);
}

static void test_bad_input(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_pages *p = open_pages(ctx), *none = (tllm_pages *)ctx;
    tllm_pages_desc d;
    tllm_page_copy c;
    tiny_idx n;
    int32_t token = 1;
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_pages_open(ctx, &d, &none), TINY_E_ARGUMENT, "0 blocks of 16 tokens for 1 sequences");
    T_TRUE(none == NULL);
    T_STATUS(tllm_pages_open(ctx, NULL, &none), TINY_E_ARGUMENT, "description");
    d.n_block = 1;
    d.block = -3;
    T_STATUS(tllm_pages_open(ctx, &d, &none), TINY_E_ARGUMENT, "blocks of -3 tokens");
    d.n_block = d.n_seq = d.block = (tiny_idx)1 << 26;
    T_TRUE(tllm_pages_open(ctx, &d, &none) != TINY_OK && none == NULL);
    T_STATUS(tllm_pages_append(p, SEQS, 1, &c), TINY_E_ARGUMENT, "no sequence 7: the last is 6");
    T_STATUS(tllm_pages_append(p, -1, 1, &c), TINY_E_ARGUMENT, "no sequence -1");
    T_STATUS(tllm_pages_append(p, 0, -1, &c), TINY_E_ARGUMENT, "no room for -1 more");
    T_STATUS(tllm_pages_append(p, 0, MOST + 1, &c), TINY_E_ARGUMENT, "holds 0 cells of at most 60");
    T_OK(tllm_pages_append(p, 0, MOST, &c));
    T_OK(tllm_pages_append(p, 1, MOST, &c));
    T_STATUS(tllm_pages_append(p, 2, MOST, &c), TINY_E_WORKSPACE,
             "needs 15 more blocks of 4 tokens, but 10 of 40 are free");
    T_EQ_INT(tllm_pages_length(p, 2), 0);
    T_STATUS(tllm_pages_trim(p, 0, MOST + 1), TINY_E_ARGUMENT, "there are 60 cells in sequence 0: 61 cannot be kept");
    T_STATUS(tllm_pages_fork(p, 0, 9), TINY_E_ARGUMENT, "no sequence 9");
    T_STATUS(tllm_pages_own(p, 0, 15, &c), TINY_E_ARGUMENT, "has 15 blocks, but no block 15");
    T_STATUS(tllm_pages_share(p, 0, &token, 1, &n), TINY_E_ARGUMENT, "only an empty one");
    T_STATUS(tllm_pages_share(p, 2, NULL, 1, &n), TINY_E_ARGUMENT, "the tokens are NULL");
    tllm_pages_close(ctx, p);
    tllm_pages_close(ctx, NULL);
    t_close(ctx);
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(target, 1);
        tiny_ctx *c2 = NULL;
        if (!tiny_ctx_open(&cd, &c2)) {
            memset(&d, 0, sizeof d);
            d.n_block = 9;
            if (!tllm_pages_open(c2, &d, &p)) tllm_pages_close(c2, p);
            tiny_ctx_close(c2);
        })
    T_PROOF("attention 0", "bad input: a pool that is full, no room behind n_most");
}

int main(void)
{
    T_RUN_TARGETS(test_random_operations);
    T_RUN(test_prefix);
    T_RUN(test_forget);
    T_RUN_TARGETS(test_bad_input);
    return t_done();
}
