/* tests/llm/programs.c - the programs of examples/ that run models, as a user runs them: arguments, standard input and
 * output, exit statuses */
#include "llm/run.h"

#if defined __unix__ || defined __APPLE__
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
    T_EQ_INT(run("", "%s --temp 0.7 --seed 4 %s --draft-tree 2 --draft-n 3 --draft-fuzzy 2 --draft-always --stats",
                 call, model), 0);
    T_EQ_TEXT(said, plain);
    COMPLAINS("fuzzy passes");
    free(plain);
    T_EQ_INT(run("", "%s --draft-tree 2", call), 2);
    COMPLAINS("--draft-tree does nothing without --draft");
    T_EQ_INT(run("", "%s --draft-repeat --draft-fuzzy 2", call), 2);
    COMPLAINS("--draft-fuzzy does nothing without --draft");
    T_EQ_INT(run("", "%s %s --draft-tree 33", call, model), 2);
    T_EQ_INT(run("", "%s %s --draft-tokens 8", call, model), 2);
    COMPLAINS("--draft-tokens does nothing without --draft-tree");
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

/* a draft over ranks: the text of the model alone */
static void test_easyspec(void)
{
    static const char call[] = "easyspec examples/models/story.gguf 'one day , Ella' --n 20 --check";
    if (!is_there()) return;
    T_EQ_INT(run("", "%s --draft examples/models/story-small.gguf", call), 0);
    has(said, "text without a draft: the same\nproposals kept in one process: the same\n", __LINE__);
    T_EQ_INT(run("", "%s", call), 2);
    COMPLAINS("--draft FILE is missing");
    T_EQ_INT(run("", "%s --draft x --measure", call), 2);
    T_EQ_INT(run("", "%s --draft x --group 33", call), 2);
    T_EQ_INT(run("", "easyspec examples/models/story.gguf --draft examples/models/story-gla.gguf"), 1);
    COMPLAINS("cannot be computed side by side");
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
    T_EQ_INT(run("", "chat %s --repack-auto --no-repack", m), 2);
    COMPLAINS("one of them");
    T_EQ_INT(run("hello\n", "chat %s --n 4 --temp 0 --stats", m), 0);       /* a pipe: not by itself */
    T_TRUE(!strstr(errors, "repacked"));
    if (run("", "serve --help") == 127) return;
    T_EQ_INT(run("", "serve %s --repack --no-repack", m), 2);
    COMPLAINS("--repack and --no-repack: one of them");
    T_EQ_INT(run("", "serve %s --port 0 --lora %s", m, m), 1);              /* ends after the start */
    T_EQ_INT(strstr(errors, "repacked ") != NULL, some && tiny_target_runs_here(TINY_TARGET_AVX2));
    T_EQ_INT(run("", "serve %s --port 0 --lora %s --no-repack", m, m), 1);
    T_TRUE(!strstr(errors, "repacked"));
    T_EQ_INT(run("", "serve %s --port 0 --lora %s --repack", m, m), 1);
    T_EQ_INT(strstr(errors, "repacked ") != NULL, some);
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

/* serve listens where --port says, with the options of the engine, and ends by a signal */
static void test_serve(void)
{
    const char *build = getenv("BUILD");
    char program[300];
    int from[2], status = -1;
    size_t held = 0;
    pid_t child;
    if (!is_there() || run("", "serve --help") == 127) return;
    T_EQ_INT(run("", "serve %s --port 65536", a_story), 2);
    COMPLAINS("--port takes a whole number from 0 to 65535");
    T_EQ_INT(run("", "serve %s --port 0 --address 0", a_story), 2);
    COMPLAINS("--port and --address: one of them");
    T_EQ_INT(run("", "serve %s --window --cells 64", a_story), 2);
    COMPLAINS("--window and --cells: one of them");
    T_EQ_INT(run("", "serve %s --cache-type-v q9", a_story), 2);
    COMPLAINS("--cache-type-v: q9");
    T_EQ_INT(run("", "serve %s --port 0 --lora %s", a_story, a_story), 1);
    COMPLAINS("story-small.gguf");
    if (!T_TRUE(!pipe(from))) return;
    (void)snprintf(program, sizeof program, "%s/serve", build ? build : "build");
    child = fork();
    if (!child) {
        (void)alarm(120);
        (void)dup2(from[1], 1);
        (void)close(from[0]);
        (void)execl(program, program, a_story, "--port", "0", "--window", "--budget", "16", "--cache-type-k", "q8_0",
                    "--cache-type-v", "f16", "--context", "64", "--threads", "1", (char *)NULL);
        _exit(127);
    }
    (void)close(from[1]);
    said[0] = 0;
    T_TRUE(child > 0 && hear_until(from[0], &held, "at http://127.0.0.1:") && !strstr(said, "127.0.0.1:0\n"));
    T_TRUE(!kill(child, SIGTERM));
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
    T_RUN(test_easyspec);
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
    T_RUN(test_serve);
    T_RUN(test_unusual_arguments);
    T_RUN(test_stories);
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
