/* tests/fuzz/checkpoint.c - any bytes as a checkpoint; a checkpoint that opens is read in full. Without the checksum
 * too, so that changed bytes reach the entries. */
#include "tinyllm.h"
#include <stdlib.h>
#include <string.h>

static void walk(tiny_ctx *ctx, const tiny_checkpoint *c)
{
    size_t i, k, n = tiny_checkpoint_count(c);
    unsigned sum = 0;
    for (i = 0; i < n; i++) {
        const tiny_checkpoint_entry *e = tiny_checkpoint_at(c, i);
        if (!e || tiny_checkpoint_find(c, e->name) != e || !*e->name || strlen(e->name) > TINY_CHECKPOINT_MAX_NAME)
            abort();
        for (k = 0; k < e->n_bytes; k++) sum += e->at[k];
        if (e->kind == TINY_CHECKPOINT_TEXT && strlen((const char *)e->at) != e->n_bytes) abort();
        if (e->kind == TINY_CHECKPOINT_TENSOR) {
            void *place = malloc(e->n_bytes + 1);
            tiny_tensor t = tiny_tensor_nd(place, e->dtype, e->rank, e->dim);
            if (!place || tiny_checkpoint_get_tensor(ctx, c, e->name, &t)) abort();
            free(place);
        }
    }
    if (tiny_checkpoint_at(c, n) || sum == 1234567891u) abort();       /* the sum is looked at, so that it is made */
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    tiny_checkpoint_desc d;
    tiny_checkpoint *c;
    int fast;
    memset(&d, 0, sizeof d);
    d.bytes = data;
    d.n_bytes = size;
    for (fast = 0; fast < 2; fast++) {
        d.no_checksum = fast;
        if (tiny_checkpoint_open(ctx, &d, &c)) {
            if (c || !*tiny_ctx_message(ctx)) abort();
            continue;
        }
        walk(ctx, c);
        tiny_checkpoint_close(ctx, c);
    }
}

#define FUZZ_NAME "checkpoint"
#include "engine.h"
