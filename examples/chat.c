/* examples/chat.c - a chat with a model in the terminal
 *
 *     chat MODEL.gguf [--system "Be brief."] [--temp 0.8]
 *
 * The chat template of the file formats the prompt. Ctrl-C stops only the answer. /help lists the commands. */
#define TINY_WITH_TUNE                      /* TINY_TUNE in the environment */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "chat"
#include "options.h"

static const char usage[] =
    "chat MODEL [options]\n"
    "  --system TEXT    the system message\n"
    "  --template FILE  a chat template instead of the file's own\n"
    "  --temp T         temperature; default: 0.8; 0: always the most probable token\n"
    "  --min-p P        drop tokens less probable than P times the best one; default: 0.05\n"
    "  --seed S         seed of the random numbers; default: 0\n"
    "  --n N            at most this many tokens of an answer; default: 0, no limit\n"
    "  --context N      tokens of the context; default: as the file says, at most 4096\n"
    "  --repack         repack all weights at the start, eight rows interleaved, for faster answers\n"
    "  --repack-file F  the same, and keep the result in this file: the next start reads it\n"
    "  --repack-auto    repack on processors that gain, if memory suffices: the default at a terminal\n"
    "  --no-repack      leave them in the file: the default for input from elsewhere\n"
    "  --threads N      default: one per processor\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n"
    "  --stats          print tokens per second after each answer\n"
    "Commands:\n"
    "/help            this list\n"
    "/system TEXT     replace the system message and start again\n"
    "/reset           start again\n"
    "/undo            forget the last question and its answer\n"
    "/again           answer the last question again, with another seed\n"
    "/show            the prompt as the model sees it\n"
    "/save FILE       write the conversation to a file\n"
    "/quit            end the program, as the end of the input does\n";

typedef struct talk { tllm_chat_message *m; size_t n, room; } talk;
typedef struct answer { char *text; size_t n, room; int failed; } answer;

/* stops the answer, not the conversation */
static void on_interrupt(int number)
{
    stopped_by = number;
    (void)signal(number, on_interrupt);
}

static char *copy_of(const char *text, size_t n)
{
    char *c = (char *)malloc(n + 1);
    if (c) {
        memcpy(c, text, n);
        c[n] = 0;
    }
    return c;
}
static int add(talk *t, const char *role, const char *text, size_t n)
{
    if (t->n == t->room) {
        const size_t room = t->room ? 2 * t->room : 16;
        tllm_chat_message *m = (tllm_chat_message *)realloc(t->m, room * sizeof *m);
        if (!m) return 0;
        t->m = m;
        t->room = room;
    }
    t->m[t->n].role = role;
    t->m[t->n].content = copy_of(text, n);
    t->m[t->n].content_bytes = n;
    return t->m[t->n].content ? (t->n++, 1) : 0;
}
static void cut(talk *t, size_t n)
{
    while (t->n > n) free((char *)(size_t)(const void *)t->m[--t->n].content);
}

static void forget(talk *t, size_t first, size_t n)
{
    size_t i;
    for (i = first; i < first + n; i++) free((char *)(size_t)(const void *)t->m[i].content);
    memmove(&t->m[first], &t->m[first + n], (t->n - first - n) * sizeof *t->m);
    t->n -= n;
}

static int take(void *user, const char *text, size_t n)
{
    answer *a = (answer *)user;
    if (a->n + n > a->room) {
        char *more = (char *)realloc(a->text, 2 * (a->n + n));
        if (!more) return a->failed = 1;
        a->text = more;
        a->room = 2 * (a->n + n);
    }
    memcpy(a->text + a->n, text, n);
    a->n += n;
    return fwrite(text, 1, n, stdout) != n || fflush(stdout);
}

/* Without this text the conversation would not be the same: it ends. */
static tiny_status no_memory(const char *what)
{
    fprintf(stderr, "chat: there is no memory for %s\n", what);
    return TINY_E_MEMORY;
}

/* The text of a special token, terminated by a 0; NULL: there is none. */
static char *special_text(const tllm_vocab *v, tllm_special which)
{
    const int32_t id = tllm_vocab_special(v, which);
    const tllm_text t = tllm_vocab_text(v, id);
    return id < 0 || !t.n ? NULL : copy_of(t.at, t.n);
}

typedef struct chat {
    tiny_ctx *ctx;
    tllm_session *session;
    tllm_template *template_;
    char *bos, *eos;
    talk talk;
    int ran, failed;                        /* how often the template ran, and how often it failed */
} chat;

static tiny_status prompt_of(chat *c, char **text, size_t *n)
{
    tllm_template_values v;
    tiny_status st;
    memset(&v, 0, sizeof v);
    v.message = c->talk.m;
    v.n_messages = c->talk.n;
    v.add_generation_prompt = 1;
    v.bos_token = c->bos ? c->bos : "";
    v.eos_token = c->eos ? c->eos : "";
    st = tllm_template_run(c->ctx, c->template_, &v, text, n);
    if (st) c->failed = 1;
    else c->ran = 1;
    return st;
}

/* the conversation as tokens */
static tiny_status tokens_of(chat *c, tllm_tokens *t)
{
    const tllm_vocab *vocab = tllm_session_vocab(c->session);
    char *text = NULL;
    size_t n = 0;
    tiny_status st = prompt_of(c, &text, &n);
    const int begins = !st && c->bos && n >= strlen(c->bos) && !memcmp(text, c->bos, strlen(c->bos));
    t->n = 0;
    if (!st) st = tllm_encode(c->ctx, vocab, text, n, TLLM_ENCODE_SPECIAL | (begins ? 0 : TLLM_ENCODE_ENDS), t);
    if (!st && !begins && tllm_vocab_adds_eos(vocab) && t->n > 1) t->n--;
    tiny_free(c->ctx, text);
    return st;
}

static tiny_status reply(chat *c, tllm_generate_desc *how, tllm_generate_result *r)
{
    const size_t room = (size_t)tllm_session_context(c->session),
                 first = c->talk.n && !strcmp(c->talk.m[0].role, "system");
    size_t forgotten = 0;
    tllm_tokens t;
    tiny_status st;
    memset(&t, 0, sizeof t);
    for (st = tokens_of(c, &t); !st && t.n >= room && c->talk.n >= first + 3; st = tokens_of(c, &t), forgotten += 2)
        forget(&c->talk, first, 2);
    if (forgotten)
        fprintf(stderr, "chat: the talk is longer than the context: its first %zu messages are forgotten\n", forgotten);
    if (!st && t.n >= room) {
        fprintf(stderr,
                "chat: the talk has %zu tokens, the context has room for %zu: /reset, /undo, or a larger --context\n",
                t.n, room);
        st = TINY_E_WORKSPACE;
    } else if (!st) {
        how->keep = t.n / 2;
        st = tllm_generate_tokens(c->session, t.id, t.n, how, r);
        if (st) say(tiny_ctx_message(c->ctx));
    } else say(tiny_ctx_message(c->ctx));
    tllm_tokens_free(c->ctx, &t);
    return st;
}

int main(int argc, char **argv)
{
    /* the template for a file that has none */
    static const char plain[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";
    const char *path = NULL, *template_path = NULL, *system_text = NULL;
    double temp = 0.8, min_p = 0.05;
    unsigned long number = 0;               /* of the line */
    int n_most = 0, context = 0, stats = 0, again = 0, repack = 0, no_repack = 0;
    tllm_repack_desc keep = { NULL, 0, 0 };
    tllm_repacked repacked;
    tiny_ctx_desc desc;
    tllm_state_desc room;
    tllm_generate_desc how;
    tllm_step chain[2];
    char *own = NULL;
    size_t n_own = 0;
    chat c;
    const float *logits;
    tiny_status st;
    const tllm_meta *meta = NULL;
    tllm_text source;
    static const char *const stop_plain[] = { "\nuser:", "\nsystem:" };
    const option options[] = { THE_WORD("file", &path),
                               ANY_TEXT("--system", &system_text),
                               A_TEXT("--template", &template_path),
                               A_NUMBER("--temp", &temp, 0, 100),
                               A_NUMBER("--min-p", &min_p, 0, 1),
                               A_SEED("--seed", &how.seed),
                               A_WHOLE("--n", &n_most, 0, 1e9),
                               A_WHOLE("--context", &context, 8, 1e9),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("--target", &desc.target),
                               A_FLAG("--stats", &stats),
                               A_FLAG("--repack", &repack),
                               A_TEXT("--repack-file", &keep.path),
                               A_FLAG("--repack-auto", &keep.automatic),
                               A_FLAG("--no-repack", &no_repack) };
    memset(&desc, 0, sizeof desc);
    memset(&room, 0, sizeof room);
    memset(&how, 0, sizeof how);
    memset(&c, 0, sizeof c);
    READ_OPTIONS(argc, argv, usage, options);
    if (no_repack && (repack || keep.path || keep.automatic))
        return wrong("--no-repack and one of --repack, --repack-file and --repack-auto", "one of them");
    if (!no_repack && !repack && !keep.path && is_typed()) keep.automatic = 1;
    if (must_not_write(keep.path, 2, path, template_path)) return 2;
    if (template_path && !(own = read_text(template_path, TLLM_TEMPLATE_MAX_BYTES, 0, &n_own))) return 1;
    desc.cancel = cancelled;
    desc.progress = show_progress;
    desc.log = hear;
    desc.user = &c.ctx;
    room.n_ctx = context;
    chain[0] = tllm_step_min_p((float)min_p);
    chain[1] = tllm_step_temperature((float)temp);
    how.chain = chain;
    how.n_steps = 2;
    how.n_most = (size_t)n_most;
    how.text = take;
    how.shift = 1;
    st = tiny_ctx_open(&desc, &c.ctx);
    if (!st) st = tllm_session_open(c.ctx, path, &room, &c.session);
    if (!st) st = tllm_session_feed(c.session, NULL, 0, &logits);      /* fails for a model that generates no text */
    if (keep.path || keep.automatic) repack = 1;
    if (!st && repack) st = tllm_session_repack(c.session, &keep, &repacked);
    end_progress();
    if (!st && keep.path && !repacked.n)
        fprintf(stderr, "chat: --repack-file %s: nothing was written, as there is nothing to repack\n", keep.path);
    if (!st && keep.path && repacked.n && !repacked.from_file && !repacked.written) say(tiny_ctx_message(c.ctx));
    if (!st && repack && stats)
        fprintf(stderr, "repacked%s: %.1f MB in %.2f s, %.1f MB in blocks stay in the file\n",
                repacked.from_file ? " before" : "", (double)repacked.bytes / 1e6, repacked.seconds,
                (double)repacked.left / 1e6);
    source.at = plain;
    source.n = sizeof plain - 1;
    if (!st && template_path) {
        source.at = own;
        source.n = n_own;
    } else if (!st) {
        meta = tllm_gguf_find(tllm_session_file(c.session), "tokenizer.chat_template");
        if (!meta || !tllm_meta_text(meta, 0, &source)) {
            fputs("chat: the file has no chat template; it gets a plain text with names before the lines\n", stderr);
            how.stop = stop_plain;
            how.n_stop = 2;
        }
    }
    if (!st) st = tllm_template_open(c.ctx, source.at, source.n, &c.template_);
    if (!st) {
        c.bos = special_text(tllm_session_vocab(c.session), TLLM_BOS);
        c.eos = special_text(tllm_session_vocab(c.session), TLLM_EOS);
        if (system_text && !add(&c.talk, "system", system_text, strlen(system_text))) st = TINY_E_MEMORY;
    }
    if (st && c.ctx) say(*tiny_ctx_message(c.ctx) ? tiny_ctx_message(c.ctx) : tiny_status_text(st));
    (void)signal(SIGINT, on_interrupt);
    while (!st) {
        const size_t first = c.talk.n && !strcmp(c.talk.m[0].role, "system");
        size_t n;
        char *line;
        answer a;
        tllm_generate_result r;
        memset(&a, 0, sizeof a);
        memset(&r, 0, sizeof r);
        fputs("> ", stdout);
        if (fflush(stdout) || ferror(stdout)) {
            fputs("chat: standard output cannot be written\n", stderr);
            st = TINY_E_IO;
            break;
        }
        if (read_line(&line, &n, ++number)) {
            st = TINY_E_IO;
            break;
        }
        if (!line) {
            if (stopped_by && !feof(stdin)) {
                stopped_by = 0;
                clearerr(stdin);
                puts("");
                continue;
            }
            puts("");
            break;
        }
        again = 0;
        if (line[0] == '/') {
            if (!strcmp(line, "/quit") || !strcmp(line, "/exit")) {
                free(line);
                break;
            } else if (!strcmp(line, "/help")) fputs(strstr(usage, "/help"), stdout);
            else if (!strcmp(line, "/reset")) cut(&c.talk, first);
            else if (!strncmp(line, "/system ", 8)) {
                cut(&c.talk, 0);
                if (!add(&c.talk, "system", line + 8, n - 8)) st = no_memory("this message");
            } else if (!strcmp(line, "/undo")) cut(&c.talk, c.talk.n >= first + 2 ? c.talk.n - 2 : first);
            else if (!strcmp(line, "/again") && c.talk.n >= first + 2) {
                cut(&c.talk, c.talk.n - 1);
                how.seed++;
                again = 1;
            } else if (!strcmp(line, "/show")) {
                char *text = NULL;
                size_t n_text = 0;
                if (prompt_of(&c, &text, &n_text)) say(tiny_ctx_message(c.ctx));
                else printf("%s\n", text);
                tiny_free(c.ctx, text);
            } else if (!strncmp(line, "/save ", 6)) {
                size_t k, total = 0;
                char *all = NULL;
                for (k = 0; k < c.talk.n; k++) total += strlen(c.talk.m[k].role) + c.talk.m[k].content_bytes + 4;
                all = (char *)malloc(total + 1);
                total = 0;
                for (k = 0; all && k < c.talk.n; k++)
                    total += (size_t)sprintf(all + total, "%s: %s\n\n", c.talk.m[k].role, c.talk.m[k].content);
                if (must_not_write(line + 6, 3, path, template_path, keep.path)) {
                } else if (!all || tiny_file_write(c.ctx, line + 6, all, total))
                    fprintf(stderr, "chat: %s\n", all ? tiny_ctx_message(c.ctx) : "there is no memory");
                free(all);
            } else if (!strcmp(line, "/again")) fputs("chat: there is no answer yet to give once more\n", stderr);
            else if (!strcmp(line, "/save") || !strcmp(line, "/system"))
                fprintf(stderr, "chat: %s needs %s after it\n", line,
                        line[2] == 'a' ? "the name of a file" : "the message");
            else fprintf(stderr, "chat: %s is not a command; /help lists them\n", line);
        } else if (n && !(again = add(&c.talk, "user", line, n))) st = no_memory("this line");
        free(line);
        if (!again) continue;
        stopped_by = 0;
        how.user = &a;
        if (reply(&c, &how, &r)) cut(&c.talk, c.talk.n - 1);   /* the question is removed */
        else if (a.failed || !add(&c.talk, "assistant", a.text ? a.text : "", a.n)) st = no_memory("this answer");
        puts(r.end == TLLM_END_CALLER ? " ..." : "");
        if (stats)
            fprintf(stderr, "[%zu of %zu tokens read at %.1f a second, %zu written at %.1f a second]\n",
                    r.n_prompt - r.n_reused, r.n_prompt, (double)(r.n_prompt - r.n_reused) / (r.prompt_seconds + 1e-9),
                    r.n_made, (double)r.n_made / (r.made_seconds + 1e-9));
        stopped_by = 0;
        free(a.text);
    }
    cut(&c.talk, 0);
    free(c.talk.m);
    free(c.bos);
    free(c.eos);
    if (c.ctx) {
        tllm_template_close(c.ctx, c.template_);
        tllm_session_close(c.session);
    }
    tiny_ctx_close(c.ctx);
    free(own);
    return exit_status(st != TINY_OK || (c.failed && !c.ran));      /* a template that never ran is a failure */
}
