/* tests/fuzz/kvcodec.c - any bytes as tables or as a chunk of the cache codec; an accepted chunk is read twice, by the
 * fast and the plain form
 *
 * The first byte chooses: bit 0 tables or a chunk, bit 1 the checksum is corrected first. The rest is the file. The
 * tables that chunks are read with are made here. After a change of the format the corpus is written anew:
 *
 *     cc -std=c99 -DKVCODEC_CORPUS -DTINYLLM_ALL -DTINYLLM_IMPLEMENTATION -I. -Itests -Itests/fuzz tests/fuzz/kvcodec.c
 *     -o build/kvcodec-corpus -pthread -lm build/kvcodec-corpus tests/fuzz/corpus/kvcodec */
#include "tinyllm.h"
#include "boxed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, N = 24, WIDEST = 5 };
static const int32_t width[LAYERS * TLLM_KV_PARTS] = { 5, 3, 0, 4, 0, 2 };

typedef struct cache { tllm_kv kv; float x[LAYERS * TLLM_KV_PARTS][2 * N][WIDEST]; } cache;
static tiny_ctx *ctx, *plain;
static tllm_kvcodec_tables *tables;
static cache given, fast, slow;

static void get(void *user, tiny_idx layer, int part, tiny_idx token, float *row)
{
    const tiny_idx i = layer * TLLM_KV_PARTS + part;
    if (token < 0 || token >= 2 * N) abort();
    memcpy(row, ((const cache *)user)->x[i][token], (size_t)width[i] * sizeof *row);
}
static void set(void *user, tiny_idx layer, int part, tiny_idx token, const float *row)
{
    const tiny_idx i = layer * TLLM_KV_PARTS + part;
    tiny_idx k;
    for (k = 0; k < width[i]; k++) if (!(row[k] > -1e6f && row[k] < 1e6f)) abort();
    if (token < 2 * N) memcpy(((cache *)user)->x[i][token], row, (size_t)width[i] * sizeof *row);
}

static void open_all(void)                  /* once: stays open */
{
    tllm_kvcodec_profile *p;
    tiny_ctx_desc desc;
    cache *each[3];
    int i, t, k;
    if (ctx) return;
    memset(&desc, 0, sizeof desc);
    desc.n_threads = 1;
    if (tiny_ctx_open(&desc, &ctx)) abort();
    desc.target = TINY_TARGET_REFERENCE;
    if (tiny_ctx_open(&desc, &plain)) abort();
    each[0] = &given;
    each[1] = &fast;
    each[2] = &slow;
    for (i = 0; i < 3; i++) {
        each[i]->kv.n_layer = LAYERS;
        each[i]->kv.width = width;
        each[i]->kv.read = get;
        each[i]->kv.write = set;
        each[i]->kv.user = each[i];
    }
    for (i = 0; i < LAYERS * TLLM_KV_PARTS; i++)
        for (t = 0; t < 2 * N; t++)
            for (k = 0; k < WIDEST; k++)
                given.x[i][t][k] = (float)((7 * i + 13 * t * t + 29 * k * t) % 101 - 50) / 16.0f;
    if (tllm_kvcodec_profile_open(ctx, &given.kv, NULL, &p) || tllm_kvcodec_profile_add(p, &given.kv, 0, 2 * N) ||
        tllm_kvcodec_profile_tables(p, &tables))
        abort();
    tllm_kvcodec_profile_close(p);
}

#ifdef KVCODEC_CORPUS
static void spill(const char *folder, const char *name, int what, const void *bytes, size_t n)
{
    char path[500];
    FILE *f;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "wb");
    if (!f || fputc(what, f) == EOF || fwrite(bytes, 1, n, f) != n || fclose(f)) abort();
}
int main(int argc, char **argv)
{
    tllm_kvcodec_desc d;
    tiny_file f;
    void *bytes;
    size_t n;
    int level;
    if (argc != 2) return 2;
    open_all();
    if (tllm_kvcodec_tables_pack(ctx, tables, &bytes, &n)) abort();
    spill(argv[1], "tables", 3, bytes, n);
    if (tllm_kvcodec_tables_save(ctx, tables, "build/kvcodec-corpus.tmp") ||
        tiny_file_open(ctx, "build/kvcodec-corpus.tmp", &f))
        abort();
    spill(argv[1], "box-tables", 3, f.bytes, f.n_bytes);
    tiny_file_close(ctx, &f);
    for (level = 1; level <= TLLM_KVCODEC_LEVELS; level++) {
        char name[40];
        memset(&d, 0, sizeof d);
        d.level = level;
        d.n_token = N;
        d.first = level;
        d.alone = level == 2;
        if (tllm_kvcodec_encode(ctx, tables, &given.kv, &d, &bytes, &n)) abort();
        (void)snprintf(name, sizeof name, d.alone ? "alone" : "level%d", level);
        spill(argv[1], name, 2, bytes, n);
    }
    return 0;
}
#else
static void target(tiny_ctx *outer, const uint8_t *data, size_t size)
{
    static unsigned char room[1 << 18];
    tllm_kvcodec_about about;
    const size_t n = size - 1;
    tiny_status st;
    (void)outer;
    open_all();
    if (size < 1 || size > sizeof room) return;
    memcpy(room, data + 1, n);
    if (data[0] & 2) reseal(room, n, 4, 1);
    if (data[0] & 1) {
        tllm_kvcodec_tables *t;
        void *again;
        size_t m;
        if (tllm_kvcodec_tables_open(ctx, room, n, &t)) {
            if (!*tiny_ctx_message(ctx) || t) abort();
            return;
        }
        /* the same tables, though their text may have been longer */
        if (tllm_kvcodec_tables_pack(ctx, t, &again, &m)) abort();
        tllm_kvcodec_tables_close(ctx, t);
        if (m > n || tllm_kvcodec_tables_open(ctx, again, m, &t)) abort();
        tllm_kvcodec_tables_close(ctx, t);
        tiny_free(ctx, again);
        return;
    }
    st = tllm_kvcodec_decode(ctx, tables, room, n, &fast.kv);
    if (st != tllm_kvcodec_decode(plain, tables, room, n, &slow.kv) || (st && !*tiny_ctx_message(ctx))) abort();
    if (!st && (tllm_kvcodec_tell(ctx, room, n, &about) || memcmp(fast.x, slow.x, sizeof fast.x))) abort();
}

#define FUZZ_NAME "kvcodec"
#include "engine.h"
#endif
