/* examples/cluster.c - one model over several machines, which prove to each other that they know a key
 *
 *     cluster key home.key                                         once; copy the file to every machine
 *     cluster worker MODEL.gguf 192.168.1.5:29500 --key home.key   on each of the others
 *     cluster master MODEL.gguf "Once upon a time" --key home.key --listen 192.168.1.5:29500 --ranks 2
 *     cluster plan MODEL.gguf --ranks 4 --ms 0.3 --mbit 940        what a token costs, without computing one
 *     cluster rules MODEL.safetensors --ranks 4                    how a model of any architecture can be cut
 *
 * Every machine reads its share of the weights only, and computes with it. A worker without the model file, cluster
 * worker 192.168.1.5:29500 --key home.key, gets its part from the master. Once a second each rank prints a line to
 * standard error: for each rank the time of computing and waiting, the bytes and messages of a token, and its memory.
 * Nothing on the wire is secret: see docs/guide/cluster.md. */
#define TINYLLM_WITH_CLUSTER
#define TINYLLM_WITH_RULES
#define TINYLLM_WITH_HALDA
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "cluster"
#include "options.h"
#include "devices.h"
#include "join.h"

static const char usage[] =
    "cluster key FILE                                            makes a key of 32 random bytes\n"
    "cluster master MODEL [PROMPT | -] --key FILE [options]      -: prompt from standard input\n"
    "cluster worker MODEL MASTER:PORT --key FILE [options]       computes its share for that master\n"
    "cluster worker MASTER:PORT --key FILE [options]             the same without the model file\n"
    "cluster plan MODEL [options]                                what a token costs, before anything is connected\n"
    "cluster rules MODEL [--ranks N]                             how a model of any architecture can be cut\n"
    "  --key FILE       the file that cluster key wrote, the same on all machines\n"
    "  --ranks N        processes, that of the master included; default: 2\n"
    "  --share S        even (the default), measured, or a number for each rank, the master first, such as 3,1\n"
    "master:\n"
    "  --listen A:P     where the others connect to; default: 127.0.0.1:29500, this machine only\n"
    "  --n N            at most this many tokens; default: 256\n"
    "  --temp T         temperature; default: 0, always the most probable token\n"
    "  --top-k K        draw from the K most probable tokens\n"
    "  --top-p P        draw from the fewest tokens whose probabilities reach P\n"
    "  --min-p P        drop tokens less probable than P times the best one; with --temp the default is 0.05\n"
    "  --repeat R       penalty for repeating one of the last 64 tokens; 1: none\n"
    "  --seed S         seed of the random numbers; default: 0\n"
    "  --context N      tokens of the context; default: as the file says, at most 4096\n"
    "  --echo           print the prompt too\n"
    "  --plain          add nothing before the prompt\n"
    "  --policy P       when a worker is lost: fail, the default, or replan: go on with those that are left\n"
    "  --audit N        recompute a network of a worker every N tokens, and end the run if it is another; default: 0\n"
    "  --hide-tokens    workers get the embedding of a token instead of its number: one more sum a token\n"
    "  --no-slices      workers without the model file are refused\n"
    "worker:\n"
    "  --fetch FOLDER   no model file: this worker's part comes from the master, and stays in that folder; default:\n"
    "                   tinyllm in XDG_CACHE_HOME, or else in ~/.cache\n"
    "master and worker:\n"
    "  --wire W         how numbers travel: f32, f16 or q8, the same on all machines; default: f32\n"
    "  --wait S         seconds to wait for the others at the start; default: 60\n"
    "  --timeout S      seconds that a rank may take for a step; default: 10\n"
    "  --no-mac         messages are not authenticated; refused unless all ranks are on this machine\n"
    "  --repack         repack this rank's weights at the start: faster, and needs memory for a copy of them\n"
    "  --threads N      default: one per processor\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n"
    "  --quiet          no line a second\n"
    "  --stats          at the end, a table: time, bytes, messages and memory of each rank\n"
    "plan:\n"
    "  --ms X           milliseconds that a message takes between two machines; default: 0.1\n"
    "  --mbit X         megabits a second of the line; default: 1000\n"
    "  --devices TABLE  which layers each device of a table should compute in a ring (see examples/devices.h)\n";

#include "cluster.h"

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static int is_cut(tllm_text name)           /* a matrix of which a rank has its share only */
{
    static const char *const part[] = { ".attn_q", ".attn_k", ".attn_v", ".attn_output.", ".attn_qkv",
                                        ".ffn_gate.", ".ffn_up.", ".ffn_down." };
    size_t i, k;
    if (name.n < 4 || memcmp(name.at, "blk.", 4)) return 0;
    for (i = 0; i < sizeof part / sizeof part[0]; i++)
        for (k = 4; k + strlen(part[i]) <= name.n; k++) if (!memcmp(name.at + k, part[i], strlen(part[i]))) return 1;
    return 0;
}
static tiny_status plan(tiny_ctx *ctx)
{
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_about about;
    double cut = 0, whole = 0;
    tiny_coll_line line;
    int p, way = TINY_COMM_STAR;
    size_t i;
    tiny_status st = tllm_file_open(ctx, run.path, &file);
    memset(&about, 0, sizeof about);
    if (!st) st = tllm_model_open(ctx, file, &model);
    if (!st) tllm_model_about(model, &about);
    for (i = 0; !st && i < tllm_gguf_n_tensors(file); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(file, i);
        if (is_cut(t->name)) cut += (double)t->bytes;
        else whole += (double)t->bytes;
    }
    line.latency = 1e-3 * run.ms;
    line.byte = run.mbit > 0 ? 8e-6 / run.mbit : 0;
    line.add = 0;
    if (!st)
        printf("%s: %td layers, width %td. A token has %td sums of %td bytes, and one of %d.\n\n"
               "ranks  weights a rank   messages   sent by rank 0   waiting a token\n",
               about.arch, about.n_layer, about.n_embd, 2 * about.n_layer, 4 * about.n_embd, 4 * (4 + BATCH));
    for (p = 1; p <= run.ranks && !st; p++) {
        const double sums = 2.0 * (double)about.n_layer, bytes = 4.0 * (double)about.n_embd,
                     small = 4.0 * (4 + BATCH + 5 * p);
        if (p == 2) way = TINY_COMM_DIRECT;
        if (p > 2) way = TINY_COMM_STAR;
        printf("%5d  %11.1f MB  %9.0f  %11.1f KB  %12.2f ms\n", p, 1e-6 * (whole + cut / p),
               p > 1 ? (sums + 1) * (p == 2 ? 2 : 2 * (p - 1)) : 0, 1e-3 * (p - 1) * (sums * bytes + small),
               1e3 * (sums * tiny_coll_cost(TINY_COST_ALLREDUCE + way, p, bytes, &line) +
                      tiny_coll_cost(TINY_COST_ALLREDUCE + way, p, small, &line)));
    }
    if (!st && run.ranks > 1) {
        st = tllm_model_cut_by(ctx, model, 0, run.ranks, run.shares);
        if (st) printf("\nBut it cannot be cut for %d ranks: %s\n", run.ranks, tiny_ctx_message(ctx));
        st = TINY_OK;
    } else if (st) say(tiny_ctx_message(ctx));
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    return st;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static tiny_status rules(tiny_ctx *ctx)
{
    tllm_gguf *file = NULL;
    tllm_rules *found = NULL;
    tllm_shard_node *node = (tllm_shard_node *)need(malloc(TLLM_SHARD_MOST * sizeof *node));
    tllm_shard_cost_of cost, hand;
    double whole = 0, cut = 0;
    size_t i, n = 0;
    tiny_status st = tllm_file_open(ctx, run.path, &file);
    if (!st) st = tllm_rules_file(ctx, file, run.ranks, &found);
    for (i = 0; !st && i < tllm_rules_tensors(found); i++) {
        const double bytes = (double)tllm_gguf_tensor_at(file, i)->bytes;
        if (tllm_rules_dim(found, i) < 0) whole += bytes;
        else cut += bytes / run.ranks;
    }
    if (!st) printf("%d ranks, %.1f MB a rank\n\n", run.ranks, 1e-6 * (whole + cut));
    for (i = 0; !st && i < tllm_rules_count(found); i++) {
        const tllm_rule *r = tllm_rules_at(found, i);
        char key[80], how[24];
        (void)tiny_plain(key, sizeof key, r->key.at, r->key.n);
        (void)snprintf(how, sizeof how, "dimension %d", r->dim);
        printf("%-30s %4zu tensors  %-11s  %s\n", key, r->n_tensors,
               r->dim < 0 ? "whole" : r->dim == 0 ? "rows" : r->dim == 1 ? "columns" : how, r->why);
    }
    if (!st && tllm_shard_graph(ctx, file, node, TLLM_SHARD_MOST, &n) == TINY_OK) {
        st = tllm_shard_cost(ctx, found, node, n, &cost);
        if (!st) st = tllm_shard_by_hand(ctx, found, node, n);
        if (!st) st = tllm_shard_cost(ctx, found, node, n, &hand);
        if (!st)
            printf("\nA rank sends %.1f KB a token (%zu sums, %zu times parts collected); by a plan by hand %.1f KB.\n",
                   1e-3 * cost.bytes, cost.n_sums, cost.n_collected, 1e-3 * hand.bytes);
    } else if (!st) printf("\nWhat a token costs is not known: %s\n", tiny_ctx_message(ctx));
    if (st) say(tiny_ctx_message(ctx));
    tllm_rules_close(ctx, found);
    tllm_gguf_close(ctx, file);
    free(node);
    return st;
}

int main(int argc, char **argv)
{
    static tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    char *owned = NULL;
    const char *prompt = "";
    size_t n_prompt = 0;
    tiny_status st;
    const option options[] = { A_COMMAND("key master worker plan rules", &run.command),
                               THE_WORD("file", &run.path),
                               A_WORD("prompt or address", &run.word),
                               A_TEXT("mw --key", &run.key),
                               A_TEXT("m --listen", &run.listen),
                               A_WHOLE("mpr --ranks", &run.ranks, 1, TINY_NET_RANKS),
                               A_WHOLE("m --n", &run.n, 0, 1e9),
                               A_NUMBER("m --temp", &run.temp, 0, 100),
                               A_WHOLE("m --top-k", &run.top_k, 0, 1e9),
                               A_NUMBER("m --top-p", &run.top_p, 0, 1),
                               A_NUMBER("m --min-p", &run.min_p, 0, 1),
                               A_NUMBER("m --repeat", &run.repeat, 0.01, 100),
                               A_SEED("m --seed", &run.seed),
                               A_WHOLE("m --context", &run.context, 2, 1e7),
                               A_FLAG("m --echo", &run.echo),
                               A_FLAG("m --plain", &run.plain),
                               A_NUMBER("mw --wait", &run.wait, 0, 1e6),
                               A_NUMBER("mw --timeout", &run.timeout, 0.01, 1e6),
                               A_FLAG("mw --no-mac", &run.no_mac),
                               A_FLAG("mw --quiet", &run.quiet),
                               A_FLAG("mw --stats", &run.stats),
                               A_TEXT("mp --share", &run.share),
                               A_TEXT("mw --wire", &run.wire),
                               A_TEXT("m --policy", &run.policy),
                               A_WHOLE("m --audit", &run.audit, 0, 1e9),
                               A_FLAG("m --no-slices", &run.no_slices),
                               A_FLAG("m --hide-tokens", &run.hide),
                               A_FLAG("mw --repack", &run.repack),
                               A_TEXT("w --fetch", &run.folder),
                               A_NUMBER("p --ms", &run.ms, 0, 1e6),
                               A_NUMBER("p --mbit", &run.mbit, 0, 1e9),
                               A_TEXT("p --devices", &run.devices),
                               A_WHOLE("mwp --threads", &cd.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("mwp --target", &cd.target) };
    run.ranks = 2;
    run.n = 256;
    run.top_p = run.min_p = -1;
    run.listen = "127.0.0.1:29500";
    run.share = "even";
    run.wire = "f32";
    run.policy = "fail";
    run.wait = 60;
    run.timeout = 10;
    run.ms = 0.1;
    run.mbit = 1000;
    READ_OPTIONS(argc, argv, usage, options);
    if (run.command == KEY) return exit_status(make_key(run.path));
    if (run.command == WORKER && run.folder && run.word)
        return refused("%s: with --fetch a worker takes no model", run.path);
    if (run.command == WORKER && !run.word) {           /* one word only: the address */
        FILE *f = run.folder ? NULL : fopen(run.path, "rb");
        if (f) (void)fclose(f);
        if (f || !strchr(run.path, ':')) return refused("%s: the address of the master is missing", run.path);
        run.word = run.path;
        run.path = NULL;
        if (find_folder()) return 1;
    }
    if (run.command >= PLAN && run.word)
        return refused("%s: %s takes a model only", run.word, run.command == PLAN ? "plan" : "rules");
    if (!read_words()) return 2;
    if (run.command == MASTER && run.word && !strcmp(run.word, "-")) {
        prompt = owned = read_text("-", MOST_TEXT, 0, &n_prompt);
        if (!owned) return 1;
    } else if (run.command == MASTER && run.word) {
        prompt = run.word;
        n_prompt = strlen(prompt);
    }
    cd.cancel = cancelled;
    cd.progress = show_progress;
    cd.log = hear;
    cd.user = &ctx;
    stop_on_signals();
    st = tiny_ctx_open(&cd, &ctx);
    if (!st && run.command == PLAN && run.devices)
        st = devices_plan(ctx, run.path, run.devices, 512, run.ms, run.mbit, NULL);
    else if (!st)
        st = run.command == PLAN    ? plan(ctx)
             : run.command == RULES ? rules(ctx)
                                    : take_part(ctx, prompt, n_prompt);
    tiny_ctx_close(ctx);
    free(owned);
    return exit_status(stopped_by ? 128 + stopped_by : st != TINY_OK);
}
