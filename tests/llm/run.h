/* tests/llm/run.h - runs the programs of examples/ in a folder of its own, for the tests that use them as a user does
 *
 * Exit status 0: done. 1: failed, with a sentence on standard error. 2: invalid arguments. The models are those of the
 * oracle, and stories260K if the large files are present. */
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

T_FN size_t slurp(const char *name, char *text, size_t most)
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
T_FN void spill(const char *name, const char *text)
{
    char path[300];
    FILE *f;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "wb");
    T_TRUE(f && fputs(text, f) >= 0);
    if (f) (void)fclose(f);
}

/* Runs BUILD/line; input: its standard input. Fills `said` and `errors`, returns the exit status. */
TINYI_PRINTF(2, 3) T_FN int run(const char *input, const char *format, ...)
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
T_FN void has(const char *text, const char *part, int line)
{
    if (!strstr(text, part)) t_fail(__FILE__, line, "\"%.300s\" is without \"%s\"", text, part);
}
#define SAYS(part) has(said, part, __LINE__)
#define COMPLAINS(part) has(errors, part, __LINE__)

static const char *const programs[] = { "generate", "chat", "perplexity", "embed", "inspect", "logits", "tokenize" };
T_FN int is_there(void)
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
/* removes the folder and all files in it */
T_FN void tidy(void)
{
    DIR *all = opendir(folder);
    struct dirent *e;
    while (all && (e = readdir(all)) != NULL) {
        char path[500];
        (void)snprintf(path, sizeof path, "%s/%.250s", folder, e->d_name);
        if (e->d_name[0] != '.') (void)remove(path);
    }
    if (all) (void)closedir(all);
    (void)rmdir(folder);
}
#endif
