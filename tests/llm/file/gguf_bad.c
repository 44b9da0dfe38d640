/* tests/llm/file/gguf_bad.c - GGUF: files cut and flipped, hostile, large and crowded ones
 *
 * The hostile files are in tests/fuzz/corpus/gguf too, one for each row below; T_CORPUS=folder in the environment
 * writes them again. */
#include "t.h"
#include "llm/file/kit.h"

/* ---- cut and flipped --------------------------------------------------------------------------------------------- */

static void small_file(kit_image *m)
{
    int i;
    kit_head(m, 3, 2, 6);
    kit_key_u32(m, "general.alignment", 16);
    kit_key(m, "general.architecture", TLLM_STRING);
    kit_text(m, "llama");
    kit_key(m, "yes", TLLM_BOOL);
    kit_le(m, 1, 1);
    kit_key(m, "big", TLLM_F64);
    kit_u64(m, UINT64_C(0x4000000000000000));
    kit_array(m, "scores", TLLM_F32, 3);
    for (i = 0; i < 3; i++) kit_u32(m, 0x3f800000u);
    kit_array(m, "tokens", TLLM_STRING, 10);
    for (i = 0; i < 10; i++) kit_text(m, &"abcdefghij"[i]);
    kit_tensor(m, "token_embd.weight", 2, 32, 2, 8, 0);
    kit_tensor(m, "norm", 1, 4, 0, 0, 80);
    kit_pad(m, 16);
    kit_data(m, 96);
}

static void test_cut(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t held = tiny_ctx_bytes(ctx), n;
    kit_image m = { NULL, 0, 0 };
    unsigned char *wall;
    small_file(&m);
    wall = (unsigned char *)t_guarded_bytes(m.n) + m.n;    /* the first byte after a cut file faults */
    for (n = 0; n <= m.n; n++) {
        tllm_gguf *g = NULL;
        tiny_status st;
        memcpy(wall - n, m.b, n);
        st = tllm_gguf_open_memory(ctx, wall - n, n, &g);
        if (n == m.n) {
            T_TRUE(!st && g && kit_walk(g) == NULL);
            tllm_gguf_close(ctx, g);
        } else if (st != TINY_E_FORMAT || g || strncmp(tiny_ctx_message(ctx), "memory: ", 8))
            t_fail(__FILE__, __LINE__, "cut at %lu of %lu: status %d, %s", (unsigned long)n, (unsigned long)m.n,
                   (int)st, tiny_ctx_message(ctx));
    }
    T_EQ_INT(tiny_ctx_bytes(ctx), held);
    kit_free(&m);
    t_close(ctx);
}

static void test_flipped(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t held = tiny_ctx_bytes(ctx), i, n_open = 0;
    kit_image m = { NULL, 0, 0 };
    unsigned char *wall;
    small_file(&m);
    wall = (unsigned char *)t_guarded_bytes(m.n);
    for (i = 0; i < 8 * m.n; i++) {
        tllm_gguf *g = NULL;
        tiny_status st;
        memcpy(wall, m.b, m.n);
        wall[i / 8] = (unsigned char)(wall[i / 8] ^ 1u << i % 8);
        st = tllm_gguf_open_memory(ctx, wall, m.n, &g);
        if (!st) {
            const char *wrong = kit_walk(g);
            if (wrong) t_fail(__FILE__, __LINE__, "bit %lu flipped: %s", (unsigned long)i, wrong);
            n_open++;
        } else if (!*tiny_ctx_message(ctx) || g)
            t_fail(__FILE__, __LINE__, "bit %lu flipped: refused without a sentence", (unsigned long)i);
        tllm_gguf_close(ctx, g);
    }
    T_TRUE(n_open > 8 * 96 && n_open < 8 * m.n);   /* a bit of the data, of a text, of a name does no harm */
    T_EQ_INT(tiny_ctx_bytes(ctx), held);
    kit_free(&m);
    t_close(ctx);
}

/* ---- hostile files: a row each ----------------------------------------------------------------------------------- */

#define U64_MAX UINT64_C(0xffffffffffffffff)
#define TWO(n) (UINT64_C(1) << (n))

static void h_kv_count(kit_image *m) { kit_head(m, 3, 0, TWO(63)); kit_key_u32(m, "a", 1); }
static void h_kv_count_wraps(kit_image *m) { kit_head(m, 3, 0, U64_MAX / 40 + 2); kit_key_u32(m, "a", 1); }
static void h_tensor_count(kit_image *m) { kit_head(m, 3, TWO(61), 0); kit_data(m, 64); }
static void h_tensor_count_wraps(kit_image *m) { kit_head(m, 3, U64_MAX / 104 + 2, 0); kit_data(m, 64); }
static void h_tensors_43(kit_image *m) { kit_head(m, 3, TWO(27), 0); kit_data(m, 19); }
static void h_no_table(kit_image *m) { kit_head(m, 3, 1, 1); kit_key_u32(m, "a", 1); }
static void h_no_table_left(kit_image *m)
{
    kit_head(m, 3, 1, 1);
    kit_key(m, "a", TLLM_STRING);
    kit_text(m, "0123456789012345678901234567890123456789");
}
static void h_key_length(kit_image *m) { kit_head(m, 3, 0, 1); kit_u64(m, U64_MAX); kit_data(m, 30); }
static void h_key_long(kit_image *m) { kit_head(m, 3, 0, 1); kit_u64(m, 60); kit_data(m, 30); }
static void h_key_empty(kit_image *m) { kit_head(m, 3, 0, 1); kit_key_u32(m, "", 1); kit_data(m, 8); }
static void h_text_length(kit_image *m)
{
    kit_head(m, 3, 0, 1);
    kit_key(m, "general.name", TLLM_STRING);
    kit_u64(m, U64_MAX);
    kit_data(m, 30);
}
static void h_text_past_end(kit_image *m)
{
    kit_head(m, 3, 0, 1);
    kit_key(m, "general.name", TLLM_STRING);
    kit_u64(m, 31);
    kit_data(m, 30);
}
static void h_token_length(kit_image *m)
{
    kit_head(m, 3, 0, 1);
    kit_array(m, "tokenizer.ggml.tokens", TLLM_STRING, 2);
    kit_text(m, "a");
    kit_u64(m, TWO(31) + 5);
    kit_data(m, 40);
}
static void h_array_2e62(kit_image *m)
{
    kit_head(m, 3, 0, 1);
    kit_array(m, "a", TLLM_U32, TWO(62) + 1);
    kit_data(m, 40);
}
static void h_array_2e63(kit_image *m) { kit_head(m, 3, 0, 1); kit_array(m, "a", TLLM_U8, TWO(63)); kit_data(m, 40); }
static void h_array_texts(kit_image *m)
{
    kit_head(m, 3, 0, 1);
    kit_array(m, "a", TLLM_STRING, TWO(61));
    kit_data(m, 40);
}
static void h_array_nested(kit_image *m)
{
    int i;
    kit_head(m, 3, 0, 1);
    kit_array(m, "a", TLLM_ARRAY, 1);
    for (i = 0; i < 1000; i++) { kit_u32(m, TLLM_ARRAY); kit_u64(m, 1); }
}
static void h_array_type(kit_image *m) { kit_head(m, 3, 0, 1); kit_array(m, "a", 13, 1); kit_data(m, 40); }
static void h_value_type(kit_image *m) { kit_head(m, 3, 0, 2); kit_key(m, "a", 13); kit_data(m, 40); }
static void h_value_type_max(kit_image *m) { kit_head(m, 3, 0, 2); kit_key(m, "a", 0xffffffffu); kit_data(m, 40); }
static void h_bool(kit_image *m) { kit_head(m, 3, 0, 1); kit_key(m, "a", TLLM_BOOL); kit_le(m, 2, 1); kit_data(m, 10); }
static void h_key_twice(kit_image *m)
{
    kit_head(m, 3, 0, 3);
    kit_key_u32(m, "a", 1);
    kit_key_u32(m, "b", 1);
    kit_key_u32(m, "a", 2);
}
static void one_tensor(kit_image *m, uint32_t rank, uint64_t dim0, uint64_t dim1, uint32_t type, uint64_t offset)
{
    kit_head(m, 3, 1, 0);
    kit_tensor(m, "t", rank, dim0, dim1, type, offset);
    kit_pad(m, 32);
    kit_data(m, 256);
}
static void h_rank(kit_image *m) { one_tensor(m, 5, 2, 2, 0, 0); }
static void h_rank_max(kit_image *m) { one_tensor(m, 0, 2, 2, 0, 0); m->b[33] = m->b[34] = m->b[35] = m->b[36] = 0xff; }
static void h_dims_wrap(kit_image *m) { one_tensor(m, 2, TWO(32), TWO(32), 0, 0); }
static void h_dims_2e42(kit_image *m) { one_tensor(m, 3, TWO(42) + 1, TWO(22), 0, 0); }
static void h_dim_negative(kit_image *m) { one_tensor(m, 1, U64_MAX, 0, 0, 0); }
static void h_dim_zero(kit_image *m) { one_tensor(m, 2, 32, 0, 0, 0); }
static void h_block(kit_image *m) { one_tensor(m, 2, 33, 2, 2, 0); }
static void h_bytes_wrap(kit_image *m) { one_tensor(m, 1, TWO(62), 0, 0, 0); }
static void h_larger_than_file(kit_image *m) { one_tensor(m, 2, 4096, 11008, 0, 0); }
static void h_one_byte_more(kit_image *m) { one_tensor(m, 1, 257, 0, 24, 0); }
static void h_offset(kit_image *m) { one_tensor(m, 1, 4, 0, 0, TWO(63)); }
static void h_offset_wraps(kit_image *m) { one_tensor(m, 1, 64, 0, 0, U64_MAX - 31); }
static void h_offset_odd(kit_image *m) { one_tensor(m, 1, 4, 0, 0, 4); }
static void h_type(kit_image *m) { one_tensor(m, 1, 32, 0, 200, 0); }
static void h_type_max(kit_image *m) { one_tensor(m, 1, 32, 0, 0xffffffffu, 0); }
static void h_type_gone(kit_image *m) { one_tensor(m, 1, 32, 0, 4, 0); }
static void h_sum_wraps(kit_image *m)
{
    kit_head(m, 3, 2, 0);
    kit_tensor(m, "t0", 1, TWO(61), 0, 24, 0);
    kit_tensor(m, "t1", 1, TWO(61), 0, 24, TWO(61));
    kit_pad(m, 32);
    kit_data(m, 64);
}
static void two_tensors(kit_image *m, const char *first, const char *second, uint64_t offset)
{
    kit_head(m, 3, 2, 0);
    kit_tensor(m, first, 1, 12, 0, 0, 64);
    kit_tensor(m, second, 1, 12, 0, 0, offset);
    kit_pad(m, 32);
    kit_data(m, 256);
}
static void h_overlap(kit_image *m) { two_tensors(m, "t0", "t1", 96); }
static void h_overlap_back(kit_image *m) { two_tensors(m, "t0", "t1", 32); }
static void h_overlap_same(kit_image *m) { two_tensors(m, "t0", "t1", 64); }
static void h_tensor_twice(kit_image *m) { two_tensors(m, "t", "t", 128); }
static void h_name_length(kit_image *m) { kit_head(m, 3, 1, 0); kit_u64(m, U64_MAX); kit_data(m, 80); }
static void h_name_empty(kit_image *m) { kit_head(m, 3, 1, 0); kit_tensor(m, "", 1, 4, 0, 0, 0); kit_data(m, 80); }
static void aligned(kit_image *m, uint32_t type, uint64_t v)
{
    kit_head(m, 3, 1, 1);
    kit_key(m, "general.alignment", type);
    if (type == TLLM_STRING) kit_text(m, "32");
    else kit_le(m, v, tllm_value_bytes((int)type));
    kit_tensor(m, "t", 1, 4, 0, 0, 0);
    kit_data(m, 200);
}
static void h_alignment_0(kit_image *m) { aligned(m, TLLM_U32, 0); }
static void h_alignment_13(kit_image *m) { aligned(m, TLLM_U32, 13); }
static void h_alignment_u64(kit_image *m) { aligned(m, TLLM_U64, TWO(40)); }
static void h_alignment_text(kit_image *m) { aligned(m, TLLM_STRING, 0); }
static void h_alignment_2e31(kit_image *m) { aligned(m, TLLM_U32, TWO(31)); }
static void h_no_data(kit_image *m) { kit_head(m, 3, 1, 0); kit_tensor(m, "t", 1, 4, 0, 0, 0); }
static void h_empty(kit_image *m) { kit_bytes(m, "", 0); }
static void h_magic(kit_image *m) { kit_bytes(m, "ggml", 4); kit_data(m, 60); }
static void h_version_1(kit_image *m) { kit_head(m, 1, 0, 0); }
static void h_version_4(kit_image *m) { kit_head(m, 4, 0, 0); }
static void h_version_0(kit_image *m) { kit_head(m, 0, 0, 0); }
static void h_big_endian(kit_image *m) { kit_head(m, 0x03000000u, TWO(56), TWO(56)); kit_data(m, 40); }
static void h_split(kit_image *m)
{
    kit_head(m, 3, 0, 2);
    kit_key_u32(m, "split.no", 0xffffffffu);
    kit_key_u32(m, "split.count", 0xffffffffu);
}
static void h_split_type(kit_image *m)
{
    kit_head(m, 3, 0, 1);
    kit_key(m, "split.count", TLLM_I32);
    kit_u32(m, 0x80000000u);
}

static const struct {
    const char *file;
    void (*make)(kit_image *m);
    tiny_status status;
    const char *says;
} hostile[] = {
    /* CVE-2024-23605 */
    { "kv-count-2e63", h_kv_count, TINY_E_FORMAT,
      "claims 9223372036854775808 keys; the 17 bytes left hold at most 1" },
    { "kv-count-times-record-wraps", h_kv_count_wraps, TINY_E_FORMAT, "keys; the 17 bytes left hold at most 1" },
    /* CVE-2024-21836 */
    { "tensor-count-2e61", h_tensor_count, TINY_E_FORMAT,
      "claims 2305843009213693952 tensors; the 64 bytes left hold at most 2" },
    /* CVE-2026-27940 */
    { "tensor-count-times-record-wraps", h_tensor_count_wraps, TINY_E_FORMAT,
      "tensors; the 64 bytes left hold at most 2" },
    { "tensor-count-2e27-in-43-bytes", h_tensors_43, TINY_E_FORMAT,
      "claims 134217728 tensors; the 19 bytes left hold at most 0" },
    /* CVE-2024-41130 */
    { "tensor-table-missing", h_no_table, TINY_E_FORMAT, "claims 1 tensors; the 17 bytes left hold at most 0" },
    { "tensor-table-cut-off", h_no_table_left, TINY_E_FORMAT,
      "claims 1 tensors; the 0 bytes after the keys hold at most 0" },
    /* CVE-2024-23496 */
    { "key-length-2e64", h_key_length, TINY_E_FORMAT,
      "key 0 of 1 has 18446744073709551615 bytes; the limit is 65535" },
    { "key-past-end", h_key_long, TINY_E_FORMAT, "key 0 of 1 has 60 bytes, but only 30 are left" },
    { "key-empty", h_key_empty, TINY_E_FORMAT, "key 0 of 1 is empty" },
    { "text-length-2e64", h_text_length, TINY_E_FORMAT,
      "text 0 of 1 of key general.name has 18446744073709551615 bytes, but only 30 are left" },
    { "text-one-byte-past-end", h_text_past_end, TINY_E_FORMAT, "has 31 bytes, but only 30 are left" },
    /* CVE-2025-49847 */
    { "token-longer-than-2e31", h_token_length, TINY_E_FORMAT,
      "text 1 of 2 of key tokenizer.ggml.tokens has 2147483653 bytes, but only 40 are left" },
    /* CVE-2024-21825 */
    { "array-2e62-u32", h_array_2e62, TINY_E_FORMAT,
      "key a claims an array of 4611686018427387905 items of type u32; the 40 bytes left hold at most 10" },
    { "array-2e63-u8", h_array_2e63, TINY_E_FORMAT,
      "array of 9223372036854775808 items of type u8; the 40 bytes left hold at most 40" },
    { "array-2e61-texts", h_array_texts, TINY_E_FORMAT,
      "array of 2305843009213693952 items of type text; the 40 bytes left hold at most 5" },
    { "array-nested", h_array_nested, TINY_E_UNSUPPORTED, "key a is an array of arrays" },
    { "array-item-type-13", h_array_type, TINY_E_FORMAT, "key a is an array with items of type 13" },
    /* CVE-2024-32878 */
    { "value-type-13", h_value_type, TINY_E_FORMAT, "key a has a value of type 13; the last known type is 12" },
    { "value-type-2e32", h_value_type_max, TINY_E_FORMAT, "key a has a value of type 4294967295" },
    { "bool-2", h_bool, TINY_E_FORMAT, "key a: a bool is 2, neither 0 nor 1" },
    { "key-twice", h_key_twice, TINY_E_FORMAT, "key a occurs twice" },
    /* CVE-2024-21802 */
    { "rank-5", h_rank, TINY_E_FORMAT, "tensor t has 5 dimensions; the limit is 4" },
    { "rank-2e32", h_rank_max, TINY_E_FORMAT, "tensor t has 4294967295 dimensions" },
    /* CVE-2026-33298 */
    { "dims-product-wraps-to-0", h_dims_wrap, TINY_E_FORMAT,
      "tensor t: the product of its dimensions 0 to 1 is above 2^63" },
    { "dims-2e42-and-1", h_dims_2e42, TINY_E_FORMAT, "tensor t: the product of its dimensions 0 to 1 is above 2^63" },
    { "dim-negative", h_dim_negative, TINY_E_FORMAT, "tensor t: dimension 0 is 18446744073709551615" },
    { "dim-zero", h_dim_zero, TINY_E_FORMAT, "tensor t: dimension 1 is 0" },
    { "row-no-multiple-of-block", h_block, TINY_E_FORMAT,
      "tensor t has rows of 33 values; Q4_0 needs a multiple of 32" },
    { "tensor-bytes-wrap", h_bytes_wrap, TINY_E_OVERFLOW,
      "tensor t: 4611686018427387904 values of type F32 are more bytes than" },
    /* CVE-2026-7482 */
    { "tensor-larger-than-file", h_larger_than_file, TINY_E_FORMAT,
      "tensor t: 180355072 bytes of F32 at 0 of the data, which starts at 96: the file ends at 352" },
    { "tensor-one-byte-past-end", h_one_byte_more, TINY_E_FORMAT, "tensor t: 257 bytes of I8 at 0" },
    { "tensor-offset-2e63", h_offset, TINY_E_FORMAT, "tensor t: 16 bytes of F32 at 9223372036854775808" },
    { "tensor-offset-wraps", h_offset_wraps, TINY_E_FORMAT, "tensor t: 256 bytes of F32 at 18446744073709551584" },
    { "tensor-offset-misaligned", h_offset_odd, TINY_E_FORMAT,
      "tensor t starts at 4, which is not a multiple of the alignment 32" },
    { "tensor-type-200", h_type, TINY_E_UNSUPPORTED, "tensor t has the unknown type 200" },
    { "tensor-type-2e32", h_type_max, TINY_E_UNSUPPORTED, "tensor t has the unknown type 4294967295" },
    { "tensor-type-given-up", h_type_gone, TINY_E_UNSUPPORTED, "tensor t has the unknown type 4" },
#if SIZE_MAX > 0xffffffffu
    { "tensor-sizes-sum-wraps", h_sum_wraps, TINY_E_FORMAT,
      "tensor t0: 2305843009213693952 bytes of I8 at 0" }, /* CVE-2025-53630 */
#else
    { "tensor-sizes-sum-wraps", h_sum_wraps, TINY_E_OVERFLOW,
      "tensor t0: 2305843009213693952 values of type I8 are more bytes than" },
#endif
    { "tensors-overlap", h_overlap, TINY_E_FORMAT, "tensors t0 and t1 overlap: 48 bytes at 160, 48 bytes at 192" },
    { "tensors-overlap-backwards", h_overlap_back, TINY_E_FORMAT, "tensors t1 and t0 overlap" },
    { "tensors-same-place", h_overlap_same, TINY_E_FORMAT, "overlap" },
    { "tensor-twice", h_tensor_twice, TINY_E_FORMAT, "tensor t occurs twice" },
    { "tensor-name-length-2e64", h_name_length, TINY_E_FORMAT,
      "the name of tensor 0 of 1 has 18446744073709551615 bytes; the limits are 1 and 65535" },
    { "tensor-name-empty", h_name_empty, TINY_E_FORMAT, "the name of tensor 0 of 1 has 0 bytes" },
    { "alignment-0", h_alignment_0, TINY_E_FORMAT, "general.alignment is 0" },
    { "alignment-13", h_alignment_13, TINY_E_FORMAT, "general.alignment is 13; it must be a power of two" },
    { "alignment-is-u64", h_alignment_u64, TINY_E_FORMAT, "general.alignment has type u64, not u32" },
    { "alignment-is-text", h_alignment_text, TINY_E_FORMAT, "general.alignment has type text, not u32" },
    { "alignment-2e31", h_alignment_2e31, TINY_E_FORMAT,
      "the data of 1 tensors starts at 2147483648, but the file ends at" },
    { "data-missing", h_no_data, TINY_E_FORMAT, "the data of 1 tensors starts at 64, but the file ends at 57" },
    { "empty", h_empty, TINY_E_FORMAT, "has 0 bytes, too few" },
    { "magic-ggml", h_magic, TINY_E_FORMAT, "not a GGUF file: it begins with the bytes 67 67 6d 6c" },
    { "version-0", h_version_0, TINY_E_UNSUPPORTED, "is GGUF version 0" },
    { "version-1", h_version_1, TINY_E_UNSUPPORTED, "is GGUF version 1, abandoned" },
    { "version-4", h_version_4, TINY_E_UNSUPPORTED, "is GGUF version 4; versions 2 and 3 are read" },
    { "big-endian", h_big_endian, TINY_E_UNSUPPORTED, "is a big-endian GGUF file" },
    { "split-no-and-count-2e32", h_split, TINY_E_FORMAT,
      "claims to be part 4294967296 of 4294967295; the limit is 1000 parts" },
    { "split-count-negative", h_split_type, TINY_E_FORMAT, "split.count is not a count (its type is i32)" }
};

static void test_hostile(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *corpus = getenv("T_CORPUS");
    size_t held = tiny_ctx_bytes(ctx), i, n_refused = 0, n_files = 0;
    for (i = 0; i < T_COUNT(hostile); i++) {
        kit_image m = { NULL, 0, 0 };
        tllm_gguf *g = NULL;
        unsigned char *bytes;
        char path[300];
        tiny_file f;
        hostile[i].make(&m);
        bytes = (unsigned char *)t_guarded_bytes(m.n);
        if (m.n) memcpy(bytes, m.b, m.n);
        t_alloc.most_bytes = t_alloc.live_bytes;
        if (t_status(tllm_gguf_open_memory(ctx, bytes, m.n, &g), hostile[i].status, hostile[i].says, __FILE__, __LINE__,
                     hostile[i].file) &&
            !g)
            n_refused++;
        /* a file of a few bytes is refused at the cost of a few bytes */
        T_TRUE(t_alloc.most_bytes - t_alloc.live_bytes < 4096);
        (void)snprintf(path, sizeof path, "%s/gguf/%s.gguf", corpus ? corpus : "tests/fuzz/corpus", hostile[i].file);
        if (corpus) T_OK(tiny_file_write(ctx, path, m.b ? m.b : (const unsigned char *)"", m.n));
        if (!tiny_file_copy(ctx, path, &f)) {
            T_EQ_INT(f.n_bytes, m.n);
            if (f.n_bytes == m.n && m.n) T_SAME(f.bytes, m.b, m.n);
            tiny_file_close(ctx, &f);
            n_files += (size_t)(tllm_gguf_open(ctx, path, &g) == hostile[i].status && !g &&
                                strstr(tiny_ctx_message(ctx), hostile[i].says));
        }
        kit_free(&m);
    }
    if (corpus) {
        kit_image m = { NULL, 0, 0 };
        char path[300];
        (void)snprintf(path, sizeof path, "%s/gguf/good.gguf", corpus);
        small_file(&m);
        T_OK(tiny_file_write(ctx, path, m.b, m.n));
        kit_free(&m);
    }
    printf("hostile GGUF files: %lu of %lu refused, each with its sentence; %lu of them from the corpus too\n",
           (unsigned long)n_refused, (unsigned long)T_COUNT(hostile), (unsigned long)n_files);
    T_EQ_INT(tiny_ctx_bytes(ctx), held);
    t_close(ctx);
}

/* an empty file of tensors, and no keys: legal, and everything answers nothing */
static void test_nothing_inside(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    kit_image m = { NULL, 0, 0 };
    tllm_gguf *g;
    kit_head(&m, 2, 0, 0);
    if (T_OK(tllm_gguf_open_memory(ctx, m.b, m.n, &g))) {
        T_TRUE(kit_walk(g) == NULL && !tllm_gguf_n_meta(g) && !tllm_gguf_n_tensors(g) && !tllm_gguf_find(g, "a") &&
               !tllm_gguf_tensor_find(g, "a"));
        tllm_gguf_close(ctx, g);
    }
    kit_free(&m);
    t_close(ctx);
}

/* ---- large and crowded files ------------------------------------------------------------------------------------- */

/* opens the bytes, checks the peak memory and the time */
static void crowded(const char *what, const kit_image *m, tiny_status want, const char *says)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t before = t_alloc.live_bytes, most;
    tllm_gguf *g;
    double ms = -1e3 * t_seconds();
    t_alloc.most_bytes = before;
    T_STATUS(tllm_gguf_open_memory(ctx, m->b, m->n, &g), want, says);
    ms += 1e3 * t_seconds();
    most = t_alloc.most_bytes - before;
    if (most > 2 * m->n + (1u << 20))
        t_fail(__FILE__, __LINE__, "%s: %lu bytes taken for a file of %lu", what, (unsigned long)most,
               (unsigned long)m->n);
    T_TRUE(ms < 10000);                     /* quadratic work takes minutes */
    if (g) T_TRUE(kit_walk(g) == NULL);
    printf("%s: file %lu bytes, most taken %lu, %.1f ms\n", what, (unsigned long)m->n, (unsigned long)most, ms);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_crowded(void)
{
    kit_image m = { NULL, 0, 0 };
    char name[40];
    uint32_t i;
    kit_head(&m, 3, 0, 100000);
    for (i = 0; i < 100000; i++) {
        (void)snprintf(name, sizeof name, "key.%u", (unsigned)i);
        kit_key_u32(&m, name, i);
    }
    crowded("100000 keys", &m, TINY_OK, NULL);
    kit_free(&m);

    kit_head(&m, 3, 0, 100000);             /* the shortest keys there can be */
    for (i = 0; i < 100000; i++) {
        (void)snprintf(name, sizeof name, "%x", (unsigned)i);
        kit_key(&m, name, TLLM_U8);
        kit_le(&m, i, 1);
    }
    crowded("100000 short keys", &m, TINY_OK, NULL);
    kit_free(&m);

    kit_head(&m, 3, 0, 400000);
    for (i = 0; i < 400000; i++) {
        (void)snprintf(name, sizeof name, "%x", (unsigned)i);
        kit_key(&m, name, TLLM_U8);
        kit_le(&m, i, 1);
    }
    if (sizeof(size_t) == 8)
        crowded("400000 short keys", &m, TINY_E_FORMAT, "tables of 400000 keys, 0 tensors and 0 text marks would take");
    else crowded("400000 short keys", &m, TINY_OK, NULL);      /* there a key takes less */
    kit_free(&m);

    kit_head(&m, 3, 100000, 0);
    for (i = 0; i < 100000; i++) {
        (void)snprintf(name, sizeof name, "t%u", (unsigned)i);
        /* from the last to the first: the order by place must be made */
        kit_tensor(&m, name, 1, 1, 0, 24, (uint64_t)(99999 - i) * 32);
    }
    kit_pad(&m, 32);
    kit_data(&m, 100000 * 32);
    crowded("100000 tensors", &m, TINY_OK, NULL);
    kit_free(&m);

    kit_head(&m, 3, 0, 1);
    kit_array(&m, "tokens", TLLM_STRING, 1000000);
    for (i = 0; i < 1000000; i++) kit_u64(&m, 0);
    crowded("1000000 empty texts", &m, TINY_OK, NULL);
    kit_free(&m);

    kit_head(&m, 3, 0, 100000);             /* each with a table of its own */
    for (i = 0; i < 100000; i++) {
        int k;
        (void)snprintf(name, sizeof name, "%x", (unsigned)i);
        kit_array(&m, name, TLLM_STRING, 9);
        for (k = 0; k < 9; k++) kit_u64(&m, 0);
    }
    crowded("100000 arrays of texts", &m, TINY_OK, NULL);
    kit_free(&m);
}

/* 100 MB on disk (a file with a hole): opening reads the bytes before the data */
static void test_large(void)
{
#if T_PAGES
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    kit_image m = { NULL, 0, 0 };
    tllm_gguf *g;
    char name[64];
    uint64_t bytes = 25u << 20;
    double best = 1e30;
    size_t i, data_at;
    FILE *f = fopen("tiny-large.gguf", "wb");
    kit_head(&m, 3, 300, 2);
    kit_array(&m, "tokenizer.ggml.tokens", TLLM_STRING, 32000);
    for (i = 0; i < 32000; i++) {
        (void)snprintf(name, sizeof name, "token%u", (unsigned)i);
        kit_text(&m, name);
    }
    kit_array(&m, "tokenizer.ggml.scores", TLLM_F32, 32000);
    for (i = 0; i < 32000; i++) kit_u32(&m, 0);
    for (i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof name, "blk.%u.ffn_up.weight", (unsigned)i);
        kit_tensor(&m, name, 1, bytes / 300 / 32 * 32, 0, 0, (uint64_t)i * (bytes / 300 / 32 * 32) * 4);
    }
    kit_pad(&m, 32);
    data_at = m.n;
    if (f) {
        int bad = fwrite(m.b, 1, m.n, f) != m.n;
        bad |= fseek(f, (long)(data_at + bytes * 4 - 1), SEEK_SET) != 0;
        bad |= fputc(1, f) == EOF;
        bad |= fclose(f) != 0;
        T_TRUE(!bad);
    }
    for (i = 0; i < 5; i++) {
        double s = -t_seconds();
        if (!T_OK(tllm_gguf_open(ctx, "tiny-large.gguf", &g))) break;
        s += t_seconds();
        best = s < best ? s : best;
        if (i == 4) {
            T_EQ_INT(tllm_gguf_n_tensors(g), 300);
            T_TRUE(tiny_ctx_bytes(ctx) < 200000);       /* nothing of the data is in our memory */
        }
        tllm_gguf_close(ctx, g);
    }
    printf("a file of %.0f MB with 32000 tokens and 300 tensors: open %.2f ms\n", (double)(data_at + bytes * 4) / 1e6,
           best * 1e3);
    T_TRUE(best < 0.1);                     /* 20 ms on a machine that is not emulated */
    (void)remove("tiny-large.gguf");
    kit_free(&m);
    t_close(ctx);
#else
    T_SKIP("no mapped files");
#endif
}

/* the data of 100 tensors is on unreadable pages: opening, finding and closing do not */
static void test_untouched(void)
{
#if T_PAGES
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), each = (size_t)1 << 20;
    kit_image m = { NULL, 0, 0 };
    tllm_gguf *g;
    char name[64];
    size_t i, n;
    void *p;
    kit_head(&m, 3, 100, 1);
    kit_key_u32(&m, "general.alignment", (uint32_t)page);
    for (i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "blk.%u.ffn_up.weight", (unsigned)i);
        kit_tensor(&m, name, 1, each / 4, 0, 0, (uint64_t)i * each);
    }
    kit_pad(&m, page);
    n = m.n + 100 * each;
    p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (T_TRUE(p != MAP_FAILED) && T_TRUE(!mprotect(p, m.n, PROT_READ | PROT_WRITE))) {
        memcpy(p, m.b, m.n);
        if (T_OK(tllm_gguf_open_memory(ctx, p, n, &g))) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_find(g, "blk.99.ffn_up.weight");
            T_TRUE(t && t->data + t->bytes == (const unsigned char *)p + n);
            tllm_gguf_close(ctx, g);
        }
        (void)munmap(p, n);
    }
    kit_free(&m);
    t_close(ctx);
#else
    T_SKIP("no pages to forbid");
#endif
}

int main(void)
{
    T_RUN(test_cut);
    T_RUN(test_flipped);
    T_RUN(test_hostile);
    T_RUN(test_nothing_inside);
    T_RUN(test_crowded);
    T_RUN(test_large);
    T_RUN(test_untouched);
    return t_done();
}
