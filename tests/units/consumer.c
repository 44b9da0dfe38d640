/* tests/units/consumer.c - a program of a user who installed the packages (install.sh): consumer MODEL
 * It continues a text with the model (CONSUMES_LLM), counts the edges of a graph (CONSUMES_GNN), and with both gives
 * each header's functions a context that the other header opened. Prints the version, then "text: ...". */
#ifdef CONSUMES_LLM
#define TINYLLM_IMPLEMENTATION
#endif
#ifdef CONSUMES_GNN
#define TINYGNN_IMPLEMENTATION
#endif
#ifdef CONSUMES_LLM
#include <tinyllm.h>
#endif
#ifdef CONSUMES_GNN
#include <tinygnn.h>
#endif
#include <stdio.h>
#include <string.h>

static int failed(const char *what, tiny_ctx *ctx)
{
    fprintf(stderr, "%s: %s\n", what, ctx ? tiny_ctx_message(ctx) : "no context");
    return 1;
}

#ifdef CONSUMES_LLM
static int print(void *user, const char *text, size_t n)
{
    (void)user;
    return fwrite(text, 1, n, stdout) != n;
}

static int continue_text(tiny_ctx *ctx, const char *model)
{
    static const char prompt[] = "one day , Leo was in the park .";
    tllm_generate_desc how;
    tllm_session *session = NULL;
    memset(&how, 0, sizeof how);
    how.text = print;
    how.n_most = 16;
    if (tllm_session_open(ctx, model, NULL, &session)) return failed("session_open", ctx);
    printf("text:");
    if (tllm_generate(session, prompt, strlen(prompt), &how, NULL)) return failed("generate", ctx);
    printf("\n");
    tllm_session_close(session);
    return 0;
}
#endif

#ifdef CONSUMES_GNN
static int count_edges(tiny_ctx *ctx)
{
    static const int32_t source[4] = { 0, 2, 3, 1 }, destination[4] = { 1, 1, 1, 0 };
    static const float want[4] = { 1, 3, 0, 0 };
    tgnn_edges edges;
    tgnn_graph *graph = NULL;
    float degree[4];
    int bad;
    memset(&edges, 0, sizeof edges);
    edges.n_src = edges.n_dst = edges.n = 4;
    edges.src = source;
    edges.dst = destination;
    if (tgnn_graph_make(ctx, &edges, NULL, &graph)) return failed("graph_make", ctx);
    if (tgnn_graph_degrees(ctx, graph, 0, 1, degree)) return failed("graph_degrees", ctx);
    bad = memcmp(degree, want, sizeof want) != 0;
    if (bad) fprintf(stderr, "degrees %g %g %g %g\n", degree[0], degree[1], degree[2], degree[3]);
    tgnn_graph_close(ctx, graph);
    return bad;
}
#endif

int main(int argc, char **argv)
{
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL, *other = NULL;
    int bad = 0;
    (void)argv;
    memset(&desc, 0, sizeof desc);
    desc.n_threads = 2;                     /* the packages bring threads: a context without them has 1 */
    if (argc != 2) return failed("consumer MODEL", NULL);
    printf("%d.%d.%d\n", TINY_VERSION_MAJOR, TINY_VERSION_MINOR, TINY_VERSION_PATCH);
#if defined CONSUMES_LLM && defined CONSUMES_GNN
    if (tinygnn_ctx_open(&desc, &ctx) || tinyllm_ctx_open(&desc, &other)) return failed("ctx_open", NULL);
#else
    if (tiny_ctx_open(&desc, &ctx)) return failed("ctx_open", NULL);
    other = ctx;
#endif
    if (tiny_ctx_threads(ctx) != 2 || tiny_ctx_threads(other) != 2) bad = failed("not two threads", ctx);
#ifdef CONSUMES_GNN
    bad |= count_edges(other);
#endif
#ifdef CONSUMES_LLM
    bad |= continue_text(ctx, argv[1]);
#endif
    if (other != ctx) tiny_ctx_close(other);
    tiny_ctx_close(ctx);
    return bad;
}
