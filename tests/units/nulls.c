/* tests/units/nulls.c - calls every public function with NULL; nulls.sh writes the calls from the declarations
 *
 * A function is called with no pointers at all, with its context only, and with all but one of its pointers; numbers
 * are 0, then 1. A given pointer points at zeros, or at a real object if the type is opaque and t_handle can make one.
 * Each function runs in a process of its own. When that dies, each of its calls runs again in one, so that the crashing
 * call is named. */
#define _DEFAULT_SOURCE 1
#include T_HEADER
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct t_public { const char *name; void (*call)(void); int n_pointers, has_ctx; } t_public;

typedef struct t_opener { const char *type; void *(*open)(void); } t_opener;

enum { T_NONE = -1, T_ONLY_FIRST = -2 };
/* which pointer is NULL, or T_NONE: all, T_ONLY_FIRST: all but the first; the value of numbers */
static int t_left, t_number, t_has_ctx;
static tiny_ctx *t_ctx;
static const char *t_wrong;
static FILE *t_out;                         /* of a child: the output of its parent */

static int t_gives(int i) { return t_left == T_ONLY_FIRST ? i == 0 : t_left >= 0 && i != t_left; }

static void *t_zeros(int i)
{
    static char zeros[24][1 << 15];         /* each its own: an output is no other call's input */
    return memset(zeros[i], 0, sizeof zeros[i]);
}

static void t_must(tiny_status st) 
{
    if (!st) return;
    fprintf(t_out, "    the objects of the test: %s\n", tiny_ctx_message(t_ctx));
    fflush(t_out);
    _exit(2);
}

static void *t_open(const char *type);

/* a real object if one is made in a line or two, or by its own open from zeros; else NULL */
static void *t_handle(const char *type)
{
    if (!strcmp(type, "tiny_ctx")) return t_ctx;
    if (!strcmp(type, "tiny_op_row")) return (void *)(uintptr_t)tiny_op_at(0);
    if (!strcmp(type, "tiny_tape")) {
        tiny_tape *tape;
        t_must(tiny_tape_open(t_ctx, NULL, &tape));
        return tape;
    }
#ifdef T_tinygnn
    if (!strcmp(type, "tgnn_graph")) {
        static const int32_t node[2] = { 0, 1 };
        tgnn_edges e;
        tgnn_graph *g;
        memset(&e, 0, sizeof e);
        e.n = 2;
        e.src = e.dst = node;
        t_must(tgnn_graph_make(t_ctx, &e, NULL, &g));
        return g;
    }
#else
    if (!strncmp(type, "tllm_", 5)) {
        static tllm_session *s;
        static tiny_ctx *its;
        tllm_sampler *sampler;
        const tllm_step greedy = tllm_step_greedy();
        tllm_stop *stop;
        tllm_calib *calib;
        if (!strcmp(type, "tllm_pages")) {
            tllm_pages_desc d;
            tllm_pages *pages;
            memset(&d, 0, sizeof d);
            d.n_block = d.n_most = 4;
            d.block = d.n_seq = 2;
            t_must(tllm_pages_open(t_ctx, &d, &pages));
            return pages;
        }
        if (!strcmp(type, "tllm_share")) {
            static const tllm_share_matrix w = { 4, 4, 1.0 };
            tllm_share_desc d;
            tllm_share *share;
            memset(&d, 0, sizeof d);
            d.matrix = &w;
            d.n_matrix = 1;
            d.m = 5;
            t_must(tllm_share_open(t_ctx, &d, &share));
            return share;
        }
        if (!strcmp(type, "tllm_nn")) {
            static const tllm_nn_layer layer = { 0, 2, 0, 0, 0, 0 };
            tllm_nn_desc d;
            tllm_nn *nn;
            memset(&d, 0, sizeof d);
            d.in[0] = 4;
            d.layer = &layer;
            d.n_layer = 1;
            t_must(tllm_nn_open(t_ctx, &d, &nn));
            return nn;
        }
        if (!strcmp(type, "tllm_trainer")) {                /* the one of zeros is a whole story model */
            tllm_train_desc d;
            tllm_trainer *trainer;
            memset(&d, 0, sizeof d);
            d.embedding = 16;
            d.layers = d.heads = d.kv_heads = 1;
            d.sequences = 4;
            d.hidden = d.context = 16;
            t_must(tllm_trainer_open(t_ctx, &d, &trainer));
            return trainer;
        }
        if (!strncmp(type, "tllm_grammar", 12)) {
            static const char text[] = "root ::= \"a\"";
            tllm_grammar *grammar;
            tllm_grammar_state *state;
            t_must(tllm_grammar_open(t_ctx, text, strlen(text), "root", &grammar));
            if (!strcmp(type, "tllm_grammar")) return grammar;
            t_must(tllm_grammar_begin(t_ctx, grammar, &state));
            return state;
        }
        if (its != t_ctx) t_must(tllm_session_open(its = t_ctx, "examples/models/story-small.gguf", NULL, &s));
        if (!strcmp(type, "tllm_session")) return s;
        if (!strcmp(type, "tllm_state")) return tllm_session_state(s);
        if (!strcmp(type, "tllm_model")) return (void *)(uintptr_t)tllm_session_model(s);
        if (!strcmp(type, "tllm_vocab")) return (void *)(uintptr_t)tllm_session_vocab(s);
        if (!strcmp(type, "tllm_gguf")) return (void *)(uintptr_t)tllm_session_file(s);
        if (!strcmp(type, "tllm_sampler")) {
            t_must(tllm_sampler_open(t_ctx, &greedy, 1, 4, 0, &sampler));
            return sampler;
        }
        if (!strcmp(type, "tllm_stop")) { t_must(tllm_stop_open(t_ctx, NULL, 0, &stop)); return stop; }
        if (!strcmp(type, "tllm_calib")) { t_must(tllm_calib_open(t_ctx, 4, 0, &calib)); return calib; }
    }
#endif
    return t_open(type);
}

/* the output of a failed call: NULL */
static tiny_status t_answer;
static void t_result(const void *result)
{
    if (t_answer && result) t_wrong = "leaves its result undefined";
}

static void t_status(tiny_status st)
{
    t_answer = st;
    if ((unsigned)st >= (unsigned)TINY_STATUS_COUNT) t_wrong = "answers no status";
    else if (!st && t_left == T_NONE) t_wrong = "answers that all is well";
    else if (st && t_has_ctx && t_gives(0) && tiny_ctx_status(t_ctx) != st)
        t_wrong = "leaves no sentence in the context";
}

#include T_CALLS

static void *t_open(const char *type)
{
    static int depth;
    void *made = NULL;
    size_t i;
    if (depth > 3) return NULL;
    depth++;
    for (i = 0; !made && i < sizeof t_openers / sizeof *t_openers; i++)
        if (!strcmp(t_openers[i].type, type)) made = t_openers[i].open();
    depth--;
    if (getenv("T_SAYS")) fprintf(stderr, "an object of type %s: %s\n", type, made ? "made" : tiny_ctx_message(t_ctx));
    return made;
}

/* one of the ways to call it, 2 of each; 0: there are no more */
static int t_way(const t_public *f, int way)
{
    const int kind = way / 2;
    if (kind >= 2 + f->n_pointers) return 0;
    t_left = kind == 0 ? T_NONE : kind == 1 ? T_ONLY_FIRST : kind - 2;
    t_number = way % 2;
    t_has_ctx = f->has_ctx;
    return 1;
}

static const char *t_text(char *text, size_t n, const t_public *f, int way)
{
    (void)t_way(f, way);
    if (t_left >= 0) (void)snprintf(text, n, "pointer %d is NULL, numbers are %d", t_left + 1, t_number);
    else
        (void)snprintf(text, n, "%s, numbers are %d",
                       t_left == T_NONE ? "all pointers are NULL" : "all pointers but the first are NULL", t_number);
    return text;
}

/* Functions that work for minutes when all but one of their pointers are given: a second is enough. */
static int t_long(const char *name)
{
    return !strcmp(name, "tiny_conform")        /* tests every operation */
        || !strcmp(name, "tllm_judge");         /* judges the model by 2000 stories */
}

/* in a child: these ways; its exit status is 0 without a fault; returns how it ended */
static int t_child(const t_public *f, int from, int to, int tells)
{
    char text[128];
    int status, way;
    const pid_t child = fork();
    if (child < 0) { perror("fork"); exit(2); }
    if (!child) {
        tiny_ctx_desc d;
        memset(&d, 0, sizeof d);
        d.n_threads = 1;
        struct itimerval quarter;
        memset(&quarter, 0, sizeof quarter);
        quarter.it_value.tv_usec = 250000;
        if (t_long(f->name)) (void)setitimer(ITIMER_PROF, &quarter, NULL);
        alarm(20);
        /* numbers are descriptors too: 0, 1 and 2 must not be used */
        t_out = fdopen(dup(1), "w");
        if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stdout) ||
            (!getenv("T_SAYS") && !freopen("/dev/null", "w", stderr)))
            _exit(2);
        for (way = from; way < to && t_way(f, way); way++) {
            if (tiny_ctx_open(&d, &t_ctx)) _exit(2);
            t_wrong = NULL;
            f->call();
            if (!t_wrong) continue;
            if (tells) {
                fprintf(t_out, "    %s %s: %s\n", f->name, t_wrong, t_text(text, sizeof text, f, way));
                fflush(t_out);
            }
            _exit(3);
        }
        _exit(0);
    }
    (void)waitpid(child, &status, 0);
    if (tells && WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF && t_long(f->name)) return 0;
    if (tells && status && !(WIFEXITED(status) && WEXITSTATUS(status) == 3))
        printf("    %s %s: %s\n", f->name,
               WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "does not return" : "crashes",
               t_text(text, sizeof text, f, from));
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    size_t i, n_passed = 0, n_failed = 0;
    FILE *counts;
    for (i = 0; i < sizeof t_all / sizeof *t_all; i++) {
        const t_public *f = &t_all[i];
        int way, bad = 0;
        if (argc > 2 && strcmp(f->name, argv[2])) continue;
        if (t_child(f, 0, 1 << 20, 0))
            for (way = 0; t_way(f, way); way++) bad += t_child(f, way, way + 1, 1) != 0;
        n_passed += !bad;
        n_failed += bad > 0;
        if (bad) printf("FAILED: %s\n", f->name);
        fflush(stdout);
    }
    counts = argc > 1 ? fopen(argv[1], "a") : NULL;
    if (!counts) return 2;
    fprintf(counts, "%zu %zu\n", n_passed, n_failed);
    return fclose(counts) != 0;
}
