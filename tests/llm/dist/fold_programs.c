/* tests/llm/dist/fold_programs.c - build/moe_fold and build/zero_topo as a user runs them: threads, processes over TCP,
 * pictures, arguments that are refused */
#include "llm/run.h"

#if defined __unix__ || defined __APPLE__
static int starts(const char *name, const char *begin)
{
    char text[200];
    (void)slurp(name, text, sizeof text);
    return !strncmp(text, begin, strlen(begin));
}

static void test_moe_fold(void)
{
    static const char small[] = "moe_fold --experts 4 --width 12 --hidden 8 --tokens 20 --rounds 1 --check";
    const char *model = t_find("oracle/llm/mixtral.gguf");
    if (!is_there()) return;
    if (run("", "moe_fold --help")) { t_skip("moe_fold does not run here"); return; }
    SAYS("--svg FILE");
    T_EQ_INT(run("", "%s --ranks 4 --svg %s/rows.svg", small, folder), 0);
    SAYS("check: the same as on one rank");
    T_TRUE(starts("rows.svg", "<svg xmlns"));
    T_EQ_INT(run("", "%s --ranks 4 --tp 2 --etp 2 --drop probs --whole --skew 1.2", small), 0);
    SAYS("etp 2 x ep 2");
    T_EQ_INT(run("", "%s --ranks 2 --tcp --drop position --pad --half", small), 0);
    SAYS("check: the same as on one rank");
    if (model) {                            /* its mixture layers */
        T_EQ_INT(run("", "moe_fold %s --ranks 4 --tokens 10 --check", model), 0);
        SAYS("2 of 4 experts for each");
        SAYS("check: the same as on one rank");
        T_EQ_INT(run("", "moe_fold %s --ranks 8 --tp 2 --cp 2 --etp 2 --drop probs --whole --check", model), 0);
        SAYS("check: the same as on one rank");
        T_EQ_INT(run("", "moe_fold %s --ranks 4 --tcp --drop position --check", model), 0);
        SAYS("check: the same as on one rank");
        T_EQ_INT(run("", "moe_fold %s --ranks 4 --tokens 200", model), 1);
        COMPLAINS("the model would read more than 512 tokens");
        T_EQ_INT(run("", "moe_fold %s --svg %s/rows.svg", model, folder), 2);
        COMPLAINS("a model takes neither --links nor --svg");
    }
    T_EQ_INT(run("", "moe_fold %s --prompt Once", a_story), 1);
    COMPLAINS("layer 0 is no mixture layer");
    T_EQ_INT(run("", "moe_fold --prompt Once"), 2);
    COMPLAINS("--prompt needs a model");
    T_EQ_INT(run("", "moe_fold --links --tokens 32 --width 64 --skew 0"), 0);
    SAYS("across / folded");
    T_EQ_INT(run("", "moe_fold --drop all"), 2);
    COMPLAINS("--drop takes dropless, probs or position, not all");
    T_EQ_INT(run("", "moe_fold --pad"), 2);
    COMPLAINS("--pad and --whole need --drop");
    T_EQ_INT(run("", "moe_fold --top 17"), 2);
    COMPLAINS("there are 16 experts");
    T_EQ_INT(run("", "moe_fold --links --fast 3"), 2);
    COMPLAINS("must divide the 16 ranks");
    T_EQ_INT(run("", "moe_fold --svg %s", folder), 2);
    COMPLAINS("this is a folder");
    T_EQ_INT(run("", "moe_fold --ranks 3 --ep 2"), 1);
    COMPLAINS("do not divide 3 ranks");
}

static void test_zero_topo(void)
{
    static const char small[] = "zero_topo --hidden 8 --steps 5 --check";
    if (!is_there()) return;
    if (run("", "zero_topo --help")) { t_skip("zero_topo does not run here"); return; }
    SAYS("--links");
    T_EQ_INT(run("", "%s --ranks 8 --w 2 --g 4 --svg %s/loss.svg", small, folder), 0);
    SAYS("weights over 2, gradients over 4, states over 8");
    SAYS("as expected");
    T_TRUE(starts("loss.svg", "<svg xmlns"));
    T_EQ_INT(run("", "%s --ranks 4 --tcp --exact --w 4 --g 4 --second 2 --hop 2", small), 0);
    SAYS("as expected");
    T_EQ_INT(run("", "zero_topo --plan"), 0);
    SAYS("8.75");
    T_EQ_INT(run("", "zero_topo --plan --memory 30"), 0);
    SAYS("divisions fit 30 GB");
    T_EQ_INT(run("", "zero_topo --plan --memory 0.1"), 1);
    COMPLAINS("no division of 384 ranks fits");
    T_EQ_INT(run("", "zero_topo --plan --of 3"), 2);
    COMPLAINS("pairs need an even number of ranks");
    T_EQ_INT(run("", "zero_topo --wbits 5"), 2);
    COMPLAINS("--wbits and --gbits take 4, 8, 16 or 32");
    T_EQ_INT(run("", "zero_topo --plan --check"), 2);
    T_EQ_INT(run("", "zero_topo --svg %s", folder), 2);
    COMPLAINS("this is a folder");
    T_EQ_INT(run("", "zero_topo --ranks 4 --w 3"), 1);
    COMPLAINS("s_w = 3 does not divide s_g = 4");
}

int main(void)
{
    T_RUN(test_moe_fold);
    T_RUN(test_zero_topo);
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
