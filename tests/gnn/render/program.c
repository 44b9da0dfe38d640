/* tests/gnn/render/program.c - build/spiking_nerf as a user runs it: a small scene is learnt, saved, rendered, drawn;
 * arguments that are refused */
#define T_GNN
#include "t.h"

#if defined __unix__ || defined __APPLE__
#include <sys/wait.h>

static char folder[200], said[4000];

static int run(const char *line)
{
    const char *build = getenv("BUILD");
    char text[1200];
    FILE *f;
    int status;
    (void)snprintf(text, sizeof text, "%.200s/spiking_nerf %.600s >%s/out 2>&1 </dev/null", build ? build : "build",
                   line, folder);
    status = system(text);
    (void)snprintf(text, sizeof text, "%s/out", folder);
    f = fopen(text, "rb");
    said[f ? fread(said, 1, sizeof said - 1, f) : 0] = 0;
    if (f) (void)fclose(f);
    return status == -1 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

static int begins(const char *name, const char *with)
{
    char path[300], head[8] = "";
    FILE *f;
    int same;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    same = f && fread(head, 1, strlen(with), f) == strlen(with) && !memcmp(head, with, strlen(with));
    if (f) (void)fclose(f);
    (void)remove(path);
    return same;
}

static void test_program(void)
{
    static const struct { const char *line, *says; int status; } bad[] = {
        { "paint", "there is no such command", 2 },
        { "run", "run needs a FILE", 2 },
        { "train --net best", "best: the network must be", 2 },
        { "train --time soon", "soon: the time must be condensed or padded", 2 },
        { "train --hidden 40", "40 is no multiple of 32", 2 },
        { "train --svg x.svg", "--svg is for table", 2 },
        { "table --out x.net", "--out is for train", 2 },
        { "run /dev/null", "/dev/null", 1 }
    };
    static const char small[] = "--size 6 --image 8 --views 1 --test 1 --rough 2 --steps 2 --batch 4 --hidden 32";
    char line[600];
    const char *tmp = getenv("TMPDIR"), *at;
    size_t i;
    (void)snprintf(folder, sizeof folder, "%.150s/tinynerfXXXXXX", tmp ? tmp : P_tmpdir);
    if (!mkdtemp(folder) || run("--help") != 0) {
        t_skip("build/spiking_nerf does not run here");
        return;
    }
    for (i = 0; i < 2; i++) {
        char quality[200];
        (void)snprintf(line, sizeof line, "train %s %s --out %s/net --picture %s/view.png", small,
                       i ? "--net float" : "--time padded --flip --leak", folder, folder);
        if (run(line) != 0) t_fail(__FILE__, __LINE__, "%s: %s", line, said);
        at = strstr(said, "1 new views: PSNR");
        if (!T_TRUE(at)) break;
        (void)snprintf(quality, sizeof quality, "%s", at);
        T_TRUE(begins("view.png", "\x89PNG"));
        (void)snprintf(line, sizeof line, "run %s/net --image 8 --test 1 --picture %s/view.png", folder, folder);
        T_EQ_INT(run(line), 0);
        T_EQ_TEXT(said, quality);
        T_TRUE(begins("view.png", "\x89PNG"));
    }
    (void)snprintf(line, sizeof line, "table %s --svg %s/energy.svg", small, folder);
    if (run(line) != 0) t_fail(__FILE__, __LINE__, "%s: %s", line, said);
    T_TRUE(strstr(said, "repeated inputs") && begins("energy.svg", "<svg"));
    for (i = 0; i < T_COUNT(bad); i++)
        if (run(bad[i].line) != bad[i].status || !strstr(said, bad[i].says))
            t_fail(__FILE__, __LINE__, "%s: %s", bad[i].line, said);
    (void)begins("net", "");
    (void)begins("out", "");
    (void)rmdir(folder);
}

int main(void)
{
    T_RUN(test_program);
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
