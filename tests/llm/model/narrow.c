/* tests/llm/model/narrow.c - rows whose results are not wanted: the last layers drop them
 *
 * Truth    the same pass with the results of all rows; on the reference the wanted rows have the same bits. What later
 *          tokens read, keys, values and states, has the same bits on every target. The recorder shows that the rows
 *          are really dropped. */
#include "t.h"
#include "llm/model/opened.h"

static int32_t token_of(const model_at *m, int i) { return (int32_t)(1 + (i * 37 + 11) % (int)(m->about.n_vocab - 1)); }

enum { SEQ = 3, LEN = 16, ALL = LEN + LEN - 2 + LEN - 5 };
enum { LAST, NONE, EVERY, MIDDLE, SEVERAL, BUT_ONE, WANTS };  /* which rows are wanted; LAST: of each sequence */

static int wanted(int pattern, int i, int last)
{
    switch (pattern) {
    case LAST: return last;
    case NONE: return 0;
    case EVERY: return 1;
    case MIDDLE: return i == 4;
    case SEVERAL: return i % 3 == 1;
    default: return i != 7;
    }
}

/* three sequences in turns */
static void lay_out(const model_at *m, int pattern, tllm_item *item)
{
    static const int length[SEQ] = { LEN, LEN - 2, LEN - 5 };
    int i, k, n = 0;
    for (i = 0; i < LEN; i++)
        for (k = 0; k < SEQ; k++)
            if (i < length[k]) {
                item[n].token = token_of(m, 100 * k + i);
                item[n].seq = k;
                item[n].pos = i;
                item[n].want = wanted(pattern, n, i == length[k] - 1);
                n++;
            }
    T_EQ_INT(n, ALL);
}

/* The items at once, or in pieces of n_batch; then a token of each sequence. Rows of results: ALL, each at the place of
 * its item, then SEQ. */
static float *run(model_at *m, int pattern, tiny_idx n_batch)
{
    const size_t V = (size_t)m->about.n_out;
    const int32_t source[3] = { 3, 1, 2 };
    float *x = (float *)t_keep((ALL + SEQ) * V * sizeof *x), *got = (float *)t_keep(ALL * V * sizeof *got);
    tllm_state *s = NULL;
    tllm_state_desc d;
    tllm_item item[ALL];
    int i, rows = 0;
    memset(&d, 0, sizeof d);
    memset(x, 0, (ALL + SEQ) * V * sizeof *x);
    d.n_ctx = 20;
    d.n_seq = SEQ;
    d.n_page = 4;
    d.n_batch = n_batch;
    if (!T_OK(tllm_state_open(m->ctx, m->model, &d, &s))) return x;
    if (m->about.has_decoder) T_OK(tllm_forward_all(s, source, 3, NULL));
    lay_out(m, pattern, item);
    T_OK(tllm_forward_batch(s, item, ALL, pattern == NONE ? NULL : got));
    for (i = 0; i < ALL; i++)
        if (item[i].want) memcpy(x + (size_t)i * V, got + (size_t)rows++ * V, V * sizeof *x);
    for (i = 0; i < SEQ; i++) {
        item[i].token = token_of(m, 7 + i);
        item[i].seq = i;
        item[i].pos = -1;
        item[i].want = 1;
    }
    T_OK(tllm_forward_batch(s, item, SEQ, x + ALL * V));
    tllm_state_close(m->ctx, s);
    return x;
}

/* The numbers differ where a product of few rows goes another way than one of many. Of weights in blocks, few rows are
 * rounded to 8 bits, as in decoding, which costs up to 3e-4 of the mean square of the logits. Otherwise only the order
 * of sums differs: 4e-13. */
static double one_model(model_at *m, const char *name, int exact, tiny_idx n_batch)
{
    const size_t V = (size_t)m->about.n_out;
    const float *want = run(m, EVERY, n_batch);
    const double bound = strstr(name, "-q") || strstr(name, "mxfp4") ? 1e-3 : 1e-11;
    double most = 0;
    int pattern, i;
    for (pattern = 0; pattern < WANTS; pattern++) {
        const float *x = run(m, pattern, n_batch);
        tllm_item item[ALL];
        double d = 0, s = 0;
        int bad = 0;
        size_t j;
        lay_out(m, pattern, item);
        if (memcmp(x + ALL * V, want + ALL * V, SEQ * V * sizeof *x)) {
            t_fail(__FILE__, __LINE__, "later tokens do not depend on which rows were wanted");
            printf("  %s, pattern %d\n", name, pattern);
        }
        for (i = 0; i < ALL; i++) {
            const float *a = x + (size_t)i * V, *b = want + (size_t)i * V;
            if (!item[i].want) continue;
            bad += memcmp(a, b, V * sizeof *a) != 0;
            for (j = 0; j < V; j++) {
                d += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
                s += (double)b[j] * (double)b[j];
            }
        }
        if (s > 0) most = fmax(most, d / s);
        if (exact && bad) {
            t_fail(__FILE__, __LINE__, "the reference gives the same bits");
            printf("  %s, pattern %d: %d rows\n", name, pattern, bad);
        } else if (!T_TRUE(d <= bound * s)) printf("  %s, pattern %d: %g of %g\n", name, pattern, d, s);
    }
    return most;
}

static void test_every_architecture(tiny_target target)
{
    const int exact = target == TINY_TARGET_REFERENCE;
    const char *path = t_shared("oracle/llm/index.tsv");
    char *line = (char *)malloc(65536), *names = (char *)malloc(256 * 64), full[300];
    double most = 0;
    int n = 0, n_name = 0, i, k;
    /* the large oracle if present, then the models that only tests/golden has */
    for (k = 0; k < 2 && line && names; k++) {
        FILE *f = k ? fopen("tests/golden/oracle/llm/index.tsv", "r") : path ? fopen(path, "r") : NULL;
        while (f && fgets(line, 65536, f) && n_name < 256) {
            model_at m;
            char *tab = strchr(line, '\t'), *name = names + n_name * 64;
            if (!tab || !strncmp(line, "name\t", 5)) continue;
            *tab = 0;
            (void)snprintf(name, 64, "%.60s", line);
            for (i = 0; i < n_name && strcmp(names + i * 64, name); i++) {}
            if (i < n_name) continue;
            n_name++;
            (void)snprintf(full, sizeof full, "oracle/llm/%s.gguf", name);
            if (!open_at(&m, target, 2, full)) continue;
            if (!m.about.is_encoder && m.about.output == TLLM_LOGITS) {
                most = fmax(most, one_model(&m, name, exact, 0));
                most = fmax(most, one_model(&m, name, exact, 7));       /* some pieces want nothing */
                n++;
            }
            close_at(&m);
            t_free_blocks();
        }
        if (f) (void)fclose(f);
    }
    free(line);
    free(names);
    printf("%d models: at most %g apart [%s]\n", n, most, tiny_target_name(target));
    T_SOME(n);
}

/* ---- what runs -------------------------------------------------------------------------------------------------- */

/* rows of the recorded products with that tensor; 0: none ran */
static tiny_idx rows_of(const tiny_recording *rec, const tllm_gguf *file, int layer, const char *what)
{
    const tllm_gguf_tensor *t;
    const tiny_op *op;
    char name[64];
    size_t i;
    if (layer < 0) (void)snprintf(name, sizeof name, "%s.weight", what);
    else (void)snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    t = tllm_gguf_tensor_find(file, name);
    for (i = 0; t && (op = tiny_recording_at(rec, i)) != NULL; i++)
        if (op->in[1] && op->in[1]->data == (const void *)t->data) return op->in[0]->dim[0];
    return 0;
}

static int declines(void *user, const tiny_op *op, const tiny_op_row *row)
{
    (void)user;
    (void)op;
    (void)row;
    return 0;
}
static tiny_status never(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    (void)user;
    (void)op;
    (void)row;
    (void)says;
    return TINY_E_UNSUPPORTED;
}

enum { PROMPT = 20, STORY_LAYERS = 4 };
/* A prompt of which the last `rows` results are wanted. own: the last layer with keys of its own; names of the matrices
 * of keys. accel NULL, or one that observes. */
static void check_rows(const char *path, const tiny_accel *accel, tiny_target target, int rows, int own,
                       const char *const *keys)
{
    static const char *const rest[] = { "attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down" };
    tiny_ctx_desc desc = t_desc(target, 1);
    tiny_recording *rec = NULL;
    tllm_state *state = NULL;
    tllm_about about;
    int32_t token[PROMPT];
    float *out;
    model_at m;
    tiny_idx few = accel ? PROMPT : rows;
    int i, l;
    memset(&m, 0, sizeof m);
    desc.accel = accel;
    if (path != story) path = t_one_of(path);
    if (!path || !T_OK(tiny_ctx_open(&desc, &m.ctx))) return;
    if (T_OK(tllm_gguf_open(m.ctx, path, &m.file)) && T_OK(tllm_model_open(m.ctx, m.file, &m.model)) &&
        T_OK(tllm_state_open(m.ctx, m.model, NULL, &state))) {
        tllm_model_about(m.model, &about);
        out = (float *)t_keep((size_t)(PROMPT * about.n_out) * sizeof *out);
        m.about = about;
        for (i = 0; i < PROMPT; i++) token[i] = token_of(&m, i);
        T_OK(tiny_record_start(m.ctx, &rec));
        T_OK(tllm_forward(state, token, PROMPT, 0, rows, rows ? out : NULL));
        T_OK(tiny_record_stop(m.ctx));
        for (l = 0; l < (int)about.n_layer; l++) {
            for (i = 0; keys[i]; i++)
                T_EQ_INT(rows_of(rec, m.file, l, keys[i]), l <= own ? PROMPT : 0);
            for (i = 0; i < (int)T_COUNT(rest); i++)
                if (!T_EQ_INT(rows_of(rec, m.file, l, rest[i]), l < own ? PROMPT : few))
                    printf("  %s: layer %d, %s, %d wanted\n", path, l, rest[i], rows);
        }
        T_EQ_INT(rows_of(rec, m.file, -1, tllm_gguf_tensor_find(m.file, "output.weight") ? "output" : "token_embd"),
                 rows);
        tiny_recording_free(m.ctx, rec);
    }
    tllm_state_close(m.ctx, state);
    close_at(&m);
}
static void test_rows_that_run(tiny_target target)
{
    static const char *const keys[] = { "attn_k", "attn_v", NULL };
    static const char gemma4[] = "oracle/llm/gemma4.gguf";     /* its last two layers use keys of earlier ones */
    static const int wanted_rows[] = { 0, 1, 3, PROMPT };
    tiny_accel watch;
    size_t i;
    memset(&watch, 0, sizeof watch);
    watch.version = TINY_ACCEL_VERSION;
    watch.name = "observer";
    watch.can_run = declines;
    watch.run = never;
    for (i = 0; i < T_COUNT(wanted_rows); i++) {
        watch.all_rows = 0;
        check_rows(story, NULL, target, wanted_rows[i], STORY_LAYERS - 1, keys);
        watch.all_rows = 1;
        check_rows(story, &watch, target, wanted_rows[i], STORY_LAYERS - 1, keys);
        check_rows(gemma4, NULL, target, wanted_rows[i], 3, keys + 2);
    }
}

int main(void)
{
    T_RUN_FORMS(test_every_architecture);
    T_RUN_FORMS(test_rows_that_run);
    return t_done();
}
