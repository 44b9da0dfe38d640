/* examples/ranks.c - one model split over several ranks of this process, with slow links between them
 *
 *     ranks MODEL.gguf --ranks 2 --ms 1
 *     ranks MODEL.gguf --ranks 2 --ms 1 --ladder
 *
 * Each rank computes its share of the heads and networks, and the text is the same as on one rank. With --ladder the
 * model runs as a ladder model. It is faster, but its text differs, because it was not trained as one. Several machines
 * need only another transport. Build with -fopenmp, or with -DTINY_PTHREAD and -pthread. */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "ranks"
#include "options.h"

static const char usage[] =
    "ranks MODEL [options]      MODEL: a GGUF file, or a .bin of llama2.c next to its tokenizer\n"
    "  --ranks N      ranks, a thread each; default: 2\n"
    "  --ms X         delay of the link between two ranks, in milliseconds; default: 0\n"
    "  --mbit X       megabits per second of a link; default: no limit\n"
    "  --ladder       run all layers as ladder layers, whatever the file says\n"
    "  --tokens N     tokens to generate; default: 40\n"
    "  --prompt TEXT  default: \"Once upon a time\"\n";

enum { MOST = 8, CONTEXT = 512 };
static struct {
    const char *path, *prompt;
    int ranks, ladder, tokens;
    double ms, mbit;
    tiny_local *local;
    int failed[MOST];
} run;

static tiny_status tell_story(tiny_ctx *ctx, const tllm_model *model, const tllm_vocab *vocab, tiny_comm *comm)
{
    tllm_state_desc d;
    tllm_state *state = NULL;
    tllm_tokens prompt;
    tllm_about about;
    float *logits;
    double start = 0.0, waited = 0.0;
    int32_t next = 0, i;
    int made = 0;
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&prompt, 0, sizeof prompt);
    d.n_ctx = CONTEXT;
    d.n_batch = 64;
    d.comm = comm;
    tllm_model_about(model, &about);
    logits = (float *)tiny_alloc(ctx, (size_t)about.n_out * sizeof *logits);
    st = logits ? tllm_state_open(ctx, model, &d, &state) : TINY_E_MEMORY;
    if (!st) st = tllm_encode(ctx, vocab, run.prompt, strlen(run.prompt), TLLM_ENCODE_ENDS, &prompt);
    if (!st) st = tllm_forward(state, prompt.id, (tiny_idx)prompt.n, 0, 1, logits);
    if (!tiny_comm_rank(comm)) printf("%s", run.prompt);
    start = 1e-9 * (double)tiny_now_ns();
    waited = 1e-6 * (double)tiny_comm_waited(comm);
    for (; !st && made < run.tokens && (int)prompt.n + made < CONTEXT; made++) {
        /* the same bits in all ranks, so the same token */
        for (next = i = 0; i < about.n_out; i++) if (logits[i] > logits[next]) next = i;
        if (tllm_vocab_is_end(vocab, next)) break;
        if (!tiny_comm_rank(comm)) {
            char piece[256];
            const size_t n = tllm_piece(vocab, next, 0, piece, sizeof piece);
            printf("%.*s", (int)(n < sizeof piece ? n : sizeof piece), piece);
        }
        st = tllm_forward(state, &next, 1, (int64_t)prompt.n + made, 1, logits);
    }
    if (!st && !tiny_comm_rank(comm)) {
        const double s = 1e-9 * (double)tiny_now_ns() - start;
        printf("\n%d tokens, %.2f ms each, of which rank 0 waited %.2f\n", made, 1e3 * s / (made ? made : 1),
               (1e-6 * (double)tiny_comm_waited(comm) - waited) / (made ? made : 1));
    }
    tllm_tokens_free(ctx, &prompt);
    tllm_state_close(ctx, state);
    tiny_free(ctx, logits);
    return st;
}

static void rank_main(tiny_team *team, void *arg)
{
    tiny_ctx_desc cd;
    tiny_comm_desc d;
    tiny_ctx *ctx = NULL;
    tiny_comm *comm = NULL;
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_vocab *vocab = NULL;
    tllm_about about;
    unsigned char *route = NULL;
    int predicts = 1;
    tiny_status st;
    (void)arg;
    memset(&cd, 0, sizeof cd);
    memset(&d, 0, sizeof d);
    cd.n_threads = 1;
    run.failed[team->i] = 1;
    if (team->n != run.ranks) {
        fprintf(stderr,
                "ranks: only %d of %d threads started: build with -fopenmp, or with -DTINY_PTHREAD and -pthread\n",
                team->n, run.ranks);
        return;
    }
    cd.log = hear;
    cd.user = &ctx;
    if (tiny_ctx_open(&cd, &ctx)) return;
    d.net = tiny_local_net(run.local, team->i);
    d.n_most = 1 << 20;
    st = tiny_comm_open(ctx, &d, &comm);
    if (!st) st = tllm_file_open(ctx, run.path, &file);
    if (!st) st = tllm_model_open(ctx, file, &model);
    if (!st) tllm_model_about(model, &about);
    if (!st && (about.output != TLLM_LOGITS || about.is_encoder || about.has_decoder)) {
        fprintf(stderr, "ranks: rank %d: a %s model does not predict its text\n", team->i, about.arch);
        predicts = 0;
        st = TINY_E_UNSUPPORTED;
    }
    if (!st && run.ladder) {
        route = (unsigned char *)tiny_alloc(ctx, 2 * (size_t)about.n_layer);
        if (route) memset(route, TLLM_ROUTE_LADDER, 2 * (size_t)about.n_layer);
        st = route ? tllm_model_routes(ctx, model, route, 2 * about.n_layer) : TINY_E_MEMORY;
    }
    if (!st) st = tllm_model_cut(ctx, model, team->i, run.ranks);
    if (!st) st = tllm_vocab_open(ctx, file, &vocab);
    if (!st) st = tell_story(ctx, model, vocab, comm);
    if (st && predicts) fprintf(stderr, "ranks: rank %d: %s\n", team->i, tiny_ctx_message(ctx));
    run.failed[team->i] = st != TINY_OK;
    tiny_free(ctx, route);
    tllm_vocab_close(ctx, vocab);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    tiny_comm_close(comm);
    tiny_ctx_close(ctx);
}

int main(int argc, char **argv)
{
    tiny_ctx_desc cd;
    tiny_local_desc d;
    tiny_ctx *ctx = NULL;
    int i, failed = 0;
    const option options[] = { THE_WORD("model", &run.path),
                               ANY_TEXT("--prompt", &run.prompt),
                               A_WHOLE("--ranks", &run.ranks, 1, MOST),
                               A_WHOLE("--tokens", &run.tokens, 0, CONTEXT),
                               A_NUMBER("--ms", &run.ms, 0, 1e4),
                               A_NUMBER("--mbit", &run.mbit, 0, 1e9),
                               A_FLAG("--ladder", &run.ladder) };
    run.prompt = "Once upon a time";
    run.ranks = 2;
    run.tokens = 40;
    READ_OPTIONS(argc, argv, usage, options);
    memset(&cd, 0, sizeof cd);
    memset(&d, 0, sizeof d);
    cd.n_threads = run.ranks;
    cd.log = hear;
    cd.user = &ctx;
    d.world = run.ranks;
    d.latency_ns = (uint64_t)(1e6 * run.ms);
    d.bits_per_second = 1e6 * run.mbit;
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    if (tiny_local_open(ctx, &d, &run.local) || tiny_parallel(ctx, run.ranks, 0, 0, rank_main, NULL)) {
        say(tiny_ctx_message(ctx));
        failed = 1;
    }
    for (i = 0; i < run.ranks; i++) failed |= run.failed[i];
    tiny_local_close(ctx, run.local);
    tiny_ctx_close(ctx);
    return exit_status(failed);
}
