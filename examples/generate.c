/* examples/generate.c - text from a model file
 *
 *     generate MODEL.gguf "Once upon a time" --n 200 --temp 0.8 --seed 1
 *
 * The text goes to standard output as it comes; the count of tokens and the speed to standard error with --stats.           */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "generate MODEL [PROMPT | -] [options]          the prompt -: standard input; none: the model's own beginning\n"
    "  --n N            tokens at most; 256 without this, 0: until the model or the context ends\n"
    "  --temp T         temperature; 0, the default, takes the most probable token always\n"
    "  --top-k K        draw from the K most probable\n"
    "  --top-p P        draw from the fewest whose probabilities reach P\n"
    "  --min-p P        drop what is less probable than P times the best; 0.05 when a temperature is given\n"
    "  --repeat R       penalty on the last 64 tokens; 1: none\n"
    "  --seed S         of the draws; 0 without this\n"
    "  --stop TEXT      ends before this text; may be given up to 8 times\n"
    "  --grammar FILE   the text follows this grammar (GBNF, its rule root)\n"
    "  --schema FILE    the text is JSON that follows this schema\n"
    "  --context N      tokens that there is room for; as the file says, at most 4096, without this\n"
    "  --beams N        instead of drawing: the most probable text that a search of N side by side finds\n"
    "  --parallel N     N texts, drawn side by side, at temperature 0.8 without --temp; the prompt is read once\n"
    "  --cache-type-k T keys are kept as f32, f16, q8_0 or q4_0; f32 without this\n"
    "  --cache-type-v T the same for values\n"
    "  --load-session F go on from a text that --save-session kept: the prompt stands behind it\n"
    "  --save-session F keep the text, and what the model keeps of it, in a file\n"
    "  --shift          forget the older half when the context is full, instead of ending\n"
    "  --echo           print the prompt too\n"
    "  --plain          nothing is added in front of the prompt\n"
    "  --lora FILE[=S]  a LoRA adapter, times S (1 without); up to 8 of these and of control vectors\n"
    "  --lora-merge     adapters are merged into the weights they touch, instead of computed beside them\n"
    "  --control-vector FILE[=S]   a control vector, times S\n"
    "  --control-layers A-B        layers that control vectors change; all but the first without this\n"
    "  --sparse         networks with squared ReLU read only what the neurons that fired write (a second copy of a matrix a layer)\n"
    "  --threads N      one per processor without this\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx, reference; the best one without this\n"
    "  --stats          tokens and seconds, on standard error\n";

static volatile sig_atomic_t interrupted;
static char last_byte = '\n';               /* of the text: an error begins a line of its own */
static void on_interrupt(int signal_number) { (void)signal_number; interrupted = 1; }
static int cancelled(void *user) { (void)user; return interrupted; }
static int print(void *user, const char *text, size_t n)
{
    (void)user;
    if (n) last_byte = text[n - 1];
    return fwrite(text, 1, n, stdout) != n || fflush(stdout);
}

/* why no context was opened; what comes later stands in its message */
static void say(void *user, tiny_log_level level, const char *sentence)
{
    if (level == TINY_LOG_ERROR && !*(tiny_ctx **)user) fprintf(stderr, "generate: %s\n", sentence);
}

static char *read_all(size_t *n)
{
    size_t room = 4096;
    char *text = (char *)malloc(room), *more;
    *n = 0;
    while (text && (*n += fread(text + *n, 1, room - *n, stdin)) == room) {
        more = (char *)realloc(text, room *= 2);
        if (!more) free(text);
        text = more;
    }
    return text;
}

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "generate: %s: %s\ngenerate --help tells more\n", what, value ? value : "a value is missing");
    return 2;
}
typedef struct number { const char *name; double low, high, *to; int fraction, given; } number;
/* a number that the option does not take */
static int outside(const number *o, const char *value)
{
    if (!value) return wrong(o->name, NULL);
    fprintf(stderr, "generate: %s takes a %snumber from %.16g to %.16g, not %s\ngenerate --help tells more\n", o->name, o->fraction ? "" : "whole ", o->low, o->high, value);
    return 2;
}
static int read_number(const char *text, number *o)
{
    char *end;
    if (!text) return 0;
    *o->to = strtod(text, &end);
    o->given = 1;
    return end != text && !text[strspn(text, "0123456789.eE+-")] && *o->to >= o->low && *o->to <= o->high && (o->fraction || *o->to == floor(*o->to));
}

/* --lora and --control-vector: FILE or FILE=SCALE */
typedef struct extra { const char *path; double scale; tllm_adapter *a; } extra;
static int read_extra(char *text, extra *e)
{
    char *cut = text ? strrchr(text, '=') : NULL, *end;
    memset(e, 0, sizeof *e);
    e->path = text;
    e->scale = 1;
    if (!text || !*text) return 0;
    if (cut) {
        e->scale = strtod(cut + 1, &end);
        if (end == cut + 1 || *end || !(e->scale >= -1e6 && e->scale <= 1e6)) return 0;
        *cut = 0;
    }
    return 1;
}
static int read_layers(const char *text, tiny_idx *first, tiny_idx *last)
{
    long a, b;
    char rest;
    if (!text || sscanf(text, "%ld-%ld%c", &a, &b, &rest) != 2 || a < 1 || b < a || b > 1000000) return 0;
    *first = a;
    *last = b;
    return 1;
}
static tiny_status adapt(tiny_ctx *ctx, tllm_session *s, extra *e, size_t n, int merge, tiny_idx first, tiny_idx last)
{
    tiny_status st = TINY_OK;
    tllm_adapter_about about;
    size_t i;
    for (i = 0; i < n && !st; i++) {
        st = tllm_adapter_load(ctx, tllm_session_model(s), e[i].path, &e[i].a);
        tllm_adapter_tell(e[i].a, &about);
        if (!st && first && about.kind == TLLM_ADAPTER_VECTOR) st = tllm_adapter_layers(ctx, e[i].a, first, last);
        if (st) break;
        st = merge && about.kind == TLLM_ADAPTER_LORA ? tllm_session_merge(s, e[i].a, (float)e[i].scale, TINY_F32) : tllm_session_attach(s, e[i].a, (float)e[i].scale);
    }
    return st;
}

/* The tokens to go on from: what the session holds, and the prompt behind it. */
static tiny_status tokens_of(tiny_ctx *ctx, tllm_session *s, const char *prompt, size_t n_prompt, int plain, tllm_tokens *out)
{
    size_t held = 0, i;
    const int32_t *token = tllm_session_tokens(s, &held);
    tllm_tokens more;
    tiny_status st = TINY_OK;
    memset(&more, 0, sizeof more);
    if (!held || n_prompt) st = tllm_encode(ctx, tllm_session_vocab(s), prompt, n_prompt, held || plain ? 0u : (unsigned)TLLM_ENCODE_ENDS, &more);
    if (!held && tllm_vocab_adds_eos(tllm_session_vocab(s)) && more.n > 1 && tllm_vocab_is_end(tllm_session_vocab(s), more.id[more.n - 1])) {
        tllm_about about;
        tllm_model_about(tllm_session_model(s), &about);
        if (!about.has_decoder) more.n--;   /* as tllm_generate does */
    }
    out->n = held + more.n;
    out->id = (int32_t *)malloc((out->n + 1) * sizeof *out->id);
    if (!out->id) {
        tllm_tokens_free(ctx, &more);
        return TINY_E_MEMORY;
    }
    for (i = 0; i < held; i++) out->id[i] = token[i];
    for (i = 0; i < more.n; i++) out->id[held + i] = more.id[i];
    tllm_tokens_free(ctx, &more);
    if (!st && !out->n && tllm_vocab_special(tllm_session_vocab(s), TLLM_BOS) >= 0) {
        out->id[0] = tllm_vocab_special(tllm_session_vocab(s), TLLM_BOS);      /* there is room for one more */
        out->n = 1;
    }
    return st;
}

/* Texts side by side: the best of a search, or n that were drawn. They end where the context does. */
static tiny_status side_by_side(tiny_ctx *ctx, tllm_session *s, const tllm_tokens *t, size_t beams, size_t texts, const tllm_generate_desc *how)
{
    const size_t n = beams ? 1 : texts, room = (size_t)tllm_session_context(s);
    tllm_continuation *out = (tllm_continuation *)calloc(n, sizeof *out);
    tllm_beam_desc b;
    tllm_parallel_desc p;
    tllm_about about;
    size_t found = n, most, i;
    tiny_status st;
    if (!out) return TINY_E_MEMORY;
    tllm_model_about(tllm_session_model(s), &about);
    most = about.has_decoder ? room - 1 : t->n < room ? room - t->n : 1;    /* a decoder begins with one token; one too many: the search says it */
    if (how->n_most && how->n_most < most) most = how->n_most;
    memset(&b, 0, sizeof b);
    memset(&p, 0, sizeof p);
    b.width = beams;
    b.n_most = most;
    b.length_penalty = 1.0;
    p.n_texts = texts;
    p.n_most = most;
    p.chain = how->chain;
    p.n_steps = how->n_steps;
    p.seed = how->seed;
    st = beams ? tllm_beam(s, t->id, t->n, &b, out, &found) : tllm_parallel(s, t->id, t->n, &p, out);
    for (i = 0; i < found && !st; i++) {
        tllm_bytes text;
        memset(&text, 0, sizeof text);
        st = tllm_decode(ctx, tllm_session_vocab(s), out[i].token, out[i].n, 0, &text);
        if (!st && !i && last_byte != '\n') putchar('\n');  /* behind --echo */
        if (!st && n > 1) printf("--- %zu of %zu\n", i + 1, n);
        if (!st) (void)print(NULL, text.at, text.n);
        if (!st && i + 1 < found) putchar('\n');
        tllm_bytes_free(ctx, &text);
    }
    tllm_continuations_free(ctx, out, found);
    free(out);
    return st;
}

/* Can a file be made where --save-session wants it? Asked before a text is made, with another name: what stands there stays. */
static tiny_status can_save(tiny_ctx *ctx, const char *path)
{
    const size_t n = strlen(path);
    char *other;
    FILE *there;
    tiny_status st = TINY_OK;
    if (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6)) return TINY_OK;      /* a device or a pipe has no neighbours */
    other = (char *)tiny_alloc(ctx, n + sizeof ".try");
    if (!other) return TINY_E_MEMORY;
    memcpy(other, path, n);
    memcpy(other + n, ".try", sizeof ".try");
    there = fopen(other, "rb");             /* somebody's: nothing is tried */
    if (there) (void)fclose(there);
    else {
        st = tiny_file_write(ctx, other, "", 0);
        if (!st) (void)remove(other);
    }
    tiny_free(ctx, other);
    return st;
}

int main(int argc, char **argv)
{
    const char *save = NULL, *load = NULL;
    double beams = 0, parallel = 0;
    tllm_tokens all;
    const char *path = NULL, *prompt = NULL, *stop[8], *rules = NULL, *schema = NULL;
    double n = 256, temp = -1, top_k = 0, top_p = 1, min_p = -1, repeat = 1, seed = 0, context = 0, threads = 0;
    int echo = 0, stats = 0, merge = 0, sparse = 0, i;
    tiny_idx first = 0, last = 0;
    extra extras[8];
    size_t n_extra = 0;
    size_t n_prompt = 0, n_stop = 0, n_steps = 0;
    char *owned = NULL;
    tiny_ctx_desc ctx_desc;
    tllm_state_desc room;
    tllm_generate_desc how;
    tllm_generate_result result;
    tllm_session *session = NULL;
    tllm_step chain[5];
    tllm_grammar *grammar = NULL;
    tiny_file rule_file;
    char *rule_text = NULL;
    tiny_ctx *ctx = NULL;
    tiny_status st;
    number numbers[] = {
        { "--n", 0, 1e9, &n, 0, 0 }, { "--temp", 0, 100, &temp, 1, 0 }, { "--top-k", 0, 1e9, &top_k, 0, 0 }, { "--top-p", 0, 1, &top_p, 1, 0 }, { "--min-p", 0, 1, &min_p, 1, 0 },
        { "--repeat", 0.01, 100, &repeat, 1, 0 }, { "--seed", 0, 9e15, &seed, 0, 0 }, { "--context", 1, 1e9, &context, 0, 0 }, { "--threads", 1, TINY_MAX_THREADS, &threads, 0, 0 },
        { "--beams", 1, 4096, &beams, 0, 0 }, { "--parallel", 1, 4096, &parallel, 0, 0 },
    };
    memset(&ctx_desc, 0, sizeof ctx_desc);
    memset(&room, 0, sizeof room);
    memset(&all, 0, sizeof all);
    memset(&how, 0, sizeof how);
    memset(&result, 0, sizeof result);
    memset(&rule_file, 0, sizeof rule_file);
    for (i = 1; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        size_t k;
        for (k = 0; k < sizeof numbers / sizeof *numbers && strcmp(a, numbers[k].name) != 0; k++) {}
        if (k < sizeof numbers / sizeof *numbers) {
            if (!read_number(value, &numbers[k])) return outside(&numbers[k], value);
            i++;
        } else if (!strcmp(a, "--help") || !strcmp(a, "-h")) return fputs(usage, stdout) < 0;
        else if (!strcmp(a, "--stop")) {
            if (!value || !*value || n_stop == 8) return wrong(a, value);
            stop[n_stop++] = value;
            i++;
        } else if (!strcmp(a, "--grammar") || !strcmp(a, "--schema")) {
            if (!value) return wrong(a, value);
            *(a[2] == 'g' ? &rules : &schema) = value;
            i++;
        } else if (!strcmp(a, "--save-session") || !strcmp(a, "--load-session")) {
            if (!value) return wrong(a, value);
            *(a[2] == 's' ? &save : &load) = value;
            i++;
        } else if (!strcmp(a, "--cache-type-k") || !strcmp(a, "--cache-type-v")) {
            const tllm_format *f = tllm_format_by_name(value);
            if (!f) return wrong(a, value);
            *(a[13] == 'k' ? &room.type_k : &room.type_v) = f->id;
            i++;
        } else if (!strcmp(a, "--target")) {
            ctx_desc.target = value ? tiny_target_by_name(value) : TINY_TARGET_COUNT;
            if (ctx_desc.target == TINY_TARGET_COUNT) return wrong(a, value);
            i++;
        } else if (!strcmp(a, "--lora") || !strcmp(a, "--control-vector")) {
            if (n_extra == 8 || !read_extra(i + 1 < argc ? argv[i + 1] : NULL, &extras[n_extra])) return wrong(a, value);
            n_extra++;
            i++;
        } else if (!strcmp(a, "--control-layers")) {
            if (!read_layers(value, &first, &last)) return wrong(a, value);
            i++;
        } else if (!strcmp(a, "--lora-merge")) merge = 1;
        else if (!strcmp(a, "--shift")) how.shift = 1;
        else if (!strcmp(a, "--echo")) echo = 1;
        else if (!strcmp(a, "--plain")) how.plain = 1;
        else if (!strcmp(a, "--stats")) stats = 1;
        else if (!strcmp(a, "--sparse")) sparse = 1;
        else if (a[0] == '-' && a[1]) return wrong("unknown option", a);
        else if (!path) path = a;
        else if (!prompt) prompt = a;
        else return wrong("a second prompt", a);
    }
    if (!path) {
        fputs(usage, stderr);
        return 2;
    }
    if (beams > 0 && parallel > 0) return wrong("--beams and --parallel", "one of them");
    if (rules && schema) return wrong("--grammar and --schema", "one of them");
    if (beams > 0 || parallel > 0) {        /* what is for a text that is drawn alone, or drawn at all */
        const char *with = beams > 0 ? "--beams" : "--parallel";
        const char *alone = save ? "--save-session" : rules ? "--grammar" : schema ? "--schema" : n_stop ? "--stop" : how.shift ? "--shift" : stats ? "--stats" : NULL;
        size_t k;
        for (k = 1; k < 7 && beams > 0 && !alone; k++)      /* --temp to --seed: a search draws nothing */
            if (numbers[k].given) alone = numbers[k].name;
        if (alone) {
            fprintf(stderr, "generate: %s does nothing with %s\ngenerate --help tells more\n", alone, with);
            return 2;
        }
        if (parallel > 1 && temp == 0) return wrong("--parallel", "at temperature 0 all texts are the same");
        if (temp < 0 && parallel > 0) temp = 0.8;
    }
    if (prompt && !strcmp(prompt, "-")) {
        prompt = owned = read_all(&n_prompt);
        if (!owned) return fputs("generate: there is no memory for the prompt\n", stderr), 1;
    } else if (prompt) n_prompt = strlen(prompt);
    else prompt = "";

    if (repeat != 1) chain[n_steps++] = tllm_step_penalties(64, (float)repeat, 0.0f, 0.0f);
    if (temp > 0) {
        if (top_k > 0) chain[n_steps++] = tllm_step_top_k((int32_t)top_k);
        if (top_p < 1) chain[n_steps++] = tllm_step_top_p((float)top_p);
        chain[n_steps++] = tllm_step_min_p((float)(min_p < 0 ? 0.05 : min_p));
        chain[n_steps++] = tllm_step_temperature((float)temp);
    } else chain[n_steps++] = tllm_step_greedy();
    ctx_desc.n_threads = (int)threads;
    ctx_desc.cancel = cancelled;
    ctx_desc.log = say;
    ctx_desc.user = &ctx;
    room.n_ctx = (tiny_idx)context;
    room.n_seq = (tiny_idx)(beams > parallel ? beams : parallel);
    how.chain = chain;
    how.n_steps = n_steps;
    how.seed = (uint64_t)seed;
    how.n_most = (size_t)n;
    how.stop = stop;
    how.n_stop = n_stop;
    how.text = print;
    (void)signal(SIGINT, on_interrupt);

    st = tiny_ctx_open(&ctx_desc, &ctx);
    if (!st) st = tllm_session_open(ctx, path, &room, &session);
    if (!st && save) {
        st = can_save(ctx, save);
        if (st) fprintf(stderr, "generate: --save-session %s:\n", save);
    }
    if (!st) st = adapt(ctx, session, extras, n_extra, merge, first, last);
    if (!st && sparse) st = tllm_session_sparse(session, -1, NULL);
    if (!st && (rules || schema)) {
        const char *text;
        size_t n_text;
        st = tiny_file_open(ctx, rules ? rules : schema, &rule_file);
        text = (const char *)rule_file.bytes;
        n_text = rule_file.n_bytes;
        if (!st && !rules) {
            st = tllm_schema_grammar(ctx, text, n_text, &rule_text, &n_text);
            text = rule_text;
        }
        if (!st) st = tllm_grammar_open(ctx, text, n_text, "root", &grammar);
        how.grammar = grammar;
    }
    if (!st && echo) (void)print(NULL, prompt, n_prompt);
    if (!st && load) {
        st = tllm_session_load(session, load);
        if (st) fprintf(stderr, "generate: --load-session %s:\n", load);
    }
    if (!st && (load || beams > 0 || parallel > 0)) {
        st = tokens_of(ctx, session, prompt, n_prompt, how.plain, &all);
        if (!st && (beams > 0 || parallel > 0)) st = side_by_side(ctx, session, &all, (size_t)beams, (size_t)parallel, &how);
        else if (!st) st = tllm_generate_tokens(session, all.id, all.n, &how, &result);
    } else if (!st) st = tllm_generate(session, prompt, n_prompt, &how, &result);
    if (!st && save) st = tllm_session_save(session, save);
    if (st && last_byte != '\n') (void)print(NULL, "\n", 1);
    if (st && ctx) fprintf(stderr, "generate: %s\n", *tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st));
    if (!st) {
        static const char *const ends[] = { "the model ended its text", "as many as asked for", "a stop text", "the context is full", "the grammar is done", "interrupted" };
        puts("");
        if (stats)
            fprintf(stderr, "prompt: %zu tokens, %.1f a second; text: %zu tokens, %.1f a second; end: %s\n", result.n_prompt,
                    (double)result.n_prompt / (result.prompt_seconds + 1e-9), result.n_made, (double)result.n_made / (result.made_seconds + 1e-9), ends[result.end]);
        if (stats && sparse) {
            tllm_sparsity seen;
            tllm_state_sparsity(tllm_session_state(session), &seen);
            fprintf(stderr, "%.1f of 100 neurons fired; %llu of %llu products read only theirs\n", 100 * seen.fired, (unsigned long long)seen.n_sparse, (unsigned long long)seen.n_products);
        }
    }
    if (ctx) {
        tllm_grammar_close(ctx, grammar);
        tiny_free(ctx, rule_text);
        tiny_file_close(ctx, &rule_file);
        tllm_session_close(session);
        for (i = 0; i < (int)n_extra; i++) tllm_adapter_close(ctx, extras[i].a);
    }
    tiny_ctx_close(ctx);
    free(owned);
    free(all.id);
    if (fflush(stdout) || ferror(stdout)) {
        fputs("generate: standard output takes no more\n", stderr);
        return 1;
    }
    return st != TINY_OK;
}
