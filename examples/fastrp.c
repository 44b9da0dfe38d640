/* examples/fastrp.c - embeds the nodes of a graph: fastrp EDGES -d 128 -o out.npy
 *
 *     fastrp [EDGES] [-d COLUMNS] [-o OUT.npy] [--powers W1,W2,...] [--beta B] [-s S] [--standardize] [--directed]
 *            [--tile T] [--seed N] [--threads N] [--quiet]
 *
 * EDGES has any form that tinygnn.h reads. With options but without EDGES, a graph of 10 000 nodes in 8 planted classes
 * is made. Both directions of each edge are used unless --directed. Row i of OUT belongs to node i. --tile 32 takes a
 * third of the memory and twice the time. Progress is shown after two seconds, unless --quiet. */
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "fastrp"
#include "options.h"

static const char usage[] =
    "fastrp [EDGES] [options]     EDGES: an edge list, Matrix Market, .npz, .npy or .tgraph; without it, but with an\n"
    "                             option, a graph of 10 000 nodes is made\n"
    "  -d COLUMNS       columns of the embedding; default: 128\n"
    "  -o OUT.npy       the output, row i for node i; default: embedding.npy\n"
    "  --powers W,W...  weights of one step along the edges, two steps ..., up to 16; default: 0,1,1\n"
    "  --beta B         nodes with many edges weigh more above 0, less below 0; default: 0\n"
    "  -s S             one number in S of the random projection is not 0; default: the square root of the number of\n"
    "                   nodes; 3 is denser\n"
    "  --standardize    scale each column to mean 0 and deviation 1 at the end\n"
    "  --directed       use edges in their own direction only; default: both\n"
    "  --tile T         columns at once, a multiple of 16; 32 takes a third of the memory and twice the time;\n"
    "                   default: all\n"
    "  --seed N         seed of the projection; default: 0\n"
    "  --threads N      default: one per processor\n"
    "  --quiet          no progress\n";

/* numbers separated by commas; 0: something else */
static int weights(const char *text, tgnn_fastrp_desc *f)
{
    char *end;
    for (;; text = end + 1) {
        const double w = strtod(text, &end);
        if (end == text || strspn(text, "0123456789.+-eE") != (size_t)(end - text) || !(w >= -1e30 && w <= 1e30) ||
            f->n_weights == TGNN_FASTRP_POWERS)
            return 0;
        f->weight[f->n_weights++] = (float)w;
        if (*end != ',') return !*end;
    }
}

int main(int argc, char **argv)
{
    static tiny_ctx *ctx;
    const char *edges = NULL, *out = NULL, *powers = NULL;
    int d = 128, directed = 0, quiet = 0;
    tgnn_graph_desc how = { 0 };
    tgnn_fastrp_desc f = { 0 };
    tiny_ctx_desc desc = { 0 };
    const option options[] = { A_WORD("graph", &edges),
                               A_WHOLE("-d", &d, 1, 1 << 20),
                               A_TEXT("-o", &out),
                               A_TEXT("--powers", &powers),
                               A_NUMBER("--beta", &f.beta, -1e6, 1e6),
                               A_NUMBER("-s", &f.s, 1, 1e15),
                               A_WHOLE("--tile", &f.tile, 16, 1 << 20),
                               A_SEED("--seed", &f.seed),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_FLAG("--standardize", &f.standardize),
                               A_FLAG("--directed", &directed),
                               A_FLAG("--quiet", &quiet) };
    tgnn_graph *g = NULL;
    tiny_tensor y;
    tiny_status st;
    uint64_t began, read, done;
    READ_OPTIONS(argc, argv, usage, options);
    if (argc == 1) return fputs(usage, stderr), 2;
    if (!out) out = "embedding.npy";
    if (must_not_write(out, 1, edges)) return 2;
    if (powers && !weights(powers, &f))
        return wrong(powers, "--powers takes up to 16 numbers with commas between them");
    how.symmetrize = !directed;
    how.duplicates = TINY_DUPLICATES_FIRST;
    desc.progress = quiet ? NULL : show_progress;
    desc.cancel = cancelled;
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    stop_on_signals_whole();
    began = tiny_now_ns();
    st = edges ? tgnn_graph_read(ctx, edges, &how, &g) : tgnn_planted(ctx, 10000, 8, 10.0, 0.8, 1, &g);
    read = tiny_now_ns();
    y = tiny_tensor_2d(NULL, TINY_F32, g ? tgnn_graph_nodes(g) : 0, d);
    if (!st) {
        y.data = tiny_alloc(ctx, (size_t)y.dim[0] * (size_t)y.dim[1] * sizeof(float));
        st = y.data ? tgnn_fastrp(ctx, g, &f, &y) : tiny_ctx_status(ctx);
    }
    done = tiny_now_ns();
    if (!st && stopped_by) st = TINY_E_CANCELLED;
    if (!st) st = tgnn_array_write(ctx, out, &y);
    end_progress();
    if (st == TINY_E_CANCELLED && stopped_by) say("stopped; nothing was written");
    else if (st) say(tiny_ctx_message(ctx));
    else
        printf("%s: %td nodes x %td; %lld edges read in %.2f s, embedded in %.3f s\n", out, y.dim[0], y.dim[1],
               (long long)tgnn_graph_edges(g), (double)(read - began) * 1e-9, (double)(done - read) * 1e-9);
    tiny_free(ctx, y.data);
    tgnn_graph_close(ctx, g);
    tiny_ctx_close(ctx);
    return exit_status(st == TINY_E_CANCELLED && stopped_by ? 128 + stopped_by : st != TINY_OK);
}
