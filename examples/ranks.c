/* examples/ranks.c - one model split over several ranks: threads with slow links, processes over TCP, or mpirun
 *
 *     ranks MODEL.gguf --ranks 2 --ms 1
 *     ranks MODEL.gguf --ranks 2 --ms 1 --ladder
 *     ranks MODEL.gguf --ranks 2 --tcp --share 3,1 --wire f16 --check
 *
 * Each rank computes its share of the heads and networks, and the text is the same as on one rank. With --ladder the
 * model runs as a ladder model. It is faster, but its text differs, because it was not trained as one. Rank 0 chooses
 * the tokens, the others follow. cluster.c is the same for several machines. Build with -fopenmp, or with
 * -DTINY_PTHREAD and -pthread. */
#define TINYLLM_WITH_CLUSTER
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "ranks"
#include "options.h"
#include "world.h"

static const char usage[] =
    "ranks MODEL [options]      MODEL: a GGUF file, or a .bin of llama2.c next to its tokenizer\n"
    WORLD_USAGE
    "  --share S      the share of each rank, such as 3,1; default: equal as far as possible\n"
    "  --wire W       how numbers travel: f32, f16 or q8; default: f32\n"
    "  --ladder       run all layers as ladder layers, whatever the file says\n"
    "  --check        compare the text with that of one rank, and fail if it is another\n"
    "  --tokens N     tokens to generate; default: 40\n"
    "  --prompt TEXT  default: \"Once upon a time\"\n";

enum { CONTEXT = 512, BATCH = 64 };
static struct {
    const char *path, *prompt, *share, *wire;
    int ladder, tokens, check, format, differs, n_shares;
    double shares[WORLD_MOST];
} run;

/* The most probable tokens after the prompt, by commands of a lead or, with lead NULL, by a state of the whole model.
 * text: (CONTEXT); the prompt comes first */
static tiny_status greedy(tiny_ctx *ctx, const tllm_vocab *vocab, tllm_lead *lead, tllm_state *state, tiny_idx n_out,
                          int32_t *text, int *n_text, int tells)
{
    tllm_tokens prompt;
    float *logits = (float *)tiny_alloc(ctx, (size_t)n_out * sizeof *logits);
    size_t i;
    int made;
    tiny_status st = logits ? TINY_OK : TINY_E_MEMORY;
    memset(&prompt, 0, sizeof prompt);
    *n_text = 0;
    if (!st) st = tllm_encode(ctx, vocab, run.prompt, strlen(run.prompt), TLLM_ENCODE_ENDS, &prompt);
    for (i = 0; i < prompt.n && i < CONTEXT; i++) text[(*n_text)++] = prompt.id[i];
    if (tells) printf("%s", run.prompt);
    if (!st) st = lead ? tllm_lead_forward(lead, text, *n_text, 0, logits)
                       : tllm_forward(state, text, *n_text, 0, 1, logits);
    for (made = 0; !st && made < run.tokens && *n_text < CONTEXT; made++) {
        int32_t next = 0, k;
        for (k = 1; k < n_out; k++) if (logits[k] > logits[next]) next = k;
        if (tllm_vocab_is_end(vocab, next)) break;
        if (tells) {
            char piece[256];
            const size_t n = tllm_piece(vocab, next, 0, piece, sizeof piece);
            printf("%.*s", (int)(n < sizeof piece ? n : sizeof piece), piece);
        }
        st = lead ? tllm_lead_forward(lead, &next, 1, *n_text, logits)
                  : tllm_forward(state, &next, 1, *n_text, 1, logits);
        text[(*n_text)++] = next;
    }
    tllm_tokens_free(ctx, &prompt);
    tiny_free(ctx, logits);
    return st;
}

/* rank 0 after the run: the same text from the whole model? */
static tiny_status check(tiny_ctx *ctx, const tllm_gguf *file, const tllm_vocab *vocab, const unsigned char *route,
                         tiny_idx n_route, const int32_t *text, int n_text)
{
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc d;
    tllm_about about;
    int32_t alone[CONTEXT];
    int n = 0;
    tiny_status st = tllm_model_open(ctx, file, &model);
    memset(&d, 0, sizeof d);
    d.n_ctx = CONTEXT;
    d.n_batch = BATCH;
    if (!st && route) st = tllm_model_routes(ctx, model, route, n_route);
    if (!st) st = tllm_state_open(ctx, model, &d, &state);
    if (!st) {
        tllm_model_about(model, &about);
        st = greedy(ctx, vocab, NULL, state, about.n_out, alone, &n, 0);
    }
    if (!st && (n != n_text || memcmp(alone, text, (size_t)n * sizeof *text))) {
        fputs("ranks: the text is not that of one rank\n", stderr);
        run.differs = 1;
    } else if (!st) puts("the same text as on one rank");
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    return st;
}

static tiny_status body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    tllm_narrow_desc nd;
    tllm_lead_desc ld;
    tiny_comm_desc d;
    tllm_narrow *narrow = NULL;
    tiny_comm *comm = NULL;
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_vocab *vocab = NULL;
    tllm_lead *lead = NULL;
    tllm_about about;
    unsigned char *route = NULL;
    int32_t text[CONTEXT];
    int n_text = 0;
    tiny_status st;
    (void)arg;
    if (run.share && run.n_shares != net->world) {      /* mpirun tells how many ranks there are */
        fprintf(stderr, "ranks: --share has %d numbers for %d ranks\n", run.n_shares, net->world);
        return TINY_E_ARGUMENT;
    }
    memset(&nd, 0, sizeof nd);
    memset(&ld, 0, sizeof ld);
    memset(&d, 0, sizeof d);
    memset(&about, 0, sizeof about);
    st = tllm_file_open(ctx, run.path, &file);
    if (!st) st = tllm_model_open(ctx, file, &model);
    if (!st) tllm_model_about(model, &about);
    nd.inner = net;
    nd.format = run.format;
    nd.n_most = d.n_most = model ? tllm_lead_most(model, net->world, BATCH) : 64;
    if (!st) st = tllm_narrow_open(ctx, &nd, &narrow);
    d.net = tllm_narrow_net(narrow);
    if (!st) st = tiny_comm_open(ctx, &d, &comm);
    if (!st && run.ladder) {
        route = (unsigned char *)tiny_alloc(ctx, 2 * (size_t)about.n_layer);
        if (route) memset(route, TLLM_ROUTE_LADDER, 2 * (size_t)about.n_layer);
        st = route ? tllm_model_routes(ctx, model, route, 2 * about.n_layer) : TINY_E_MEMORY;
    }
    /* tllm_lead_open refuses models that do not predict, whole or cut */
    if (!st && about.output == TLLM_LOGITS)
        st = tllm_model_cut_by(ctx, model, net->rank, net->world, run.share ? run.shares : NULL);
    ld.model = model;
    ld.comm = comm;
    ld.n_ctx = CONTEXT;
    ld.n_batch = BATCH;
    if (!st) st = tllm_lead_open(ctx, &ld, &lead);
    if (!st && net->rank) st = tllm_lead_follow(lead, NULL, NULL);
    else if (!st) {
        const double start = 1e-9 * (double)tiny_now_ns();
        double s, n;
        st = tllm_vocab_open(ctx, file, &vocab);
        if (!st) st = greedy(ctx, vocab, lead, NULL, about.n_out, text, &n_text, 1);
        s = 1e-9 * (double)tiny_now_ns() - start;
        if (!st) st = tllm_lead_stop(lead);
        n = (double)tllm_lead_tokens(lead);
        if (!st)
            printf("\n%.0f tokens with the prompt, %.2f ms each, of which rank 0 waited %.2f\n", n, 1e3 * s / n,
                   tllm_lead_times(lead, 0)->wait_ms / n);
        if (!st && run.check) st = check(ctx, file, vocab, route, 2 * about.n_layer, text, n_text);
    }
    tllm_lead_close(lead);
    tiny_comm_close(comm);
    tllm_narrow_close(ctx, narrow);
    tllm_vocab_close(ctx, vocab);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    tiny_free(ctx, route);
    return st;
}

int main(int argc, char **argv)
{
    static const char *const wires[] = { "f32", "f16", "q8" };
    static const int formats[] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0 };
    static world w;
    const char *at;
    int i;
    const option options[] = { THE_WORD("model", &run.path),
                               ANY_TEXT("--prompt", &run.prompt),
                               A_WHOLE("--tokens", &run.tokens, 0, CONTEXT),
                               A_TEXT("--share", &run.share),
                               A_TEXT("--wire", &run.wire),
                               A_FLAG("--ladder", &run.ladder),
                               A_FLAG("--check", &run.check),
                               WORLD_OPTIONS(w) };
    run.prompt = "Once upon a time";
    run.wire = "f32";
    run.tokens = 40;
    w.ranks = 2;
    READ_OPTIONS(argc, argv, usage, options);
    for (i = 0; i < 3 && strcmp(run.wire, wires[i]); i++) {}
    if (i == 3) return refused("--wire takes f32, f16 or q8, not %s", run.wire);
    run.format = formats[i];
    for (at = run.share, i = 0; at && i < WORLD_MOST; i++) {
        char *end;
        run.shares[i] = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(run.shares[i] > 0 && run.shares[i] <= 1e9)) break;
        at = *end ? end + 1 : NULL;
    }
    run.n_shares = i;
#ifdef WORLD_MPI
    if (at) return refused("--share takes a number above 0 for each rank, such as 3,1, not %s", run.share);
#else
    if (run.share && (at || i != w.ranks))
        return refused("--share takes a number above 0 for each of %d ranks, such as 3,1, not %s", w.ranks, run.share);
#endif
    return exit_status(world_run(&w, body, NULL) || run.differs);
}
