/* examples/rotate.c - rotates a model so that no channel is an outlier and few bits lose less (QuaRot)
 *
 *     rotate IN OUT.gguf                  the same function in another basis: any engine runs it
 *     rotate IN OUT.gguf --online         adds rotations at run time: all of QuaRot, for this library only
 *     quantize OUT.gguf SMALL.gguf Q4_0 --gptq --text stories.txt
 *     perplexity SMALL.gguf stories.txt --input-bits 4 --cache-type-k q4_0 --cache-type-v q4_0 */
#define TINYLLM_TOOLS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "rotate"
#include "options.h"

static const char usage[] =
    "rotate IN OUT.gguf [options]      writes IN, a GGUF file or a .bin of llama2.c, rotated; the changed\n"
    "                                  matrices become floats\n"
    "  --online         also rotate at run time: inputs of the last matrix of each network, outputs of the attention\n"
    "                   across its heads, keys. Only this library runs that; the architecture is then named\n"
    "                   rotated-...\n"
    "  --parts LIST     only some of these: feed, heads, keys, separated by commas\n"
    "  --axes           the principal axes of the embedding instead of a Hadamard matrix: then a few channels of the\n"
    "                   stream are far larger than the others, as in large models\n"
    "  --plain-heads    do not rotate value heads\n"
    "  --type TYPE      F32, F16 or BF16 for matrices that change; default: F32\n"
    "  --seed N         seed of the random signs; default: 0\n"
    "  --threads N      default: one per processor\n";

static int shown_percent = -1;
static void tell_progress(void *user, const char *what, double done)
{
    const int percent = (int)(100.0 * done);
    (void)user;
    if (strcmp(what, "rotate") != 0 || percent == shown_percent || !is_shown()) return;
    shown_percent = percent;
    fprintf(stderr, "\r%3d %%", percent);
    (void)fflush(stderr);
}

/* "feed,keys": 5; -1: an unknown word */
static int parts_of(const char *list)
{
    static const char *const name[3] = { "feed", "heads", "keys" };
    int parts = 0, k;
    while (*list) {
        const size_t n = strcspn(list, ",");
        for (k = 0; k < 3 && (strlen(name[k]) != n || memcmp(name[k], list, n) != 0); k++) {}
        if (k == 3) return -1;
        parts |= 1 << k;
        list += n + (list[n] == ',');
    }
    return parts;
}

int main(int argc, char **argv)
{
    const char *in = NULL, *out = NULL, *type = NULL, *list = NULL;
    int online = 0, plain_heads = 0, parts = 0;
    tiny_ctx_desc desc;
    tllm_rotated_desc d;
    tllm_rotated_about a;
    tllm_writer_desc wd;
    const option options[] = {
        THE_WORD("IN", &in),      A_WORD("OUT.gguf", &out),  A_FLAG("--online", &online),
        A_TEXT("--parts", &list), A_FLAG("--axes", &d.axes), A_FLAG("--plain-heads", &plain_heads),
        A_TEXT("--type", &type),  A_SEED("--seed", &d.seed), A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS)
    };
    tiny_ctx *ctx = NULL;
    tllm_gguf *g = NULL;
    tllm_rotated *r = NULL;
    tllm_writer *w = NULL;
    tiny_status st;
    memset(&desc, 0, sizeof desc);
    memset(&d, 0, sizeof d);
    memset(&wd, 0, sizeof wd);
    READ_OPTIONS(argc, argv, usage, options);
    if (!out) return wrong("OUT.gguf", "a name for the rotated model is needed");
    if (must_not_write(out, 1, in)) return 2;
    if (list && (parts = parts_of(list)) < 0) return wrong("--parts", list);
    if (type) {
        const tllm_format *f = tllm_format_by_name(type);
        if (!f || !(f->flags & TLLM_FORMAT_PLAIN) || !f->pack) return wrong("--type", type);
        d.format = f->id;
    }
    d.online = list ? (unsigned)parts : online ? TLLM_ROTATE_ALL : 0u;
    d.no_heads = plain_heads;
    desc.log = hear;
    desc.progress = tell_progress;
    desc.cancel = cancelled;                /* OUT.part is removed then too */
    desc.user = &ctx;
    stop_on_signals_whole();
    st = tiny_ctx_open(&desc, &ctx);
    if (!st) st = tllm_file_open(ctx, in, &g);
    if (!st) st = tllm_rotated_open(ctx, g, &d, &r);
    wd.path = out;
    if (!st) st = tllm_writer_open(ctx, &wd, &w);
    if (!st) st = tllm_rotated_put(ctx, r, w);
    if (!st) st = tllm_writer_finish(ctx, w);
    if (shown_percent >= 0) fprintf(stderr, "\r");
    if (!st) {
        a = tllm_rotated_what(r);
        printf("%s: %lu tensors in another basis; the stream of %ld in blocks of %ld", out, (unsigned long)a.tensors,
               (long)a.n_embd, (long)a.block);
        if (a.head_block) printf(", value heads of %ld", (long)a.head_block);
        if (a.feed_block) printf(", networks of %ld", (long)a.feed_block);
        printf("%s\n", d.online ? "; for this library only" : "");
        if (a.untied) printf("the embedding also gave the logits: output.weight is new\n");
        if (a.heads && !d.no_heads) printf("value heads are not rotated: %s\n", a.heads);
    } else if (stopped_by) say("stopped; nothing was written");
    else if (ctx) say(tiny_ctx_message(ctx));
    tllm_writer_close(ctx, w);
    tllm_rotated_close(ctx, r);
    tllm_gguf_close(ctx, g);
    tiny_ctx_close(ctx);
    return exit_status(st && stopped_by ? 128 + stopped_by : st != TINY_OK);
}
