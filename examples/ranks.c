/* examples/ranks.c - one model split over several ranks: threads with slow links, processes over TCP, or mpirun
 *
 *     ranks MODEL.gguf --ranks 2 --ms 1
 *     ranks MODEL.gguf --ranks 2 --ms 1 --ladder
 *     ranks MODEL.gguf --ranks 2 --tcp --share 3,1 --wire f16 --check
 *     ranks MODEL.gguf --ranks 4 --rules --check
 *
 * Each rank computes its share of the heads and networks, and the text is the same as on one rank. With --ladder the
 * model runs as a ladder model. It is faster, but its text differs, because it was not trained as one. Rank 0 chooses
 * the tokens, the others follow. With --rules the layers are cut by rules from names and shapes, and run once over the
 * prompt. cluster.c is the same for several machines. Build with -fopenmp, or with
 * -DTINY_PTHREAD and -pthread. */
#define TINYLLM_WITH_CLUSTER
#define TINYLLM_WITH_RULES                  /* --rules */
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
    "  --rules        run the layers of a GGUF file once over the prompt, cut as cluster rules says\n"
    "  --check        compare the text with that of one rank, or the logits, and fail if they differ\n"
    "  --tokens N     tokens to generate; default: 40\n"
    "  --prompt TEXT  default: \"Once upon a time\"\n";

enum { CONTEXT = 512, BATCH = 64 };
static struct {
    const char *path, *prompt, *share, *wire;
    int ladder, tokens, check, rules, format, differs, n_shares;
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

/* ---- layers cut by rules from names and shapes */

/* the matrices of the file as floats, one array for each tensor; others NULL */
static tiny_status unpack(tiny_ctx *ctx, const tllm_gguf *file, float **weight)
{
    size_t i;
    for (i = 0; i < tllm_gguf_n_tensors(file); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(file, i);
        const tllm_format *f = tllm_format_of(t->type);
        const uint64_t n = t->rank == 2 ? t->dim[0] * t->dim[1] : 0;
        if (!n) continue;
        if (!f || tllm_format_bytes(f, n) != t->bytes) return TINY_OK;      /* the run says that it is missing */
        weight[i] = (float *)tiny_alloc(ctx, (size_t)n * sizeof(float));
        if (!weight[i]) return TINY_E_MEMORY;
        f->unpack(t->data, weight[i], (size_t)n);
    }
    return TINY_OK;
}

/* The same graph on one rank: numbers that differ in the columns of this one */
static tiny_status compare(tiny_ctx *ctx, const tllm_gguf *file, const tllm_shard_desc *plan, size_t width,
                           const float *result, size_t at, size_t size, int64_t *wrong)
{
    tllm_shard_desc d = *plan;
    tllm_rules *whole = NULL;
    tiny_local *local = NULL;
    tiny_coll c;
    float *want = (float *)tiny_alloc(ctx, (d.n_tokens * width + 1) * sizeof *want), most = 0;
    size_t t, i, first, all;
    tiny_status st = want ? tllm_rules_file(ctx, file, 1, &whole) : TINY_E_MEMORY;
    memset(&c, 0, sizeof c);
    if (!st) st = tiny_local_open(ctx, NULL, &local);
    d.rules = whole;
    d.coll = &c;
    if (!st) {
        c.net = tiny_local_net(local, 0);
        c.n_work = tllm_shard_work(&d);
        c.work = tiny_alloc(ctx, c.n_work + 1);
        st = c.work ? tllm_shard_run(ctx, &d, want, &first, &all) : TINY_E_MEMORY;
        c.net->close(c.net);
    }
    for (i = 0; !st && i < d.n_tokens * width; i++) {
        const float v = want[i] < 0 ? -want[i] : want[i];
        if (v > most) most = v;
    }
    for (t = 0; !st && t < d.n_tokens; t++)
        for (i = at; i < at + size; i++) {
            const float off = result[t * width + i] - want[t * width + i];
            *wrong += !((off < 0 ? -off : off) <= 1e-4f * most);
        }
    tiny_free(ctx, c.work);
    tiny_free(ctx, want);
    tiny_local_close(ctx, local);
    tllm_rules_close(ctx, whole);
    return st;
}

static tiny_status rules_body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    enum { NODES = 4000 };
    tllm_shard_node *node = (tllm_shard_node *)tiny_alloc(ctx, NODES * sizeof *node);
    tllm_shard_cost_of cost;
    tllm_shard_desc d;
    tllm_gguf *file = NULL;
    tllm_rules *rules = NULL;
    tllm_vocab *vocab = NULL;
    tllm_tokens prompt;
    tiny_coll c;
    float **weight = NULL, *result = NULL;
    int64_t sum[2] = { 0, 0 }, room[2];
    size_t i, n = 0, width = 0, at = 0, size = 0;
    int r;
    tiny_status st = node ? tllm_file_open(ctx, run.path, &file) : TINY_E_MEMORY;
    (void)arg;
    memset(&d, 0, sizeof d);
    memset(&c, 0, sizeof c);
    memset(&prompt, 0, sizeof prompt);
    if (!st) st = tllm_rules_file(ctx, file, net->world, &rules);
    if (!st) st = tllm_shard_graph(ctx, file, node, NODES, &n);
    if (!st) st = tllm_shard_cost(ctx, rules, node, n, &cost);
    if (!st) st = tllm_vocab_open(ctx, file, &vocab);
    if (!st) st = tllm_encode(ctx, vocab, run.prompt, strlen(run.prompt), TLLM_ENCODE_ENDS, &prompt);
    if (!st) {
        const tllm_rule_tensor *last = tllm_rules_tensor(rules, node[n - 1].tensor);
        width = (size_t)last->dim[node[0].tensor != node[n - 1].tensor];
        weight = (float **)tiny_alloc(ctx, tllm_gguf_n_tensors(file) * sizeof *weight);
        result = (float *)tiny_alloc(ctx, (prompt.n * width + 1) * sizeof *result);
        st = weight && result ? TINY_OK : TINY_E_MEMORY;
    }
    for (i = 0; weight && i < tllm_gguf_n_tensors(file); i++) weight[i] = NULL;
    if (!st) st = unpack(ctx, file, weight);
    d.rules = rules;
    d.node = node;
    d.n_nodes = n;
    d.weight = (const float *const *)weight;
    d.token = prompt.id;
    d.n_tokens = prompt.n;
    d.coll = &c;
    c.net = net;
    c.n_work = tllm_shard_work(&d) + sizeof room;
    c.work = st ? NULL : tiny_alloc(ctx, c.n_work);
    if (!st && !c.work) st = TINY_E_MEMORY;
    for (r = 0; r < net->world; r++) sum[0] -= (int64_t)net->count[r].bytes_sent;
    if (!st) st = tllm_shard_run(ctx, &d, result, &at, &size);
    for (r = 0; r < net->world; r++) sum[0] += (int64_t)net->count[r].bytes_sent;
    if (!st && run.check) st = compare(ctx, file, &d, width, result, at, size, &sum[1]);
    c.type = TINY_COLL_I64;
    c.op = TINY_COLL_SUM;
    if (!st) st = tiny_coll_reduce(ctx, &c, sum, 2, 0);
    if (!st && !net->rank) {
        printf("%zu tokens over %d ranks: each sent %.0f bytes a token, the plan says %.0f\n", prompt.n, net->world,
               (double)sum[0] / net->world / (double)(prompt.n ? prompt.n : 1), cost.bytes);
        if (run.check && sum[1]) printf("%.0f logits are not those of one rank\n", (double)sum[1]);
        else if (run.check) puts("the same logits as on one rank");
        run.differs = sum[1] != 0;
    }
    for (i = 0; weight && i < tllm_gguf_n_tensors(file); i++) tiny_free(ctx, weight[i]);
    tiny_free(ctx, weight);
    tiny_free(ctx, result);
    tiny_free(ctx, c.work);
    tiny_free(ctx, node);
    tllm_tokens_free(ctx, &prompt);
    tllm_vocab_close(ctx, vocab);
    tllm_rules_close(ctx, rules);
    tllm_gguf_close(ctx, file);
    return st;
}

/* ---- a text */

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
                               A_FLAG("--rules", &run.rules),
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
    if (run.rules && (run.ladder || run.share || run.format != TLLM_FORMAT_F32))
        return refused("--rules takes none of --ladder, --share and --wire");
    return exit_status(world_run(&w, run.rules ? rules_body : body, NULL) || run.differs);
}
