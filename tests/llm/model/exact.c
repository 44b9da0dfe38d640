/* tests/llm/model/exact.c - tllm_state_desc.exact: results that do not depend on what else is computed
 *
 * Truth    each token computed by itself, on one thread. */
#include "t.h"
#include "llm/model/opened.h"

enum { SEQ = 9, LEN = 12 };

static int32_t token_of(const model_at *m, int i) { return (int32_t)(1 + (i * 37 + 11) % (int)(m->about.n_vocab - 1)); }
static tllm_item item_of(const model_at *m, int seq, int i)
{
    tllm_item x;
    x.token = token_of(m, 100 * seq + i);
    x.seq = (int32_t)seq;
    x.pos = i;
    x.want = 1;
    return x;
}
static tllm_state *open_state(model_at *m, tiny_idx n_seq, int exact, tiny_status want)
{
    tllm_state_desc d;
    tllm_state *s = NULL;
    memset(&d, 0, sizeof d);
    d.n_ctx = 40;
    d.n_seq = n_seq;
    d.n_batch = SEQ * LEN;
    d.exact = exact;
    T_STATUS(tllm_state_open(m->ctx, m->model, &d, &s), want, want ? "independent of the batch" : NULL);
    return s;
}

/* Nine sequences: their first halves in turns, then each second half in one piece, all in one call: 108 rows of a
 * product, against one row. -1: the model is refused. */
static int differences(tiny_target target, const char *path, int exact)
{
    model_at one, all;
    tllm_state *s = NULL, *t = NULL;
    tllm_item batch[SEQ * LEN];
    float *want, *got;
    size_t V;
    int i, k, n = 0, bad = 0;
    if (!open_at(&one, target, 1, path)) return -1;
    if (one.about.is_encoder || one.about.output != TLLM_LOGITS || one.about.has_decoder) { close_at(&one); return -1; }
    (void)open_at(&all, target, 2, path);
    {
        tllm_state_desc d;
        memset(&d, 0, sizeof d);
        d.exact = exact;
        if (tllm_state_open(one.ctx, one.model, &d, &s) == TINY_E_UNSUPPORTED) n = -1;
        tllm_state_close(one.ctx, s);
    }
    if (n < 0) {
        T_TRUE(strstr(tiny_ctx_message(one.ctx), "cannot be made independent of the batch") != NULL);
        close_at(&all);
        close_at(&one);
        return -1;
    }
    s = open_state(&one, 1, exact, TINY_OK);
    t = open_state(&all, SEQ, exact, TINY_OK);
    V = (size_t)one.about.n_out;
    want = (float *)t_keep(SEQ * LEN * V * sizeof *want);
    got = (float *)t_keep(SEQ * LEN * V * sizeof *got);
    t_use(one.ctx);
    for (k = 0; k < SEQ; k++) {
        tllm_state_clear(s);
        for (i = 0; i < LEN; i++) {
            const int32_t token = token_of(&one, 100 * k + i);
            T_OK(tllm_forward(s, &token, 1, i, 1, want + (size_t)(k * LEN + i) * V));
        }
    }
    for (i = 0; i < LEN / 2; i++)
        for (k = 0; k < SEQ; k++) batch[n++] = item_of(&all, k, i);
    for (k = 0; k < SEQ; k++)
        for (i = LEN / 2; i < LEN; i++) batch[n++] = item_of(&all, k, i);
    t_use(all.ctx);
    T_OK(tllm_forward_batch(t, batch, n, got));
    for (i = 0; i < n; i++) {
        const float *w = want + (size_t)(batch[i].seq * LEN + batch[i].pos) * V;
        bad += memcmp(got + (size_t)i * V, w, V * sizeof *got) != 0;
    }
    if (exact) T_EQ_INT(bad, 0);
    if (exact && bad) printf("  %s\n", path);
    tllm_state_close(one.ctx, s);
    tllm_state_close(all.ctx, t);
    close_at(&all);
    close_at(&one);
    return bad;
}

static void test_story(tiny_target target)
{
    T_EQ_INT(differences(target, story, 1), 0);
    /* the default is another matter, so this test can fail */
    if (target != TINY_TARGET_REFERENCE) T_TRUE(differences(target, story, 0) > 0);
    T_PROOF("serving 1", "the results of a token do not depend on the batch: fixed order of sums in each row");
}

static void test_every_architecture(tiny_target target)
{
    const char *path = t_shared("oracle/llm/index.tsv");
    FILE *f = path ? fopen(path, "r") : NULL;
    char *line = (char *)t_keep(65536), full[300];
    int served = 0, refused = 0, turn = 0;
    while (f && fgets(line, 65536, f)) {
        char *tab = strchr(line, '\t');
        if (!tab || !strncmp(line, "name\t", 5)) continue;
        *tab = 0;
        if (T_SLOW && turn++ % 6) continue;
        (void)snprintf(full, sizeof full, "oracle/llm/%.60s.gguf", line);
        if (differences(target, full, 1) < 0) refused++;
        else served++;
    }
    if (f) {
        (void)fclose(f);
        T_TRUE(served >= (T_SLOW ? 5 : 40));
    }
}

static void test_refused(tiny_target target)
{
    model_at m;
    if (!open_at(&m, target, 1, "oracle/llm/mamba.gguf")) return;
    (void)open_state(&m, 2, 1, TINY_E_UNSUPPORTED);
    close_at(&m);
}

int main(void)
{
    T_RUN_FORMS(test_story);
    T_RUN_TARGETS(test_every_architecture);
    T_RUN_TARGETS(test_refused);
    return t_done();
}
