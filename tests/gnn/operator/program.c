/* tests/gnn/operator/program.c - build/operator and build/deeponet as a user runs them: a small network is trained,
 * saved, run again, drawn; arguments that are refused */
#define T_GNN
#include "t.h"

#if defined __unix__ || defined __APPLE__
#include <sys/wait.h>

static char folder[200], said[4000];
static const char *program = "operator";

static int run(const char *line)
{
    const char *build = getenv("BUILD");
    char text[1200];
    FILE *f;
    int status;
    (void)snprintf(text, sizeof text, "%.200s/%s %.600s >%s/out 2>&1 </dev/null", build ? build : "build", program,
                   line, folder);
    status = system(text);
    (void)snprintf(text, sizeof text, "%s/out", folder);
    f = fopen(text, "rb");
    said[f ? fread(said, 1, sizeof said - 1, f) : 0] = 0;
    if (f) (void)fclose(f);
    return status == -1 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

static int is_there(const char *name)
{
    const char *tmp = getenv("TMPDIR");
    int there;
    program = name;
    (void)snprintf(folder, sizeof folder, "%.150s/tinyoperatorXXXXXX", tmp ? tmp : P_tmpdir);
    there = mkdtemp(folder) != NULL && run("--help") == 0;
    if (!there) t_skip("the program does not run here");
    return there;
}

static void gone(const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)remove(path);
}

/* patches of a square, and lines: the file gives the same error as the network that was trained */
static void test_train_and_run(void)
{
    static const char *const how[] = { "--problem darcy --size 16 --levels 1", "--problem vorticity --size 8 --kind cp",
                                       "--problem burgers --size 16 --kind tt" };
    size_t i;
    if (!is_there("operator")) return;
    for (i = 0; i < T_COUNT(how); i++) {
        char line[600], error[100], path[300];
        unsigned char head[3] = { 0, 0, 0 };
        const char *at;
        FILE *f;
        (void)snprintf(line, sizeof line,
                       "train %s --train 4 --test 2 --epochs 1 --width 4 --blocks 2 --modes 4 --batch 2 --out %s/net "
                       "--picture %s/picture.ppm",
                       how[i], folder, folder);
        if (run(line) != 0) t_fail(__FILE__, __LINE__, "%s: %s", line, said);
        at = strstr(said, "error on 2 new samples: ");
        if (!T_TRUE(at)) break;
        (void)snprintf(error, sizeof error, "%.60s", at);
        (void)snprintf(line, sizeof line, "run %s/net %s --test 2", folder, how[i]);
        T_EQ_INT(run(line), 0);
        T_EQ_TEXT(said, error);
        (void)snprintf(path, sizeof path, "%s/picture.ppm", folder);
        f = fopen(path, "rb");
        T_TRUE(f && fread(head, 1, 3, f) == 3 && !memcmp(head, "P6 ", 3));
        if (f) (void)fclose(f);
    }
    gone("net");
    gone("picture.ppm");
    gone("out");
    (void)rmdir(folder);
}

static void test_refused(void)
{
    static const struct { const char *line, *says; int status; } bad[] = {
        { "learn", "there is no such command", 2 },
        { "run", "run needs a FILE", 2 },
        { "train --problem heat", "heat: the problem must be darcy, burgers or vorticity", 2 },
        { "train --kind best", "best: the kind must be", 2 },
        { "train --problem burgers --size 48", "48 is no power of two", 2 },
        { "train --problem burgers --levels 1", "patches are for two dimensions", 2 },
        { "train --ratio 0", "--ratio", 2 },
        { "train --levels 1 --size 10", "it must be a multiple of 4", 1 },
        { "run /dev/null", "/dev/null", 1 }
    };
    size_t i;
    if (!is_there("operator")) return;
    for (i = 0; i < T_COUNT(bad); i++) {
        if (run(bad[i].line) != bad[i].status || !strstr(said, bad[i].says))
            t_fail(__FILE__, __LINE__, "%s: %s", bad[i].line, said);
    }
    gone("out");
    (void)rmdir(folder);
}

/* each problem of build/deeponet: the file gives the same errors, the picture is a PNG, a table has its rows */
static void test_deeponet(void)
{
    static const struct { const char *line, *says; int status; } bad[] = {
        { "train --problem ice", "ice: the problem must be fisher, darcy or heat", 2 },
        { "run", "run needs a FILE", 2 },
        { "table --problem heat", "there is no table for heat", 2 },
        { "train --conv 2", "--conv is for darcy", 2 },
        { "table --picture x.png", "--picture is for train and run", 2 },
        { "run /dev/null", "/dev/null", 1 }
    };
    static const char *const how[] = { "fisher", "darcy --conv 1", "heat" };
    char line[600], path[300];
    unsigned char head[4] = { 0, 0, 0, 0 };
    size_t i;
    FILE *f;
    if (!is_there("deeponet")) return;
    for (i = 0; i < T_COUNT(how); i++) {
        char errors[2000];
        const char *at;
        (void)snprintf(line, sizeof line,
                       "train --problem %s --train 3 --test 2 --steps 2 --batch 2 --width 8 --out %s/net --picture "
                       "%s/picture.png", how[i], folder, folder);
        if (run(line) != 0) t_fail(__FILE__, __LINE__, "%s: %s", line, said);
        at = strstr(said, "error on 2 new samples");
        if (!T_TRUE(at)) break;
        (void)snprintf(errors, sizeof errors, "%s", at);
        (void)snprintf(line, sizeof line, "run %s/net --problem %.6s --test 2", folder, how[i]);
        T_EQ_INT(run(line), 0);
        T_EQ_TEXT(said, errors);
        (void)snprintf(path, sizeof path, "%s/picture.png", folder);
        f = fopen(path, "rb");
        T_TRUE(f && fread(head, 1, 4, f) == 4 && !memcmp(head, "\x89PNG", 4));
        if (f) (void)fclose(f);
    }
    (void)snprintf(line, sizeof line, "run %s/net --problem fisher", folder);
    T_TRUE(run(line) == 1 && strstr(said, "this network is for another problem"));
    T_EQ_INT(run("table --train 2 --test 1 --steps 1 --batch 1 --width 8"), 0);
    T_TRUE(strstr(said, "one for all forms") && strstr(said, "three, each as large"));
    for (i = 0; i < T_COUNT(bad); i++)
        if (run(bad[i].line) != bad[i].status || !strstr(said, bad[i].says))
            t_fail(__FILE__, __LINE__, "%s: %s", bad[i].line, said);
    gone("net");
    gone("picture.png");
    gone("out");
    (void)rmdir(folder);
}

int main(void)
{
    T_RUN(test_train_and_run);
    T_RUN(test_refused);
    T_RUN(test_deeponet);
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
