/* tests/gnn/equivariant/irreps.c - irreps strings: read, written, counted; hostile ones refused by a sentence */
#define T_GNN
#include "t.h"

static void test_good(void)
{
    static const struct { const char *text, *printed; int n, dim; } good[] = {
        { "32x0e+16x1o", "32x0e+16x1o", 2, 80 },
        { " 32x0e + 16x1o ", "32x0e+16x1o", 2, 80 },
        { "1o", "1x1o", 1, 3 },
        { "0e+1o+2e", "1x0e+1x1o+1x2e", 3, 9 },
        { "1x0y+1x1y+1x2y+1x12y", "1x0e+1x1o+1x2e+1x12e", 4, 34 },
        { "0x5o", "0x5o", 1, 0 },
        { "0007x02e", "7x2e", 1, 35 },
        { "1048576x12e", "1048576x12e", 1, 26214400 },
        { "", "", 0, 0 },
        { "  ", "", 0, 0 },
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tgnn_irrep list[4], again[4];
    char text[64], little[6];
    size_t c;
    int n, m;
    for (c = 0; c < T_COUNT(good); c++) {
        if (!T_OK(tgnn_irreps_parse(ctx, good[c].text, list, 4, &n))) continue;
        T_EQ_INT(n, good[c].n);
        T_EQ_INT(tgnn_irreps_dim(list, n), good[c].dim);
        T_EQ_INT(tgnn_irreps_print(list, n, text, sizeof text), strlen(good[c].printed) + 1);
        T_EQ_TEXT(text, good[c].printed);
        T_OK(tgnn_irreps_parse(ctx, text, again, 4, &m));
        T_EQ_INT(m, n);
        T_SAME(again, list, n);
    }
    T_OK(tgnn_irreps_parse(ctx, "32x0e+16x1o", list, 4, &n));
    T_EQ_INT(tgnn_irreps_print(list, n, little, sizeof little), 12);
    T_EQ_TEXT(little, "32x0e");
    T_EQ_INT(tgnn_irreps_print(list, n, NULL, 0), 12);
    T_TRUE(list[0].mul == 32 && list[0].l == 0 && list[0].parity == 1);
    T_TRUE(list[1].mul == 16 && list[1].l == 1 && list[1].parity == -1);
    t_close(ctx);
    T_PROOF("geometry 0", "irreps strings as e3nn writes them");
}

static void test_bad(void)
{
    static const struct { const char *text, *says; tiny_status status; } bad[] = {
        { "x", "no block such as 16x1o stands at character 1", TINY_E_FORMAT },
        { "32x", "no block such as 16x1o stands at character 1", TINY_E_FORMAT },
        { "0e+-1x1o", "at character 4", TINY_E_FORMAT },
        { "1x1", "at character 1", TINY_E_FORMAT },
        { "1x1z", "at character 1", TINY_E_FORMAT },
        { "1x1E", "at character 1", TINY_E_FORMAT },
        { "1 x1e", "at character 1", TINY_E_FORMAT },
        { "2x3x1e", "at character 1", TINY_E_FORMAT },
        { "+0e", "at character 1", TINY_E_FORMAT },
        { "0e++1o", "at character 4", TINY_E_FORMAT },
        { "0e+", "a + and a block must follow character 2", TINY_E_FORMAT },
        { "0e 1o", "a + and a block must follow character 3", TINY_E_FORMAT },
        { "0ee", "a + and a block must follow character 2", TINY_E_FORMAT },
        { "1x13e", "has a degree above 12", TINY_E_FORMAT },
        { "99999999999999999999e", "has a degree above 12", TINY_E_FORMAT },
        { "1048577x0e", "has more than 1048576 copies", TINY_E_FORMAT },
        { "18446744073709551617x0e", "has more than 1048576 copies", TINY_E_FORMAT },
        { "0e+0e+0e+0e+0e", "has more than 4 blocks", TINY_E_ARGUMENT },
        { "1x1e\n", "a + and a block", TINY_E_FORMAT },
        { "\xc3\xa9", "at character 1", TINY_E_FORMAT },
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tgnn_irrep list[4];
    char text[4000];
    size_t c, i;
    int n;
    for (c = 0; c < T_COUNT(bad); c++) {
        n = 7;
        T_STATUS(tgnn_irreps_parse(ctx, bad[c].text, list, 4, &n), bad[c].status, bad[c].says);
        T_EQ_INT(n, 0);
    }
    memset(text, '9', sizeof text - 1);     /* longer than a message */
    text[sizeof text - 1] = 0;
    T_STATUS(tgnn_irreps_parse(ctx, text, list, 4, &n), TINY_E_FORMAT, "no block");
    for (c = 0; c < 20000; c++) {           /* any bytes: an answer or a sentence, and what is read prints */
        static const char some[] = "0123456789xeoy+ \t-e1x";
        const size_t length = t_rand_below(24);
        for (i = 0; i < length; i++) text[i] = some[t_rand_below(sizeof some)];
        text[length] = 0;
        if (tgnn_irreps_parse(ctx, text, list, 4, &n)) T_EQ_INT(n, 0);
        else T_TRUE(n <= 4 && tgnn_irreps_dim(list, n) >= 0);
    }
    T_STATUS(tgnn_irreps_parse(ctx, NULL, list, 4, &n), TINY_E_ARGUMENT, "missing");
    T_STATUS(tgnn_irreps_parse(ctx, "0e", NULL, 4, &n), TINY_E_ARGUMENT, "missing");
    T_STATUS(tgnn_irreps_parse(ctx, "0e", list, 4, NULL), TINY_E_ARGUMENT, "missing");
    T_STATUS(tgnn_irreps_parse(ctx, "0e", list, 0, &n), TINY_E_ARGUMENT, "more than 0 blocks");
    list[0].mul = 1;
    list[0].l = 1;
    list[0].parity = 0;
    T_EQ_INT(tgnn_irreps_dim(list, 1), -1);
    T_EQ_INT(tgnn_irreps_print(list, 1, text, sizeof text), 0);
    T_EQ_TEXT(text, "");
    T_EQ_INT(tgnn_irreps_dim(NULL, 1), -1);
    T_EQ_INT(tgnn_irreps_dim(NULL, 0), 0);
    t_close(ctx);
    T_PROOF("geometry 0", "bad input: irreps strings");
}

int main(void)
{
    T_RUN(test_good);
    T_RUN(test_bad);
    return t_done();
}
