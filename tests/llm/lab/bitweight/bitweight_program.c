/* tests/llm/lab/bitweight/bitweight_program.c - examples/bitweight as a user runs it: a model, a nest, the list, and
 * refused arguments */
#include "t.h"

#if defined __unix__ && !defined TINYLLM_NO_BITWEIGHT
#include <sys/wait.h>

static char said[20000];

/* Runs BUILD/bitweight; both outputs are stored in `said`. Its exit status; -1: it does not run here. */
static int run(const char *line)
{
    const char *build = getenv("BUILD");
    char command[600];
    size_t n;
    FILE *f;
    int status;
    (void)snprintf(command, sizeof command, "%s/bitweight %s 2>&1", build ? build : "build", line);
    f = popen(command, "r");
    n = f ? fread(said, 1, sizeof said - 1, f) : 0;
    said[n] = 0;
    status = f ? pclose(f) : -1;
    return status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) == 127 ? -1 : WEXITSTATUS(status);
}
static void says(const char *part, int line)
{
    if (!strstr(said, part)) t_fail(__FILE__, line, "\"%.300s\" is without \"%s\"", said, part);
}
#define SAYS(part) says(part, __LINE__)

static void test_program(void)
{
    static const char model[] = "examples/models/story-small.gguf";
    char line[700];
    if (run("--help") < 0) { t_skip("bitweight does not run here"); return; }
    T_EQ_INT(run("--list"), 0);
    SAYS("opt4c      a column of 32 PEs, one encoder       0.040865 mm2 with wires, 1694 MHz");
    T_EQ_INT(run("--nest opt2"), 0);
    SAYS("      parallel bw in 4\n        accumulate (S, C) of 10 + log2 k bits\n        for k in K / 16\n");
    T_EQ_INT(run("--nest opt5"), 1);
    SAYS("bitweight: bit weights: there is no design opt5");
    T_EQ_INT(run("there-is-no-such-file"), 1);
    SAYS("bitweight: there-is-no-such-file: cannot be opened");
    T_EQ_INT(run("x --tokens 0"), 2);
    SAYS("--tokens takes a whole number from 1 to 1000000, not 0");
    T_EQ_INT(run("x --encoder radix"), 2);
    SAYS("bitweight: radix: --encoder takes booth or ent");
    T_EQ_INT(run(""), 2);
    SAYS("usage: bitweight");
    (void)snprintf(line, sizeof line, "%s --tokens 32", model);
    T_EQ_INT(run(line), 0);
    SAYS("blk.0.attn_q.weight");
    SAYS("Gop/s/mm2");
    (void)snprintf(line, sizeof line, "%s --tokens 32 --quiet --sync-k --zero-slot --encoder booth --threads 1", model);
    T_EQ_INT(run(line), 0);
    T_TRUE(!strstr(said, "blk.0."));
    SAYS("opt4c-32");
}

int main(void)
{
    T_RUN(test_program);
    return t_done();
}
#else
int main(void) { return t_done(); }
#endif
