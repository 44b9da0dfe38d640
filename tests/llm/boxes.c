/* tests/llm/boxes.c - files of the older forms are still read, and boxes are written
 *
 * tests/golden/boxes holds a file of each older form, written by the last program that wrote them (T_RECORD=folder in
 * the environment writes those of today). Each is read, and compared with the same object made new. */
#include "t.h"

#define OLD(name) "tests/golden/boxes/" name
static const char temp[] = "build/boxes.tmp";

/* ---- the contents of the files, made new ---- */

enum { D = 32, V = 40 };

/* a llama of one layer, its matrices in blocks, with a vocabulary: the file of a model, which is not our own format */
static tiny_status make_model(tiny_ctx *ctx, const char *path)
{
    static const struct { const char *name; int rank; uint64_t dim[2];
    } tensors[] = { { "token_embd.weight", 2, { D, V } },        { "output.weight", 2, { D, V } },
                    { "output_norm.weight", 1, { D, 1 } },       { "blk.0.attn_norm.weight", 1, { D, 1 } },
                    { "blk.0.ffn_norm.weight", 1, { D, 1 } },    { "blk.0.attn_q.weight", 2, { D, D } },
                    { "blk.0.attn_k.weight", 2, { D, D } },      { "blk.0.attn_v.weight", 2, { D, D } },
                    { "blk.0.attn_output.weight", 2, { D, D } }, { "blk.0.ffn_gate.weight", 2, { D, D } },
                    { "blk.0.ffn_up.weight", 2, { D, D } },      { "blk.0.ffn_down.weight", 2, { D, D } } };
    static float x[D * V];
    static unsigned char q[2 * D * V];
    const tllm_format *f = tllm_format_of(TLLM_FORMAT_Q8_0);
    char piece[V][8];
    tllm_text token[V], name;
    float score[V];
    int32_t type[V];
    tllm_writer_desc desc;
    tllm_writer *w;
    size_t i;
    tiny_status st;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    for (i = 0; i < D * V; i++) x[i] = 0.05f * (float)((int)(i * 7919u % 41u) - 20);
    f->pack(x, q, D * V, NULL);
    for (i = 0; i < V; i++) {
        (void)snprintf(piece[i], sizeof piece[i], i < 3 ? "<%d>" : "p%d", (int)i);
        token[i].at = piece[i];
        token[i].n = strlen(piece[i]);
        score[i] = -(float)i;
        type[i] = i == 0 ? 2 : i < 3 ? 3 : 1;
    }
    st = tllm_writer_open(ctx, &desc, &w);
    if (st) return st;
    (void)tllm_writer_put_text(ctx, w, "general.architecture", "llama");
    (void)tllm_writer_put_u32(ctx, w, "llama.embedding_length", D);
    (void)tllm_writer_put_u32(ctx, w, "llama.block_count", 1);
    (void)tllm_writer_put_u32(ctx, w, "llama.context_length", 64);
    (void)tllm_writer_put_u32(ctx, w, "llama.feed_forward_length", D);
    (void)tllm_writer_put_u32(ctx, w, "llama.attention.head_count", 2);
    (void)tllm_writer_put_f32(ctx, w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    (void)tllm_writer_put_text(ctx, w, "tokenizer.ggml.model", "llama");
    (void)tllm_writer_put_array(ctx, w, "tokenizer.ggml.tokens", TLLM_STRING, token, V);
    (void)tllm_writer_put_array(ctx, w, "tokenizer.ggml.scores", TLLM_F32, score, V);
    (void)tllm_writer_put_array(ctx, w, "tokenizer.ggml.token_type", TLLM_I32, type, V);
    for (i = 0; i < T_COUNT(tensors); i++) {
        name.at = tensors[i].name;
        name.n = strlen(name.at);
        (void)tllm_writer_put_tensor(ctx, w, name, tensors[i].rank == 2 ? TLLM_FORMAT_Q8_0 : TLLM_FORMAT_F32,
                                     tensors[i].rank, tensors[i].dim, tensors[i].rank == 2 ? (const void *)q : x);
    }
    st = tllm_writer_finish(ctx, w);
    tllm_writer_close(ctx, w);
    return st;
}
static tllm_session *session_of(tiny_ctx *ctx, const char *path)
{
    tllm_state_desc d;
    tllm_session *s = NULL;
    memset(&d, 0, sizeof d);
    d.n_ctx = 32;
    d.type_k = d.type_v = TLLM_FORMAT_F32;
    T_OK(tllm_session_open(ctx, path, &d, &s));
    return s;
}
static const int32_t said[9] = { 1, 5, 9, 30, 12, 12, 7, 39, 3 };

static tllm_kvcodec_tables *tables_of(tllm_session *s)
{
    tllm_kvcodec_profile *p = NULL;
    tllm_kvcodec_tables *t = NULL;
    T_OK(tllm_kvcodec_profile_of(s, &p));
    T_OK(tllm_kvcodec_profile_session(p, s));
    T_OK(tllm_kvcodec_profile_tables(p, &t));
    tllm_kvcodec_profile_close(p);
    return t;
}
static tiny_status keep(tllm_session *s, const tllm_kvcodec_tables *t, const char *path)
{
    tllm_kvcodec_desc d;
    memset(&d, 0, sizeof d);
    d.level = 3;
    d.n_token = 4;
    return tllm_kvcodec_save(s, t, &d, path);
}
static tiny_status matrix(tiny_ctx *ctx, tllm_vptq *q)
{
    tllm_vptq_desc d;
    memset(&d, 0, sizeof d);
    d.v = 8;
    d.k = 16;
    d.v0 = 4;
    d.k0 = 9;
    d.groups = 2;
    d.normalize = 1;
    d.outliers = 10;
    return tllm_vptq_random(ctx, &d, 16, 41, 4, q);
}
static tiny_status tiles(tiny_ctx *ctx, int profile, tllm_csl *a)
{
    static float w[130 * 70];
    tiny_tensor t = tiny_tensor_2d(w, TINY_F32, 130, 70);
    tllm_csl_desc d;
    int i;
    for (i = 0; i < 130 * 70; i++) w[i] = i * 7919 % 97 < 5 ? (float)(i % 251 - 125) / 64.0f : 0.0f;
    memset(&d, 0, sizeof d);
    d.profile = profile;
    d.bf16 = profile == TLLM_CSL_PUBLISHED;
    return tllm_csl_build(ctx, &t, &d, a);
}
static const char *const csl_name[3] = { "ordered.csl", "published.csl", "woven.csl" };
static tiny_status weave(tiny_ctx *ctx, tllm_weave *data)
{
    static float x[5 * 3];
    tiny_tensor t = tiny_tensor_2d(x, TINY_F32, 5, 3);
    int i;
    for (i = 0; i < 15; i++) x[i] = (float)(i * i % 11);
    return tllm_weave_make(ctx, &t, data);
}
static tiny_status repack(tiny_ctx *ctx, const char *model, const char *path, tllm_repacked *about)
{
    tllm_repack_desc d;
    tllm_gguf *f = NULL;
    tllm_model *m = NULL;
    tiny_status st = tllm_gguf_open(ctx, model, &f);
    memset(&d, 0, sizeof d);
    d.path = path;
    d.refuse = 1;
    if (!st) st = tllm_model_open(ctx, f, &m);
    if (!st) st = tllm_model_repack(ctx, m, &d, about);
    tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, f);
    return st;
}

static void record(const char *folder)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1), *fast = t_ctx(TINY_TARGET_AUTO, 1);
    char path[500], model[500];
    tllm_session *s;
    tllm_kvcodec_tables *t;
    tllm_repacked about;
    tllm_vptq q;
    tllm_csl a;
    tllm_weave data;
    int i;
#define AT(name) ((void)snprintf(path, sizeof path, "%s/%s", folder, name), path)
    T_OK(make_model(ctx, AT("model.gguf")));
    memcpy(model, path, sizeof model);
    s = session_of(ctx, model);
    T_OK(tllm_session_feed(s, said, 9, NULL));
    t = tables_of(s);
    T_OK(tllm_state_save(tllm_session_state(s), -1, AT("all.state")));
    T_OK(tllm_session_save(s, AT("one.session")));
    T_OK(tllm_kvcodec_tables_save(ctx, t, AT("cache.tables")));
    T_OK(keep(s, t, AT("session.cache")));
    T_OK(matrix(ctx, &q));
    T_OK(tllm_vptq_save(ctx, &q, AT("matrix.vptq")));
    for (i = 0; i < 3; i++) {
        T_OK(tiles(ctx, i, &a));
        T_OK(tllm_csl_save(ctx, &a, AT(csl_name[i])));
        tllm_csl_free(ctx, &a);
    }
    T_OK(weave(ctx, &data));
    T_OK(tllm_weave_save(ctx, &data, NULL, AT("set.weave")));
    T_OK(repack(fast, model, AT("model.eight"), &about));
    T_TRUE(about.written);
    tllm_weave_close(ctx, &data);
    tllm_vptq_close(ctx, &q);
    tllm_kvcodec_tables_close(ctx, t);
    tllm_session_close(s);
    t_close(ctx);
    t_close(fast);
}

/* ---- the tests ---- */

/* the file is a box by its header */
static void is_box(tiny_ctx *ctx, const char *path, const char *what)
{
    tiny_checkpoint_desc d;
    tiny_checkpoint *c = NULL;
    const char *text = "";
    memset(&d, 0, sizeof d);
    d.path = path;
    if (!T_OK(tiny_checkpoint_open(ctx, &d, &c))) return;
    T_OK(tiny_checkpoint_get_text(ctx, c, "what", &text));
    T_EQ_TEXT(text, what);
    tiny_checkpoint_close(ctx, c);
}

static void test_states(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_session *a = session_of(ctx, OLD("model.gguf")), *b = session_of(ctx, OLD("model.gguf"));
    const float *want = NULL, *got = NULL;
    const int32_t *held, next = 17;
    float keep_logits[V];
    size_t n = 0;
    int way;
    T_OK(tllm_session_feed(a, said, 9, NULL));
    T_OK(tllm_session_save(a, temp));
    is_box(ctx, temp, "state 3");
    T_OK(tllm_state_save(tllm_session_state(a), -1, "build/boxes-all.tmp"));
    is_box(ctx, "build/boxes-all.tmp", "state 3");
    T_OK(tllm_session_feed(a, &next, 1, &want));
    memcpy(keep_logits, want, sizeof keep_logits);
    for (way = 0; way < 4; way++) {         /* a text and its cache, old and new; all sequences, old and new */
        if (way < 2) {
            T_OK(tllm_session_trim(b, 0));
            T_OK(tllm_session_load(b, way ? temp : OLD("one.session")));
            held = tllm_session_tokens(b, &n);
            T_TRUE(n == 9 && !memcmp(held, said, sizeof said));
            T_OK(tllm_session_feed(b, &next, 1, &got));
        } else {
            tllm_item item;
            memset(&item, 0, sizeof item);
            item.token = next;
            item.pos = -1;
            item.want = 1;
            T_OK(tllm_state_load(tllm_session_state(b), -1, way == 3 ? "build/boxes-all.tmp" : OLD("all.state")));
            T_OK(tllm_forward_batch(tllm_session_state(b), &item, 1, keep_logits));
            got = keep_logits;
        }
        T_SAME(got, want, V);
    }
    tllm_session_close(a);
    tllm_session_close(b);
    (void)remove("build/boxes-all.tmp");
    t_close(ctx);
}

static void test_caches(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_session *a = session_of(ctx, OLD("model.gguf")), *b = session_of(ctx, OLD("model.gguf"));
    tllm_kvcodec_tables *t, *u = NULL;
    const float *want = NULL, *got = NULL;
    const int32_t next = 17;
    tllm_kvcodec_file f;
    T_OK(tllm_session_feed(a, said, 9, NULL));
    t = tables_of(a);
    T_OK(tllm_kvcodec_tables_load(ctx, OLD("cache.tables"), &u));
    T_TRUE(tllm_kvcodec_tables_id(t) == tllm_kvcodec_tables_id(u));
    T_OK(keep(a, t, temp));
    is_box(ctx, temp, "kept-cache 2");
    T_OK(tllm_kvcodec_load(a, t, temp));
    T_OK(tllm_session_feed(a, &next, 1, &want));
    T_OK(tllm_kvcodec_load(b, u, OLD("session.cache")));
    T_OK(tllm_session_feed(b, &next, 1, &got));
    T_SAME(got, want, V);
    T_OK(tllm_kvcodec_file_open(ctx, OLD("session.cache"), &f));
    T_TRUE(f.n_token == 9 && f.n_chunk == 3 && !memcmp(f.token, said, sizeof said));
    tllm_kvcodec_file_close(ctx, &f);
    tllm_kvcodec_tables_close(ctx, u);
    T_OK(tllm_kvcodec_tables_save(ctx, t, temp));
    is_box(ctx, temp, "cache-tables 2");
    T_OK(tllm_kvcodec_tables_load(ctx, temp, &u));
    T_TRUE(tllm_kvcodec_tables_id(t) == tllm_kvcodec_tables_id(u));
    tllm_kvcodec_tables_close(ctx, t);
    tllm_kvcodec_tables_close(ctx, u);
    tllm_session_close(a);
    tllm_session_close(b);
    t_close(ctx);
}

static void test_matrices(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_vptq q, r;
    tllm_csl a, b;
    char path[80];
    void *x, *y;
    size_t n, m;
    int i;
    T_OK(matrix(ctx, &q));
    T_OK(tllm_vptq_load(ctx, OLD("matrix.vptq"), &r));
    T_TRUE(r.n_bytes == q.n_bytes && !memcmp(r.bytes, q.bytes, q.n_bytes));
    tllm_vptq_close(ctx, &r);
    T_OK(tllm_vptq_save(ctx, &q, temp));
    is_box(ctx, temp, "vptq 2");
    T_OK(tllm_vptq_load(ctx, temp, &r));
    T_TRUE(r.n_bytes == q.n_bytes && !memcmp(r.bytes, q.bytes, q.n_bytes));
    tllm_vptq_close(ctx, &r);
    for (i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, OLD("%s"), csl_name[i]);
        T_OK(tiles(ctx, i, &a));
        T_OK(tllm_csl_load(ctx, path, &b));
        T_OK(tllm_csl_pack(ctx, &a, &x, &n));
        T_OK(tllm_csl_pack(ctx, &b, &y, &m));
        T_TRUE(n == m && !memcmp(x, y, n));
        T_TRUE(a.n_item == b.n_item && !memcmp(a.item, b.item, a.n_item * sizeof *a.item));
        T_OK(tllm_csl_save(ctx, &a, temp));
        is_box(ctx, temp, "csl 2");
        tiny_free(ctx, x);
        tiny_free(ctx, y);
        tllm_csl_free(ctx, &a);
        tllm_csl_free(ctx, &b);
    }
    T_STATUS(tllm_vptq_load(ctx, temp, &r), TINY_E_FORMAT, "this is \"csl 2\", not a matrix of vectors");
    T_STATUS(tllm_csl_load(ctx, OLD("matrix.vptq"), &b), TINY_E_FORMAT, "are not a matrix of tiles");
    tllm_vptq_close(ctx, &q);
    t_close(ctx);
}

/* checkpoints were boxes before all others: the same bytes */
static void test_checkpoints(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_weave data, old;
    T_OK(weave(ctx, &data));
    T_OK(tllm_weave_load(ctx, OLD("set.weave"), &old));
    T_TRUE(old.n_bytes == data.n_bytes && !memcmp(old.lines, data.lines, data.n_bytes));
    is_box(ctx, OLD("set.weave"), "weave 1");
    tllm_weave_close(ctx, &old);
    tllm_weave_close(ctx, &data);
    t_close(ctx);
}

static void test_repacked(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_repacked about;
    if (tllm_repack_has(ctx, TLLM_FORMAT_Q8_0) < 2) {
        T_SKIP("no target of this machine has products of eight rows");
        t_close(ctx);
        return;
    }
    T_OK(repack(ctx, OLD("model.gguf"), OLD("model.eight"), &about));
    T_TRUE(about.n == 8 && about.from_file && !about.written);
    (void)remove(temp);
    T_OK(repack(ctx, OLD("model.gguf"), temp, &about));
    T_TRUE(about.n == 8 && !about.from_file && about.written);
    is_box(ctx, temp, "eight-rows 2");
    T_OK(repack(ctx, OLD("model.gguf"), temp, &about));
    T_TRUE(about.n == 8 && about.from_file && !about.written);
    t_close(ctx);
}

int main(void)
{
    if (getenv("T_RECORD")) {
        record(getenv("T_RECORD"));
        return t_done();
    }
    T_RUN(test_states);
    T_RUN(test_caches);
    T_RUN(test_matrices);
    T_RUN(test_checkpoints);
    T_RUN(test_repacked);
    (void)remove(temp);
    return t_done();
}
