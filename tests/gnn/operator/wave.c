/* tests/gnn/operator/wave.c - build/wave as a user runs it: networks of each kind are trained, saved, run again, drawn;
 * the table; arguments that are refused */
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
    (void)snprintf(text, sizeof text, "%.200s/wave %.600s >%s/out 2>&1 </dev/null", build ? build : "build", line,
                   folder);
    status = system(text);
    (void)snprintf(text, sizeof text, "%s/out", folder);
    f = fopen(text, "rb");
    said[f ? fread(said, 1, sizeof said - 1, f) : 0] = 0;
    if (f) (void)fclose(f);
    return status == -1 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

static int is_there(void)
{
    const char *tmp = getenv("TMPDIR");
    int there;
    (void)snprintf(folder, sizeof folder, "%.150s/tinywaveXXXXXX", tmp ? tmp : P_tmpdir);
    there = mkdtemp(folder) != NULL && run("--help") == 0;
    if (!there) t_skip("build/wave does not run here");
    return there;
}

static void gone(const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)remove(path);
}

/* the file gives the same error as the network that was trained, and the picture has its size */
static void test_train_and_run(void)
{
    static const char *const how[] = { "--kind oneway --rank 1", "--kind dense --after 2", "--kind separable",
                                       "--kind cp --rank 3 --levels 0" };
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(how); i++) {
        char line[600], error[100], path[300];
        unsigned char head[24] = { 0 };
        const char *at;
        FILE *f;
        (void)snprintf(line, sizeof line,
                       "train %s --size 12 --width 3 --taps 3 --train 3 --test 2 --pairs 2 --epochs 2 --out %s/net "
                       "--picture %s/%s",
                       how[i], folder, folder, i ? "picture.ppm" : "picture.png");
        if (run(line) != 0) t_fail(__FILE__, __LINE__, "%s: %s", line, said);
        at = strstr(said, "new samples: ");
        if (!T_TRUE(at != NULL)) break;
        (void)snprintf(error, sizeof error, "%.20s", at);
        (void)snprintf(line, sizeof line, "run %s/net --size 12 --test 2 --pairs 2", folder);
        if (run(line) != 0) t_fail(__FILE__, __LINE__, "%s: %s", line, said);
        error[strcspn(error, ",")] = 0;
        if (!strstr(said, error)) t_fail(__FILE__, __LINE__, "%s: not %s", said, error);
        (void)snprintf(path, sizeof path, "%s/picture.%s", folder, i ? "ppm" : "png");
        f = fopen(path, "rb");
        T_TRUE(f && fread(head, 1, 24, f) == 24);
        if (f) (void)fclose(f);
        if (i) T_TRUE(!memcmp(head, "P6 786 192 255\n", 15));
        else T_TRUE(!memcmp(head, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x03\x12\0\0\0\xc0", 24));
        (void)remove(path);
    }
    T_EQ_INT(run("table --size 12 --width 2 --taps 3 --train 2 --test 1 --pairs 1 --epochs 1"), 0);
    T_TRUE(strstr(said, "oneway 4") && strstr(said, "after training, 4") && strstr(said, "cp, shared"));
    gone("net");
    gone("out");
    (void)rmdir(folder);
}

static void test_refused(void)
{
    static const struct { const char *line, *says; int status; } bad[] = {
        { "learn", "there is no such command", 2 },
        { "train --out nowhere/w --picture nowhere/w", "two options would write this file", 2 },
        { "run", "run needs a FILE", 2 },
        { "train --kind best", "best: the kind must be", 2 },
        { "train --rank 0", "--rank", 2 },
        { "train --after 2", "only a dense network", 2 },
        { "table --out net", "table takes no --out", 2 },
        { "train --taps 4", "the taps must be odd", 2 },
        { "train --size 15", "the size a multiple of 2", 2 },
        { "train --size 8", "10 or more", 2 },
        { "run /dev/null", "/dev/null", 1 }
    };
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(bad); i++) {
        if (run(bad[i].line) != bad[i].status || !strstr(said, bad[i].says))
            t_fail(__FILE__, __LINE__, "%s: %s", bad[i].line, said);
    }
    gone("out");
    (void)rmdir(folder);
}

int main(void)
{
    T_RUN(test_train_and_run);
    T_RUN(test_refused);
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
