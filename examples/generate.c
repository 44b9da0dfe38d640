/* examples/generate.c - continues a prompt with a model file
 *
 *     generate MODEL.gguf "Once upon a time" --n 200 --temp 0.8 --seed 1
 *
 * The text goes to standard output as it is generated. --stats prints tokens and speed to standard error. */
#define TINY_WITH_TUNE                      /* TINY_TUNE in the environment */
#define TINYLLM_WITH_STITCHES               /* --stitch */
#define TINYLLM_WITH_DRAFTTREES             /* --draft-tree */
#define TINYLLM_WITH_EASYSPEC               /* --draft-fuzzy */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "generate"
#include "options.h"

static const char usage[] =
    "generate MODEL [PROMPT | -] [options]          -: prompt from standard input; no prompt: the model begins\n"
    "  --n N            at most this many tokens; default: 256; 0: until the model or the context ends\n"
    "  --temp T         temperature; default: 0, always the most probable token\n"
    "  --top-k K        draw from the K most probable tokens\n"
    "  --top-p P        draw from the fewest tokens whose probabilities reach P\n"
    "  --min-p P        drop tokens less probable than P times the best one; with --temp the default is 0.05\n"
    "  --repeat R       penalty for repeating one of the last 64 tokens; 1: none\n"
    "  --seed S         seed of the random numbers; default: 0\n"
    "  --stop TEXT      stop before this text; up to 8 of them\n"
    "  --grammar FILE   the text follows this grammar (GBNF, rule root)\n"
    "  --schema FILE    the text is JSON that follows this schema\n"
    "  --context N      tokens of the context; default: as the file says, at most 4096\n"
    "  --beams N        search for the most probable text with N beams instead of drawing\n"
    "  --parallel N     draw N texts at once; the prompt is read once; the default of --temp is 0.8\n"
    "  --cache-type-k T format of the cached keys: f32, f16, q8_0 or q4_0; default: f32\n"
    "  --cache-type-v T format of the cached values\n"
    "  --load-session F continue a text that --save-session wrote; the prompt is added to it\n"
    "  --save-session F write the text and the state of the model to a file\n"
    "  --shift          forget the older half of the text when the context is full, instead of ending\n"
    "  --echo           print the prompt too\n"
    "  --plain          add nothing before the prompt\n"
    "  --lora FILE[=S]  a LoRA adapter, times S (default 1); up to 8 adapters and control vectors\n"
    "  --lora-merge     merge adapters into the weights; without this they are computed separately\n"
    "  --control-vector FILE[=S]   a control vector, times S\n"
    "  --control-layers A-B        layers that control vectors change; default: all but the first\n"
    "  --stitch K[,K..] run network K of a file that `join` made; with several, the next one after each piece of text\n"
    "  --stitch-bytes N run the best network of at most N bytes, as `join` measured them\n"
    "  --stitch-every N tokens of such a piece; default: 32\n"
    "  --sparse         in networks with squared ReLU skip neurons that are zero (keeps a second copy of "
    "one matrix per layer)\n"
    "  --repack         repack the weights at the start, eight rows interleaved: faster on this processor\n"
    "  --repack-file F  the same, and keep the result in this file: the next start reads it\n"
    "  --repack-auto    the same, but only if the processor has kernels that gain and memory suffices\n"
    "  --draft FILE     a smaller model with the same vocabulary proposes tokens, and this one checks several in one "
    "pass\n"
    "  --draft-repeat   the same without a model: what followed the same words before is proposed\n"
    "  --draft-n N      propose at most N tokens at once, 1 to 32; default: 4, with --draft-repeat 8\n"
    "  --draft-most     with --temp: keep more proposals; the text follows the same distribution, but is not the one "
    "without a draft\n"
    "  --draft-always   propose as many each time, also where that is slower\n"
    "  --draft-tree W   the draft proposes W tokens after each of its tokens: a tree, whose paths are checked in one "
    "pass; --draft-n is the number of its levels\n"
    "  --draft-tokens N at most N tokens in a tree, 1 to 32; default: 32. With --draft-n times W of them, the most "
    "probable path alone has candidates\n"
    "  --draft-fuzzy N  the draft computes the attention of N neighbouring layers at once, one on each thread; the "
    "text stays exact\n"
    "  --exact          the same text however many tokens a pass has: with and without --draft; slower\n"
    "  --threads N      default: one per processor\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n"
    "  --stats          print tokens and speed to standard error\n";

static char last_byte = '\n';               /* the text was begun: an error gets its own line */
static int print(void *user, const char *text, size_t n)
{
    (void)user;
    if (n) last_byte = text[n - 1];
    return (n && fwrite(text, 1, n, stdout) != n) || fflush(stdout);      /* text may be NULL where there is none */
}

#define NO_SEED (~(uint64_t)0)              /* --seed was not given */

/* --lora and --control-vector */
typedef struct adapting { word_list files; double scale[8]; tllm_adapter *a[8]; int merge; long first, last; } adapting;

static tiny_status adapt(tiny_ctx *ctx, tllm_session *s, adapting *with)
{
    tiny_status st = TINY_OK;
    tllm_adapter_about about;
    int i;
    for (i = 0; i < with->files.n && !st; i++) {
        st = tllm_adapter_load(ctx, tllm_session_model(s), with->files.at[i], &with->a[i]);
        tllm_adapter_tell(with->a[i], &about);
        if (!st && with->first && about.kind == TLLM_ADAPTER_VECTOR)
            st = tllm_adapter_layers(ctx, with->a[i], with->first, with->last);
        if (st) break;
        st = with->merge && about.kind == TLLM_ADAPTER_LORA
                 ? tllm_session_merge(s, with->a[i], (float)with->scale[i], TINY_F32)
                 : tllm_session_attach(s, with->a[i], (float)with->scale[i]);
    }
    return st;
}

/* The tokens of the session, then those of the prompt. */
static tiny_status tokens_of(tiny_ctx *ctx, tllm_session *s, const char *prompt, size_t n_prompt, int plain,
                             tllm_tokens *out)
{
    size_t held = 0, i;
    const int32_t *token = tllm_session_tokens(s, &held);
    tllm_tokens more;
    tiny_status st = TINY_OK;
    memset(&more, 0, sizeof more);
    if (!held || n_prompt)
        st = tllm_encode(ctx, tllm_session_vocab(s), prompt, n_prompt, held || plain ? 0u : (unsigned)TLLM_ENCODE_ENDS,
                         &more);
    if (!held && tllm_vocab_adds_eos(tllm_session_vocab(s)) && more.n > 1 &&
        tllm_vocab_is_end(tllm_session_vocab(s), more.id[more.n - 1])) {
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

/* Several texts at once: beams, or n texts that are drawn. They end with the context. */
static tiny_status side_by_side(tiny_ctx *ctx, tllm_session *s, const tllm_tokens *t, size_t beams, size_t texts,
                                const tllm_generate_desc *how)
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
    /* a decoder begins with one token; the search refuses one too many */
    most = about.has_decoder ? room - 1 : t->n < room ? room - t->n : 1;
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
        if (!st && !i && last_byte != '\n') putchar('\n');  /* after the prompt of --echo */
        if (!st && n > 1) printf("--- %zu of %zu\n", i + 1, n);
        if (!st) (void)print(NULL, text.at, text.n);
        if (!st && i + 1 < found) putchar('\n');
        tllm_bytes_free(ctx, &text);
    }
    tllm_continuations_free(ctx, out, found);
    free(out);
    return st;
}

/* 1: --save-session can write its file. Tried with another name before a text is generated, so that an existing file
 * stays. */
static tiny_status can_save(tiny_ctx *ctx, const char *path)
{
    const size_t n = strlen(path);
    char *other;
    FILE *there;
    tiny_status st = TINY_OK;
    /* a device or a pipe is written directly */
    if (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6)) return TINY_OK;
    other = (char *)tiny_alloc(ctx, n + sizeof ".try");
    if (!other) return TINY_E_MEMORY;
    memcpy(other, path, n);
    memcpy(other + n, ".try", sizeof ".try");
    there = fopen(other, "rb");             /* a file of another program: not tried */
    if (there) (void)fclose(there);
    else {
        st = tiny_file_write(ctx, other, "", 0);
        if (!st) (void)remove(other);
    }
    tiny_free(ctx, other);
    return st;
}

/* --stitch: numbers of networks; the text goes on with each in turn */
enum { MOST_NETWORKS = 64 };
typedef struct stitching { long k[MOST_NETWORKS]; int n, every; double bytes; } stitching;

static int networks_of(const char *list, stitching *s)
{
    for (s->n = 0; *list && s->n < MOST_NETWORKS;) {
        char *end;
        s->k[s->n++] = strtol(list, &end, 10);
        if (*list < '0' || *list > '9' || end - list > 6 || (*end && *end != ',') || (*end && !end[1])) return 0;
        list = end + (*end == ',');
    }
    return !*list && s->n > 0;
}

/* The rest of a text, after its first piece. The keys of the text are computed anew at each switch. */
static tiny_status in_turn(tiny_ctx *ctx, tllm_session *s, const stitching *with, size_t n_most,
                           tllm_generate_desc *how, tllm_generate_result *r)
{
    size_t made = r->n_made, held;
    double seconds = r->made_seconds, reading = r->prompt_seconds;
    const size_t n_prompt = r->n_prompt;
    tiny_status st = TINY_OK;
    int i;
    for (i = 1; !st && r->end == TLLM_END_LENGTH && (!n_most || made < n_most); i++) {
        const int32_t *token;
        int32_t *copy;
        st = tllm_session_stitch(s, (size_t)with->k[i % with->n], NULL);
        token = tllm_session_tokens(s, &held);
        copy = (int32_t *)tiny_alloc(ctx, held * sizeof *copy);
        if (!st && !copy) st = TINY_E_MEMORY;
        if (!st) {
            memcpy(copy, token, held * sizeof *copy);
            how->n_most = n_most && n_most - made < (size_t)with->every ? n_most - made : (size_t)with->every;
            how->seed++;
            st = tllm_generate_tokens(s, copy, held, how, r);
            made += r->n_made;
            seconds += r->made_seconds;
            reading += r->prompt_seconds;
        }
        tiny_free(ctx, copy);
    }
    r->n_made = made;
    r->n_prompt = n_prompt;
    r->made_seconds = seconds;
    r->prompt_seconds = reading;
    return st;
}

int main(int argc, char **argv)
{
    static adapting with;
    static stitching stitch;
    static word_list stops;
    const char *save = NULL, *load = NULL, *path = NULL, *prompt = NULL, *stop[8], *rules = NULL, *schema = NULL,
               *type_k = NULL, *type_v = NULL, *layers = NULL, *draft_path = NULL, *networks = NULL;
    const tllm_format *format_k = NULL, *format_v = NULL;
    double temp = -1, top_p = -1, min_p = -1, repeat = -1;     /* below 0: not given */
    int beams = 0, parallel = 0, n = 256, top_k = -1, context = 0, echo = 0, stats = 0, sparse = 0, repack = 0,
        repeats = 0, most = 0, width = 0, tokens = 0, group = 0, i;
    uint64_t seed = NO_SEED;
    tllm_tokens all;
    size_t n_prompt = 0, n_steps = 0, n_rules = 0;
    char *owned = NULL, *rule_file = NULL;
    tiny_ctx_desc ctx_desc;
    tllm_state_desc room;
    tllm_generate_desc how;
    tllm_generate_result result;
    tllm_session *session = NULL, *draft_model = NULL;
    tllm_draft_desc draft;
    tllm_draft_tree_size tree;
    tllm_easyspec_desc layers_at_once;
    tllm_easyspec *fuzzy = NULL;
    tllm_step chain[5];
    tllm_grammar *grammar = NULL;
    tllm_repack_desc keep = { NULL, 0, 0 };
    tllm_repacked repacked;
    char *rule_text = NULL;
    tiny_ctx *ctx = NULL;
    tiny_status st;
    const option options[] = { THE_WORD("model", &path),
                               A_WORD("prompt", &prompt),
                               A_WHOLE("--n", &n, 0, 1e9),
                               A_NUMBER("--temp", &temp, 0, 100),
                               A_WHOLE("--top-k", &top_k, 0, 1e9),
                               A_NUMBER("--top-p", &top_p, 0, 1),
                               A_NUMBER("--min-p", &min_p, 0, 1),
                               A_NUMBER("--repeat", &repeat, 0.01, 100),
                               A_SEED("--seed", &seed),
                               A_LIST("--stop", &stops, 8),
                               A_TEXT("--grammar", &rules),
                               A_TEXT("--schema", &schema),
                               A_WHOLE("--context", &context, 1, 1e9),
                               A_WHOLE("--beams", &beams, 1, 4096),
                               A_WHOLE("--parallel", &parallel, 1, 4096),
                               A_TEXT("--cache-type-k", &type_k),
                               A_TEXT("--cache-type-v", &type_v),
                               A_TEXT("--load-session", &load),
                               A_TEXT("--save-session", &save),
                               A_FLAG("--shift", &how.shift),
                               A_FLAG("--echo", &echo),
                               A_FLAG("--plain", &how.plain),
                               A_LIST("--lora", &with.files, 8),
                               A_LIST("--control-vector", &with.files, 8),
                               A_TEXT("--control-layers", &layers),
                               A_FLAG("--lora-merge", &with.merge),
                               A_TEXT("--stitch", &networks),
                               A_NUMBER("--stitch-bytes", &stitch.bytes, 1, 1e18),
                               A_WHOLE("--stitch-every", &stitch.every, 1, 1e6),
                               A_FLAG("--sparse", &sparse),
                               A_TEXT("--draft", &draft_path),
                               A_FLAG("--draft-repeat", &repeats),
                               A_WHOLE("--draft-n", &draft.n, 1, TLLM_DRAFT_TOKENS),
                               A_FLAG("--draft-most", &most),
                               A_FLAG("--draft-always", &draft.always),
                               A_WHOLE("--draft-tree", &width, 1, TLLM_DRAFT_TOKENS),
                               A_WHOLE("--draft-tokens", &tokens, 1, TLLM_DRAFT_TOKENS),
                               A_WHOLE("--draft-fuzzy", &group, 1, TLLM_EASYSPEC_GROUP),
                               A_FLAG("--exact", &room.exact),
                               A_WHOLE("--threads", &ctx_desc.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("--target", &ctx_desc.target),
                               A_FLAG("--stats", &stats),
                               A_FLAG("--repack", &repack),
                               A_TEXT("--repack-file", &keep.path),
                               A_FLAG("--repack-auto", &keep.automatic) };
    memset(&ctx_desc, 0, sizeof ctx_desc);
    memset(&room, 0, sizeof room);
    memset(&all, 0, sizeof all);
    memset(&how, 0, sizeof how);
    memset(&result, 0, sizeof result);
    memset(&draft, 0, sizeof draft);
    memset(&tree, 0, sizeof tree);
    memset(&layers_at_once, 0, sizeof layers_at_once);
    READ_OPTIONS(argc, argv, usage, options);
    if (type_k && !(format_k = tllm_format_by_name(type_k))) return wrong("--cache-type-k", type_k);
    if (type_v && !(format_v = tllm_format_by_name(type_v))) return wrong("--cache-type-v", type_v);
    if (layers && !is_range(layers, 1000000, &with.first, &with.last))
        return wrong(layers, "--control-layers takes FIRST-LAST, counted from 1");
    for (i = 0; i < with.files.n; i++)
        if (!is_scaled(with.files.at[i], -1e6, 1e6, &with.scale[i]))
            return wrong(with.files.at[i], "this is neither a file nor FILE=NUMBER");
    for (i = 0; i < stops.n; i++) stop[i] = stops.at[i];
    if (networks && !networks_of(networks, &stitch)) return wrong("--stitch", networks);
    if (networks && stitch.bytes > 0) return wrong("--stitch and --stitch-bytes", "one of them");
    if (stitch.every && stitch.n < 2) return refused("--stitch-every does nothing without several networks");
    if (stitch.n > 1 && (rules || schema || draft_path || repeats || beams || parallel || stops.n))
        return refused(
            "--stitch with several networks writes plain text: no grammar, draft, beams, --parallel or --stop");
    if (!stitch.every) stitch.every = 32;
    if (beams && parallel) return wrong("--beams and --parallel", "one of them");
    if (rules && schema) return wrong("--grammar and --schema", "one of them");
    if (draft_path && repeats) return wrong("--draft and --draft-repeat", "one of them");
    if (!draft_path && !repeats && (draft.n || most || draft.always))
        return refused("%s does nothing without %s", draft.n ? "--draft-n" : most ? "--draft-most" : "--draft-always",
                       "--draft or --draft-repeat");
    if (!draft_path && (width || group))
        return refused("%s does nothing without --draft", width ? "--draft-tree" : "--draft-fuzzy");
    if (tokens && !width) return refused("--draft-tokens does nothing without --draft-tree");
    if (width) (void)tllm_draft_tree_sizes(draft.n ? draft.n : 4, width, tokens, &tree);
    if (most) draft.rule = TLLM_DRAFT_MOST;
    if (beams || parallel) {                /* options for a single text */
        const char *search = beams ? "--beams" : "--parallel";
        const char *alone = save        ? "--save-session"
                            : rules     ? "--grammar"
                            : schema    ? "--schema"
                            : stops.n   ? "--stop"
                            : how.shift ? "--shift"
                            : stats     ? "--stats"
                            : draft_path ? "--draft"
                            : repeats   ? "--draft-repeat"
                                        : NULL;
        if (beams && !alone)                /* a search does not draw */
            alone = temp >= 0         ? "--temp"
                    : top_k >= 0      ? "--top-k"
                    : top_p >= 0      ? "--top-p"
                    : min_p >= 0      ? "--min-p"
                    : repeat >= 0     ? "--repeat"
                    : seed != NO_SEED ? "--seed"
                                      : NULL;
        if (alone) return refused("%s does nothing with %s", alone, search);
        if (parallel > 1 && temp == 0) return wrong("--parallel", "at temperature 0 all texts are the same");
        if (temp < 0 && parallel > 0) temp = 0.8;
    }
    for (i = 0; i < with.files.n; i++)
        if (must_not_write(save, 1, with.files.at[i]) || must_not_write(keep.path, 1, with.files.at[i])) return 2;
    if (must_not_write(save, 4, path, rules, schema, keep.path) ||
        must_not_write(keep.path, 4, path, rules, schema, load))
        return 2;
    if (rules || schema) {
        rule_file =
            read_text(rules ? rules : schema, rules ? TLLM_GRAMMAR_MAX_BYTES : TLLM_SCHEMA_MAX_BYTES, 0, &n_rules);
        if (!rule_file) return 1;
    }
    if (prompt && !strcmp(prompt, "-")) {
        prompt = owned = read_text("-", MOST_TEXT, 0, &n_prompt);
        if (!owned) return free(rule_file), 1;
    } else if (prompt) n_prompt = strlen(prompt);
    else prompt = "";

    if (repeat > 0 && repeat != 1) chain[n_steps++] = tllm_step_penalties(64, (float)repeat, 0.0f, 0.0f);
    if (temp > 0) {
        if (top_k > 0) chain[n_steps++] = tllm_step_top_k(top_k);
        if (top_p >= 0 && top_p < 1) chain[n_steps++] = tllm_step_top_p((float)top_p);
        chain[n_steps++] = tllm_step_min_p((float)(min_p < 0 ? 0.05 : min_p));
        chain[n_steps++] = tllm_step_temperature((float)temp);
    } else chain[n_steps++] = tllm_step_greedy();
    ctx_desc.cancel = cancelled;
    ctx_desc.log = hear;
    ctx_desc.user = &ctx;
    room.n_ctx = context;
    room.n_seq = beams > parallel ? beams : parallel;
    if (format_k) room.type_k = format_k->id;
    if (format_v) room.type_v = format_v->id;
    how.chain = chain;
    how.n_steps = n_steps;
    how.seed = seed == NO_SEED ? 0 : seed;
    how.n_most = (size_t)n;
    how.stop = stop;
    how.n_stop = (size_t)stops.n;
    how.text = print;
    stop_on_signals();

    st = tiny_ctx_open(&ctx_desc, &ctx);
    if (!st) st = tllm_session_open(ctx, path, &room, &session);
    if (!st && width) {                     /* again with room for the paths of trees: now the context is known */
        room.n_ctx = tllm_session_context(session);
        room.n_seq = tree.n_seq;
        room.n_cells = room.n_ctx + tree.n_more;
        tllm_session_close(session);
        session = NULL;
        st = tllm_session_open(ctx, path, &room, &session);
    }
    if (!st && save) {
        st = can_save(ctx, save);
        if (st) fprintf(stderr, "generate: --save-session %s:\n", save);
    }
    if (!st && stitch.bytes > 0) {
        size_t best = 0;
        st = tllm_stitched_select(ctx, tllm_session_file(session), stitch.bytes, &best);
        stitch.k[0] = (long)best;
        stitch.n = 1;
    }
    if (!st && stitch.n) st = tllm_session_stitch(session, (size_t)stitch.k[0], NULL);
    if (!st) st = adapt(ctx, session, &with);
    if (!st && sparse) st = tllm_session_sparse(session, -1, NULL);
    if (keep.path || keep.automatic) repack = 1;
    if (!st && repack) st = tllm_session_repack(session, &keep, &repacked);
    if (!st && keep.path && !repacked.n)
        fprintf(stderr, "generate: --repack-file %s: nothing was written, as there is nothing to repack\n", keep.path);
    if (!st && keep.path && repacked.n && !repacked.from_file && !repacked.written) say(tiny_ctx_message(ctx));
    if (!st && (rules || schema)) {
        const char *text = rule_file;
        size_t n_text = n_rules;
        if (!rules) {
            st = tllm_schema_grammar(ctx, text, n_text, &rule_text, &n_text);
            text = rule_text;
        }
        if (!st) st = tllm_grammar_open(ctx, text, n_text, "root", &grammar);
        how.grammar = grammar;
    }
    if (!st && draft_path) {
        memset(&room, 0, sizeof room);
        room.n_ctx = tllm_session_context(session);
        room.n_seq = tree.n_seq_draft;
        if (width) room.n_cells = room.n_ctx + tree.n_more_draft;
        st = tllm_session_open(ctx, draft_path, &room, &draft_model);
        draft.model = draft_model;
    }
    layers_at_once.n = group;
    if (!st && group) st = tllm_easyspec_open(draft_model, &layers_at_once, &fuzzy);
    if (!st && width) st = tllm_draft_tree_open(session, &draft, width, tokens, &how.draft);
    else if (!st && (draft_path || repeats)) st = tllm_draft_open(session, &draft, &how.draft);
    if (stitch.n > 1 && (!n || stitch.every < n)) how.n_most = (size_t)stitch.every;
    if (!st && echo) (void)print(NULL, prompt, n_prompt);
    if (!st && load) {
        st = tllm_session_load(session, load);
        if (st) fprintf(stderr, "generate: --load-session %s:\n", load);
    }
    if (!st && (load || beams || parallel)) {
        st = tokens_of(ctx, session, prompt, n_prompt, how.plain, &all);
        if (!st && (beams || parallel)) st = side_by_side(ctx, session, &all, (size_t)beams, (size_t)parallel, &how);
        else if (!st) st = tllm_generate_tokens(session, all.id, all.n, &how, &result);
    } else if (!st) st = tllm_generate(session, prompt, n_prompt, &how, &result);
    if (!st && stitch.n > 1) st = in_turn(ctx, session, &stitch, (size_t)n, &how, &result);
    if (!st && save) st = tllm_session_save(session, save);
    if (st && last_byte != '\n') (void)print(NULL, "\n", 1);
    if (st && ctx) say(*tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st));
    if (!st) {
        static const char *const ends[] = { "the model ended its text", "as many as asked for", "a stop text",
                                            "the context is full",      "the grammar is done",  "interrupted" };
        puts("");
        if (stats)
            fprintf(stderr, "prompt: %zu tokens, %.1f a second; text: %zu tokens, %.1f a second; end: %s\n",
                    result.n_prompt, (double)result.n_prompt / (result.prompt_seconds + 1e-9), result.n_made,
                    (double)result.n_made / (result.made_seconds + 1e-9), ends[result.end]);
        if (stats && tllm_stitched_count(tllm_session_file(session)))
            fprintf(stderr, "network %zu of the %zu of the file wrote the last token\n", tllm_session_stitched(session),
                    tllm_stitched_count(tllm_session_file(session)));
        if (stats && how.draft) {
            tllm_draft_counts c;
            tllm_draft_count(how.draft, &c);
            fprintf(stderr,
                    "draft: %llu of %llu proposed tokens kept, %.2f tokens a pass; %.2f s in the draft, %.2f s in "
                    "passes\n",
                    (unsigned long long)c.kept, (unsigned long long)c.proposed,
                    c.passes ? (double)(c.kept + c.passes) / (double)c.passes : 0.0, c.draft_seconds, c.pass_seconds);
        }
        if (stats && fuzzy) {
            tllm_easyspec_counts c;
            tllm_easyspec_count(fuzzy, &c);
            fprintf(stderr, "draft: %llu exact and %llu fuzzy passes, %llu groups of layers\n",
                    (unsigned long long)c.exact, (unsigned long long)c.fuzzy, (unsigned long long)c.groups);
        }
        if (stats && repack)
            fprintf(stderr, "repacked%s: %.1f MB in %.2f s, %.1f MB in blocks stay in the file\n",
                    repacked.from_file ? " before" : "", (double)repacked.bytes / 1e6, repacked.seconds,
                    (double)repacked.left / 1e6);
        if (stats && sparse) {
            tllm_sparsity seen;
            tllm_state_sparsity(tllm_session_state(session), &seen);
            fprintf(stderr, "%.1f of 100 neurons fired; %llu of %llu products read only theirs\n", 100 * seen.fired,
                    (unsigned long long)seen.n_sparse, (unsigned long long)seen.n_products);
        }
    }
    if (ctx) {
        tllm_grammar_close(ctx, grammar);
        tiny_free(ctx, rule_text);
        tllm_draft_close(how.draft);
        tllm_easyspec_close(fuzzy);
        tllm_session_close(draft_model);
        tllm_session_close(session);
        for (i = 0; i < with.files.n; i++) tllm_adapter_close(ctx, with.a[i]);
    }
    tiny_ctx_close(ctx);
    free(owned);
    free(rule_file);
    free(all.id);
    return exit_status(stopped_by ? 128 + stopped_by : st != TINY_OK);
}
