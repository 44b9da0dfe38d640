/* tests/llm/copies.c - examples/copy: short programs to copy, each by what it must print */
#include "llm/run.h"

#if defined __unix__ || defined __APPLE__

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
