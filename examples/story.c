/* examples/story.c - the model of this repository tells a story
 *
 *     story [MODEL.gguf] [--seed S] [--stories N] [--machine]
 *
 * --machine also lists the SIMD targets of this machine and checks each against the reference. The last line has the
 * speed, and the loss next to the smallest possible loss, which is known because the language is generated. If
 * STORY_LINKED is defined, the program contains the model: story-model.h, which `build/bytes` writes. */
#define TINYLLM_WITH_JUDGE
#define TINY_WITH_CONFORM
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#ifdef STORY_LINKED
#include "story-model.h"
#endif
#define PROGRAM "story"
#include "options.h"
#include <time.h>

static const char usage[] =
    "story [MODEL.gguf] [options]      a model tells stories of a generated language\n"
    "  --seed S         seed of the first story; default: the time\n"
    "  --stories N      default: one\n"
    "  --machine        list the targets of this machine and check each against the reference\n";

/* Words separated by spaces, printed as in a book and kept as they came. */
typedef struct printer {
    char word[64], said[4096];
    size_t n, n_said, column;
    int begins, quoted, behind_quote;
} printer;

static void print_word(printer *p)
{
    char *w = p->word;
    int blank = p->n_said > 0 && !p->behind_quote;
    if (!p->n) return;
    w[p->n] = 0;
    if (p->n_said + p->n + 1 < sizeof p->said) p->n_said += (size_t)sprintf(p->said + p->n_said, " %s", w);
    p->behind_quote = 0;
    if (!strcmp(w, ".") || !strcmp(w, ",") || !strcmp(w, "!") || !strcmp(w, "?")) blank = 0;
    if (!strcmp(w, "\"")) {
        if (p->quoted) blank = 0;
        else p->behind_quote = p->begins = 1;
        p->quoted = !p->quoted;
    } else {
        if ((p->begins || !strcmp(w, "i")) && w[0] >= 'a' && w[0] <= 'z') w[0] = (char)(w[0] - 32);
        p->begins = !strcmp(w, ".") || !strcmp(w, "!") || (!strcmp(w, "?") && !p->quoted);
    }
    if (blank && p->column + p->n > 100) { putchar('\n'); p->column = 0; blank = 0; }
    p->column += (size_t)printf("%s%s", blank ? " " : "", w);
    (void)fflush(stdout);
    p->n = 0;
}
static int print(void *user, const char *text, size_t n)
{
    printer *p = (printer *)user;
    size_t i;
    for (i = 0; i < n; i++) {
        if (text[i] == ' ') print_word(p);
        else if (p->n + 1 < sizeof p->word) p->word[p->n++] = text[i];
    }
    return 0;
}

static size_t score(const char *said, size_t *n)    /* tokens that follow the grammar */
{
    int32_t token[TLLM_STORY_LONGEST];
    const char *w = said;
    *n = 0;
    while (*w && *n < TLLM_STORY_LONGEST) {
        size_t len;
        w += *w == ' ';
        len = strcspn(w, " ");
        token[(*n)++] = tllm_story_find(w, len);
        w += len;
    }
    return tllm_story_score(token, *n, NULL, NULL);
}

#ifndef TINY_NO_CONFORM
/* the targets of this machine, and each against the reference */
static int machine(void)
{
    tiny_conform_desc d;
    tiny_ctx *ctx = NULL;
    char *text;
    size_t n;
    int t, failed, all = 0;
    memset(&d, 0, sizeof d);
    d.n_cases = 3;
    if (tiny_ctx_open(NULL, &ctx)) return 1;
    n = tiny_ctx_report(ctx, NULL, 0);
    text = (char *)malloc(n);
    if (text) {
        (void)tiny_ctx_report(ctx, text, n);
        /* the line of the machine; `make machine` prints the kernels of each operation */
        text[strcspn(text, "\n")] = 0;
        puts(text);
    }
    free(text);
    tiny_ctx_close(ctx);
    for (t = TINY_TARGET_REFERENCE + 1; t < TINY_TARGET_COUNT; t++) {
        tiny_ctx_desc cd;
        tiny_status st;
        memset(&cd, 0, sizeof cd);
        cd.target = (tiny_target)t;
        if (!tiny_target_runs_here(cd.target)) continue;
        ctx = NULL;
        failed = 0;
        st = tiny_ctx_open(&cd, &ctx);
        if (!st) st = tiny_conform(ctx, &d, &failed);
        if (st)
            printf("target %s: %s\n", tiny_target_name(cd.target), ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
        else
            printf("target %s against the reference, %d cases of each operation: %d failed\n",
                   tiny_target_name(cd.target), d.n_cases, failed);
        all += failed + (st != TINY_OK);
        tiny_ctx_close(ctx);
    }
    puts(all ? "conformance: FAILED\n" : "conformance: passed\n");
    return all;
}
#endif

int main(int argc, char **argv)
{
#ifdef STORY_LINKED
    const char *path = NULL, *given = NULL;
#else
    const char *path = "examples/models/story-gla.gguf", *given = NULL;
#endif
    uint64_t seed = (uint64_t)time(NULL);
    int stories = 1, tell_machine = 0, bad = 0, k;
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    tllm_session *session = NULL;
    tllm_generate_desc how;
    tllm_generate_result r;
    tllm_judge_desc jd;
    tllm_judgement j;
    tllm_step chain[1];
    double spent = 0;
    size_t made = 0;
    tiny_status st;
    const option options[] = { A_WORD("model", &given), A_SEED("--seed", &seed), A_WHOLE("--stories", &stories, 0, 1e6),
                               A_FLAG("--machine", &tell_machine) };
    READ_OPTIONS(argc, argv, usage, options);
    if (given) path = given;
    memset(&desc, 0, sizeof desc);
    memset(&how, 0, sizeof how);
    memset(&jd, 0, sizeof jd);
    memset(&j, 0, sizeof j);
    /* the model is small: threads would wait longer than they work */
    desc.n_threads = 1;
    chain[0] = tllm_step_temperature(1.0f);
    how.chain = chain;
    how.n_steps = 1;
    how.text = print;
    desc.log = hear;
    desc.user = &ctx;
    st = tiny_ctx_open(&desc, &ctx);
#ifdef STORY_LINKED
    if (!st)
        st = path ? tllm_session_open(ctx, path, NULL, &session)
                  : tllm_session_open_memory(ctx, story_model, sizeof story_model, NULL, &session);
#else
    if (!st) st = tllm_session_open(ctx, path, NULL, &session);
#endif
    for (k = 0; !st && k < stories; k++) {
        static printer p;
        size_t n, good;
        memset(&p, 0, sizeof p);
        p.begins = 1;
        how.user = &p;
        how.seed = seed + (uint64_t)k;
        st = tllm_generate(session, "", 0, &how, &r);
        print_word(&p);
        if (st) break;
        good = score(p.said, &n);
        if (good == n)
            printf("\n(seed %llu: %zu words; the grammar of the language takes them all)\n\n",
                   (unsigned long long)how.seed, n);
        else
            printf("\n(seed %llu: %zu words; the grammar of the language would not have said word %zu)\n\n",
                   (unsigned long long)how.seed, n, good + 1);
        made += r.n_made;
        spent += r.made_seconds;
    }
#ifndef TINY_NO_CONFORM
    if (!st && tell_machine) bad = machine();
#else
    if (tell_machine) puts("(this program was built without the conformance kit)");
#endif
    jd.stories = 200;
    jd.samples = jd.greedy = -1;
    if (!st) st = tllm_judge(ctx, tllm_session_model(session), NULL, &jd, &j);
    if (st && ctx) fprintf(stderr, "\nstory: %s\n", tiny_ctx_message(ctx));
    if (!st)
        printf("%.0f tokens/s; %.4f bits a token on %zu stories that it never saw, where no model can do better than "
               "%.4f\n",
               spent > 0 ? (double)made / spent : 0.0, j.bits, j.stories, j.floor);
    tllm_session_close(session);
    tiny_ctx_close(ctx);
    return exit_status(st != TINY_OK || bad);
}
