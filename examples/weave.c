/* examples/weave.c - trains a linear model from a table at a chosen precision: weave data.csv --task logistic --bits 4
 *
 *     weave [FILE] [--task linear|logistic|svm] [--bits N] [--midpoint] [--epochs N] [--lr X] [--decay X] [--l2 X]
 *           [--batch N] [--intercept] [--average N] [--label COLUMN] [--test FILE] [-o MODEL] [--save SET.weave]
 *           [--threads N] [--quiet]
 *
 * FILE has numbers separated by commas, semicolons, tabs or spaces (a first line of names is skipped), or lines of
 * libsvm ("1 3:0.5 7:2"), or was written by --save. Without FILE 20 000 samples are generated. The label is the last
 * column, or column --label. For logistic and svm it has any two different values. --bits 0, the default, starts with 2
 * bits and adds one whenever the loss falls by less than a hundredth. --test measures the model on other samples. MODEL
 * gets the intercept and a weight for each feature, for the numbers as they are in FILE. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <math.h>
#define PROGRAM "weave"
#include "options.h"

static const char usage[] =
    "weave [FILE] [options]      FILE: a table of numbers, lines of libsvm, or a .weave that --save wrote; without it\n"
    "                            20 000 samples are generated\n"
    "  --task TASK      linear, logistic or svm; default: linear\n"
    "  --bits N         bits of each number that are read, 1 to 32; default: 0, 2 bits at first and one more when the\n"
    "                   loss falls by less than 1 %\n"
    "  --midpoint       a truncated number means the middle of its range\n"
    "  --epochs N       times that all samples are read; default: 20\n"
    "  --lr X           size of a step; default: 1 / features\n"
    "  --decay X        the step of epoch e is lr X^sqrt(e + 1), X at most 1; default: 1\n"
    "  --l2 X           adds X / 2 |weights|^2 to the loss; default: 0\n"
    "  --batch N        samples of a step; default: 16\n"
    "  --intercept      add a feature that is always 1\n"
    "  --average N      N models learn from parts of the samples and are averaged after each epoch\n"
    "  --label COLUMN   column of the label, counted from 1; default: the last one\n"
    "  --test FILE      samples for the test at the end\n"
    "  -o MODEL         write a text: the intercept and the weights, one per line\n"
    "  --save SET.weave write the samples as bits, which can be read faster\n"
    "  --threads N      default: one per processor\n"
    "  --quiet          print no line for each epoch\n";

/* rows that become bits at once, and their numbers unless one row has more */
enum { MOST_FEATURES = 1 << 22, BLOCK = 256, BLOCK_NUMBERS = 1 << 20 };
#define MOST_NUMBERS 2e9                    /* of a whole table: 8 GB */

/* ---- text: nothing of a file is trusted; a word that is no number ends the reading with its line */

typedef struct table {
    const char *path;
    const char *at, *end;
    int sparse;                             /* libsvm */
    int label;                              /* column of the label, from 1; 0: the last */
    tiny_idx line, n_feature, n;
    /* (n_feature), or NULL: only counted, then width says how many the last row has */
    float *row;
    float y;
    tiny_idx width;
    char wrong[200];                        /* what is wrong; "" nothing */
} table;

static int bad(table *t, const char *why, const char *word, size_t n)
{
    (void)snprintf(t->wrong, sizeof t->wrong, "%.60s:%td: %s%s%.*s", t->path, t->line, why, n ? ": " : "",
                   (int)(n < 30 ? n : 30), n ? word : "");
    for (n = 0; t->wrong[n]; n++)
        if ((unsigned char)t->wrong[n] < 32 || (unsigned char)t->wrong[n] > 126) t->wrong[n] = '?';
    return 0;
}

/* the number of a word; more: where it ended, which is the end of the word or a colon */
static int number_of(const char *at, const char *end, double *x, const char **more)
{
    char word[64], *stop;
    size_t n = 0;
    while (at + n < end && n < sizeof word - 1 && at[n] && strchr("0123456789.+-eE", at[n])) n++;
    memcpy(word, at, n);
    word[n] = 0;
    *x = strtod(word, &stop);
    *more = at + n;
    return n && !*stop && fabs(*x) <= 3.4e38;
}
static int blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static int comma(char c) { return c == ',' || c == ';'; }

/* the next line that is not empty; 0: there is none */
static int next_line(table *t, const char **from, const char **to)
{
    for (; t->at < t->end; ) {
        const char *a = t->at, *b = (const char *)memchr(a, '\n', (size_t)(t->end - a));
        if (!b) b = t->end;
        t->at = b < t->end ? b + 1 : b;
        t->line++;
        while (a < b && blank(*a)) a++;
        while (b > a && blank(b[-1])) b--;
        if (a == b || *a == '#') continue;
        *from = a;
        *to = b;
        return 1;
    }
    return 0;
}

/* 1: a sample stands in row and y; 0: no more, or wrong says why */
static int next_row(table *t)
{
    const char *a, *b, *more;
    double x, last = 0;
    tiny_idx column = 0, j = 0, k;
    if (!next_line(t, &a, &b)) return 0;
    /* names of columns */
    if (t->n == 0 && t->line >= 1 && !t->width && !number_of(a, b, &x, &more) && !next_line(t, &a, &b)) return 0;
    if (t->n == 0) {
        for (more = a; more < b && *more != ':'; more++) {}
        t->sparse = more < b;
    }
    for (k = 0; t->row && k < t->n_feature; k++) t->row[k] = 0.0f;
    for (t->width = 0; a < b; column++) {
        const char *word = a;
        while (a < b && !blank(*a) && !comma(*a)) a++;
        if (!number_of(word, a, &x, &more)) return bad(t, "this is not a number", word, (size_t)(a - word));
        if (t->sparse && column) {
            double v;
            const double i = x;
            if (*more != ':' || more >= a || i != floor(i) || i < 1 || i > MOST_FEATURES ||
                !number_of(more + 1, a, &v, &more) || more != a)
                return bad(t, "this is not INDEX:NUMBER with an index from 1 on", word, (size_t)(a - word));
            if ((tiny_idx)i > t->width) t->width = (tiny_idx)i;
            if (t->row && (tiny_idx)i <= t->n_feature) t->row[(tiny_idx)i - 1] = (float)v;
        } else {
            if (more != a) return bad(t, "this is not a number", word, (size_t)(a - word));
            if (t->sparse || column + 1 == t->label) t->y = (float)x;
            else if (column && !t->label) {                /* the one before was no label after all */
                if (t->row && j < t->n_feature) t->row[j] = (float)last;
                j++;
            } else if (t->label) {
                if (t->row && j < t->n_feature) t->row[j] = (float)x;
                j++;
            }
            last = x;
        }
        while (a < b && blank(*a)) a++;
        if (a < b && comma(*a)) {
            a++;
            while (a < b && blank(*a)) a++;
            if (a == b) return bad(t, "the line ends with a separator", "", 0);
        }
    }
    if (!t->sparse) {
        if (!t->label) t->y = (float)last;
        if (t->label > column || !j) return bad(t, "there are too few columns", "", 0);
        t->width = j;
        if (t->n_feature && j != t->n_feature) return bad(t, "this line has another number of columns", "", 0);
    }
    t->n++;
    return 1;
}

static void rewind_to(table *t, const tiny_file *f, const char *path, int label, tiny_idx n_feature, float *row)
{
    memset(t, 0, sizeof *t);
    t->path = path;
    t->at = (const char *)f->bytes;
    t->end = t->at + f->n_bytes;
    /* the mark of UTF-8 that spreadsheets write: else the first line would be names */
    if (f->n_bytes >= 3 && !memcmp(t->at, "\xef\xbb\xbf", 3)) t->at += 3;
    t->label = label;
    t->n_feature = n_feature;
    t->row = row;
}

static tiny_status told(const table *t) { say(t->wrong); return TINY_E_FORMAT; }

/* three passes over the text: sizes, ranges, codes; only one block of rows is ever there as floats */
static tiny_status read_table(tiny_ctx *ctx, const char *path, int label, tllm_weave *out, float **y)
{
    tiny_idx n = 0, f = 0, i = 0, dense = 0, block = 0;
    float *room = NULL, *low, *high;
    tiny_file file;
    table t;
    tiny_status st = tiny_file_copy(ctx, path, &file);
    if (st) return st;
    for (rewind_to(&t, &file, path, label, 0, NULL); next_row(&t); n++) {
        if (t.width > f) f = t.width;
        if (!t.sparse && !dense) t.n_feature = dense = t.width;
    }
    if (*t.wrong) st = told(&t);
    else if (label && t.sparse) {
        fprintf(stderr, PROGRAM ": %s: lines of libsvm begin with the label: --label is for columns\n", path);
        st = TINY_E_ARGUMENT;
    } else if (!n || !f || f > MOST_FEATURES || (double)n * (double)f > MOST_NUMBERS) {
        fprintf(stderr, PROGRAM ": %s: %td samples of %td features; from 1 to %d features and %.0e numbers are taken\n",
                path, n, f, (int)MOST_FEATURES, MOST_NUMBERS);
        st = TINY_E_FORMAT;
    }
    if (!st) {
        block = BLOCK_NUMBERS / f < 1 ? 1 : BLOCK_NUMBERS / f > BLOCK ? BLOCK : BLOCK_NUMBERS / f;
        if (block > n) block = n;
        room = (float *)tiny_alloc(ctx, (size_t)f * (size_t)(block + 2) * sizeof *room);
        *y = (float *)tiny_alloc(ctx, (size_t)n * sizeof **y);
        if (!room || !*y) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        tiny_tensor x = tiny_tensor_2d(room, TINY_F32, 1, f);
        low = room + f * block;
        high = low + f;
        for (rewind_to(&t, &file, path, label, f, room); !st && next_row(&t);)
            st = tllm_weave_range(ctx, &x, t.n > 1, low, high);
        if (!st) st = tllm_weave_open(ctx, n, f, low, high, out);
        rewind_to(&t, &file, path, label, f, room);
        while (!st && i < n) {
            for (x.dim[0] = 0; x.dim[0] < block && next_row(&t); t.row = room + x.dim[0] * f)
                (*y)[i + x.dim[0]++] = t.y;
            st = tllm_weave_put(ctx, out, i, &x);
            i += x.dim[0];
            t.row = room;
        }
    }
    tiny_free(ctx, room);
    tiny_file_close(ctx, &file);
    return st;
}

/* samples labelled by the side of a plane; one in twenty labels is wrong */
static tiny_status make_up(tiny_ctx *ctx, tllm_weave *out, float **y)
{
    enum { N = 20000, F = 100 };
    tiny_rng r = tiny_rng_make(7, 1);
    float *x = (float *)tiny_alloc(ctx, (size_t)N * F * sizeof *x), line[F];
    tiny_tensor t = tiny_tensor_2d(x, TINY_F32, N, F);
    tiny_status st;
    int i, j;
    *y = (float *)tiny_alloc(ctx, N * sizeof **y);
    if (!x || !*y) {
        tiny_free(ctx, x);
        return tiny_ctx_status(ctx);
    }
    tiny_rng_fill_normal(&r, line, F);
    for (i = 0; i < N; i++) {
        float z = 0;
        for (j = 0; j < F; j++) z += line[j] * ((x[i * F + j] = tiny_rng_uniform(&r)) - 0.5f);
        (*y)[i] = (z > 0) != (tiny_rng_uniform(&r) < 0.05f) ? 1.0f : 0.0f;
    }
    st = tllm_weave_make(ctx, &t, out);
    tiny_free(ctx, x);
    return st;
}

/* two labels, whatever they are, become those of the task; 0: there are more */
static int two_labels(float *y, tiny_idx n, int task, float was[2])
{
    tiny_idx i;
    was[0] = was[1] = y[0];
    for (i = 1; i < n && was[0] == was[1]; i++) was[1] = y[i];
    if (was[0] > was[1]) { const float t = was[0]; was[0] = was[1]; was[1] = t; }
    for (i = 0; i < n; i++) {
        if (y[i] != was[0] && y[i] != was[1]) return 0;
        y[i] = y[i] == was[1] ? 1.0f : task == TLLM_WEAVE_SVM ? -1.0f : 0.0f;
    }
    return 1;
}

/* how well the model tells the samples of another file */
static tiny_status test_on(tiny_ctx *ctx, const char *path, int label, int task, const float was[2],
                           const float *weight, float bias, tiny_idx f, float *row)
{
    double wrong = 0, square = 0;
    tiny_file file;
    table t;
    tiny_idx j;
    tiny_status st = tiny_file_copy(ctx, path, &file);
    if (st) return st;
    for (rewind_to(&t, &file, path, label, f, row); next_row(&t); ) {
        double z = (double)bias;
        for (j = 0; j < f; j++) z += (double)weight[j] * (double)row[j];
        wrong += t.y != was[z > (task == TLLM_WEAVE_LINEAR ? 0.5 : 0.0)];
        square += (z - (double)t.y) * (z - (double)t.y);
    }
    if (*t.wrong) st = told(&t);
    else if (!t.n) {
        fprintf(stderr, PROGRAM ": %s: no samples\n", path);
        st = TINY_E_FORMAT;
    } else if (task == TLLM_WEAVE_LINEAR)
        printf("%s: %td samples, mean square error %.6g\n", path, t.n, square / (double)t.n);
    else printf("%s: %td samples, %.2f %% right\n", path, t.n, 100.0 * (1.0 - wrong / (double)t.n));
    tiny_file_close(ctx, &file);
    return st;
}

static tiny_status write_model(tiny_ctx *ctx, const char *path, const float *weight, float bias, tiny_idx f)
{
    char *text = (char *)tiny_alloc(ctx, ((size_t)f + 1) * 20), *at = text;
    tiny_status st;
    tiny_idx j;
    if (!text) return tiny_ctx_status(ctx);
    at += snprintf(at, 20, "%.9g\n", (double)bias);
    for (j = 0; j < f; j++) at += snprintf(at, 20, "%.9g\n", (double)weight[j]);
    st = tiny_file_write(ctx, path, text, (size_t)(at - text));
    tiny_free(ctx, text);
    return st;
}

static int is_store(const char *path)
{
    const size_t n = strlen(path);
    return n > 6 && !strcmp(path + n - 6, ".weave");
}

int main(int argc, char **argv)
{
    static const char *const no_labels = "the samples have more than two labels: only linear takes them";
    static tiny_ctx *ctx;
    const char *path = NULL, *task = "linear", *test = NULL, *out = NULL, *save = NULL;
    int epochs = 20, batch = 0, label = 0, quiet = 0;
    tllm_weave_sgd_desc d = { 0 };
    tllm_weave_state s = { 0 };
    tllm_weave data = { 0 };
    tiny_ctx_desc desc = { 0 };
    const option options[] = { A_WORD("file", &path),
                               A_TEXT("--task", &task),
                               A_WHOLE("--bits", &d.bits, 0, 32),
                               A_FLAG("--midpoint", &d.midpoint),
                               A_WHOLE("--epochs", &epochs, 1, 1e6),
                               A_NUMBER("--lr", &d.lr, 1e-30, 1e30),
                               A_NUMBER("--decay", &d.decay, 1e-6, 1),
                               A_NUMBER("--l2", &d.l2, 0, 1e30),
                               A_WHOLE("--batch", &batch, 1, 1 << 30),
                               A_FLAG("--intercept", &d.intercept),
                               A_WHOLE("--average", &d.average, 1, TINY_MAX_THREADS),
                               A_WHOLE("--label", &label, 1, 1 << 22),
                               A_TEXT("--test", &test),
                               A_TEXT("-o", &out),
                               A_TEXT("--save", &save),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_FLAG("--quiet", &quiet) };
    float *y = NULL, *model = NULL, was[2] = { 0, 1 }, bias = 0;
    uint64_t began, ready, done;
    tiny_status st;
    tiny_idx f = 0;
    READ_OPTIONS(argc, argv, usage, options);
    d.task = place_in("linear logistic svm", task);
    if (d.task < 0) return wrong(task, "there is no such task; there are linear, logistic and svm");
    if (must_not_write(out, 2, path, test) || must_not_write(save, 2, path, test)) return 2;
    if (out && save && (!strcmp(out, save) || same_file(out, save)))
        return wrong(out, "-o and --save need different files");
    if (label && !test && (!path || is_store(path)))
        return wrong("--label", "it needs a table with columns");
    d.batch = batch;
    d.loss = 1;
    desc.progress = quiet ? NULL : show_progress;
    desc.cancel = cancelled;
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    stop_on_signals_whole();
    began = tiny_now_ns();
    if (!path) st = make_up(ctx, &data, &y);
    else if (!is_store(path)) st = read_table(ctx, path, label, &data, &y);
    else {
        st = tllm_weave_load(ctx, path, &data);
        if (!st) {
            y = (float *)tiny_alloc(ctx, (size_t)data.n * sizeof *y);
            if (!y) st = tiny_ctx_status(ctx);
            else if (data.label) memcpy(y, data.label, (size_t)data.n * sizeof *y);
            else { say("this store has no labels"); st = TINY_E_FORMAT; }
        }
    }
    if (!st && save) st = tllm_weave_save(ctx, &data, y, save);
    if (!st && d.task && !two_labels(y, data.n, d.task, was)) { say(no_labels); st = TINY_E_FORMAT; }
    f = data.n_feature;
    if (!st) {
        model = (float *)tiny_alloc(ctx, ((size_t)f * 3 + 2) * sizeof *model);
        if (!model) st = tiny_ctx_status(ctx);
        else memset(model, 0, ((size_t)f * 3 + 2) * sizeof *model);
    }
    ready = tiny_now_ns();
    if (!st)
        printf("%s: %td samples, %td features, %.1f MB, ready in %.2f s\n", path ? path : "made up", data.n, f,
               (double)data.n_bytes * 1e-6, (double)(ready - began) * 1e-9);
    while (!st && s.epoch < epochs) {
        st = tllm_weave_epoch(ctx, &data, y, &d, &s, model);
        if (!st && stopped_by) st = TINY_E_CANCELLED;
        end_progress();
        if (!st && !quiet)
            printf("epoch %d: loss %.6f, %.1f MB read, %d bits next\n", s.epoch, s.loss, (double)s.bytes * 1e-6,
                   s.bits);
    }
    done = tiny_now_ns();
    end_progress();
    if (!st) st = tllm_weave_plain_model(ctx, &data, model, d.intercept, model + f + 2, &bias);
    if (!st)
        printf("%d epochs in %.2f s: loss %.6f, %.1f of 32 bits read on average\n", s.epoch,
               (double)(done - ready) * 1e-9, s.loss, 32.0 * (double)s.bytes / (double)data.n_bytes / s.epoch);
    if (!st && test) st = test_on(ctx, test, label, d.task, was, model + f + 2, bias, f, model + 2 * f + 2);
    if (!st && out) st = write_model(ctx, out, model + f + 2, bias, f);
    if (st == TINY_E_CANCELLED && stopped_by) say("stopped; nothing was written");
    else if (st && *tiny_ctx_message(ctx)) say(tiny_ctx_message(ctx));
    tiny_free(ctx, model);
    tiny_free(ctx, y);
    tllm_weave_close(ctx, &data);
    tiny_ctx_close(ctx);
    return exit_status(st == TINY_E_CANCELLED && stopped_by ? 128 + stopped_by : st != TINY_OK);
}
