/* examples/ranks.c - one model split over several ranks: threads, processes over TCP, or those of mpirun
 *
 *     ranks MODEL.gguf --ranks 2 --ms 1
 *     ranks MODEL.gguf --ranks 2 --ms 1 --ladder
 *     ranks MODEL.gguf --ranks 2 --tcp
 *     mpirun -n 2 build/mpi/ranks MODEL.gguf           built by `make mpi`
 *
 * Each rank computes its share of the heads and networks, and the text is the same as on one rank: --check compares.
 * With --ladder the model runs as a ladder model. It is faster, but its text differs, because it was not trained as
 * one. Build with -fopenmp, or with -DTINY_PTHREAD and -pthread. */
#define TINY_WITH_TCP
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "ranks"
#include "options.h"
#include "world.h"

static const char usage[] =
    "ranks MODEL [options]      MODEL: a GGUF file, or a .bin of llama2.c next to its tokenizer\n"
    WORLD_USAGE
    "  --ladder       run all layers as ladder layers, whatever the file says\n"
    "  --tokens N     tokens to generate; default: 40\n"
    "  --prompt TEXT  default: \"Once upon a time\"\n"
    "  --check        compare with one rank; the status is 1 if a token differs\n";

enum { CONTEXT = 512 };
static struct { const char *path, *prompt; int ladder, tokens, check; world w; } run;

typedef struct text { int32_t id[CONTEXT]; int n; } text;

/* the most probable tokens after the prompt; prints them if it is to be heard */
static tiny_status tell_story(tiny_ctx *ctx, const tllm_model *model, const tllm_vocab *vocab, tiny_comm *comm,
                              int heard, text *t)
{
    tllm_state_desc d;
    tllm_state *state = NULL;
    tllm_tokens prompt;
    tllm_about about;
    float *logits;
    double start = 0.0, waited = 0.0;
    int32_t next = 0, i;
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
    if (heard) printf("%s", run.prompt);
    start = 1e-9 * (double)tiny_now_ns();
    waited = 1e-6 * (double)tiny_comm_waited(comm);
    for (t->n = 0; !st && t->n < run.tokens && (int)prompt.n + t->n < CONTEXT; t->n++) {
        /* the same bits in all ranks, so the same token */
        for (next = i = 0; i < about.n_out; i++) if (logits[i] > logits[next]) next = i;
        if (tllm_vocab_is_end(vocab, next)) break;
        t->id[t->n] = next;
        if (heard) {
            char piece[256];
            const size_t n = tllm_piece(vocab, next, 0, piece, sizeof piece);
            printf("%.*s", (int)(n < sizeof piece ? n : sizeof piece), piece);
        }
        st = tllm_forward(state, &next, 1, (int64_t)prompt.n + t->n, 1, logits);
    }
    if (!st && heard) {
        const double s = 1e-9 * (double)tiny_now_ns() - start;
        const int made = t->n ? t->n : 1;
        printf("\n%d tokens, %.2f ms each, of which rank 0 waited %.2f\n", t->n, 1e3 * s / made,
               (1e-6 * (double)tiny_comm_waited(comm) - waited) / made);
    }
    tllm_tokens_free(ctx, &prompt);
    tllm_state_close(ctx, state);
    tiny_free(ctx, logits);
    return st;
}

/* The text of this rank's share of the model; comm NULL: of the whole model. */
static tiny_status text_of(tiny_ctx *ctx, tiny_comm *comm, text *t)
{
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_vocab *vocab = NULL;
    tllm_about about;
    unsigned char *route = NULL;
    tiny_status st = tllm_file_open(ctx, run.path, &file);
    if (!st) st = tllm_model_open(ctx, file, &model);
    if (!st) tllm_model_about(model, &about);
    if (!st && (about.output != TLLM_LOGITS || about.is_encoder || about.has_decoder)) {
        fprintf(stderr, "ranks: rank %d: a %s model does not predict its text\n", tiny_comm_rank(comm), about.arch);
        st = TINY_E_UNSUPPORTED;
    }
    if (!st && run.ladder) {
        route = (unsigned char *)tiny_alloc(ctx, 2 * (size_t)about.n_layer);
        if (route) memset(route, TLLM_ROUTE_LADDER, 2 * (size_t)about.n_layer);
        st = route ? tllm_model_routes(ctx, model, route, 2 * about.n_layer) : TINY_E_MEMORY;
    }
    if (!st && comm) st = tllm_model_cut(ctx, model, tiny_comm_rank(comm), tiny_comm_world(comm));
    if (!st) st = tllm_vocab_open(ctx, file, &vocab);
    if (!st) st = tell_story(ctx, model, vocab, comm, comm && !tiny_comm_rank(comm), t);
    tiny_free(ctx, route);
    tllm_vocab_close(ctx, vocab);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    return st;
}

static tiny_status body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    text t, whole;
    tiny_comm_desc d;
    tiny_comm *comm = NULL;
    int i;
    tiny_status st;
    (void)arg;
    memset(&d, 0, sizeof d);
    d.net = net;
    d.n_most = 1 << 20;
    st = tiny_comm_open(ctx, &d, &comm);
    if (!st) st = text_of(ctx, comm, &t);
    tiny_comm_close(comm);
    if (st || !run.check || net->rank) return st;
    st = text_of(ctx, NULL, &whole);
    for (i = 0; i < t.n && i < whole.n && t.id[i] == whole.id[i]; i++) {}
    if (!st && (i < t.n || i < whole.n)) {
        fprintf(stderr, "ranks: token %d of %d ranks is not that of one rank\n", i, net->world);
        st = TINY_E_NUMERIC;
    } else if (!st) printf("the same %d tokens as one rank\n", t.n);
    return st;
}

int main(int argc, char **argv)
{
    const option options[] = { THE_WORD("model", &run.path),
                               ANY_TEXT("--prompt", &run.prompt),
                               A_WHOLE("--tokens", &run.tokens, 0, CONTEXT),
                               A_FLAG("--ladder", &run.ladder),
                               A_FLAG("--check", &run.check),
                               WORLD_OPTIONS(run.w) };
    run.prompt = "Once upon a time";
    run.w.ranks = 2;
    run.tokens = 40;
    READ_OPTIONS(argc, argv, usage, options);
    return exit_status(world_run(&run.w, body, NULL));
}
