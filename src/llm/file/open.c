/* src/llm/file/open.c */
#include "llm/file/open.h"
#include "llm/file/store_inside.h"
#include <string.h>
#include <stdio.h>

TINY_API int tllm_file_kind(const tllm_gguf *g) { return g ? g->kind : -1; }
TINY_API const char *tllm_file_kind_name(const tllm_gguf *g)
{
    static const char *const names[] = { "GGUF", "safetensors", ".bin of llama2.c" };
    return g ? names[g->kind] : "?";
}

TINY_API int tllm_file_looks(const void *bytes, size_t n_bytes)
{
    tinyi_cursor c = tinyi_cursor_make(bytes, n_bytes);
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t n;
    if (!bytes) return -1;
    if (n_bytes >= 4 && !memcmp(p, "GGUF", 4)) return TLLM_FILE_GGUF;
    if (tinyi_rd_u64(&c, &n) && n >= 2 && n <= c.left && p[8] == '{') return TLLM_FILE_SAFETENSORS;
    if (n_bytes && tllm_llama2c_bytes(bytes, n_bytes) == n_bytes) return TLLM_FILE_LLAMA2C;
    return -1;
}

static tiny_status tinyi_open_unknown(tiny_ctx *ctx, const char *path, const unsigned char *p, size_t n)
{
    if (n < 8) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: has %zu bytes, too few for any model file", path, n);
    return tinyi_fail(ctx, TINY_E_FORMAT,
                      "%s: is neither GGUF nor safetensors nor a .bin of llama2.c: it begins with %02x %02x %02x %02x "
                      "%02x %02x %02x %02x",
                      path, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
}

#if !defined TINY_NO_STDIO && TINYI_HAS(IMPORT)
/* With the tokenizer that lies next to a .bin and fits it, or without one. */
static tiny_status tinyi_open_bin(tiny_ctx *ctx, const char *path, tllm_gguf **out)
{
    tiny_status st = tllm_llama2c_open(ctx, path, NULL, out);
    size_t folder = strlen(path);
    uint64_t n_vocab = 0;
    char *beside;
    int i;
    if (st) return st;
    (void)tllm_meta_u64(tllm_gguf_find(*out, "llama.vocab_size"), 0, &n_vocab);
    tllm_gguf_close(ctx, *out);
    *out = NULL;
    while (folder && path[folder - 1] != '/' && path[folder - 1] != '\\') folder--;
    beside = (char *)tinyi_alloc(ctx, folder + 64, 1);
    if (!beside) return tiny_ctx_status(ctx);
    memcpy(beside, path, folder);
    for (i = 0; i < 3; i++) {
        FILE *f;
        if (i == 0) (void)snprintf(beside + folder, 64, "tok%lu.bin", (unsigned long)n_vocab);
        else if (i == 1) (void)snprintf(beside + folder, 64, "tokenizer%lu.bin", (unsigned long)n_vocab);
        else (void)snprintf(beside + folder, 64, "tokenizer.bin");
        f = fopen(beside, "rb");
        if (!f) continue;
        (void)fclose(f);
        st = tllm_llama2c_open(ctx, path, beside, out);
        if (st != TINY_E_FORMAT) break;
        tinyi_log(ctx, TINY_LOG_WARNING, "%s: the tokenizer %s does not fit this model: it is skipped", path, beside);
    }
    tiny_free(ctx, beside);
    return i < 3 ? st : tllm_llama2c_open(ctx, path, NULL, out);
}
#endif

TINY_API tiny_status tllm_file_open(tiny_ctx *ctx, const char *path, tllm_gguf **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tiny_file file;
    int kind;
    size_t n_path;
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "model file: the path or the result pointer is NULL");
    st = tiny_file_open(ctx, path, &file);
    if (st) return st;
    kind = tllm_file_looks(file.bytes, file.n_bytes);
    n_path = strlen(path);
    /* then its name decides, and that format's reader reports the error */
    if (kind < 0) {
        if (n_path > 5 && !strcmp(path + n_path - 5, ".gguf")) kind = TLLM_FILE_GGUF;
        else if (n_path > 12 && !strcmp(path + n_path - 12, ".safetensors")) kind = TLLM_FILE_SAFETENSORS;
        else if (n_path > 4 && !strcmp(path + n_path - 4, ".bin")) kind = TLLM_FILE_LLAMA2C;
        else st = tinyi_open_unknown(ctx, path, file.bytes, file.n_bytes);
    }
    /* as it is open: a pipe is read but once */
    if (!st && kind == TLLM_FILE_GGUF) return tinyi_gguf_build(ctx, path, 1, &file, out);
    tiny_file_close(ctx, &file);
    if (st) return st;
#ifdef TINYI_NO_IMPORT
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                      "%s: only GGUF files can be read: other model files are not compiled into this program", path);
#else
#ifndef TINY_NO_STDIO
    if (tinyi_file_special(path))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: is a pipe; only GGUF files are read from a pipe", path);
#endif
    if (kind == TLLM_FILE_SAFETENSORS) return tllm_safetensors_open(ctx, path, out);
#ifndef TINY_NO_STDIO
    return tinyi_open_bin(ctx, path, out);
#else
    return tllm_llama2c_open(ctx, path, NULL, out);
#endif
#endif
}

TINY_API tiny_status tllm_file_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_gguf **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!bytes || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "model file: the bytes or the result pointer is NULL");
    switch (tllm_file_looks(bytes, n_bytes)) {
    case TLLM_FILE_GGUF: return tllm_gguf_open_memory(ctx, bytes, n_bytes, out);
#ifndef TINYI_NO_IMPORT
    case TLLM_FILE_SAFETENSORS: return tllm_safetensors_open_memory(ctx, bytes, n_bytes, out);
    case TLLM_FILE_LLAMA2C: return tllm_llama2c_open_memory(ctx, bytes, n_bytes, NULL, 0, out);
#else
    case TLLM_FILE_SAFETENSORS:
    case TLLM_FILE_LLAMA2C:
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "only GGUF files can be read: other model files are not compiled into this program");
#endif
    default: return tinyi_open_unknown(ctx, "memory", (const unsigned char *)bytes, n_bytes);
    }
}
