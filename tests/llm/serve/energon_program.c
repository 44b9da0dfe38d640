/* tests/llm/serve/energon_program.c - build/energon as a user runs it: threads, processes over TCP, a picture, lines of
 * a file, arguments that are refused */
#include "llm/run.h"

#if defined __unix__ || defined __APPLE__
static void test_program(void)
{
    static const char small[] = "energon examples/models/story.gguf --texts 6 --longest 12 --batch 3";
    char text[200];
    if (!is_there()) return;
    if (run("", "energon --help")) { t_skip("energon does not run here"); return; }
    SAYS("--by-length");
    T_EQ_INT(run("", "%s --check --svg %s/who.svg", small, folder), 0);
    SAYS("check: the same as on one rank");
    (void)slurp("who.svg", text, sizeof text);
    T_TRUE(!strncmp(text, "<svg xmlns", 10));
    T_EQ_INT(run("", "%s --check --tcp --ranks 3 --tensor 2 --blocking", small), 0);
    SAYS("1 stages of 2, blocking");
    T_EQ_INT(run("", "%s --check --padded --pool 1 --ranks 2", small), 0);
    SAYS("check: the same as on one rank");
    spill("lines", "Once upon a time\n\nAnna\n");
    T_EQ_INT(run("", "energon examples/models/story.gguf --by-length --lines %s/lines", folder), 0);
    SAYS("2 texts");
    SAYS("tokens, next:");
    T_EQ_INT(run("", "%s --ranks 4 --tensor 2", small), 2);
    COMPLAINS("--ranks 4: a controller and stages of 2 ranks");
    T_EQ_INT(run("", "%s --check --by-length", small), 2);
    COMPLAINS("not together with --by-length");
    T_EQ_INT(run("", "%s --tcp --svg %s/who.svg", small, folder), 2);
    COMPLAINS("the ranks share no clock");
    T_EQ_INT(run("", "%s --svg %s", small, folder), 2);
    COMPLAINS("this is a folder");
    T_EQ_INT(run("", "%s --depth 17", small), 2);
    COMPLAINS("--depth takes a whole number");
    T_EQ_INT(run("", "energon examples/models/story-gla.gguf"), 1);
    COMPLAINS("architecture llama");
    T_EQ_INT(run("", "%s --ranks 3 --tensor 1 --pool 1000", small), 1);
    COMPLAINS("the interval divides the layers");
}

int main(void)
{
    T_RUN(test_program);
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
