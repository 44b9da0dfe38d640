/* tests/llm/file/changed.c - a file that another program writes into while it is opened
 *
 * A reader walks over the file twice: to count, and to fill tables of that size. Here the file becomes another one of
 * the same length at the first, second, third ... allocation: the result is one of the two, complete, or a refusal with
 * its sentence. */
#include "t.h"
#include "llm/file/kit.h"

static kit_image now, later;                /* the bytes that are opened, and those that replace them */
static int countdown;

static void *changing_realloc(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    (void)user;
    (void)old_bytes;
    if (n_bytes && !countdown--) memcpy(now.b, later.b, now.n);
    if (n_bytes) return realloc(old, n_bytes);
    free(old);
    return NULL;
}

typedef tiny_status (*open_fn)(tiny_ctx *ctx, tllm_gguf **out);

static void one(const char *what, const kit_image *a, const kit_image *b, open_fn open, int *n_opened, int *n_refused)
{
    int n;
    T_EQ_INT(a->n, b->n);
    for (n = 0; n < 12; n++) {
        tiny_ctx_desc d = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *ctx;
        tllm_gguf *g;
        tiny_status st;
        now.n = a->n;
        now.b = (unsigned char *)malloc(a->n);      /* a block of its own: the sanitizer sees the byte after it */
        later = *b;
        if (!now.b) exit(2);
        memcpy(now.b, a->b, a->n);
        d.allocator.realloc_fn = changing_realloc;
        countdown = 1 << 20;
        if (T_OK(tiny_ctx_open(&d, &ctx))) {
            t_use(ctx);
            countdown = n;
            st = open(ctx, &g);
            countdown = 1 << 20;
            if (!st) {
                const char *wrong = kit_walk(g);
                if (wrong) t_fail(__FILE__, __LINE__, "%s, changed at allocation %d: %s", what, n, wrong);
                tllm_gguf_close(ctx, g);
                ++*n_opened;
            } else {
                T_STATUS(st, TINY_E_FORMAT, "changed while it was read");
                ++*n_refused;
            }
            t_use(NULL);
            tiny_ctx_close(ctx);
        }
        free(now.b);
    }
}

static tiny_status open_safetensors(tiny_ctx *ctx, tllm_gguf **out)
{
    return tllm_safetensors_open_memory(ctx, now.b, now.n, out);
}
static tiny_status open_gguf(tiny_ctx *ctx, tllm_gguf **out) { return tllm_gguf_open_memory(ctx, now.b, now.n, out); }
static kit_image model;
static tiny_status open_llama2c(tiny_ctx *ctx, tllm_gguf **out)
{
    return tllm_llama2c_open_memory(ctx, model.b, model.n, now.b, now.n, out);
}

static void both(const char *what, kit_image *a, kit_image *b, open_fn open)
{
    int opened = 0, refused = 0;
    one(what, a, b, open, &opened, &refused);
    one(what, b, a, open, &opened, &refused);
    printf("%s: changed at each allocation, opened %d times as one of the two, refused %d times\n", what, opened,
           refused);
    T_TRUE(opened > 0 && refused > 0);
    kit_free(a);
    kit_free(b);
}

/* a header of n bytes: blanks fill it up */
static void header(kit_image *m, const char *json, size_t n)
{
    kit_image text;
    memset(&text, 0, sizeof text);
    kit_bytes(&text, json, strlen(json));
    while (text.n < n) kit_bytes(&text, " ", 1);
    kit_bytes(&text, "", 1);
    kit_safetensors(m, (const char *)text.b, 8);
    kit_free(&text);
}

static void test_more_tensors(void)
{
    kit_image a, b;
    header(&a, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 200);
    header(&b,
           "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F16\",\"shape\":[1],"
           "\"data_offsets\":[4,6]},"
           "\"c\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[6,8]}}",
           200);
    both("safetensors, more tensors", &a, &b, open_safetensors);
}

static void test_longer_names(void)         /* with escapes they are written out */
{
    kit_image a, b;
    header(&a, "{\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 120);
    header(
        &b,
        "{\"\\u0061 and much more that no one had counted\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        120);
    both("safetensors, longer names", &a, &b, open_safetensors);
}

static void test_longer_texts(void)
{
    kit_image a, b;
    header(&a, "{\"__metadata__\":{\"k\":\"\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 150);
    header(&b,
           "{\"__metadata__\":{\"k\":\"a text that no one had "
           "counted\",\"l\":\"\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
           150);
    both("safetensors, longer texts", &a, &b, open_safetensors);
}

static void test_more_marks(void)           /* every eighth text of an array has one */
{
    kit_image a, b;
    int i;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    kit_head(&a, 3, 0, 1);
    kit_head(&b, 3, 0, 1);
    kit_array(&a, "texts", TLLM_STRING, 9);
    kit_array(&b, "texts", TLLM_STRING, 900);
    for (i = 0; i < 9; i++) {
        kit_u64(&a, 792);
        kit_data(&a, 792);
    }
    for (i = 0; i < 900; i++) kit_u64(&b, 0);
    kit_pad(&a, 32);
    kit_pad(&b, 32);
    both("GGUF, more texts", &a, &b, open_gguf);
}

static void test_more_blanks(void)          /* of a tokenizer: one byte becomes three */
{
    static const int32_t head[7] = KIT_LLAMA2C;
    static const char *const other[2] = { "aaaaaaaaaaaaaaaa", "                " };
    kit_image m[2];
    int i, k;
    kit_llama2c(&model, head, KIT_LLAMA2C_FLOATS);
    for (k = 0; k < 2; k++) {
        kit_llama2c_tokens(&m[k], 16, 4);
        for (i = 4; i < 5; i++) {
            kit_u32(&m[k], 0);
            kit_u32(&m[k], 16);
            kit_bytes(&m[k], other[k], 16);
        }
    }
    both(".bin, more blanks", &m[0], &m[1], open_llama2c);
    kit_free(&model);
}

int main(void)
{
    T_RUN(test_more_tensors);
    T_RUN(test_longer_names);
    T_RUN(test_longer_texts);
    T_RUN(test_more_marks);
    T_RUN(test_more_blanks);
    return t_done();
}
