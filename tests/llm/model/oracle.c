/* tests/llm/model/oracle.c - every model of the large oracle and of tests/golden/oracle/llm against its golden numbers
 *
 * Tolerances: F32 models max |difference| <= 2e-4 (1 + rms), or the mark of their line times that; others no farther
 * (relative RMS) from the same model in float32 than 1.2 of the distance that the index states; and the same best token
 * wherever the two best of the golden row are farther apart than the tolerance. Each on the reference and on every SIMD
 * target of this machine, in one piece; then in pieces of 3 and token by token, which must give the same numbers. */
#include "t.h"

typedef struct row {
    char name[64], mode[8], weights[16];
    int n_rows, n_out, n_tokens, n_decoder;
    int32_t tokens[128], decoder[128];
    double rms, relrms, mark;
} row;

static int list(const char *text, int32_t *out, int most)
{
    int n = 0;
    if (*text == '-') return 0;
    while (*text && n < most) {
        out[n++] = (int32_t)strtol(text, (char **)&text, 10);
        if (*text == ',') text++;
    }
    return n;
}

static int read_row(char *line, row *r)
{
    char *field[17];
    int n = 0;
    memset(r, 0, sizeof *r);
    for (field[n++] = line; *line && n < 15; line++)
        if (*line == '\t') { *line = 0; field[n++] = line + 1; }
    if (n < 12) return 0;
    (void)snprintf(r->name, sizeof r->name, "%s", field[0]);
    (void)snprintf(r->mode, sizeof r->mode, "%s", field[2]);
    (void)snprintf(r->weights, sizeof r->weights, "%s", field[3]);
    r->n_rows = atoi(field[4]);
    r->n_out = atoi(field[5]);
    r->n_tokens = list(field[6], r->tokens, 128);
    r->n_decoder = list(field[7], r->decoder, 128);
    r->rms = atof(field[8]);
    r->relrms = atof(field[10]);
    r->mark = n > 14 && atof(field[14]) > 0 ? atof(field[14]) : 2e-4;
    return 1;
}

static float *read_floats(const char *path, size_t n)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    unsigned char *b = (unsigned char *)malloc(n * 4);
    float *x = (float *)t_keep(n * sizeof *x);
    size_t i;
    int ok = f && b && fread(b, 4, n, f) == n && fgetc(f) == EOF;
    for (i = 0; ok && i < n; i++) {
        uint32_t u = (uint32_t)b[4 * i] | (uint32_t)b[4 * i + 1] << 8 | (uint32_t)b[4 * i + 2] << 16 |
                     (uint32_t)b[4 * i + 3] << 24;
        memcpy(&x[i], &u, 4);
    }
    if (f) (void)fclose(f);
    free(b);
    return ok ? x : NULL;
}

/* chunk 0: all at once. 0 when it failed: the sentence is in the context. */
static int run(tiny_ctx *ctx, const tllm_model *model, const row *r, int chunk, float *out, int64_t pos0)
{
    tllm_state_desc desc;
    tllm_state *state = NULL;
    tllm_about about;
    const int32_t *tokens = r->tokens;
    int n = r->n_tokens, i;
    tiny_status st;
    tllm_model_about(model, &about);
    memset(&desc, 0, sizeof desc);
    desc.n_ctx = 256;
    st = tllm_state_open(ctx, model, &desc, &state);
    if (!st && (about.is_encoder || about.output != TLLM_LOGITS)) {
        st = tllm_forward_all(state, tokens, n, out);
    } else if (!st) {
        if (about.has_decoder) {
            st = tllm_forward_all(state, tokens, n, NULL);
            tokens = r->decoder;
            n = r->n_decoder;
        }
        for (i = 0; i < n && !st; ) {
            int take = chunk && n - i > chunk ? chunk : n - i;
            st = tllm_forward(state, tokens + i, take, pos0 + i, take, out + (size_t)i * (size_t)r->n_out);
            i += take;
        }
    }
    tllm_state_close(ctx, state);
    return st == TINY_OK;
}

/* the distance, in tolerances: above 1 is a failure. *wrong: rows with another best value */
static double judge(const row *r, const float *got, const float *want, int *wrong)
{
    const size_t n = (size_t)r->n_rows * (size_t)r->n_out;
    double top = 0.0, ss = 0.0, s2 = 0.0, mark = r->mark * (1.0 + r->rms), apart;
    size_t i;
    int j, k;
    *wrong = 0;
    for (i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        if (!(d <= 1e30)) return 1e30;
        if (d > top) top = d;
        ss += d * d;
        s2 += (double)want[i] * (double)want[i];
    }
    apart = r->relrms > 0.0 ? 1.2 * r->relrms * sqrt(s2 / (double)n) * 4.0 : mark;
    for (j = 0; j < r->n_rows; j++) {
        const float *w = want + (size_t)j * (size_t)r->n_out, *g = got + (size_t)j * (size_t)r->n_out;
        int bw = 0, bg = 0;
        double second = -1e30;
        for (k = 1; k < r->n_out; k++) { if (w[k] > w[bw]) bw = k; if (g[k] > g[bg]) bg = k; }
        for (k = 0; k < r->n_out; k++) if (k != bw && (double)w[k] > second) second = (double)w[k];
        if (bw != bg && (double)w[bw] - second > apart) ++*wrong;
    }
    if (r->relrms > 0.0) return sqrt(ss / s2) / (1.2 * r->relrms);
    return top / mark;
}

static row rows[256];
static int n_rows_of_index;

/* the large oracle if present, then the models that only tests/golden has */
static int read_index(void)
{
    const char *path = t_shared("oracle/llm/index.tsv");
    char *line = (char *)t_keep(65536);
    int k, i;
    n_rows_of_index = 0;
    for (k = 0; k < 2; k++) {
        FILE *f = k ? fopen("tests/golden/oracle/llm/index.tsv", "r") : path ? fopen(path, "r") : NULL;
        while (f && fgets(line, 65536, f) && n_rows_of_index < 256) {
            if (!strncmp(line, "name\t", 5) || !read_row(line, &rows[n_rows_of_index])) continue;
            for (i = 0; i < n_rows_of_index && strcmp(rows[i].name, rows[n_rows_of_index].name); i++) {}
            if (i == n_rows_of_index) n_rows_of_index++;
        }
        if (f) (void)fclose(f);
    }
    return n_rows_of_index;
}

/* Without T_MODEL all; ->0 skipped, 1 passed, -1 failed */
static int one_model(tiny_target target, const row *r, int forms)
{
    static const int chunk[3] = { 0, 3, 1 };
    char path[256];
    /* all at once, every fourth model on two threads; pieces on one */
    tiny_ctx *alone = t_ctx(target, 1), *ctx = t_ctx(target, (r - rows) % 4 ? 1 : 2);
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    const size_t n = (size_t)r->n_rows * (size_t)r->n_out;
    float *want, *got = (float *)t_keep((n + 1) * sizeof *got * (size_t)(r->n_tokens + 1));
    const char *full;
    int ok = 0, form, wrong = 0;
    double far = 0.0;
    (void)snprintf(path, sizeof path, "oracle/llm/%.60s.%s", r->name, r->relrms > 0.0 ? "exact" : "logits");
    want = read_floats(t_shared(path), n);
    if (!want) { printf("  %s: no %s\n", r->name, path); t_close(ctx); t_close(alone); return -1; }
    (void)snprintf(path, sizeof path, "oracle/llm/%.60s.gguf", r->name);
    full = t_shared(path);
    if (full && !tllm_gguf_open(ctx, full, &file) && !tllm_model_open(ctx, file, &model)) {
        for (form = 0, ok = 1; form < forms && ok; form++) {
            memset(got, 0, n * sizeof *got);
            if (!run(form ? alone : ctx, model, r, chunk[form], got, 0)) {
                printf("  %s [%s], pieces of %d: %s\n", r->name, tiny_target_name(target), chunk[form],
                       tiny_ctx_message(form ? alone : ctx));
                ok = 0;
                break;
            }
            far = judge(r, got, want, &wrong);
            if (far > 1.0 || wrong) {
                printf("  %s [%s], pieces of %d: %.3g tolerances away, %d rows with another best\n", r->name,
                       tiny_target_name(target), chunk[form], far, wrong);
                ok = 0;
            }
        }
        if (getenv("T_VERBOSE")) printf("  %s [%s]: %.3g tolerances\n", r->name, tiny_target_name(target), far);
    } else printf("  %s [%s]: %s\n", r->name, tiny_target_name(target), tiny_ctx_message(ctx));
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    t_close(ctx);
    t_close(alone);
    return ok ? 1 : -1;
}

static void all_models(tiny_target target)
{
    const char *only = getenv("T_MODEL");
    int i, passed = 0, n = 0, result;
    if (!read_index()) return;
    if (!only) t_all_models(n_rows_of_index);
    for (i = 0; i < n_rows_of_index; i++) {
        if (only && strcmp(only, rows[i].name)) continue;
        n++;
        result = one_model(target, &rows[i], 3);
        passed += result > 0;
        if (result < 0) t_now.checks_failed++;
        t_free_blocks();
    }
    printf("models: %d of %d [%s]\n", passed, n, tiny_target_name(target));
}
/* the same tokens far from the start of an empty cache: borders of chunks, and queries that grow with the position */
static void test_far_positions(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    const char *path = t_shared("oracle/llm/llama4-b.gguf");
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    int i, j, chunk;
    if (!path || !read_index()) { t_close(ctx); return; }
    for (i = 0; i < n_rows_of_index && strcmp(rows[i].name, "llama4-b"); i++) {}
    if (T_TRUE(i < n_rows_of_index) && T_OK(tllm_gguf_open(ctx, path, &file)) &&
        T_OK(tllm_model_open(ctx, file, &model))) {
        const size_t n = (size_t)rows[i].n_rows * (size_t)rows[i].n_out;
        float *want = read_floats(t_shared("oracle/llm/llama4-b.pos8180.logits"), n),
              *got = (float *)t_keep(n * sizeof *got);
        for (chunk = 0; T_TRUE(want) && chunk < 8; chunk += 5) {
            T_TRUE(run(ctx, model, &rows[i], chunk, got, 8180));
            for (j = 0; j < (int)n; j++)
                if (!T_CLOSE(got[j], want[j], 2e-3)) break;
        }
    }
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    t_close(ctx);
}

/* The model that comes with the library, in 8 bits: the reference keeps activations in floats, and
 * tests/golden/story.py ran the same tokens in double. The tolerance is the one of models in floats; vectors, which
 * round activations, have that of llama-q8_0. */
static void committed_story(tiny_target target)
{
    const row *like = NULL;
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    float x[TLLM_STORY_VOCAB];
    char line[200];
    double ss = 0.0, s2 = 0.0;
    FILE *f = fopen("tests/golden/story.tsv", "r");
    int n = 0, i;
    for (i = read_index(); i-- > 0; )
        if (!strcmp(rows[i].name, "llama-q8_0")) like = &rows[i];
    if (T_TRUE(f && like) && T_OK(tllm_gguf_open(ctx, "examples/models/story.gguf", &file)) &&
        T_OK(tllm_model_open(ctx, file, &model)) && T_OK(tllm_state_open(ctx, model, NULL, &state)))
        while (fgets(line, sizeof line, f)) {
            int token, best, second, top = 0, j;
            double want, next, rms;
            int32_t t;
            if (sscanf(line, "%d %d %lf %d %lf %lf", &token, &best, &want, &second, &next, &rms) != 6) continue;
            t = (int32_t)token;
            if (!T_OK(tllm_forward(state, &t, 1, n++, 1, x))) break;
            for (j = 1; j < TLLM_STORY_VOCAB; j++) if (x[j] > x[top]) top = j;
            if (target == TINY_TARGET_REFERENCE) {
                T_EQ_INT(top, best);
                T_CLOSE(x[best], want, 2e-4 * (1.0 + rms));
                T_CLOSE(x[second], next, 2e-4 * (1.0 + rms));
            } else if (want - next > 4.0 * 1.2 * like->relrms * rms) T_EQ_INT(top, best);
            ss += (x[best] - want) * (x[best] - want) + (x[second] - next) * (x[second] - next);
            s2 += 2.0 * rms * rms;
        }
    if (f) (void)fclose(f);
    T_EQ_INT(n, 55);
    if (like) T_TRUE(s2 > 0.0 && sqrt(ss / s2) <= 1.2 * like->relrms);
    if (like && getenv("T_VERBOSE"))
        printf("  story.gguf [%s]: %.3g marks\n", tiny_target_name(target), sqrt(ss / s2) / (1.2 * like->relrms));
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    t_close(ctx);
}
static void test_committed_story(void) { committed_story(TINY_TARGET_REFERENCE); }

/* a real small model: greedy tokens from the first on, and their logits, from each of its files. In the file of half
 * floats each weight is off by up to 2^-11 of itself, the golden logits are of the float32 weights: the errors of many
 * weights average out, so that the logits are nearer than that (relative RMS). */
static void stories(tiny_target target, const char *name, int half)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    const char *path = t_shared(name), *list_path = t_shared("data/tinystories/stories260K.tokens");
    FILE *f = list_path ? fopen(list_path, "r") : NULL;
    char text[2048];
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc desc;
    int32_t ids[512];
    size_t used = 0, n = 0, i;
    int j;
    memset(text, 0, sizeof text);
    memset(&desc, 0, sizeof desc);
    desc.n_ctx = 128;
    if (f) { used = fread(text, 1, sizeof text - 1, f); (void)fclose(f); }
    if (path && used) {
        char *p = text;
        float *want, *got = (float *)t_keep(512 * sizeof *got);
        double top = 0.0, rms = 0.0, ss = 0.0;
        while (n < 512) {
            char *end;
            long v = strtol(p, &end, 10);
            if (end == p) break;
            ids[n++] = (int32_t)v;
            p = end;
        }
        want = read_floats(t_shared("data/tinystories/stories260K.logits"), n * 512);
        if (T_TRUE(want && n == 60) && T_OK(tllm_file_open(ctx, path, &file)) &&
            T_OK(tllm_model_open(ctx, file, &model)) && T_OK(tllm_state_open(ctx, model, &desc, &state))) {
            int32_t token = ids[0];
            for (i = 0; i < n; i++) {
                int best = 0;
                if (!T_EQ_INT(token, ids[i]) || !T_OK(tllm_forward(state, &token, 1, (int64_t)i, 1, got))) break;
                for (j = 0; j < 512; j++) {
                    double d = fabs((double)got[j] - (double)want[i * 512 + (size_t)j]);
                    if (d > top) top = d;
                    ss += d * d;
                    if (got[j] > got[best]) best = j;
                }
                token = best;
            }
            for (i = 0; i < n * 512; i++) rms += (double)want[i] * (double)want[i];
            rms = sqrt(rms / (double)(n * 512));
            T_RAN_ON(ctx, t_vectors(target));     /* tiles are not for float32 vectors */
            if (half) T_CLOSE(sqrt(ss / (double)(n * 512)) / rms, 0.0, 1.0 / 2048);
            else T_CLOSE(top, 0.0, 2e-4 * (1.0 + rms));
            if (getenv("T_VERBOSE"))
                printf("  %s [%s]: %.3g away, rms %.3g of %.3g\n", name, tiny_target_name(target), top,
                       sqrt(ss / (double)(n * 512)), rms);
        }
    }
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    t_close(ctx);
}
/* our own, and whichever of its three files are here, as another program wrote them */
static void test_stories(tiny_target target)
{
    static const struct { const char *name; int half;
    } each[3] = { { "data/tinystories/stories260K-f32.gguf", 0 },
                  { "data/tinystories/stories260K-f16.gguf", 1 },
                  { "data/tinystories/stories260K.bin", 0 } };
    int i;
    t_case("examples/models/story.gguf", 1);
    committed_story(target);
    for (i = 0; i < 3; i++)
        if (t_one_of(each[i].name)) stories(target, each[i].name, each[i].half);
}

/* a state takes its reported size; a failing allocator leaves no memory */
static void test_memory(void)
{
    /* state spaces and attention; without it, state spaces alone */
    const char *path = t_find("oracle/llm/jamba.gguf");
    if (!path) path = t_shared("oracle/llm/mamba.gguf");
    if (!path) return;
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *ctx = NULL;
        tllm_gguf *file = NULL;
        tllm_model *model = NULL;
        tllm_state *state = NULL;
        const int32_t tokens[3] = { 1, 2, 3 };
        float out[320];
        if (!tiny_ctx_open(&d, &ctx)) {
            if (!tllm_gguf_open(ctx, path, &file) && !tllm_model_open(ctx, file, &model)) {
                size_t said = 0, before = tiny_ctx_bytes(ctx);
                T_OK(tllm_state_memory(ctx, model, NULL, &said));
                if (!tllm_state_open(ctx, model, NULL, &state)) {
                    T_EQ_INT(tiny_ctx_bytes(ctx) - before, said);
                    if (!tllm_forward(state, tokens, 3, 0, 1, out)) {
                        T_EQ_INT(tllm_state_length(state), 3);
                        t_use(ctx);
                        T_STATUS(tllm_state_trim(state, 2), TINY_E_UNSUPPORTED, "recurrent");
                        T_STATUS(tllm_forward(state, tokens, 1, 2, 1, out), TINY_E_ARGUMENT, "position 2");
                        T_OK(tllm_state_trim(state, 0));
                        T_EQ_INT(tllm_state_length(state), 0);
                    }
                }
            }
            tllm_state_close(ctx, state);
            tllm_model_close(ctx, model);
            tllm_gguf_close(ctx, file);
            t_use(NULL);
            tiny_ctx_close(ctx);
        }
    })
}

static void test_reference(void) { all_models(TINY_TARGET_REFERENCE); }
static void test_target(tiny_target target) { all_models(target); }

int main(void)
{
    T_RUN(test_reference);
    T_RUN_TARGETS(test_target);
    T_RUN(test_committed_story);
    T_RUN_TARGETS(test_far_positions);
    T_RUN_TARGETS(test_stories);
    T_RUN(test_memory);
    return t_done();
}
