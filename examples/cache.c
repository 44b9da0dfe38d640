/* examples/cache.c - writes the keys and values of a text to a small file, from which a model continues
 *
 *     cache profile MODEL.gguf TEXT.txt ... -o TABLES           once for a model: tables of its keys and values
 *     cache save MODEL.gguf "text" -o FILE --tables TABLES      reads the text and writes its keys and values
 *     cache load MODEL.gguf FILE --tables TABLES --n 40         continues the text without computing it again
 *     cache info FILE
 *     cache stream --deadline 1                                 simulates sending a long cache over changing links
 *
 * Without --tables the file contains its own tables, which makes a short file larger. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "cache"
#include "options.h"

static const char usage[] =
    "cache profile MODEL TEXT ... -o TABLES         tables from text files; each line is a text\n"
    "cache save MODEL TEXT -o FILE [--tables TABLES] [--level L] [--chunk N]\n"
    "cache load MODEL FILE [--tables TABLES] [--n N]\n"
    "cache info FILE ...\n"
    "cache stream [--deadline S] [--tokens N] [--numbers N] [--recompute S] [--traces N] [--seed S]\n"
    "  -o FILE          the file that is written: tables, or the cache\n"
    "  --tables TABLES  tables of profile; default: the file contains its own\n"
    "  --level L        1: few bits, 2: default, 3: more bits, 4: 8 bits without differences\n"
    "  --chunk N        tokens of a chunk; default: 1500\n"
    "  --n N            tokens that continue the text; default: 64\n"
    "  --context N      tokens of the context; default: as the file says, at most 4096\n"
    "  --threads N      default: one per processor\n"
    "  --deadline S     seconds to the first token; default: 1\n"
    "  --tokens N       tokens of the text that is sent; default: 9000, in chunks of 1500\n"
    "  --numbers N      numbers of a token in the cache; default: 65536 (32 layers, 8 heads of 128)\n"
    "  --recompute S    seconds to compute a chunk from its text; default: 0.9\n"
    "  --traces N       links, each with speeds between 0.1 and 10 Gbit/s; default: 20\n"
    "  --seed S         seed of these speeds; default: 0\n";

static int failed(const tiny_ctx *ctx)      /* no message twice */
{
    if (*tiny_ctx_message(ctx)) say(tiny_ctx_message(ctx));
    return 1;
}

typedef struct options {
    word_list arg;
    const char *out, *tables;
    int level, chunk, n, context, tokens, numbers, traces;
    uint64_t seed;
    double deadline, recompute;
} options;

static tiny_status open_session(tiny_ctx *ctx, const options *o, tllm_session **s)
{
    tllm_state_desc room;
    memset(&room, 0, sizeof room);
    room.n_ctx = o->context;
    return tllm_session_open(ctx, o->arg.at[0], &room, s);
}

/* the tokens of a text as tllm_generate reads it, without an end token */
static tiny_status hold_text(tiny_ctx *ctx, tllm_session *s, const char *text, size_t n, size_t *held)
{
    tllm_tokens t;
    tiny_status st;
    memset(&t, 0, sizeof t);
    st = tllm_encode(ctx, tllm_session_vocab(s), text, n, TLLM_ENCODE_ENDS, &t);
    if (!st && t.n > 1 && tllm_vocab_adds_eos(tllm_session_vocab(s)) &&
        tllm_vocab_is_end(tllm_session_vocab(s), t.id[t.n - 1]))
        t.n--;
    if (!st && t.n > (size_t)tllm_session_context(s)) t.n = (size_t)tllm_session_context(s);
    if (!st) st = tllm_session_set(s, t.id, t.n, NULL, NULL);
    *held = t.n;
    tllm_tokens_free(ctx, &t);
    return st;
}

static int profile(tiny_ctx *ctx, const options *o)
{
    tllm_kvcodec_profile *p = NULL;
    tllm_kvcodec_tables *t = NULL;
    tllm_session *s = NULL;
    size_t texts = 0, tokens = 0, n;
    tiny_status st = open_session(ctx, o, &s);
    int i;
    if (!st) st = tllm_kvcodec_profile_of(s, &p);
    for (i = 1; i < o->arg.n && !st; i++) {
        size_t at, end, n_text = 0;
        char *text = read_text(o->arg.at[i], MOST_TEXT, 0, &n_text);
        if (!text) st = TINY_E_IO;
        for (at = 0; !st && at < n_text; at = end + 1) {
            for (end = at; end < n_text && text[end] != '\n'; end++) {}
            if (end == at) continue;
            st = hold_text(ctx, s, text + at, end - at, &n);
            if (!st && n) st = tllm_kvcodec_profile_session(p, s);
            texts++;
            tokens += n;
        }
        free(text);
    }
    if (!st) st = tllm_kvcodec_profile_tables(p, &t);
    if (!st) st = tllm_kvcodec_tables_save(ctx, t, o->out);
    if (!st)
        printf("%zu texts, %zu tokens: tables %016llx in %s\n", texts, tokens,
               (unsigned long long)tllm_kvcodec_tables_id(t), o->out);
    tllm_kvcodec_profile_close(p);
    tllm_kvcodec_tables_close(ctx, t);
    tllm_session_close(s);
    return st ? failed(ctx) : 0;
}

static int save(tiny_ctx *ctx, const options *o)
{
    tllm_kvcodec_tables *t = NULL;
    tllm_kvcodec_desc d;
    tllm_session *s = NULL;
    size_t n = 0;
    tiny_status st = open_session(ctx, o, &s);
    memset(&d, 0, sizeof d);
    d.level = o->level;
    d.n_token = o->chunk;
    d.alone = !o->tables;
    if (!st && o->tables) st = tllm_kvcodec_tables_load(ctx, o->tables, &t);
    if (!st) st = hold_text(ctx, s, o->arg.at[1], strlen(o->arg.at[1]), &n);
    if (!st) st = tllm_kvcodec_save(s, t, &d, o->out);
    if (!st && n == (size_t)tllm_session_context(s))
        fprintf(stderr, "cache: the text is longer than the context and was cut: --context N makes room\n");
    tllm_kvcodec_tables_close(ctx, t);
    tllm_session_close(s);
    if (st) return failed(ctx);
    printf("%zu tokens in %s\n", n, o->out);
    return 0;
}

static int print(void *user, const char *text, size_t n)
{
    (void)user;
    return (n && fwrite(text, 1, n, stdout) != n) || fflush(stdout);
}

static int load(tiny_ctx *ctx, const options *o)
{
    tllm_kvcodec_tables *t = NULL;
    tllm_generate_desc how;
    tllm_generate_result made;
    tllm_session *s = NULL;
    int32_t *token = NULL;
    size_t n = 0;
    tiny_status st = open_session(ctx, o, &s);
    memset(&how, 0, sizeof how);
    how.text = print;
    how.n_most = (size_t)o->n;
    if (!st && o->tables) st = tllm_kvcodec_tables_load(ctx, o->tables, &t);
    if (!st) st = tllm_kvcodec_load(s, t, o->arg.at[1]);
    if (!st) {
        const int32_t *held = tllm_session_tokens(s, &n);
        token = (int32_t *)tiny_alloc(ctx, n * sizeof *token);     /* its message has the reason */
        if (!token) st = TINY_E_MEMORY;
        else memcpy(token, held, n * sizeof *token);
    }
    if (!st && how.n_most) {
        st = tllm_generate_tokens(s, token, n, &how, &made);
        if (!st) printf("\n");
    }
    if (!st)
        fprintf(stderr, "%zu tokens were loaded%s\n", n,
                how.n_most ? ", the last of them computed again for what comes next" : "");
    tiny_free(ctx, token);
    tllm_kvcodec_tables_close(ctx, t);
    tllm_session_close(s);
    return st ? failed(ctx) : 0;
}

static int info(tiny_ctx *ctx, const options *o)
{
    int i, bad = 0;
    tiny_idx k;
    for (i = 0; i < o->arg.n; i++) {
        tllm_kvcodec_file f;
        double elements = 0;
        if (tllm_kvcodec_file_open(ctx, o->arg.at[i], &f)) {
            bad = failed(ctx);
            continue;
        }
        for (k = 0; k < f.n_chunk; k++) elements += (double)f.chunk[k].n_element;
        printf("%s: %td tokens, %td chunk%s, %zu bytes, %.3f bits an element (f16: 16)\n", o->arg.at[i], f.n_token,
               f.n_chunk, f.n_chunk == 1 ? "" : "s", f.n_bytes, 8.0 * (double)f.n_bytes / elements);
        for (k = 0; k < f.n_chunk; k++) {
            const tllm_kvcodec_about *a = &f.chunk[k];
            printf("  chunk %lu: tokens %td to %td, level %d, %td layers, %zu bytes: scales %zu, lengths %zu, streams "
                   "%zu, tables %zu%s %016llx\n",
                   (unsigned long)a->chunk, a->first, a->first + a->n_token - 1, a->level, a->n_layer, a->n_bytes,
                   a->scale_bytes, a->length_bytes, a->stream_bytes, a->table_bytes,
                   a->alone ? " inside," : ", from outside,", (unsigned long long)a->tables);
        }
        tllm_kvcodec_file_close(ctx, &f);
    }
    return bad;
}

/* bits an element at the levels 1 to 4, as the synthetic cache of bench/llm/kvcodec.c needs them */
static int stream(tiny_ctx *ctx, const options *o)
{
    static const double bits[TLLM_KVCODEC_LEVELS] = { 2.15, 2.54, 3.47, 6.25 };
    static const struct { const char *name; tllm_kvstream_policy policy; int level;
    } way[] = { { "all that is left", TLLM_KVSTREAM_REST, 0 },
                { "a budget a chunk", TLLM_KVSTREAM_BUDGET, 0 },
                { "level 1", TLLM_KVSTREAM_FIXED, 1 },
                { "level 2", TLLM_KVSTREAM_FIXED, 2 },
                { "level 3", TLLM_KVSTREAM_FIXED, 3 },
                { "8 bits, coded", TLLM_KVSTREAM_FIXED, 4 },
                { "text", TLLM_KVSTREAM_FIXED, 0 } };
    const int n = (o->tokens + 1499) / 1500, traces = o->traces;
    const double all = (double)o->tokens * o->numbers;
    double *trace = (double *)malloc((size_t)n * (3 + TLLM_KVCODEC_LEVELS) * sizeof *trace), *bytes = trace + n,
           *recompute = bytes + n * TLLM_KVCODEC_LEVELS;
    int *choice = (int *)malloc((size_t)n * sizeof *choice), i, k, l, bad = 0;
    size_t w;
    if (!trace || !choice) {
        fputs("cache: there is no memory for the traces\n", stderr);
        free(trace);
        free(choice);
        return 1;
    }
    for (i = 0; i < n; i++) {
        const double tokens = i < n - 1 ? 1500 : o->tokens - 1500.0 * (n - 1);
        recompute[i] = o->recompute * tokens / 1500;
        for (l = 0; l < TLLM_KVCODEC_LEVELS; l++)
            bytes[i * TLLM_KVCODEC_LEVELS + l] = tokens * o->numbers * bits[l] / 8;
    }
    printf("%d chunks, %.1f MB at level 2, %.1f MB at 8 bits; deadline %g s, %d links\n%-18s %8s %12s %10s %8s %14s\n",
           n, all * bits[1] / 8e6, all / 1e6, o->deadline, traces, "policy", "missed", "mean seconds", "mean MB",
           "texts", "mean level");
    for (w = 0; w < sizeof way / sizeof *way && !bad; w++) {
        tiny_rng rng = tiny_rng_make(o->seed, 0);
        tllm_kvstream_desc d;
        tllm_kvstream_result r;
        double seconds = 0, sent = 0, levels = 0;
        long missed = 0, texts = 0;
        memset(&d, 0, sizeof d);
        d.n_chunk = n;
        d.n_level = way[w].level == 4 ? 4 : 3;
        d.bytes = bytes;
        d.recompute = recompute;
        d.deadline = o->deadline;
        d.policy = way[w].policy;
        d.level = way[w].level;
        d.choice = choice;
        for (k = 0; k < traces && !bad; k++) {
            tllm_kvstream_trace(&rng, 0, 0, trace, n);
            if (tllm_kvstream_plan(ctx, &d, trace, &r)) bad = failed(ctx);
            missed += r.missed;
            seconds += r.seconds / traces;
            sent += r.bytes / traces;
            texts += r.n_text;
            for (i = 0; i < n; i++) levels += choice[i];
        }
        if (!bad)
            printf("%-18s %8ld %12.2f %10.1f %8ld %14.2f\n", way[w].name, missed, seconds, sent * 1e-6, texts,
                   (double)n * traces > (double)texts ? levels / ((double)n * traces - (double)texts) : 0);
    }
    free(trace);
    free(choice);
    return bad;
}

int main(int argc, char **argv)
{
    static const struct {
        int (*run)(tiny_ctx *ctx, const options *o);
        int least, most, out;
    } command[] = {
        { profile, 2, 64, 1 }, { save, 2, 2, 1 }, { load, 2, 2, 0 }, { info, 1, 64, 0 }, { stream, 0, 0, 0 }
    };
    static options o;
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    int c = 0, i, bad;
    const option table[] = { A_COMMAND("profile save load info stream", &c),
                             WORDS(&o.arg, 64),
                             A_TEXT("-o", &o.out),
                             A_TEXT("--tables", &o.tables),
                             A_WHOLE("--level", &o.level, 1, TLLM_KVCODEC_LEVELS),
                             A_WHOLE("--chunk", &o.chunk, 1, 1 << 20),
                             A_WHOLE("--n", &o.n, 0, 1e9),
                             A_WHOLE("--context", &o.context, 1, 1e9),
                             A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                             A_NUMBER("--deadline", &o.deadline, 1e-6, 1e6),
                             A_WHOLE("--tokens", &o.tokens, 1, 1e6),
                             A_WHOLE("--numbers", &o.numbers, 1, 1e9),
                             A_NUMBER("--recompute", &o.recompute, 0, 1e6),
                             A_WHOLE("--traces", &o.traces, 1, 1e6),
                             A_SEED("--seed", &o.seed) };
    memset(&desc, 0, sizeof desc);
    o.n = 64;
    o.deadline = 1;
    o.tokens = 9000;
    o.numbers = 65536;
    o.recompute = 0.9;
    o.traces = 20;
    READ_OPTIONS(argc, argv, usage, table);
    if (o.arg.n < command[c].least || o.arg.n > command[c].most)
        return wrong(argv[1], "wrong number of arguments");
    if (command[c].out && !o.out) return wrong("-o", "a value is missing");
    for (i = 0; i < o.arg.n && command[c].out; i++)
        if ((i == 0 || command[c].run == profile) && must_not_write(o.out, 2, o.arg.at[i], o.tables)) return 2;
    desc.cancel = cancelled;                /* files that are not complete are removed then too */
    desc.log = hear;
    desc.user = &ctx;
    stop_on_signals_whole();
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    bad = command[c].run(ctx, &o);
    tiny_ctx_close(ctx);
    return exit_status(bad && stopped_by ? 128 + stopped_by : bad);
}
