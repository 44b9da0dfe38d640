/* tests/llm/programs.c - the programs of examples/ as a user runs them: arguments, standard input and output, exit
 * statuses
 *
 * 0: done. 1: failed, with a sentence on standard error. 2: invalid arguments. The models are those of the oracle, and
 * stories260K if the large files are present. */
#include "t.h"
#include "one_line.h"

#if defined __unix__ || defined __APPLE__
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char a_story[] = "examples/models/story-small.gguf";
static char folder[200], said[60000], errors[60000];

static size_t slurp(const char *name, char *text, size_t most)
{
    char path[300];
    size_t n;
    FILE *f;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    n = f ? fread(text, 1, most - 1, f) : 0;
    text[n] = 0;
    if (f) (void)fclose(f);
    return n;
}
static void spill(const char *name, const char *text)
{
    char path[300];
    FILE *f;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "wb");
    T_TRUE(f && fputs(text, f) >= 0);
    if (f) (void)fclose(f);
}

/* Runs BUILD/line; input: its standard input. Fills `said` and `errors`, returns the exit status. */
TINYI_PRINTF(2, 3) static int run(const char *input, const char *format, ...)
{
    const char *build = getenv("BUILD");
    char line[3000];
    va_list args;
    int at = snprintf(line, sizeof line, "%s/", build ? build : "build"), status;
    va_start(args, format);
    at += vsnprintf(line + at, sizeof line - (size_t)at, format, args);
    va_end(args);
    spill("in", input);
    (void)snprintf(line + at, sizeof line - (size_t)at, " <%s/in >%s/out 2>%s/err", folder, folder, folder);
    status = system(line);
    (void)slurp("out", said, sizeof said);
    (void)slurp("err", errors, sizeof errors);
    return status == -1 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}
static void has(const char *text, const char *part, int line)
{
    if (!strstr(text, part)) t_fail(__FILE__, line, "\"%.300s\" is without \"%s\"", text, part);
}
#define SAYS(part) has(said, part, __LINE__)
#define COMPLAINS(part) has(errors, part, __LINE__)

static const char *const programs[] = { "generate", "chat", "perplexity", "embed", "inspect", "logits", "tokenize" };

/* the same for a long text */
static void spill_many(const char *name, char c, size_t n, const char *end)
{
    char path[300], some[4096];
    FILE *f;
    memset(some, c, sizeof some);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "wb");
    for (; f && n; n -= n < sizeof some ? n : sizeof some)
        if (fwrite(some, 1, n < sizeof some ? n : sizeof some, f) == 0) break;
    T_TRUE(f && !n && fputs(end, f) >= 0);
    if (f) (void)fclose(f);
}

static int is_there(void)
{
    static int asked, there;
    const char *tmp = getenv("TMPDIR");
    size_t i;
    if (!asked++) {
        (void)snprintf(folder, sizeof folder, "%.150s/tinyprogramsXXXXXX", tmp ? tmp : P_tmpdir);
        there = mkdtemp(folder) != NULL;
        for (i = 0; i < T_COUNT(programs) && there; i++) there = run("", "%s --help", programs[i]) == 0;
    }
    if (!there) t_skip("the programs do not run here");
    return there;
}

static void test_usage(void)
{
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(programs); i++) {
        T_EQ_INT(run("", "%s --help", programs[i]), 0);
        has(said, programs[i], __LINE__);
        T_EQ_TEXT(errors, "");
        T_EQ_INT(run("", "%s", programs[i]), 2);
        T_TRUE(!*said && *errors);
        T_EQ_INT(run("", "%s model --no-such-option", programs[i]), 2);
        T_TRUE(!*said);
        COMPLAINS("--no-such-option");
    }
}

/* a line that begins with the option, or with the name of the program and the option, and has more text */
static int is_explained(const char *name, const char *option)
{
    const size_t n = strlen(option);
    const char *at;
    for (at = said; at; at = strchr(at, '\n'), at += at != NULL) {
        const char *word = strncmp(at, name, strlen(name)) ? at : at + strlen(name);
        word += strspn(word, " ");
        if (!strncmp(word, option, n) && strchr(" =[", word[n]) && strcspn(word, "\n") > n + 8) return 1;
    }
    return 0;
}

/* --help explains every option of a program's table, on standard output; a word that is no option is refused. */
static void test_help(void)
{
    static const char *const kinds[] = { "A_FLAG(\"",  "A_TEXT(\"",   "ANY_TEXT(\"", "A_WHOLE(\"", "A_SEED(\"",
                                         "A_COUNT(\"", "A_NUMBER(\"", "A_TARGET(\"", "A_LIST(\"" };
    static char source[80000];
    DIR *all = opendir("examples");
    struct dirent *e;
    size_t k, n, options = 0, seen = 0;
    if (!all || !is_there()) { if (all) (void)closedir(all); return; }
    while ((e = readdir(all)) != NULL) {
        char name[100], path[300];
        FILE *f;
        n = strlen(e->d_name);
        if (n < 3 || n > 90 || strcmp(e->d_name + n - 2, ".c")) continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)n - 2, e->d_name);
        (void)snprintf(path, sizeof path, "examples/%.90s", e->d_name);
        f = fopen(path, "rb");
        n = f ? fread(source, 1, sizeof source - 1, f) : 0;
        source[n] = 0;
        if (f) (void)fclose(f);
        T_TRUE(n > 0 && n < sizeof source - 1);
        if (run("", "%s --help", name) == 127) continue;     /* not built here */
        T_EQ_INT(run("", "%s --help", name), 0);
        has(said, name, __LINE__);
        T_EQ_TEXT(errors, "");
        seen++;
        for (k = 0; k < T_COUNT(kinds); k++) {
            const char *at = source;
            while ((at = strstr(at, kinds[k])) != NULL) {
                char option[64], *blank;
                at += strlen(kinds[k]);
                (void)snprintf(option, sizeof option, "%.*s", (int)strcspn(at, "\""), at);
                blank = strrchr(option, ' ');               /* the letters of its commands */
                if ((blank ? blank[1] : *option) == '-' && !is_explained(name, blank ? blank + 1 : option))
                    t_fail(__FILE__, __LINE__, "%s --help does not explain %s", name, blank ? blank + 1 : option);
                options++;
            }
        }
        if (!strstr(source, "#include \"options.h\"")) continue;
        T_EQ_INT(run("", "%s --no-such-option", name), 2);
        T_TRUE(!*said);
        COMPLAINS("--no-such-option");
    }
    (void)closedir(all);
    T_TRUE(seen > 5 && options > 50);
    T_EQ_INT(run("", "demo --loud"), 2);
    if (run("", "fastrp --help") == 0) {
        T_EQ_INT(run("", "fastrp"), 2);
        COMPLAINS("--standardize");
        T_TRUE(access("embedding.npy", F_OK) != 0);
    }
}

/* an endless input is refused with the bound that it passed */
static void test_endless_input(void)
{
    const char *m = t_shared("oracle/llm/llama.gguf");
    if (!m || access("/dev/zero", R_OK) || !is_there()) return;
    T_EQ_INT(run("", "perplexity %s /dev/zero", m), 1);
    COMPLAINS("perplexity: /dev/zero: it has more than 268435456 bytes");
    T_EQ_INT(run("", "generate %s x --grammar /dev/zero", m), 1);
    COMPLAINS("generate: /dev/zero: it has more than 1048576 bytes");
    T_EQ_INT(run("", "generate %s x --schema /dev/zero", m), 1);
    COMPLAINS("generate: /dev/zero: it has more than 1048576 bytes");
    T_EQ_INT(run("", "chat %s --template /dev/zero", m), 1);
    COMPLAINS("chat: /dev/zero: it has more than 262144 bytes");
    T_EQ_INT(run("", "train-story --config /dev/zero --out %s/x.gguf", folder), 1);
    COMPLAINS("train-story: /dev/zero: it has more than 1048576 bytes");
    T_EQ_INT(run("", "cache profile %s /dev/zero -o %s/x.tables", m, folder), 1);
    COMPLAINS("cache: /dev/zero: it has more than 268435456 bytes");
    T_EQ_INT(run("", "bytes /dev/zero x"), 1);
    COMPLAINS("bytes: /dev/zero has more than 268435456 bytes");
    T_EQ_INT(run("", "generate /dev/zero x"), 1);
    COMPLAINS("/dev/zero: more than 67108864 bytes");
    T_EQ_INT(run("", "weave /dev/zero"), 1);
    COMPLAINS("/dev/zero: more than 67108864 bytes");
    T_EQ_INT(run("", "perplexity %s %s", m, folder), 1);
    COMPLAINS("cannot be read");
    /* a text that is as long as the bound is read, one byte more is not */
    spill_many("long", ' ', (256 << 10) - 1, "x");
    T_EQ_INT(run("hello\n/quit\n", "chat examples/models/story-small.gguf --template %s/long --n 1", folder), 0);
    spill_many("long", ' ', 256 << 10, "x");
    T_EQ_INT(run("", "chat examples/models/story-small.gguf --template %s/long", folder), 1);
    COMPLAINS("it has more than 262144 bytes");
}

/* no program overwrites its input */
static void test_input_not_overwritten(void)
{
    static const char *const lines[] = { "rotate %s %s",
                                         "rotate %s %s.gguf",
                                         "slice %s %s --text README.md",
                                         "slice README.md %s --text %s",
                                         "prune %s %s --text README.md",
                                         "join %s examples/models/story.gguf %s --text README.md",
                                         "generate %s x --n 1 --save-session %s",
                                         "generate %s x --n 1 --repack-file %s",
                                         "chat %s --repack-file %s",
                                         "cache save %s text -o %s",
                                         "weave %s -o %s.gguf",
                                         "weave %s --save %s",
                                         "vptq %s --text README.md --tensor blk.0.attn_q.weight --save %s",
                                         "train-story --config %s --out %s",
                                         "graph convert %s %s" };
    static char was[300], is[300];
    char model[300], to[300];
    size_t i;
    if (!is_there()) return;
    spill("m.gguf", "what is read, and has to stay as it is");
    (void)snprintf(model, sizeof model, "%s/m.gguf", folder);
    (void)snprintf(to, sizeof to, "%s/link", folder);
    if (symlink("m.gguf", to)) { t_skip("there are no symbolic links"); return; }
    (void)snprintf(to, sizeof to, "%s/link.gguf", folder);
    if (link(model, to)) { t_skip("there are no links"); return; }
    (void)slurp("m.gguf", was, sizeof was);
    (void)snprintf(to, sizeof to, "%s/link", folder);
    for (i = 0; i < T_COUNT(lines); i++) {
        char line[2000];
        (void)snprintf(line, sizeof line, lines[i], model, to);
        if (run("", "%s", line) == 127) continue;           /* not built here */
        T_EQ_INT(run("", "%s", line), 2);
        COMPLAINS("this file is read, so nothing is written to it");
        T_TRUE(slurp("m.gguf", is, sizeof is) == strlen(was) && !strcmp(was, is));
    }
    T_EQ_INT(run("", "rotate %s %s", model, folder), 2);
    COMPLAINS("this is a folder");
    T_EQ_INT(
        run("/save examples/models/../models/story-small.gguf\n/quit\n", "chat examples/models/story-small.gguf --n 1"),
        0);
    COMPLAINS("this file is read, so nothing is written to it");
    (void)remove(to);
    (void)snprintf(to, sizeof to, "%s/link.gguf", folder);
    (void)remove(to);
}

/* The terminal is closed: the partial output is deleted. A program under nohup is not stopped. */
static void test_terminal_closed(void)
{
    const char *build = getenv("BUILD");
    char program[300], out[300], part[310];
    int nohup, status = 0, k;
    if (!is_there() || run("", "make-model --help")) return;
    (void)snprintf(program, sizeof program, "%s/make-model", build ? build : "build");
    (void)snprintf(out, sizeof out, "%s/large.gguf", folder);
    (void)snprintf(part, sizeof part, "%s.part", out);
    for (nohup = 0; nohup < 2; nohup++) {
        const pid_t child = fork();
        if (!child) {
            (void)alarm(120);
            (void)signal(SIGHUP, nohup ? SIG_IGN : SIG_DFL);
            if (!freopen("/dev/null", "w", stderr)) _exit(127);
            (void)execl(program, program, "--shape", nohup ? "15M" : "1.1B", out, (char *)NULL);
            _exit(127);
        }
        for (k = 0; k < 60000 && access(part, F_OK) && access(out, F_OK); k++) (void)usleep(1000);
        if (!T_TRUE(child > 0)) return;
        (void)kill(child, SIGHUP);
        T_TRUE(waitpid(child, &status, 0) == child && WIFEXITED(status));
        T_EQ_INT(WEXITSTATUS(status), nohup ? 0 : 128 + SIGHUP);
        T_TRUE(access(part, F_OK) != 0 && (access(out, F_OK) == 0) == nohup);
    }
    (void)remove(out);
}

/* The reader of the messages exits: the file is written all the same. */
static void test_reader_exits(void)
{
    struct stat s;
    char out[300];
    if (!is_there() || run("", "weave --help")) return;
    (void)snprintf(out, sizeof out, "%s/weights", folder);
    spill("rows.csv", "1,2,3\n4,5,9\n7,8,15\n2,2,4\n");
    /* more lines than a pipe holds at once */
    T_TRUE(run("", "weave %s/rows.csv --epochs 10000 --threads 1 -o %s 2>%s/err2 | true", folder, out, folder) >= 0);
    T_TRUE(!stat(out, &s) && s.st_size > 10);
    (void)remove(out);
}

/* a template that never ran is a failure; one that ran sometimes is a chat */
static void test_template_fails(void)
{
    if (!is_there()) return;
    spill("fails", "{{ raise_exception('never') }}");
    T_EQ_INT(run("hello\nagain\n", "chat examples/models/story-small.gguf --template %s/fails --n 2", folder), 1);
    COMPLAINS("never");
    spill(
        "fails",
        "{% if messages[0].content == 'once' %}{{ raise_exception('sometimes') }}{% endif %}{{ messages[0].content }}");
    T_EQ_INT(run("once\none day\n", "chat examples/models/story-small.gguf --template %s/fails --n 2", folder), 0);
    COMPLAINS("sometimes");
    T_EQ_INT(run("", "chat examples/models/story-small.gguf --template %s/fails --n 2", folder), 0);
}

/* --resume with an invalid checkpoint: refused, and the file unchanged; one that cannot be opened is no reason to start
 * again */
static void test_resume(void)
{
    char path[300], text[100];
    if (!is_there()) return;
    spill("bad.gguf.ckpt", "this is no checkpoint");
    T_EQ_INT(
        run("", "train-story --config examples/story-small.cfg --out %s/bad.gguf --resume --stop 1 --threads 1 --quiet",
            folder),
        1);
    COMPLAINS("bad.gguf.ckpt");
    T_TRUE(slurp("bad.gguf.ckpt", text, sizeof text) == 21 && !slurp("bad.gguf", text, sizeof text) &&
           !slurp("bad.gguf.tsv", text, sizeof text));
    (void)snprintf(path, sizeof path, "%s/loop.gguf.ckpt", folder);
    if (symlink("loop.gguf.ckpt", path)) t_skip("there are no symbolic links");
    T_EQ_INT(
        run("",
            "train-story --config examples/story-small.cfg --out %s/loop.gguf --resume --stop 1 --threads 1 --quiet",
            folder),
        1);
    COMPLAINS("loop.gguf.ckpt cannot be read");
    T_TRUE(!slurp("loop.gguf", text, sizeof text) && !slurp("loop.gguf.tsv", text, sizeof text));
}

static void test_missing(void)
{
    if (!is_there()) return;
    T_EQ_INT(run("", "generate there/is/none.gguf Once"), 1);
    COMPLAINS("there/is/none.gguf: cannot be opened");
    T_EQ_INT(run("", "chat there/is/none.gguf"), 1);
    COMPLAINS("there/is/none.gguf: cannot be opened");
    T_EQ_INT(run("a text", "perplexity there/is/none.gguf -"), 1);
    COMPLAINS("there/is/none.gguf: cannot be opened");
    T_EQ_INT(run("a text", "embed there/is/none.gguf"), 1);
    COMPLAINS("there/is/none.gguf: cannot be opened");
    T_EQ_INT(run("", "inspect there/is/none.gguf"), 1);
    COMPLAINS("there/is/none.gguf: cannot be opened");
    T_EQ_INT(run("", "logits there/is/none.gguf --tokens 1"), 1);
    COMPLAINS("there/is/none.gguf: cannot be opened");
    T_EQ_INT(run("", "tokenize there/is/none.gguf"), 1);
    COMPLAINS("there/is/none.gguf: cannot be opened");
    T_TRUE(!strstr(errors, "Sanitizer"));   /* files that were opened before are closed */
    spill("not.gguf", "this is no model");
    T_EQ_INT(run("", "generate %s/not.gguf Once", folder), 1);
    COMPLAINS("not.gguf");
    T_EQ_TEXT(said, "");
}

static void test_generate(void)
{
    const char *m = t_shared("oracle/llm/llama.gguf");
    static char first[60000];
    if (!m || !is_there()) return;
    T_EQ_INT(run("", "generate %s Once --n 12 --echo --threads 1 --target reference", m), 0);
    T_TRUE(!strncmp(said, "Once", 4));
    T_EQ_TEXT(errors, "");
    memcpy(first, said, sizeof first);
    T_EQ_INT(run("Once", "generate %s - --n 12 --echo --threads 2 --target reference", m), 0);
    T_EQ_TEXT(said, first);                                 /* the same bits, from standard input too */
    T_EQ_INT(run("", "generate %s Once --n 5 --stats", m), 0);
    COMPLAINS("text: 5 tokens");
    T_EQ_INT(run("", "generate %s Once --n 12 --temp 1 --seed 3 --threads 1 --target reference", m), 0);
    memcpy(first, said, sizeof first);
    T_EQ_INT(run("", "generate %s Once --n 12 --temp 1 --seed 3 --threads 1 --target reference", m), 0);
    T_EQ_TEXT(said, first);
    T_EQ_INT(run("", "generate %s Once --n", m), 2);
    COMPLAINS("--n: a value is missing");
    T_EQ_INT(run("", "generate %s Once --n many", m), 2);
    T_EQ_INT(run("", "generate %s Once --target z80", m), 2);
    T_EQ_INT(run("", "generate %s Once --grammar %s/none", m, folder), 1);
    COMPLAINS("none: cannot be opened");
    T_EQ_INT(run("", "generate %s Once twice", m), 2);
    COMPLAINS("a second prompt");
}

/* --draft: the same text on the reference, counts with --stats, and refusals */
static void test_generate_draft(void)
{
    static const char call[] = "generate examples/models/story.gguf 'one day , Ella' --n 40 --target reference";
    static const char model[] = "--draft examples/models/story-small.gguf";
    char *plain;
    if (!is_there()) return;
    T_EQ_INT(run("", "%s --temp 0.7 --seed 4", call), 0);
    plain = strdup(said);
    T_EQ_INT(run("", "%s --temp 0.7 --seed 4 %s --draft-always --stats", call, model), 0);
    T_EQ_TEXT(said, plain);
    COMPLAINS("proposed tokens kept");
    T_EQ_INT(run("", "%s --temp 0.7 --seed 4 --draft-repeat --draft-n 3", call), 0);
    T_EQ_TEXT(said, plain);
    free(plain);
    T_EQ_INT(run("", "%s --temp 0.7 %s --draft-most", call, model), 0);
    T_EQ_INT(run("", "%s %s --draft-repeat", call, model), 2);
    COMPLAINS("--draft and --draft-repeat: one of them");
    T_EQ_INT(run("", "%s --draft-n 3", call), 2);
    COMPLAINS("--draft-n does nothing without --draft or --draft-repeat");
    T_EQ_INT(run("", "%s --draft-repeat --draft-n 33", call), 2);
    T_EQ_INT(run("", "%s --draft examples/models/story-gla.gguf", call), 1);
    T_EQ_INT(run("", "%s --draft-repeat --beams 2", call), 2);
    COMPLAINS("--draft-repeat does nothing with --beams");
    T_EQ_INT(run("", "%s --draft there/is/none.gguf", call), 1);
}

/* --beams and --parallel: they end with the context, sample if requested, and refuse options that they do not
 * support */
static void test_generate_side_by_side(void)
{
    static const char call[] = "generate examples/models/story-small.gguf 'one day , Ella was in the'";
    static const char *const nothing[] = { "--temp 1",   "--top-k 3",  "--top-p 0.5", "--min-p 0.1",
                                           "--repeat 2", "--seed 1",   "--stop barn", "--shift",
                                           "--stats",    "--schema x", "--grammar x", "--save-session x" };
    char *second;
    size_t i;
    if (!is_there()) return;
    /* 256 tokens, without --n, are more than its context has left */
    T_EQ_INT(run("", "%s --beams 2", call), 0);
    T_TRUE(strlen(said) > 20);
    T_EQ_INT(run("", "%s --beams 2 --n 0", call), 0);
    T_EQ_INT(run("", "%s --beams 2 --n 1000000000", call), 0);
    T_EQ_INT(run("", "%s --parallel 2 --seed 3", call), 0);  /* drawn at 0.8: two texts */
    second = strstr(said, "--- 2 of 2\n");
    T_TRUE(second && !strncmp(said, "--- 1 of 2\n", 11));
    if (second) T_TRUE(strncmp(said + 11, second + 11, strlen(second + 11)) != 0);
    T_EQ_INT(run("", "generate examples/models/story.gguf 'in the end , Jack had three cakes and Mia had five lamps . "
                     "they went home .' --beams 1 --n 1"),
             0);
    T_TRUE(strspn(said, "\n") == strlen(said));             /* the story ends here: its text is empty */
    T_EQ_TEXT(errors, "");
    T_EQ_INT(run("", "%s --parallel 2 --n 3 --echo", call), 0);
    SAYS("in the\n--- 1 of 2\n");
    T_EQ_INT(run("", "%s --parallel 2 --temp 0", call), 2);
    COMPLAINS("all texts are the same");
    T_EQ_INT(run("", "%s --parallel 1.5", call), 2);
    COMPLAINS("--parallel takes a whole number from 1 to 4096, not 1.5");
    T_EQ_INT(run("", "%s --n 3.7", call), 2);
    COMPLAINS("--n takes a whole number");
    T_EQ_INT(run("", "%s --beams 2 --parallel 2", call), 2);
    T_EQ_INT(run("", "%s --grammar x --schema y", call), 2);
    COMPLAINS("--grammar and --schema: one of them");
    for (i = 0; i < T_COUNT(nothing); i++) {
        T_EQ_INT(run("", "%s --beams 2 %s", call, nothing[i]), 2);
        COMPLAINS("does nothing with --beams");
        if (i < 6) continue;
        T_EQ_INT(run("", "%s --parallel 2 %s", call, nothing[i]), 2);
        COMPLAINS("does nothing with --parallel");
    }
    T_EQ_INT(run("", "%s --save-session %s/no/such", call, folder), 1);
    COMPLAINS("--save-session");
    T_EQ_TEXT(said, "");                                     /* reported before a text is made */
    T_EQ_INT(run("", "%s --n 3 --save-session %s/kept", call, folder), 0);
    T_EQ_INT(run("", "%s --n 3 --load-session %s/kept", call, folder), 0);
}

/* --sparse: the same story from the columns of the neurons that fired; a network without silent neurons is refused */
static void test_sparse(void)
{
    static char whole[4000];
    unsigned long long sparse = 0, all = 0;
    double fired = 0.0;
    const char *told;
    if (!is_there()) return;
    T_EQ_INT(run("", "generate examples/models/story-latent.gguf 'one day , Ella was in the' --n 30 --temp 0 --threads "
                     "1 --target reference"),
             0);
    (void)snprintf(whole, sizeof whole, "%.3999s", said);
    T_EQ_INT(run("", "generate examples/models/story-latent.gguf 'one day , Ella was in the' --n 30 --temp 0 --threads "
                     "1 --target reference --sparse --stats"),
             0);
    T_EQ_TEXT(said, whole);
    told = strstr(errors, "end: ");
    told = told ? strchr(told, '\n') : NULL;
    T_EQ_INT(told ? sscanf(told, " %lf of 100 neurons fired; %llu of %llu products", &fired, &sparse, &all) : 0, 3);
    T_TRUE(fired > 1.0 && fired < 60.0 && sparse > 0 && sparse <= all);
    T_EQ_INT(run("", "generate examples/models/story-small.gguf x --n 3 --sparse"), 1);
    COMPLAINS("squared ReLU");
}

/* --repack: the same text (of these kinds of activations), with the form in memory, written to a file, taken from it,
 * and where it is left to the library */
static void test_repack(void)
{
    static char whole[4000];
    const char *m = t_shared("oracle/llm/llama-q4_k_m.gguf"), *plain = t_shared("oracle/llm/llama.gguf");
    int some;
    if (!is_there()) return;
    /* floats have no such form: a message, and no file */
    if (plain) {
        T_EQ_INT(run("", "generate %s x --n 1 --repack-file %s/rows", plain, folder), 0);
        COMPLAINS("rows: nothing was written, as there is nothing to repack");
        T_EQ_INT(run("", "chat %s --repack-file %s/rows", plain, folder), 0);
        COMPLAINS("rows: nothing was written, as there is nothing to repack");
        T_TRUE(!slurp("rows", whole, sizeof whole));
    }
    if (!m) return;
    T_EQ_INT(run("", "generate %s 'one day' --n 12 --temp 0 --threads 1 --repack --stats", m), 0);
    (void)snprintf(whole, sizeof whole, "%.3999s", said);
    has(errors, "repacked: ", __LINE__);
    some = strstr(errors, "repacked: 0.0 MB") == NULL;      /* nothing, where the processor has no kernels for it */
    T_EQ_INT(run("", "generate %s 'one day' --n 12 --temp 0 --threads 1 --repack-file %s/rows --stats", m, folder), 0);
    T_EQ_TEXT(said, whole);
    T_EQ_INT(run("", "generate %s 'one day' --n 12 --temp 0 --threads 1 --repack-file %s/rows --stats", m, folder), 0);
    T_EQ_TEXT(said, whole);
    if (some) COMPLAINS("repacked before: ");
    T_EQ_INT(run("", "generate %s 'one day' --n 12 --temp 0 --threads 1 --repack-auto --stats", m), 0);
    if (some && tiny_target_runs_here(TINY_TARGET_AVX2)) {
        T_EQ_TEXT(said, whole);
        COMPLAINS(" s, 0.0 MB in blocks stay in the file");
    } else COMPLAINS("repacked: 0.0 MB in 0.00 s");
    T_EQ_INT(run("hello\n", "chat %s --n 4 --temp 0 --repack-auto --stats", m), 0);
    COMPLAINS("repacked: ");
    T_EQ_INT(run("", "generate %s x --repack-file", m), 2);
    COMPLAINS("--repack-file");
    if (some) {
        T_EQ_INT(run("", "generate %s x --n 2 --repack-file /no/such/folder/rows", m), 0);     /* in memory alone */
        COMPLAINS("/no/such/folder/rows");
        T_EQ_INT(run("", "generate %s x --n 2 --repack-file %s", m, m), 2);
        COMPLAINS("this file is read, so nothing is written to it");
        T_EQ_INT(run("", "generate %s x --n 2", m), 0);
    }
    T_EQ_INT(run("hello\n", "chat %s --n 4 --temp 0 --repack --stats", m), 0);
    COMPLAINS("repacked");
    T_EQ_INT(run("", "chat %s --repack-file", m), 2);
}

static void test_adapters(void)
{
    const char *m = t_shared("oracle/llm/llama.gguf");
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    char path[300];
    float zeros[256] = { 0 }, v[64];
    tllm_writer_desc d = { 0 };
    tllm_writer *w;
    tllm_text a = { "blk.0.attn_q.weight.lora_a", 26 }, b = { "blk.0.attn_q.weight.lora_b", 26 },
              dir = { "direction.1", 11 };
    const uint64_t dim_a[2] = { 64, 2 }, dim_b[2] = { 2, 64 };
    static char plain[60000];
    size_t i, n;
    if (m && is_there()) {
        (void)snprintf(path, sizeof path, "%s/zero.gguf", folder);
        d.path = path;
        T_OK(tllm_writer_open(ctx, &d, &w));
        (void)tllm_writer_put_text(ctx, w, "general.type", "adapter");
        (void)tllm_writer_put_text(ctx, w, "general.architecture", "llama");
        (void)tllm_writer_put_text(ctx, w, "adapter.type", "lora");
        (void)tllm_writer_put_f32(ctx, w, "adapter.lora.alpha", 4.0f);
        (void)tllm_writer_put_tensor(ctx, w, a, TLLM_FORMAT_F32, 2, dim_a, zeros);
        (void)tllm_writer_put_tensor(ctx, w, b, TLLM_FORMAT_F32, 2, dim_b, zeros);
        T_OK(tllm_writer_finish(ctx, w));
        tllm_writer_close(ctx, w);
        (void)snprintf(path, sizeof path, "%s/turn.gguf", folder);
        T_OK(tllm_writer_open(ctx, &d, &w));
        for (i = 0; i < 64; i++) v[i] = i % 2 ? 3.0f : -3.0f;
        (void)tllm_writer_put_text(ctx, w, "general.architecture", "controlvector");
        (void)tllm_writer_put_tensor(ctx, w, dir, TLLM_FORMAT_F32, 1, dim_a, v);
        T_OK(tllm_writer_finish(ctx, w));
        tllm_writer_close(ctx, w);
        T_EQ_INT(run("", "logits %s --tokens 1,5,9 --ref", m), 0);
        n = slurp("out", plain, sizeof plain);
        T_EQ_INT(n, 3 * 320 * 4);
        T_EQ_INT(run("", "logits %s --tokens 1,5,9 --ref --lora %s/zero.gguf", m, folder), 0);
        (void)slurp("out", said, sizeof said);
        T_TRUE(!memcmp(said, plain, n));                    /* nothing is added */
        T_EQ_INT(run("", "logits %s --tokens 1,5,9 --ref --lora %s/zero.gguf=0.5 --lora-merge", m, folder), 0);
        T_TRUE(!memcmp(said, plain, n));
        T_EQ_INT(run("", "logits %s --tokens 1,5,9 --ref --control-vector %s/turn.gguf=-1.5", m, folder), 0);
        T_TRUE(memcmp(said, plain, n) != 0);
        T_EQ_INT(run("", "logits %s --tokens 1 --control-vector %s/turn.gguf --control-layers 1-2", m, folder), 1);
        COMPLAINS("layers 1 to 2: the limits are 1 and 1");
        T_EQ_INT(run("", "logits %s --tokens 1 --lora %s/none.gguf", m, folder), 1);
        COMPLAINS("none.gguf: cannot be opened");
        T_EQ_INT(run("", "logits %s --tokens 1 --lora %s", m, m), 1);
        COMPLAINS("neither an adapter nor a control vector");
        T_EQ_INT(
            run("", "generate %s Once --n 3 --lora %s/zero.gguf --control-vector %s/turn.gguf=0.1 --control-layers 1-1",
                m, folder, folder),
            0);
        T_EQ_INT(run("", "generate %s Once --n 3 --lora %s/zero.gguf=x", m, folder), 2);
        T_EQ_INT(run("", "generate %s Once --n 3 --lora", m), 2);
        T_EQ_INT(run("", "generate %s Once --n 3 --control-layers 3", m), 2);
        T_EQ_INT(run("Once upon a time there was a text.", "perplexity %s - --quiet --lora %s/zero.gguf --lora-merge",
                     m, folder),
                 0);
        SAYS("perplexity ");
        T_EQ_INT(run("Once upon a time there was a text.", "perplexity %s - --quiet --lora %s/none.gguf", m, folder),
                 1);
        COMPLAINS("none.gguf: cannot be opened");
    }
    t_close(ctx);
}

static void test_perplexity(void)
{
    const char *m = t_shared("oracle/llm/llama.gguf"), *bert = t_shared("oracle/llm/bert.gguf");
    double p = 0, e = 0;
    if (!m || !bert || !is_there()) return;
    T_EQ_INT(run("Once upon a time there was a text.", "perplexity %s - --quiet", m), 0);
    T_TRUE(sscanf(said, "perplexity %lf +- %lf over", &p, &e) == 2 && p > 1 && e >= 0);
    T_EQ_TEXT(errors, "");
    T_EQ_INT(run("Once upon a time there was a text.", "perplexity %s - --json --context 8 --windows 2", m), 0);
    T_TRUE(sscanf(said, "{\"perplexity\": %lf", &p) == 1 && p > 1);
    SAYS("\"windows\": 2");
    T_EQ_INT(run("a text", "perplexity %s - --quiet", bert), 1);
    COMPLAINS("does not predict its text");
    T_EQ_INT(run("", "perplexity %s - --quiet", m), 1);
    T_EQ_INT(run("", "perplexity %s %s/none.txt", m, folder), 1);
    COMPLAINS("none.txt: cannot be opened");
    T_EQ_INT(run("Once upon a time there was a text.", "perplexity %s -", m), 0);
    T_EQ_TEXT(errors, "");                  /* overwritten lines are for terminals only */
}

static void test_embed(void)
{
    const char *m = t_shared("oracle/llm/bert.gguf");
    double a = 0, b = 0;
    char line[2000];
    if (!m || !is_there()) return;
    T_EQ_INT(run("one text\nanother text\none text\n", "embed %s --similar --pooling mean", m), 0);
    T_TRUE(sscanf(said, "%lf %lf", &a, &b) == 2);
    T_CLOSE(a, 1.0, 1e-4);
    T_TRUE(b < 1.0001);
    T_EQ_INT(run("one text\n", "embed %s --raw", m), 0);
    T_EQ_INT(slurp("out", said, sizeof said) % 4, 0);
    T_EQ_INT(run("one text\n", "embed %s --pooling most", m), 2);
    /* an unreadable line is named; the lines before it are done, none after it */
    T_EQ_INT(
        run("one\none text of more words than there is room for\nanother\n", "embed %s --context 6 --pooling mean", m),
        1);
    COMPLAINS("embed: line 2: ");
    T_TRUE(strchr(said, '\n') && !strchr(strchr(said, '\n') + 1, '\n'));
    T_EQ_INT(run("one\none text of more words than there is room for\n", "embed %s --context 60 --pooling mean", m), 0);
    spill_many("long", 'x', (16 << 20) + 1, "\n");
    (void)snprintf(line, sizeof line, "%s/embed %s --pooling mean <%s/long 2>%s/err >%s/out",
                   getenv("BUILD") ? getenv("BUILD") : "build", m, folder, folder, folder);
    T_TRUE(system(line) != 0);
    (void)slurp("err", errors, sizeof errors);
    COMPLAINS("embed: line 1 has more than 16777216 bytes");
}

static void test_inspect(void)
{
    const char *m = t_shared("oracle/llm/llama.gguf");
    size_t n;
    if (!m || !is_there()) return;
    T_EQ_INT(run("", "inspect %s --json", m), 0);
    n = strlen(said);
    T_TRUE(n > 2 && said[0] == '{' && said[n - 1] == '\n' && said[n - 2] == '}');
    SAYS("token_embd.weight");
    T_EQ_INT(run("", "inspect %s --tensors", m), 0);
    SAYS("blk.0.attn_q.weight");
    T_EQ_INT(run("", "inspect %s --keys", m), 0);
    SAYS("llama.block_count");
}

/* A file whose names and texts would drive the terminal: each printed line is one line of plain characters. */
static void test_inspect_hostile_names(void)
{
    static const char *const how[] = { "", "--json", "--all" };
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(how); i++) {
        char *line, *end;
        T_EQ_INT(run("", "inspect tests/fuzz/corpus/gguf/control-in-names.gguf %s", how[i]), 0);
        SAYS("\\u001b[31m\\u0007\\n\\r\\u007f\\u009b\\ufffd\\u202e");
        if (i != 1) SAYS("\\x1b[31m\\x07\\x0a\\x0d\\x7f\\xc2\\x9b\\xff\\xe2\\x80\\xae");
        for (line = said; *line; line = end + 1) {
            end = strchr(line, '\n');
            if (!T_TRUE(end != NULL)) break;
            *end = 0;
            if (one_line(line))
                t_fail(__FILE__, __LINE__, "inspect %s prints byte %02x", how[i],
                       *(const unsigned char *)one_line(line));
        }
    }
}

static void test_chat(void)
{
    const char *m = t_shared("oracle/llm/llama.gguf"), *stories = "examples/models/story.gguf";
    if (!m || !is_there()) return;
    spill("template", "{% for m in messages %}{{ m.content }}{% endfor %}");
    T_EQ_INT(run("/help\nOnce\n/show\n/undo\n/reset\n/quit\nnot read\n",
                 "chat %s --template %s/template --n 4 --temp 0 --threads 1", m, folder),
             0);
    SAYS("/again");
    /* the end of the input ends it */
    T_EQ_INT(run("Once\n", "chat %s --template %s/template --n 4 --temp 0", m, folder), 0);
    T_EQ_INT(run("", "chat %s --template %s/none", m, folder), 1);
    COMPLAINS("none");
    /* a chat that outgrows the context continues without its beginning; a question that alone is too long is
     * reported */
    T_EQ_INT(run("Once\nupon\na time\n/show\n", "chat %s --template %s/template --n 30 --temp 0 --context 32", stories,
                 folder),
             0);
    COMPLAINS("chat: the talk is longer than the context: its first 2 messages are forgotten");
    T_TRUE(!strstr(errors, "the talk has"));
    T_TRUE(strstr(said, "> upon") && !strstr(said, "> Once"));     /* the prompt of the model begins with a question */
    T_EQ_INT(run("Once upon a time there was a girl who asked more than could be answered, and more, and yet more.\n",
                 "chat %s --template %s/template --context 16", m, folder),
             0);
    COMPLAINS("tokens, the context has room for 16: /reset");
}

/* text from a pipe until part was read; 0: it ended before. *held: bytes of said */
static int hear_until(int from, size_t *held, const char *part)
{
    while (!strstr(said, part)) {
        ssize_t n;
        if (*held > sizeof said / 2) *held = 0;
        n = read(from, said + *held, sizeof said - 1 - *held);
        if (n <= 0) return 0;
        *held += (size_t)n;
        said[*held] = 0;
    }
    return 1;
}

/* Ctrl-C stops the answer and not the program. The model repeats one word without end. */
static void test_interrupted(void)
{
    const char *m = t_shared("data/tinystories/stories260K-f32.gguf"), *build = getenv("BUILD");
    char program[300];
    int to[2], from[2], status = -1, i;
    size_t held = 0;
    pid_t child;
    if (!m || !is_there() || !T_TRUE(!pipe(to) && !pipe(from))) return;
    (void)snprintf(program, sizeof program, "%s/chat", build ? build : "build");
    child = fork();
    if (!child) {
        (void)alarm(120);                   /* the pipe ends in any case */
        (void)dup2(to[0], 0);
        (void)dup2(from[1], 1);
        (void)close(to[1]);
        (void)close(from[0]);
        if (!freopen("/dev/null", "w", stderr)) _exit(127);
        (void)execl(program, program, m, "--temp", "0", "--threads", "2", (char *)NULL);
        _exit(127);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    said[0] = 0;
    for (i = 0; child > 0 && i < 2; i++) {
        T_TRUE(write(to[1], "Once\n", 5) == 5);
        T_TRUE(hear_until(from[0], &held, "special special special"));
        T_TRUE(!kill(child, SIGINT));
        said[held = 0] = 0;
        T_TRUE(hear_until(from[0], &held, " ...\n> "));     /* the mark of a stopped answer, and the next prompt */
        said[held = 0] = 0;
    }
    T_TRUE(write(to[1], "/help\n", 6) == 6 && hear_until(from[0], &held, "/undo"));
    T_TRUE(write(to[1], "/quit\n", 6) == 6);
    (void)close(to[1]);
    T_TRUE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)close(from[0]);
}

/* unusual uses: numbers out of range, full disks as outputs, devices in place of files */
static void test_unusual_arguments(void)
{
    const char *m = t_shared("oracle/llm/llama.gguf");
    const int full = !access("/dev/full", W_OK);
    if (!m || !is_there()) return;
    T_EQ_INT(run("", "generate %s Once --threads 0", m), 2);
    COMPLAINS("--threads takes a whole number from 1 to 256, not 0");
    T_EQ_INT(run("", "chat %s --n 3.7", m), 2);
    COMPLAINS("--n takes a whole number from 0 to 1000000000, not 3.7");
    T_EQ_INT(run("", "chat %s --temp hot", m), 2);
    COMPLAINS("--temp takes a number from 0 to 100, not hot");
    T_EQ_INT(run("", "perplexity %s - --context 1", m), 2);
    COMPLAINS("from 2 to");
    T_EQ_INT(run("", "perplexity %s %s", m, folder), 1);
    COMPLAINS("cannot be read");
    T_EQ_INT(run("", "embed %s", m), 1);    /* reported before a text is read */
    COMPLAINS("not an embedding model");
    T_EQ_INT(run("", "tokenize %s --what", m), 2);
    COMPLAINS("unknown option: --what");
    spill("not.state", "no session");
    T_EQ_INT(run("", "generate %s Once --load-session %s/not.state", m, folder), 1);
    COMPLAINS("not.state");
    T_EQ_INT(run("/again\n/save\n", "chat %s", m), 0);
    COMPLAINS("no answer yet");
    COMPLAINS("/save needs the name of a file");
    T_EQ_INT(run("", "quantize %s %s/out.gguf q8_0 --threads 0", m, folder), 2);
    COMPLAINS("from 1 to 256, not 0");
    T_EQ_INT(run("", "quantize %s %s/out.gguf q8_0 --tensor-type '(=q4_0'", m, folder), 2);
    COMPLAINS("not closed");
    T_EQ_INT(run("", "quantize --what"), 2);
    COMPLAINS("unknown option: --what");
    T_EQ_INT(run("", "story %s --stories many", m), 2);
    COMPLAINS("--stories takes a whole number from 0 to 1000000, not many");
    T_EQ_INT(run("", "story %s --seed -1", m), 2);
    COMPLAINS("--seed takes a whole number below 2^64, not -1");
    T_EQ_INT(run("", "story --help"), 0);
    SAYS("--stories N");
    if (!full) return;
    T_EQ_INT(run("", "quantize %s /dev/full q8_0", m), 1);          /* and /dev/full is still there: next lines */
    COMPLAINS("/dev/full");
    (void)run("Once\n",
              "chat %s --n 4 >/dev/full 2>%s/err2; test $? = 1 && test -c /dev/full && echo well >%s/well; true", m,
              folder, folder);
    (void)slurp("well", said, sizeof said);
    SAYS("well");
    (void)run("Once upon a time there was a text.",
              "perplexity %s - --quiet <%s/in >/dev/full 2>%s/err2; test $? = 1 && echo well again >%s/well; true", m,
              folder, folder, folder);
    (void)slurp("well", said, sizeof said);
    SAYS("well again");
}

/* the greedy story of other programs with this model */
static void test_stories(void)
{
    const char *path = t_shared("data/tinystories/stories260K-f32.gguf");
    if (!path || !is_there()) return;
    T_EQ_INT(run("", "generate %s \"Once upon a time\" --n 20 --echo", path), 0);
    has(said, "Once upon a time, there was a little girl named Lily.", __LINE__);
}

static void tidy(void)
{
    static const char *const names[] = { "in",
                                         "out",
                                         "err",
                                         "not.gguf",
                                         "zero.gguf",
                                         "turn.gguf",
                                         "template",
                                         "bad.gguf.ckpt",
                                         "loop.gguf.ckpt",
                                         "not.state",
                                         "err2",
                                         "well",
                                         "edges.tsv",
                                         "labels.txt",
                                         "splits.txt",
                                         "split.net.one",
                                         "folds.txt",
                                         "meta.txt",
                                         "graph_of_node.txt",
                                         "graph_labels.txt",
                                         "m.json",
                                         "m.safetensors",
                                         "texts",
                                         "tables",
                                         "kept",
                                         "rows.csv",
                                         "rows.svm",
                                         "none.csv",
                                         "alone",
                                         "a\"b\\c",
                                         "out.gguf",
                                         "x.safetensors",
                                         "long",
                                         "m.gguf",
                                         "fails",
                                         "form" };
    char path[300];
    size_t i;
    for (i = 0; i < T_COUNT(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    (void)rmdir(folder);
}

/* a folder of 8 rings of 4 nodes */
static void spill_rings(const char *folds)
{
    char edges[1000], of[400], label[100];
    int i, n = 0, m = 0, k = 0;
    for (i = 0; i < 32; i++) {
        n += snprintf(edges + n, sizeof edges - (size_t)n, "%d\t%d\n", i, i / 4 * 4 + (i + 1) % 4);
        m += snprintf(of + m, sizeof of - (size_t)m, "%d\n", i / 4);
        if (i % 4 == 0) k += snprintf(label + k, sizeof label - (size_t)k, "%d\n", i / 4 % 2);
    }
    spill("edges.tsv", edges);
    spill("graph_of_node.txt", of);
    spill("graph_labels.txt", label);
    spill("meta.txt", "nodes 32\ngraphs 8\n");
    spill("folds.txt", folds);
}

/* Splits and folds that have no part to test with: no averages over nothing, and no failure after the training. */
static void test_gnn_without_test_part(void)
{
    static const char train[] = "gnn train --quiet --threads 1 --epochs 2";
    char text[300];
    int i, n = 0;
    if (!is_there()) return;
    if (run("", "gnn --help")) { t_skip("gnn does not run here"); return; }
    T_EQ_INT(run("", "gnn train --folds 11"), 2);
    T_EQ_INT(run("", "gnn train --fold 0.5"), 2);
    T_EQ_INT(run("", "gnn train --batch 2.5"), 2);
    T_EQ_INT(run("", "gnn train --links --splits 3"), 2);
    T_EQ_INT(run("", "gnn train --fold 2"), 1);
    COMPLAINS("--fold and --batch for graphs");
    T_EQ_INT(run("", "gnn train --rings --area"), 1);
    COMPLAINS("--splits and --area are for nodes");
    T_EQ_INT(run("", "gnn infer"), 2);
    spill("edges.tsv", "0\t1\n1\t2\n2\t3\n");
    T_EQ_INT(run("", "%s %s --links", train, folder), 0);
    SAYS("3 links to learn from, 0 to test with");
    T_TRUE(!strstr(said, "area under"));
    spill("labels.txt", "0\n1\n0\n1\n");
    spill("splits.txt", "r\nr\nv\n-\n");
    T_EQ_INT(run("", "%s %s --seeds 2", train, folder), 0);
    SAYS("seed 1: 2 epochs, validation");
    T_TRUE(!strstr(said, "mean"));
    T_EQ_INT(run("", "%s %s --split 1", train, folder), 1);
    COMPLAINS("no split 1");
    spill("labels.txt", "0\n1\n0\n2147483647\n");
    T_EQ_INT(run("", "%s %s", train, folder), 1);
    for (i = 0; i < 2; i++) {
        (void)snprintf(text, sizeof text, "%s/%s.txt", folder, i ? "labels" : "splits");
        (void)remove(text);
    }
    spill_rings("1\n1\n2\n2\n3\n3\n-\n-\n");
    T_EQ_INT(run("", "%s %s --save %s/m", train, folder, folder), 0);
    SAYS("fold 3: 2 epochs");
    SAYS("over 3 folds");
    T_TRUE(!strstr(said, "fold 4") && !strstr(said, "nan"));
    T_EQ_INT(run("", "gnn infer --model %s/m %s", folder, folder), 0);
    SAYS("of 2 right");
    for (i = 0; i < 8; i++) n += snprintf(text + n, sizeof text - (size_t)n, "%d\n", i / 2);
    spill_rings(text);                      /* from 0 on: the first would always be learned from */
    T_EQ_INT(run("", "%s %s", train, folder), 1);
    COMPLAINS("folds count from 1");
    spill_rings("1\n1\n3\n3\n1\n1\n3\n3\n");
    T_EQ_INT(run("", "%s %s", train, folder), 1);
    COMPLAINS("folds count from 1");
}

static void test_needle(void)
{
    if (!is_there()) return;
    T_EQ_INT(run("", "needle --seeds 0"), 2);
    COMPLAINS("--seeds takes a whole number from 1 to 100, not 0");
    T_EQ_INT(run("", "needle --seeds 1 --epochs 1"), 0);
    SAYS("twist - plain");
}

static void test_nets(void)
{
    char picture[200];
    if (!is_there()) return;
    if (run("", "compress_net --help")) { t_skip("compress_net does not run here"); return; }
    SAYS("--svg FILE");
    T_EQ_INT(run("", "compress_net --task mnist"), 2);
    COMPLAINS("there are mix60 and tex16");
    T_EQ_INT(run("", "compress_net --method magic"), 2);
    COMPLAINS("there is no such method");
    T_EQ_INT(run("", "compress_net --keep 0"), 2);
    COMPLAINS("--keep takes 0.0001 to 1");
    T_EQ_INT(run("", "compress_net --keep nan"), 2);
    T_EQ_INT(run("", "compress_net --map sphere"), 2);
    COMPLAINS("there are fold, tile and hash");
    T_EQ_INT(run("", "compress_net --svg %s", folder), 2);
    COMPLAINS("this is a folder");
    T_EQ_INT(run("", "compress_net --seeds 2 --epochs 1 --keep 0.5 --keep 0.01 --svg %s/nets.svg", folder), 0);
    SAYS("method");
    SAYS("lottery");
    SAYS("rps");
    SAYS("a layer is empty");
    (void)slurp("nets.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
    T_EQ_INT(run("", "compress_net --seeds 1 --epochs 1 --method dense --svg %s/no/n.svg", folder), 1);
    COMPLAINS("no/n.svg");
    T_EQ_INT(run("", "robust_nets --method magic"), 2);
    COMPLAINS("there is no such method");
    T_EQ_INT(run("", "robust_nets --keep 1"), 2);
    COMPLAINS("--keep takes 0.001 to 0.99");
    T_EQ_INT(run("", "robust_nets --csv nowhere/r --json nowhere/r"), 2);
    COMPLAINS("nowhere/r: two options would write this file");
    T_EQ_INT(run("", "robust_nets --severity 6"), 2);
    T_EQ_INT(run("", "robust_nets --seeds 1 --epochs 1 --method synflow --keep 0.1 --list 1 --csv %s/r.csv "
                     "--json %s/r.json --svg %s/r.svg", folder, folder, folder), 0);
    SAYS("fragile: sample");
    SAYS("brightness");
    (void)slurp("r.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
    (void)slurp("r.csv", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "method,keep,seed,", 17));
    T_EQ_INT(run("", "rank_nets --set all"), 2);
    COMPLAINS("there are grid and equal");
    T_EQ_INT(run("", "rank_nets --seeds 1 --epochs 1 --samples 8 --verbose"), 0);
    SAYS("gradsign");
    SAYS("seed 1, 5 layers, width 4:");
    T_EQ_INT(run("", "rank_nets --seeds 1 --epochs 1 --samples 4 --search"), 0);
    SAYS("the best of 100 by GradSign");
}

static void test_search_net(void)
{
    char picture[200];
    if (!is_there()) return;
    if (run("", "search_net --help")) { t_skip("search_net does not run here"); return; }
    SAYS("--target SHARE");
    T_EQ_INT(run("", "search_net --method magic"), 2);
    COMPLAINS("there is no such method");
    T_EQ_INT(run("", "search_net --target 2"), 2);
    COMPLAINS("--target takes a number from 0.01 to 1");
    T_EQ_INT(run("", "search_net --method full --svg %s/s.svg", folder), 2);
    COMPLAINS("needs the method tas");
    T_EQ_INT(run("", "search_net --target 0.01 --method tas --samples 100"), 2);
    COMPLAINS("the least widths and depths cost");
    T_EQ_INT(run("", "search_net --samples 100 --width 2 --stages 2 --epochs 1 --search 60 --rate 0.05 --svg %s/s.svg "
                     "--save %s/s.ckpt", folder, folder), 0);
    SAYS("seed 1: the search took 60 steps");
    SAYS("tas+kd");
    (void)slurp("s.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
    (void)slurp("s.ckpt", picture, sizeof picture);
    T_TRUE(picture[0] != 0);
}

static void test_split(void)
{
    char picture[200];
    if (!is_there()) return;
    if (run("", "split --help")) { t_skip("split does not run here"); return; }
    SAYS("--deadline MS");
    T_EQ_INT(run("", "split --trace 100,x"), 2);
    COMPLAINS("--trace takes up to 32 rates");
    T_EQ_INT(run("", "split --members 17"), 2);
    COMPLAINS("--members takes a whole number from 1 to 16, not 17");
    T_EQ_INT(run("", "split --device 127.0.0.1:1"), 2);
    COMPLAINS("both ends need --net and --key");
    T_EQ_INT(run("", "split --svg %s", folder), 2);
    COMPLAINS("this is a folder");
    spill("split.net.one", "mine");
    T_EQ_INT(run("", "split --compare --net %s/split.net", folder), 2);
    COMPLAINS("writes and removes a file of this name");
    (void)slurp("split.net.one", picture, sizeof picture);
    T_TRUE(!strcmp(picture, "mine"));
    T_EQ_INT(run("", "split --train 200 --epochs 1 --trace 10000,400 --frames 3 --svg %s/split.svg", folder), 0);
    SAYS("controller");
    SAYS("8-bit pixels");
    (void)slurp("split.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
}

static void test_vision(void)
{
    char picture[40];
    if (!is_there()) return;
    if (run("", "vision --help")) { t_skip("vision does not run here"); return; }
    SAYS("--recursive");
    T_EQ_INT(run("", "vision --merge 1,2"), 2);
    COMPLAINS("1,2: --merge takes four whole numbers");
    T_EQ_INT(run("", "vision --train 7"), 2);
    T_EQ_INT(run("", "vision --seeds 1 --train 16 --test 8 --epochs 1 --tune 1 --picture %s/merged.pgm", folder), 0);
    SAYS("seed 1, merged with PYRA, head tuned: ");
    SAYS("65 tokens");
    (void)slurp("merged.pgm", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "P5\n1088 272\n255\n", 16));
    T_EQ_INT(run("", "vision --seeds 1 --train 16 --test 8 --epochs 0 --tune 0 --picture %s/no/m.pgm", folder), 1);
    COMPLAINS("cannot be written");
    T_EQ_INT(run("", "vision --seeds 1 --train 16 --test 8 --epochs 0 --tune 0 --merge 1,-1,1,1"), 1);
    COMPLAINS("-1 merges in block 1");
    T_EQ_INT(run("", "vision --seeds 2 --train 16 --test 8 --epochs 1 --recursive"), 0);
    SAYS("2 seeds, 16 images");
}

/* tables, a stored text, its listing, and a model that continues */
static void test_cache(void)
{
    static const char model[] = "examples/models/story-small.gguf";
    if (!is_there()) return;
    T_EQ_INT(run("", "cache --help"), 0);
    SAYS("cache profile MODEL");
    T_EQ_INT(run("", "cache"), 2);
    T_EQ_INT(run("", "cache read x"), 2);
    T_EQ_INT(run("", "cache save %s text", model), 2);
    COMPLAINS("-o");
    T_EQ_INT(run("", "cache save %s -o x", model), 2);
    COMPLAINS("wrong number of arguments");
    T_EQ_INT(run("", "cache save %s text -o x --level 5", model), 2);
    COMPLAINS("--level takes a whole number from 1 to 4, not 5");
    T_EQ_INT(run("", "cache save %s text -o x --level 2.5", model), 2);
    COMPLAINS("not 2.5");
    T_EQ_INT(run("", "cache info --no-such-option"), 2);
    COMPLAINS("--no-such-option");
    spill("texts", "one day , Ella was in the barn .\n\non a warm evening , Leo had three stones .\n");
    T_EQ_INT(run("", "cache profile %s %s/texts -o %s/tables", model, folder, folder), 0);
    SAYS("2 texts, ");
    T_EQ_INT(run("", "cache save %s 'one day , Leo was in the' -o %s/kept --tables %s/tables --level 4 --chunk 3",
                 model, folder, folder),
             0);
    SAYS("tokens in");
    T_EQ_INT(run("", "cache info %s/kept", folder), 0);
    SAYS("level 4");
    SAYS("chunk 2: tokens 6 to");
    T_EQ_INT(run("", "cache load %s %s/kept --tables %s/tables --n 8", model, folder, folder), 0);
    T_TRUE(strlen(said) > 8);
    COMPLAINS("tokens were loaded");
    T_EQ_INT(run("", "cache save %s 'one day' -o %s/alone", model, folder), 0);
    T_EQ_INT(run("", "cache load %s %s/alone --n 0", model, folder), 0);
    T_EQ_INT(run("", "cache load %s %s/kept", model, folder), 1);
    COMPLAINS("no tables are given");
    T_EQ_INT(run("", "cache load examples/models/story-latent.gguf %s/kept --tables %s/tables", folder, folder), 1);
    COMPLAINS("another model");
    T_EQ_INT(run("", "cache load %s %s/texts", model, folder), 1);
    COMPLAINS("are not a kept cache");
    T_EQ_INT(run("", "cache profile %s %s/nothing -o %s/tables", model, folder, folder), 1);
    COMPLAINS("nothing");
    T_EQ_INT(run("", "cache stream --deadline 2 --traces 5"), 0);
    SAYS("all that is left");
    T_EQ_INT(run("", "cache stream --deadline 0"), 2);
}

/* every option is checked before anything is measured; the JSON is complete for any file name */
static void test_bench_model(void)
{
    static const struct { const char *options, *sentence;
    } bad[] = { { "--target", "--target: a value is missing" },
                { "-t ''", "-t: a value is missing" },
                { "-t 1,x --json", "not 1,x" },
                { "-t 4294967297", "from 1 to 256, not 4294967297" },
                { "-t 257", "from 1 to 256, not 257" },
                { "-p 4x", "-p takes a whole number from 0 to 60000, not 4x" },
                { "-n 2x", "not 2x" },
                { "-r 1x", "not 1x" },
                { "-p 60001", "not 60001" },
                { "-r 32", "from 1 to 31, not 32" },
                { "--batch 257", "from 1 to 256, not 257" },
                { "--batch 1,,2", "not 1,,2" },
                { "-p 60000 -n 1", "not 60001" },
                { "-p 0 -n 0", "not 0" },
                { "--batch 1 -n 0", "nothing is decoded" },
                { "x", "a second model: x" },
                { "--what", "unknown option: --what" } };
    char copy[300];
    size_t i;
    if (!is_there()) return;
    if (run("", "bench-model --help")) { t_skip("bench-model does not run here"); return; }
    SAYS("--batch");
    T_EQ_INT(run("", "bench-model"), 2);
    for (i = 0; i < T_COUNT(bad); i++) {
        T_EQ_INT(run("", "bench-model m %s", bad[i].options), 2);
        T_EQ_TEXT(said, "");
        COMPLAINS(bad[i].sentence);
    }
    T_EQ_INT(run("", "bench-model there/is/none.gguf"), 1);
    COMPLAINS("there/is/none.gguf: cannot be opened");
    (void)snprintf(copy, sizeof copy, "cp examples/models/story-small.gguf '%s/a\"b\\c'", folder);
    T_EQ_INT(system(copy), 0);
    T_EQ_INT(run("", "bench-model '%s/a\"b\\c' -p 2 -n 2 -r 1 -t 1 --batch 1,2 --no-mixed --json", folder), 0);
    SAYS("/a\\\"b\\\\c\",\"target\":");
    SAYS("{\"sequences\":2,");
    T_TRUE(strlen(said) > 4 && !strcmp(said + strlen(said) - 4, "]}]\n"));
}

/* invalid numbers, or numbers beyond the range of an option: the fault is named, and nothing is done */
static void test_numbers(void)
{
    static const struct { const char *line, *sentence;
    } bad[] = { { "make-model --seed abc x", "--seed takes a whole number below 2^64, not abc" },
                { "make-model --seed 1x x", "1x" },
                { "make-model --seed 18446744073709551616 x", "18446744073709551616" },
                { "make-model --seed", "--seed: a value is missing" },
                { "make-model x y", "a second file: y" },
                { "make-model --shape 9M x", "no shape is called 9M" },
                { "make-model --type Q9 x", "Q9" },
                { "make-model --what x", "unknown option: --what" },
                { "fusemax 1-pass m=12abc", "m: a whole number" },
                { "fusemax 1-pass m=99999999999999999999", "not 99999999999999999999" },
                { "fusemax 1-pass m=-1", "not -1" },
                { "fusemax 1-pass m=0", "not 0" },
                { "fusemax --plan 64 64 1000 1x", "QUERIES: a whole number" },
                { "needle --seeds 1x", "not 1x" },
                { "needle --epochs 2.5", "--epochs takes a whole number" },
                { "needle --what 1", "unknown option: --what" },
                { "needle --seeds", "--seeds: a value is missing" },
                { "ranks m --tokens", "--tokens: a value is missing" },
                { "ranks m --ranks 2x", "--ranks takes a whole number from 1 to 8, not 2x" },
                { "ranks m --ranks 9", "not 9" },
                { "ranks m --ms fast", "not fast" },
                { "ranks m n", "a second model: n" },
                { "ranks m --what", "unknown option: --what" },
                { "bipolar --weights 9", "from 1 to 8, not 9" },
                { "bipolar --size 0", "not 0" },
                { "prune --zeros 101", "--zeros takes a number from 0 to 100, not 101" },
                { "prune --zeros 80x", "not 80x" },
                { "prune --inputs 0", "not 0" },
                { "prune -o", "-o: a value is missing" },
                { "prune 80", "OUT.gguf: a name for the pruned model is needed" },
                { "join a b", "OUT.gguf: a name for the joined file is needed" },
                { "join a b c", "--text: a text is needed, which both models read" },
                { "join a b c --text d --train 0", "--train takes a whole number from 1 to" },
                { "generate m x --stitch 1,", "--stitch: 1," },
                { "generate m x --stitch-every 3", "--stitch-every does nothing without several networks" } };
    static const char *const helps[] = { "make-model", "needle",  "bipolar", "prune", "bytes",    "own_backend", "join",
                                         "ranks",      "fusemax", "train",   "judge", "story-gen" };
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(helps); i++) {
        const int status = run("", "%s --help", helps[i]);
        if (status == 127) { t_skip("not all of the programs are built"); return; }
        T_EQ_INT(status, 0);
        SAYS(helps[i]);
        T_EQ_TEXT(errors, "");
    }
    for (i = 0; i < T_COUNT(bad); i++) {
        T_EQ_INT(run("", "%s", bad[i].line), 2);
        T_EQ_TEXT(said, "");
        COMPLAINS(bad[i].sentence);
    }
    T_EQ_INT(run("", "own_backend what"), 2);
    COMPLAINS("own_backend [right");
}

/* One reader for all programs: each of them refuses a value that is no number, with the name of the option and the
 * value. */
static void test_same_sentences(void)
{
    static const struct { const char *call, *whole, *number;
    } take[] = { { "generate m x", "--n", "--temp" },
                 { "chat m", "--n", "--min-p" },
                 { "perplexity m x", "--context", NULL },
                 { "embed m", "--threads", NULL },
                 { "logits m --tokens 1", "--position", NULL },
                 { "quantize a b Q8_0", "--threads", NULL },
                 { "judge m", "--stories", NULL },
                 { "story m", "--seed", NULL },
                 { "story-gen", "--tokens", NULL },
                 { "make-model x", "--seed", NULL },
                 { "train mlp", "--epochs", NULL },
                 { "train-story --out x", "--stop", NULL },
                 { "needle", "--seeds", "--t" },
                 { "ranks m", "--ranks", "--ms" },
                 { "vision", "--seeds", "--noise" },
                 { "cache stream", "--traces", "--deadline" },
                 { "bench-model m", "-p", NULL },
                 { "fastrp", "-d", "--beta" },
                 { "graph partition g 2", "--seed", "--imbalance" },
                 { "gnn train", "--epochs", "--lr" } };
    static const char *const no_whole[] = { "12x", "nan", "1.5", "-1", "' 1'", "0x10", "99999999999999999999" },
                             *const no_number[] = { "1x", "nan", "inf", "0x1", "1,5", "1e", "1e999", "--" };
    size_t i, k;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(take); i++)
        for (k = 0; k < T_COUNT(no_whole) + T_COUNT(no_number); k++) {
            const char *option = k < T_COUNT(no_whole) ? take[i].whole : take[i].number,
                       *value = k < T_COUNT(no_whole) ? no_whole[k] : no_number[k - T_COUNT(no_whole)];
            char want[100];
            const int status = option ? run("", "%s %s %s", take[i].call, option, value) : 127;
            if (status == 127) continue;    /* not built here, or no such option */
            T_EQ_INT(status, 2);
            T_EQ_TEXT(said, "");
            (void)snprintf(want, sizeof want, "%.*s: %s takes a ", (int)strcspn(take[i].call, " "), take[i].call,
                           option);
            T_TRUE(!strncmp(errors, want, strlen(want)));
            COMPLAINS(*value == '\'' ? ", not  1\n" : value);
            COMPLAINS(" --help tells more\n");
        }
}

/* a .bin of llama2.c for those that read a model or its vocabulary; safetensors files do not describe their model */
static void test_bin(void)
{
    const char *bin = t_shared("data/tinystories/stories260K.bin"),
               *m = bin ? t_shared("data/tinystories/stories260K-f32.gguf") : NULL;
    static char first[60000];
    char path[300];
    FILE *f;
    if (!m || !is_there()) return;
    T_EQ_INT(run("Once upon a time", "tokenize %s --bos", m), 0);
    memcpy(first, said, sizeof first);
    T_EQ_INT(run("Once upon a time", "tokenize %s --bos", bin), 0);
    T_EQ_TEXT(said, first);
    T_EQ_INT(run("", "quantize %s %s/out.gguf q8_0 --threads 1", bin, folder), 0);
    T_EQ_INT(run("", "generate %s/out.gguf 'Once upon a time' --n 9 --echo --threads 1", folder), 0);
    SAYS("Once upon a time, there was a little girl");
    (void)snprintf(path, sizeof path, "%s/x.safetensors", folder);
    f = fopen(path, "wb");
    T_TRUE(f && fwrite("\2\0\0\0\0\0\0\0{}", 1, 10, f) == 10);
    if (f) (void)fclose(f);
    T_EQ_INT(run("", "quantize %s/x.safetensors %s/out2.gguf q8_0", folder, folder), 1);
    COMPLAINS("x.safetensors: a safetensors file has no keys");
    T_EQ_INT(run("", "quantize %s %s/out2.gguf q4_k --imatrix examples/models/story-small.gguf --threads 1", m, folder),
             1);
    COMPLAINS("it has no importance for any of the 28 matrices");
    T_EQ_INT(slurp("out2.gguf", first, sizeof first), 0);
    if (run("", "ranks --help") == 127) return;
    T_EQ_INT(run("", "ranks %s --ranks 1 --tokens 5", bin), 0);
    SAYS("Once upon a time, there was");
}

/* A decoder whose file requests pooling gives no text: an earlier generate read past its hidden states. */
static void test_pooled(void)
{
    static const char *const texts[] = { "generate %s a", "generate %s a --beams 2", "generate %s a --parallel 2",
                                         "minimal %s a", "story %s" };
    static const char *const others[] = { "perplexity %s README.md", "ranks %s", "judge %s --stories 2 --tell 0" };
    const char *m = "tests/fuzz/corpus/gguf/model-pooling-decoder.gguf";
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(texts); i++) {
        T_EQ_INT(run("", texts[i], m), 1);
        COMPLAINS("the file asks for pooling: this llama model gives embeddings, not text");
    }
    T_EQ_INT(run("a\n", "chat %s", m), 1);
    T_EQ_TEXT(said, "");
    COMPLAINS("this llama model gives embeddings, not text");
    for (i = 0; i < T_COUNT(others); i++) {
        T_EQ_INT(run("", others[i], m), 1);
        COMPLAINS("does not predict");
    }
    T_EQ_INT(run("", "logits %s --tokens 1,2", m), 0);
}

static void test_weave(void)
{
    if (!is_there() || run("", "weave --help") == 127) return;
    spill("rows.csv", "\xef\xbb\xbf" "1,2,3\n4,5,7\n2,2,2\n");
    spill("rows.svm", "1 1:3 2:4\n0 2:1\n");
    spill("none.csv", "");
    T_EQ_INT(run("", "weave %s/rows.csv --test %s/rows.csv --epochs 2 --threads 1 --quiet", folder, folder), 0);
    SAYS("rows.csv: 3 samples, 2 features");     /* a byte order mark is no line of names */
    SAYS("rows.csv: 3 samples, mean square error");
    T_EQ_INT(run("", "weave %s/rows.csv --test %s/none.csv --epochs 1 --threads 1 --quiet", folder, folder), 1);
    COMPLAINS("none.csv: no samples");
    T_EQ_INT(run("", "weave %s/rows.svm --label 1 --quiet", folder), 1);
    COMPLAINS("rows.svm: lines of libsvm begin with the label: --label is for columns");
    T_EQ_INT(run("", "weave %s/rows.csv --label 1 --epochs 1 --save %s/rows.csv", folder, folder), 2);
    COMPLAINS("rows.csv: this file is read, so nothing is written to it");
    T_EQ_INT(run("", "weave %s/rows.svm --test %s/rows.csv -o %s/rows.csv", folder, folder, folder), 2);
    COMPLAINS("rows.csv: this file is read, so nothing is written to it");
    spill("rows.svm", "1 4194304:1\n");           /* one row is one row, not a block of 256: 50 MB and not 4 GB */
    T_EQ_INT(run("", "weave %s/rows.svm --epochs 1 --threads 1 --quiet", folder), 0);
    SAYS("1 samples, 4194304 features");
}

/* The list has every row of tinyllm.h, and the options of the conformance program are checked. */
static void test_conformance(void)
{
    static const struct { const char *options, *sentence;
    } bad[] = { { "--cases 0", "--cases takes a whole number from 1 to 1000000000: 0" },
                { "--case 0", "--case takes a whole number from 1" },
                { "--seed 18446744073709551616", "below 2^64: 18446744073709551616" },
                { "--threads 257", "from 1 to 256: 257" },
                { "--threads 0", "from 1 to 256: 0" },
                { "--cases 1x", "1x" },
                { "--op", "a value is missing after: --op" },
                { "--what 1", "unknown option: --what" },
                { "--op nothing", "no such operation, --list names them: nothing" },
                { "--target z80", "z80" } };
    char line[1000];
    size_t i;
    FILE *f = fopen("src/llm/ops.h", "r");
    if (!f || !is_there()) { if (f) (void)fclose(f); return; }
    (void)fclose(f);
    (void)snprintf(line, sizeof line,
                   "grep -rhoE 'tllm_[a-z0-9_]+_row\\(void\\);' src/llm --include='*.h' | sed 's/(void);//' >%s/out; "
                   "while read -r row; do grep -q \", $row,\" src/llm/ops.h || echo $row; done <%s/out >%s/err",
                   folder, folder, folder);
    T_EQ_INT(system(line), 0);
    (void)slurp("out", said, sizeof said);
    (void)slurp("err", errors, sizeof errors);
    SAYS("tllm_matmul_row");
    T_EQ_TEXT(errors, "");
    if (run("", "conformance --help")) { t_skip("conformance does not run here"); return; }
    SAYS("counted from 1");
    for (i = 0; i < T_COUNT(bad); i++) {
        T_EQ_INT(run("", "conformance %s", bad[i].options), 2);
        T_EQ_TEXT(said, "");
        COMPLAINS(bad[i].sentence);
    }
    T_EQ_INT(run("", "conformance --op tome_merge --cases 3 --target reference"), 0);
    SAYS("3 cases passed, 0 failed");
}

/* TINY_TARGET names a missing target: each program prints the variable and its value, once */
static void test_target_of_the_environment(void)
{
    static const char *const lines[] = { "generate m x",
                                         "chat m",
                                         "perplexity m README.md",
                                         "embed m",
                                         "inspect m",
                                         "logits m --tokens 1",
                                         "tokenize m",
                                         "quantize m out Q8_0",
                                         "cache info x",
                                         "judge m",
                                         "story",
                                         "minimal m",
                                         "demo",
                                         "bench-model m",
                                         "make-model out",
                                         "ranks m",
                                         "fusemax 1-pass",
                                         "needle",
                                         "own_backend right",
                                         "vision",
                                         "train mlp",
                                         "train-story --out out",
                                         "bipolar --size 8",
                                         "prune --inputs 8 --outputs 8" };
    size_t i;
    const char *was = getenv("TINY_TARGET");
    char kept[64];
    if (!is_there()) return;
    (void)snprintf(kept, sizeof kept, "%s", was ? was : "");
    (void)setenv("TINY_TARGET", "z80", 1);
    for (i = 0; i < T_COUNT(lines); i++) {
        const int status = run("", "%s", lines[i]);
        const char *at;
        if (status == 127) continue;        /* not built here */
        T_EQ_INT(status, 1);
        COMPLAINS("TINY_TARGET=z80 in the environment names no target");
        at = strstr(errors, "TINY_TARGET");
        T_TRUE(at && !strstr(at + 1, "TINY_TARGET") && !strstr(errors, "out of its range"));
    }
    if (was) (void)setenv("TINY_TARGET", kept, 1);
    else (void)unsetenv("TINY_TARGET");
}

/* the load generator counts the tokens that the server at folder/socket was asked for, and names what failed */
static void try_load(void)
{
    char path[400];
    if (run("", "load --help") == 127) return;              /* not built here */
    T_EQ_INT(run("", "load unix:%s/socket --requests 6 --clients 3 --prompt 3,9 --answer 8 --field ignore_eos=true "
                     "--json --csv %s/load.csv --svg %s/load.svg", folder, folder, folder), 0);
    SAYS("\"requests\": 6, \"answered\": 6");
    SAYS("\"tokens\": 48,");
    SAYS("\"first\": {\"n\": 6,");
    T_EQ_TEXT(errors, "");
    T_TRUE(slurp("load.svg", said, sizeof said) > 0 && strstr(said, "</svg>"));
    T_TRUE(slurp("load.csv", said, sizeof said) > 0 && strstr(said, ",8,200,\n"));
    spill("words", "One day \"Ella\" saw\na\tcat .");
    (void)snprintf(path, sizeof path, "%s/words", folder);
    T_EQ_INT(run("", "load unix:%s/socket --requests 3 --rate 1000 --prompt 5 --answer 2 --text %s", folder, path), 0);
    SAYS("3 of 3 requests answered");
    T_EQ_INT(run("", "load unix:%s/socket --requests 2 --path /none", folder), 1);
    SAYS("0 of 2 requests answered");
    COMPLAINS("2 failed: another status than 200 (HTTP 404)");
    T_EQ_INT(run("", "load unix:%s/none --requests 2", folder), 1);
    COMPLAINS("2 failed: no connection");
    T_EQ_INT(run("", "load 80 --prompt 8,0"), 2);
    COMPLAINS("separated by commas");
    T_EQ_INT(run("", "load 80 --field x"), 2);
    COMPLAINS("NAME=JSON");
}

/* A server at a local socket: it answers, and a signal ends it with status 0. */
static void test_serve(void)
{
    static const char ask[] = "POST /v1/completions HTTP/1.1\r\nHost: any\r\nConnection: close\r\n"
                              "Content-Length: 59\r\n\r\n"
                              "{\"prompt\":\"one day , Ella\",\"max_tokens\":20,\"temperature\":0}";
    const char *build = getenv("BUILD");
    char line[3000], got[4000] = "", want[1000];
    tiny_address a[TINY_ADDRESSES];
    tiny_socket s = TINY_NO_SOCKET;
    size_t n = 0, put = 0, k;
    int tries, is_end = 0, count = 0;
    if (!is_there()) return;
    if (run("", "serve --help") == 127) return;             /* not built here */
    T_EQ_INT(run("", "serve"), 2);
    T_EQ_INT(run("", "serve there/is/none"), 1);
    COMPLAINS("there/is/none");
    T_EQ_INT(run("", "serve %s --address '*:0'", a_story), 1);
    COMPLAINS("without a key");
    spill("keys", "\n");
    T_EQ_INT(run("", "serve %s --key-file %s/keys", a_story, folder), 2);
    COMPLAINS("no key");
    T_EQ_INT(run("", "serve %s --origins a.example", a_story), 1);
    COMPLAINS("a.example is not an origin");
    T_EQ_INT(run("", "generate %s 'one day , Ella' --n 20 --temp 0", a_story), 0);
    (void)snprintf(want, sizeof want, "%.*s", (int)strcspn(said, "\n"), said);
    (void)snprintf(line, sizeof line,
                   "(%s/serve %s --address unix:%s/socket >%s/serve.out 2>%s/serve.err & echo $! >%s/pid; wait $!; "
                   "echo $? >%s/status) &", build ? build : "build", a_story, folder, folder, folder, folder, folder);
    T_EQ_INT(system(line), 0);
    (void)snprintf(line, sizeof line, "unix:%s/socket", folder);
    T_OK(tiny_address_find(NULL, line, a, &count));
    for (tries = 0; tries < 2000 && s == TINY_NO_SOCKET; tries++) {
        (void)usleep(10000);
        if (tiny_socket_connect(NULL, &a[0], &s)) s = TINY_NO_SOCKET;
        else if (tiny_socket_write(NULL, s, ask, sizeof ask - 1, &put) || put < sizeof ask - 1) {
            tiny_socket_close(s);
            s = TINY_NO_SOCKET;
        }
    }
    for (tries = 0; tries < 2000 && s != TINY_NO_SOCKET && !is_end; tries++) {
        k = 0;
        if (tiny_socket_read(NULL, s, got + n, sizeof got - 1 - n, &k, &is_end)) break;
        got[n += k] = 0;
        if (!k) (void)usleep(10000);
    }
    tiny_socket_close(s);
    T_TRUE(!strncmp(got, "HTTP/1.1 200 OK\r\n", 17));
    has(got, want, __LINE__);
    try_load();
    (void)snprintf(line, sizeof line, "kill -INT $(cat %s/pid)", folder);
    T_EQ_INT(system(line), 0);
    for (tries = 0; tries < 1000 && !slurp("status", line, sizeof line); tries++) (void)usleep(10000);
    T_EQ_TEXT(line, "0\n");
    (void)slurp("serve.out", said, sizeof said);
    SAYS("serving story at unix:");
    (void)slurp("serve.err", errors, sizeof errors);
    T_EQ_TEXT(errors, "");
}

/* ---- examples/copy: short programs to copy, each by what it must print */

/* the story's first line is `text`, which goes to the first end of line of said */
static void first_line(char *text, size_t room)
{
    (void)snprintf(text, room, "%.*s", (int)strcspn(said, "\n"), said);
}

/* the file, the same bytes linked into a program, and another allocator give the same text */
static void test_copy_model(void)
{
    char file[4000], linked[4000], memory[4000];
    unsigned long most = 0, left = 1;
    const char *at;
    if (!is_there()) return;
    T_EQ_INT(run("", "minimal %s 'one day , Ella'", a_story), 0);
    first_line(file, sizeof file);
    T_EQ_INT(run("", "copy/linked 'one day , Ella'"), 0);
    T_EQ_TEXT(errors, "");
    first_line(linked, sizeof linked);      /* 60 tokens; minimal makes up to 200 */
    T_TRUE(strlen(linked) > 100 && !strncmp(file, linked, strlen(linked)));
    T_EQ_INT(run("", "copy/memory %s 'one day , Ella' 64", a_story), 0);
    first_line(memory, sizeof memory);
    T_EQ_TEXT(memory, linked);
    at = strchr(said, '\n');
    T_TRUE(at && sscanf(at, "\n%lu bytes were the most; %lu are still held", &most, &left) == 2);
    T_TRUE(most > 100000 && most <= (64ul << 20) && left == 0);
    T_EQ_INT(run("", "copy/memory %s 'one day , Ella' 0", a_story), 1);     /* no byte: there is no context */
    COMPLAINS("memory: the allocator gave no memory");
    T_EQ_INT(run("", "copy/memory examples/models/story-gla.gguf 'one day , Ella' 1"), 1);
    COMPLAINS("memory: the allocator could not provide ");
    SAYS("; 0 are still held");
    T_EQ_INT(run("", "copy/memory there/is/none x 64"), 1);
    COMPLAINS("there/is/none: cannot be opened");
    T_EQ_INT(run("", "copy/linked one two"), 2);
}

/* A context that cannot be opened: every program says so and gives back what it has. */
static void test_copy_no_context(void)
{
    static const char *const lines[] = { "copy/chat m",   "copy/sequences m a",    "copy/json m a",
                                         "copy/linked",   "copy/search m a",       "copy/accelerator",
                                         "copy/threads",  "copy/quantize m o F16", "copy/memory m a 64",
                                         "copy/engine m" };
    size_t i;
    if (!is_there()) return;
    (void)setenv("TINY_TARGET", "z80", 1);
    for (i = 0; i < T_COUNT(lines); i++) {
        T_EQ_INT(run("", "%s", lines[i]), 1);
        T_TRUE(*errors && !strstr(errors, "Sanitizer"));
    }
    (void)unsetenv("TINY_TARGET");
}

/* 300 products of 0.5 and 0.5 are 75, by the pool of the program; a device's 1 + 3, 2 + 3, 4 + 6, 5 + 6, and the kit */
static void test_copy_hooks(void)
{
    int jobs = 0, cases = 0, declined = 0, failed = -1;
    const char *at;
    if (!is_there()) return;
    T_EQ_INT(run("", "copy/threads"), 0);
    T_TRUE(sscanf(said, "3 threads, %d jobs, a sum of 300 products is 75\n", &jobs) == 1 && jobs > 0);
    SAYS("is 75\n");
    T_EQ_INT(run("", "copy/accelerator"), 0);
    T_TRUE(!strncmp(said, "4 5 / 10 11; the device answered 1 call\n", 40));
    at = strstr(said, "matmul: ");
    T_TRUE(at && sscanf(at, "matmul: %d cases, %d declined, %d failed", &cases, &declined, &failed) == 3);
    T_TRUE(cases >= 5 && cases + declined == 100 && failed == 0);
}

/* Several texts together are what each is by itself: on the reference, whose sums do not depend on the batch. */
static void test_copy_sequences(void)
{
    static const char *const prompt[] = { "one day , Ella was in", "in the end ,", "one day , Jack" },
        *const model[] = { "examples/models/story-small.gguf", "examples/models/story-gla.gguf" };
    char alone[8000];
    size_t n, i, m;
    if (!is_there()) return;
    (void)setenv("TINY_TARGET", "reference", 1);
    for (m = 0; m < T_COUNT(model); m++) {
        for (i = n = 0; i < T_COUNT(prompt); i++) {
            T_EQ_INT(run("", "copy/sequences %s '%s'", model[m], prompt[i]), 0);
            T_TRUE(!strncmp(said, prompt[i], strlen(prompt[i])) && strlen(said) > strlen(prompt[i]) + 20);
            n += (size_t)snprintf(alone + n, sizeof alone - n, "%s", said);
        }
        T_EQ_INT(run("", "copy/sequences %s '%s' '%s' '%s'", model[m], prompt[0], prompt[1], prompt[2]), 0);
        T_EQ_TEXT(said, alone);
        /* and what generate makes of one prompt */
        T_EQ_INT(run("", "generate %s '%s' --n 40 --echo --temp 0", model[m], prompt[0]), 0);
        T_TRUE(!strncmp(said, alone, strcspn(said, "\n")) && strcspn(said, "\n") == strcspn(alone, "\n"));
    }
    (void)unsetenv("TINY_TARGET");
    T_EQ_INT(run("", "copy/sequences %s", a_story), 2);
}

/* Lines that are answered together have the text that generate makes of each. */
static void test_copy_engine(void)
{
    static const char *const prompt[] = { "one day , Ella was in", "in the end ,", "one day , Jack" };
    char alone[3][3000];
    size_t i;
    if (!is_there()) return;
    (void)setenv("TINY_TARGET", "reference", 1);
    for (i = 0; i < T_COUNT(prompt); i++) {
        T_EQ_INT(run("", "generate examples/models/story-small.gguf '%s' --n 40 --echo --temp 0", prompt[i]), 0);
        (void)snprintf(alone[i], sizeof alone[i], "%.*s", (int)strcspn(said, "\n"), said);
    }
    T_EQ_INT(run("one day , Ella was in\nin the end ,\none day , Jack\n",
                 "copy/engine examples/models/story-small.gguf"), 0);
    for (i = 0; i < T_COUNT(prompt); i++)
        if (!T_TRUE(strstr(said, alone[i]) != NULL)) printf("%s\n%s\n", alone[i], said);
    SAYS("3 answers in ");
    (void)unsetenv("TINY_TARGET");
    T_EQ_INT(run("", "copy/engine"), 2);
    T_EQ_INT(run("one day\n", "copy/engine there/is/none"), 1);
    COMPLAINS("there/is/none: cannot be opened");
}

/* The next word of JSON is this one; blanks before it do not matter. */
static int takes(const char **at, const char *word)
{
    *at += strspn(*at, " \t\n");
    if (strncmp(*at, word, strlen(word))) return 0;
    *at += strlen(word);
    return 1;
}
/* a string of JSON; how many characters it has, -1: there is none */
static int characters(const char **at)
{
    int n = 0;
    if (!takes(at, "\"")) return -1;
    for (; **at && **at != '"'; n++) {
        if ((unsigned char)**at < 0x20) return -1;
        if (**at == '\\' && (*at)[1] == 'u') {
            if (strspn(*at + 2, "0123456789abcdefABCDEF") < 4) return -1;
            *at += 6;
        } else if (**at == '\\') {
            if (!(*at)[1] || !strchr("\"\\/bfnrt", (*at)[1])) return -1;
            *at += 2;
        } else
            for (++*at; (**at & 0xc0) == 0x80; ++*at) {}
    }
    return takes(at, "\"") ? n : -1;
}

/* seven corners of a cube, turned: each degree keeps its length */
static void test_copy_shape(void)
{
    if (!is_there()) return;
    T_EQ_INT(run("", "copy/shape 7"), 0);
    SAYS("degree 2     5.000  turned    5.000\ndegree 3     7.000  turned    7.000\n");
    T_EQ_INT(run("", "copy/shape"), 2);
    COMPLAINS("shape SEED");
}

/* The text is JSON of the schema of examples/copy/json.c, read here by hand. */
static void test_copy_json(void)
{
    const char *model[3] = { "examples/models/story-gla.gguf", "examples/models/story-small.gguf", NULL };
    size_t m;
    if (!is_there()) return;
    model[2] = t_shared("oracle/llm/llama.gguf");
    for (m = 0; m < T_COUNT(model) && model[m]; m++) {
        const char *at = said;
        int n = 0, length;
        T_EQ_INT(run("", "copy/json %s 'one day'", model[m]), 0);
        T_EQ_TEXT(errors, "");
        T_TRUE(takes(&at, "{") && takes(&at, "\"name\"") && takes(&at, ":"));
        length = characters(&at);
        T_TRUE(length >= 1 && length <= 12);
        T_TRUE(takes(&at, ",") && takes(&at, "\"mood\"") && takes(&at, ":"));
        T_TRUE(takes(&at, "\"calm\"") || takes(&at, "\"curious\"") || takes(&at, "\"cross\""));
        T_TRUE(takes(&at, ",") && takes(&at, "\"hungry\"") && takes(&at, ":"));
        T_TRUE(takes(&at, "true") || takes(&at, "false"));
        T_TRUE(takes(&at, ",") && takes(&at, "\"toys\"") && takes(&at, ":") && takes(&at, "["));
        while (!takes(&at, "]")) {
            if (n++) T_TRUE(takes(&at, ","));
            length = characters(&at);
            if (!T_TRUE(length >= 0 && length <= 8 && n <= 2)) break;
        }
        T_TRUE(takes(&at, "}") && at[strspn(at, " \t\n")] == 0);
    }
    T_EQ_INT(run("", "copy/json %s", a_story), 2);
}

/* the text itself is nearest, with a cosine of 1; the others stand in the order of what embed computes */
static void test_copy_search(void)
{
    const char *m = t_shared("oracle/llm/bert.gguf");
    double c[3] = { 0, 0, 0 }, want[3] = { 0, 0, 0 };
    char text[3][100];
    static const char *const texts[] = { "a text", "one text", "words of another kind" };
    int i, k;
    if (!m || !is_there()) return;
    T_EQ_INT(run("one text\na text\nwords of another kind\n", "embed %s --similar", m), 0);
    T_TRUE(sscanf(said, "%lf %lf %lf", &want[1], &want[0], &want[2]) == 3);
    T_EQ_INT(run("a text\n\none text\nwords of another kind\n", "copy/search %s 'one text'", m), 0);
    T_TRUE(sscanf(said, "%lf %99[^\n] %lf %99[^\n] %lf %99[^\n]", &c[0], text[0], &c[1], text[1], &c[2], text[2]) == 6);
    T_EQ_TEXT(text[0], "one text");
    T_TRUE(c[0] >= c[1] && c[1] >= c[2]);
    for (i = 0; i < 3; i++)
        for (k = 0; k < 3; k++)
            if (!strcmp(text[i], texts[k])) T_CLOSE(c[i], want[k], 1.01e-4);        /* both have four digits */
    T_EQ_INT(run("a text\n", "copy/search %s 'one text'", a_story), 1);
    COMPLAINS("search: ");
}

/* Q8_0 is 34 bytes for 32 numbers: the matrices have that size, and all else is as it was */
static void test_copy_quantize(void)
{
    char path[300];
    tiny_ctx *ctx;
    tllm_gguf *was = NULL, *is = NULL;
    size_t i, packed = 0;
    uint64_t before = 0, after = 0;
    if (!is_there()) return;
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    (void)snprintf(path, sizeof path, "%s/small.gguf", folder);
    T_EQ_INT(run("", "copy/quantize examples/models/story.gguf %s Q4_0", path), 0);
    T_OK(tllm_gguf_open(ctx, "examples/models/story.gguf", &was));
    T_OK(tllm_gguf_open(ctx, path, &is));
    T_EQ_INT(tllm_gguf_n_tensors(is), tllm_gguf_n_tensors(was));
    for (i = 0; was && is && i < tllm_gguf_n_tensors(was); i++) {
        const tllm_gguf_tensor *a = tllm_gguf_tensor_at(was, i), *b = tllm_gguf_tensor_find(is, "output.weight");
        char name[100];
        (void)snprintf(name, sizeof name, "%.*s", (int)a->name.n, a->name.at);
        b = tllm_gguf_tensor_find(is, name);
        if (!T_TRUE(b && b->rank == a->rank && !memcmp(a->dim, b->dim, sizeof a->dim))) continue;
        before += a->bytes;
        after += b->bytes;
        packed += a->type != b->type;
        if (a->rank < 2) T_TRUE(b->bytes == a->bytes && !memcmp(a->data, b->data, a->bytes));
        else if (b->type == TLLM_FORMAT_Q4_0) T_EQ_INT(b->bytes, a->dim[0] * a->dim[1] / 32 * 18);
    }
    T_TRUE(packed > 4 && after < before * 3 / 4);
    {
        char want[200];
        (void)snprintf(want, sizeof want, "%lu of %lu tensors packed, %.1f MB instead of %.1f\n", (unsigned long)packed,
                       (unsigned long)tllm_gguf_n_tensors(was), (double)after / 1e6, (double)before / 1e6);
        SAYS(want);
    }
    tllm_gguf_close(ctx, was);
    tllm_gguf_close(ctx, is);
    t_close(ctx);
    T_EQ_INT(run("", "minimal %s 'one day ,'", path), 0);      /* and it still tells a story */
    T_TRUE(strlen(said) > 40);
    (void)remove(path);
    T_EQ_INT(run("", "copy/quantize %s %s Q9", a_story, path), 1);
    COMPLAINS("there is no type Q9");
    T_TRUE(access(path, F_OK) != 0);
}

/* A story model with a chat template; the template writes the messages one after the other. */
static void make_chat_model(const char *path)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_writer_desc d;
    tllm_writer *w = NULL;
    size_t i;
    memset(&d, 0, sizeof d);
    d.path = path;
    T_OK(tllm_gguf_open(ctx, a_story, &g));
    T_OK(tllm_writer_open(ctx, &d, &w));
    for (i = 0; i < tllm_gguf_n_meta(g); i++) T_OK(tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(g, i)));
    T_OK(tllm_writer_put_text(ctx, w, "tokenizer.chat_template",
                              "{% for m in messages %}{{ m.content }} {% endfor %}"));
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        T_OK(tllm_writer_put_tensor(ctx, w, t->name, t->type, t->rank, t->dim, t->data));
    }
    T_OK(tllm_writer_finish(ctx, w));
    tllm_writer_close(ctx, w);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* each answer is what generate makes of the whole talk so far */
static void test_copy_chat(void)
{
    static char talk[20000], want[20000];
    char path[300];
    size_t n = 0, n_want = 0;
    int i;
    static const char *const question[] = { "one day , Ella was", "in the end ," };
    if (!is_there()) return;
    (void)snprintf(path, sizeof path, "%s/chat.gguf", folder);
    make_chat_model(path);
    for (i = 0; i < 2; i++) {
        n += (size_t)snprintf(talk + n, sizeof talk - n, "%s ", question[i]);
        T_EQ_INT(run(talk, "generate %s - --temp 0 --n 0", path), 0);
        said[strlen(said) - (said[0] != 0)] = 0;            /* the end of the line is not the model's */
        n += (size_t)snprintf(talk + n, sizeof talk - n, "%s ", said);
        n_want += (size_t)snprintf(want + n_want, sizeof want - n_want, "> %s\n", said);
    }
    (void)snprintf(want + n_want, sizeof want - n_want, "> ");
    T_EQ_INT(run("one day , Ella was\nin the end ,\n", "copy/chat %s", path), 0);
    T_EQ_TEXT(said, want);
    T_TRUE(n_want > 60);
    (void)remove(path);
    T_EQ_INT(run("one day\n", "copy/chat %s", a_story), 1);
    COMPLAINS("chat: the model file has no chat template");
    T_EQ_INT(run("", "copy/chat there/is/none"), 1);
    COMPLAINS("there/is/none: cannot be opened");
}

int main(void)
{
    T_RUN(test_usage);
    T_RUN(test_help);
    T_RUN(test_endless_input);
    T_RUN(test_input_not_overwritten);
    T_RUN(test_terminal_closed);
    T_RUN(test_reader_exits);
    T_RUN(test_template_fails);
    T_RUN(test_missing);
    T_RUN(test_resume);
    T_RUN(test_generate);
    T_RUN(test_generate_draft);
    T_RUN(test_generate_side_by_side);
    T_RUN(test_sparse);
    T_RUN(test_repack);
    T_RUN(test_adapters);
    T_RUN(test_perplexity);
    T_RUN(test_embed);
    T_RUN(test_inspect);
    T_RUN(test_inspect_hostile_names);
    T_RUN(test_chat);
    T_RUN(test_interrupted);
    T_RUN(test_unusual_arguments);
    T_RUN(test_stories);
    T_RUN(test_cache);
    T_RUN(test_pooled);
    T_RUN(test_gnn_without_test_part);
    T_RUN(test_split);
    T_RUN(test_vision);
    T_RUN(test_nets);
    T_RUN(test_search_net);
    T_RUN(test_needle);
    T_RUN(test_bench_model);
    T_RUN(test_numbers);
    T_RUN(test_same_sentences);
    T_RUN(test_bin);
    T_RUN(test_weave);
    T_RUN(test_conformance);
    T_RUN(test_target_of_the_environment);
    T_RUN(test_serve);
    T_RUN(test_copy_model);
    T_RUN(test_copy_no_context);
    T_RUN(test_copy_hooks);
    T_RUN(test_copy_sequences);
    T_RUN(test_copy_engine);
    T_RUN(test_copy_json);
    T_RUN(test_copy_search);
    T_RUN(test_copy_quantize);
    T_RUN(test_copy_chat);
    T_RUN(test_copy_shape);
    tidy();
    return t_done();
}
#else
int main(void)
{
    puts("skipped: main: it needs a shell");
    puts("0 passed, 0 failed, 1 skipped");
    return 0;
}
#endif
