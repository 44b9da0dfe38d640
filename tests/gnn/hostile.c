/* tests/gnn/hostile.c - texts of graph and net files that would drive a terminal: sentences and the log show them as
 * \xNN */
#define T_GNN
#include "t.h"
#include "one_line.h"

#define NASTY "\x1b[31m\a\x7f\xc2\x9b\xff\xe2\x80\xae"
#define SHOWN "\\x1b[31m\\x07\\x7f\\xc2\\x9b\\xff\\xe2\\x80\\xae"

static int n_heard;
static void hear(void *user, tiny_log_level level, const char *sentence)
{
    const char *at = one_line(sentence);
    (void)user;
    (void)level;
    n_heard++;
    if (at)
        t_fail(__FILE__, __LINE__, "the log gets byte %02x raw, after \"%.*s\"", *(const unsigned char *)at,
               (int)(at - sentence), sentence);
}

static tiny_ctx *listening(void)
{
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    desc.log = hear;
    n_heard = 0;
    T_OK(tiny_ctx_open(&desc, &ctx));
    t_now.ctx = ctx;
    return ctx;
}

static void refused(tiny_ctx *ctx, int i, tiny_status st, const char *shown)
{
    const char *says = tiny_ctx_message(ctx), *at = one_line(says);
    if (!st) t_fail(__FILE__, __LINE__, "case %d is not refused", i);
    else if (at)
        t_fail(__FILE__, __LINE__, "case %d: byte %02x is raw in the sentence, after \"%.*s\"", i,
               *(const unsigned char *)at, (int)(at - says), says);
    else if (!strstr(says, shown)) t_fail(__FILE__, __LINE__, "case %d: no \"%s\" in \"%s\"", i, shown, says);
}

static void test_graphs(void)
{
    static const struct { const char *text, *shown;
    } row[] = { { "0 1\n1 " NASTY "\n", SHOWN },
                { NASTY "\n", SHOWN },
                { "0 1 " NASTY "\n", SHOWN },
                { "0 1\n1 2 \x1b\n", "\\x1b" },
                { "%%MatrixMarket matrix \x1b[2J real general\n", "" },
                { "%%MatrixMarket matrix coordinate real general\n\x1b \x9b 3\n", "\\x1b" },
                { "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 \x1b[2J 1\n", "\\x1b[2J" },
                { "# nodes \x1b[31m\n0 \x9b\n", "\\x9b" } };
    tiny_ctx *ctx = listening();
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        tgnn_graph *g = NULL;
        refused(ctx, (int)i, tgnn_graph_read_memory(ctx, "g" NASTY ".tsv", row[i].text, strlen(row[i].text), NULL, &g),
                row[i].shown);
        refused(ctx, (int)i, tgnn_graph_read_memory(ctx, "g" NASTY ".tsv", row[i].text, strlen(row[i].text), NULL, &g),
                "g" SHOWN ".tsv");
    }
    {
        tgnn_graph *g = NULL;
        tgnn_data d;
        tgnn_net *net = NULL;
        tgnn_array a;
        refused(ctx, 100, tgnn_graph_read(ctx, "/no/" NASTY, NULL, &g), SHOWN);
        refused(ctx, 101, tgnn_data_read(ctx, "/no/" NASTY, &d), SHOWN);
        refused(ctx, 102, tgnn_net_read(ctx, "/no/" NASTY, &net), SHOWN);
        refused(ctx, 103, tgnn_array_read(ctx, "/no/" NASTY, NULL, &a), SHOWN);
    }
    T_TRUE(n_heard >= 20);
    t_close(ctx);
}

/* the head of an .npy file is a piece of Python: quotes of it */
static void test_arrays(void)
{
    static const struct { const char *head, *shown;
    } row[] = { { "{'descr': '\x1b[31m', 'fortran_order': False, 'shape': (1, 2), }", "" },
                { "{'descr': '<\x1b"
                  "8', 'fortran_order': False, 'shape': (1, 2), }",
                  "" },
                { "{'\x9b': 1}", "" },
                { "{'descr': '<i8', 'fortran_order': \x1b, 'shape': (1, 2), }", "" },
                { "\x1b", "" } };
    tiny_ctx *ctx = listening();
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        unsigned char file[200];
        size_t n = strlen(row[i].head);
        tgnn_array a;
        memset(file, 0, sizeof file);
        memcpy(file, "\x93NUMPY\x01\x00", 8);
        file[8] = (unsigned char)n;
        memcpy(file + 10, row[i].head, n);
        refused(ctx, (int)i, tgnn_array_read_memory(ctx, "a" NASTY ".npy", file, 10 + n + 16, NULL, &a),
                "a" SHOWN ".npy");
    }
    t_close(ctx);
}

static void test_nets(void)
{
    static const struct { const char *json, *shown;
    } row[] = { { "{ \"format\": \"tgnn-net 1\", \"\xc2\x9b\": 1 }", "\\xc2\\x9b" },
                { "{ \"format\": \"tgnn-net 1\", \"layers\": [ { \"kind\": \"\xe2\x80\xae\" } ] }", "\\xe2\\x80\\xae" },
                { "{ \"format\": \"tgnn-net 1\", \"layers\": [ { \"kind\": \"gcn\", \"act\": \"\xc2\x9b\", \"in\": 2, "
                  "\"out\": 2 } ] }",
                  "\\xc2\\x9b" },
                { "{ \"format\": \"tgnn-net 1\", \"layers\": [ { \"\xc2\x9b"
                  "31m\": \"gcn\" } ] }",
                  "\\xc2\\x9b31m" },
                { "{ \"format\": \"\x1b\" }", "" },
                { "\x1b", "" },
                { "{ \"format\": \"tgnn-net 1\", \"layers\": [ { \"kind\": \"gcn\", \"name\": \"\\u001b[31m\", \"in\": "
                  "2, \"out\": 2 } ] }",
                  "31m" } };
    tiny_ctx *ctx = listening();
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        tgnn_net *net = NULL;
        refused(ctx, (int)i, tgnn_net_read_memory(ctx, "n" NASTY, row[i].json, strlen(row[i].json), "", 0, &net),
                row[i].shown);
    }
    {                                       /* a hundred thousand lists in one another */
        char *deep = (char *)t_keep(200100);
        tgnn_net *net = NULL;
        memset(deep, '[', 200000);
        refused(ctx, 100, tgnn_net_read_memory(ctx, "deep", deep, 200000, "", 0, &net), "deep");
    }
    T_TRUE(n_heard >= 7);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_graphs);
    T_RUN(test_arrays);
    T_RUN(test_nets);
    return t_done();
}
