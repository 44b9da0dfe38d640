/* src/llm/lab/flashllm/csl.c - Tiled-CSL: making, reading and checking it
 * Paper    H. Xia et al., "Flash-LLM: Enabling Cost-Effective and Highly-Efficient Large Generative Model Inference
 *          with Unstructured Sparsity", VLDB 2024 (arXiv 2309.10285), section 4.1 and the authors' program for the
 *          order of items.
 * Format   see the head of csl.h.
 * Published order: bank = (stored column / 2) % 32. For each block of 32 lanes times 4 items (the last block has the
 *          remaining lanes): for the first to the fourth item of a lane, lane by lane, the next item of the fullest
 *          bank (of equal ones the lowest).
 * Cost     making: two passes over the matrix, one of them counts; reading: one over the items.
 * Left out i8 values with a scale for each tile: they save nothing, because an item has 32 bits anyway. */
#include <string.h>
#include "llm/lab/flashllm/csl.h"
#include "llm/lab/flashllm/flash_inside.h"
#include "core/box/box_inside.h"
#include "core/half_inside.h"
#include "core/state_inside.h"
#include "core/thread.h"

#define TINYI_CSL_MOST (128 * TLLM_CSL_WIDE)    /* places of the largest tile */
#define TINYI_CSL_BANKS 32
#define TINYI_CSL_HEAD 36
static const tinyi_box_kind tinyi_csl_box = { "csl", "matrix of tiles", 2, "TINYCSL", 1, 12, 4, TINYI_CSL_HEAD };


static tiny_idx tinyi_csl_high(int profile) { return profile == TLLM_CSL_PUBLISHED ? 128 : 64; }

/* columns are stored turned, which is undone by turning them again */
static unsigned tinyi_csl_turned(int profile, unsigned row, unsigned column)
{
    return profile == TLLM_CSL_PUBLISHED ? column ^ (row % 8) << 3 : column;
}

/* the place of an item in its tile; in woven tiles the bits above hold something else */
static unsigned tinyi_csl_place(int profile, uint32_t item)
{
    return item >> 16 & (profile == TLLM_CSL_WOVEN ? 0xfffu : 0xffffu);
}

TINY_API size_t tllm_csl_bytes(const tllm_csl *a)
{
    const size_t most = SIZE_MAX / 4 - 2;
    size_t tiles;
    if (!a) return 0;
    if (a->down < 0 || a->across < 0 || (a->across && (size_t)a->down > most / (size_t)a->across)) return SIZE_MAX;
    tiles = (size_t)a->down * (size_t)a->across;
    return a->n_item > most - tiles ? SIZE_MAX : 4 * (a->n_item + tiles + 2);
}

TINY_API void tllm_csl_free(tiny_ctx *ctx, tllm_csl *a)
{
    if (!a) return;
    tiny_free(ctx, a->block);
    memset(a, 0, sizeof *a);
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

/* sizes that a matrix may have, and its tiles */
static tiny_status tinyi_csl_tiles(tiny_ctx *ctx, const char *where, int profile, uint64_t n_out, uint64_t k,
                                   tllm_csl *a)
{
    uint64_t down, across;
    if (!n_out || !k || n_out > INT32_MAX || k > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "%s: %llu rows of %llu numbers; the limits are 1 and 2^31 - 1", where,
                          (unsigned long long)n_out, (unsigned long long)k);
    down = (n_out + (uint64_t)tinyi_csl_high(profile) - 1) / (uint64_t)tinyi_csl_high(profile);
    across = (k + TLLM_CSL_WIDE - 1) / TLLM_CSL_WIDE;
    if (down * across > (uint64_t)TINYI_MIN((size_t)INT32_MAX, SIZE_MAX / 16) - 2)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %llu by %llu tiles are more than offsets can index", where,
                          (unsigned long long)down, (unsigned long long)across);
    a->profile = profile;
    a->n_out = (tiny_idx)n_out;
    a->k = (tiny_idx)k;
    a->down = (tiny_idx)down;
    a->across = (tiny_idx)across;
    return TINY_OK;
}

static tiny_status tinyi_csl_check_tile(tiny_ctx *ctx, const char *where, const tllm_csl *a, tiny_idx tile,
                                        uint64_t *n_nonzero)
{
    const uint32_t *item = a->item + 4 * (size_t)a->offset[tile];
    const size_t n = 4 * (size_t)(a->offset[tile + 1] - a->offset[tile]);
    const unsigned places = (unsigned)tinyi_csl_high(a->profile) * TLLM_CSL_WIDE;
    uint32_t seen[TINYI_CSL_MOST / 32];
    const size_t fours =
        a->profile == TLLM_CSL_WOVEN && n ? (size_t)(item[0] >> 28 | item[1] >> 28 << 4 | item[2] >> 28 << 8) : 0;
    size_t i;
    if (fours > n / 4)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tile %td: %zu groups of four in %zu items", where, tile, fours, n);
    memset(seen, 0, sizeof seen);
    for (i = 0; i < n; i++) {
        const unsigned at = tinyi_csl_place(a->profile, item[i]), row = at / TLLM_CSL_WIDE,
                       column = tinyi_csl_turned(a->profile, row, at % TLLM_CSL_WIDE);
        if (at >= places)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tile %td: item %zu is at place %u of %u", where, tile, i, at,
                              places);
        if (seen[at / 32] >> at % 32 & 1)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tile %td: two items are at place %u", where, tile, at);
        if (a->profile == TLLM_CSL_ORDERED && i && at < item[i - 1] >> 16)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tile %td: item %zu at place %u comes after place %u", where,
                              tile, i, at, (unsigned)(item[i - 1] >> 16));
        if (a->profile == TLLM_CSL_WOVEN && i > 2 && item[i] >> 28)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tile %td: item %zu is at place %u of %u", where, tile, i,
                              (unsigned)(item[i] >> 16), places);
        if (i < 4 * fours && i % 4 && row != tinyi_csl_place(a->profile, item[i - 1]) / TLLM_CSL_WIDE)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: tile %td: item %zu of %zu groups of four is not in the row of the item before",
                              where, tile, i, fours);
        seen[at / 32] |= (uint32_t)1 << at % 32;
        if (!(item[i] & 0x7fffu)) continue;
        ++*n_nonzero;
        if (tile / a->across * tinyi_csl_high(a->profile) + (tiny_idx)row >= a->n_out ||
            tile % a->across * TLLM_CSL_WIDE + (tiny_idx)column >= a->k)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: tile %td: place %u holds a value outside the %td by %td numbers", where, tile,
                              at, a->n_out, a->k);
    }
    return TINY_OK;
}

static tiny_status tinyi_csl_check(tiny_ctx *ctx, const char *where, const tllm_csl *a)
{
    tllm_csl sizes;
    uint64_t n_nonzero = 0;
    tiny_idx t, tiles;
    tiny_status st;
    if (!a || !a->offset || (!a->item && a->n_item))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: a matrix with its offsets and items is needed", where);
    if (a->profile < 0 || a->profile >= TLLM_CSL_PROFILES || a->bf16 < 0 || a->bf16 > 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: profile %d, values %d; there are %d profiles and the values 0 and 1", where, a->profile,
                          a->bf16, (int)TLLM_CSL_PROFILES);
    if (a->n_out < 0 || a->k < 0)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %td rows of %td numbers", where, a->n_out, a->k);
    memset(&sizes, 0, sizeof sizes);
    st = tinyi_csl_tiles(ctx, where, a->profile, (uint64_t)a->n_out, (uint64_t)a->k, &sizes);
    if (st) return st;
    if (a->down != sizes.down || a->across != sizes.across)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %td by %td tiles for %td by %td numbers", where, a->down, a->across,
                          a->n_out, a->k);
    tiles = a->down * a->across;
    if (a->offset[0] != 0)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the first offset is %d, not 0", where, (int)a->offset[0]);
    for (t = 0; t < tiles; t++) {
        if (a->offset[t + 1] < a->offset[t])
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: offset %td falls from %d to %d", where, t + 1, (int)a->offset[t],
                              (int)a->offset[t + 1]);
        if (a->offset[t + 1] - a->offset[t] > tinyi_csl_high(a->profile) * TLLM_CSL_WIDE / 4)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tile %td has %lld items, but only %td places", where, t,
                              4LL * (a->offset[t + 1] - a->offset[t]), tinyi_csl_high(a->profile) * TLLM_CSL_WIDE);
    }
    if (a->offset[tiles + 1] != a->offset[tiles])
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the last offset is %d; it must repeat %d", where,
                          (int)a->offset[tiles + 1], (int)a->offset[tiles]);
    if (a->n_item % 4 || a->n_item / 4 != (size_t)a->offset[tiles])
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: offsets end at %lld items, but there are %zu", where,
                          4LL * a->offset[tiles], a->n_item);
    for (t = 0; t < tiles; t++)
        if ((st = tinyi_csl_check_tile(ctx, where, a, t, &n_nonzero)) != TINY_OK) return st;
    if (n_nonzero != a->n_nonzero)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %llu values are not 0, but the header says %llu", where,
                          (unsigned long long)n_nonzero, (unsigned long long)a->n_nonzero);
    return TINY_OK;
}

TINY_API tiny_status tllm_csl_check(tiny_ctx *ctx, const tllm_csl *a)
{
    const tiny_status st = tinyi_ctx_check(ctx);
    return st ? st : tinyi_csl_check(ctx, "csl", a);
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

typedef struct tinyi_csl_job {
    const tiny_tensor *w;                   /* what is read: a tensor, */
    const tllm_csl *from;                   /* or a matrix of another profile */
    int bf16, clamp;
    tllm_csl *to;
    int32_t *offset;                        /* counting: offset[t + 1] takes the units of tile t */
    uint32_t *item;                         /* NULL: counting */
    int64_t *n_nonzero, *fault;             /* of each row of tiles; the first number that is too large, -1: none */
} tinyi_csl_job;

/* one number in 16 bits; 0: it is too large */
static int tinyi_csl_number(const tinyi_csl_job *j, tiny_idx r, tiny_idx c, uint16_t *to)
{
    const unsigned char *at = (const unsigned char *)j->w->data +
                              (r * j->w->stride[0] + c * j->w->stride[1]) * (tiny_idx)tiny_dtype_bytes(j->w->dtype);
    const uint16_t infinite = j->bf16 ? 0x7f80u : 0x7c00u;
    uint16_t h = 0;
    float x;
    if (j->w->dtype == TINY_F32) memcpy(&x, at, 4);
    else {
        memcpy(&h, at, 2);
        if ((j->w->dtype == TINY_BF16) == j->bf16) {
            *to = h;
            return 1;
        }
        x = j->w->dtype == TINY_BF16 ? tinyi_bf16_to_f32(h) : tinyi_f16_to_f32(h);
    }
    h = j->bf16 ? tinyi_f32_to_bf16(x) : tinyi_f32_to_f16(x);
    if ((h & 0x7fffu) == infinite && x - x == 0.0f) {
        if (!j->clamp) return 0;
        h = (uint16_t)((h & 0x8000u) | (infinite - 1u));
    }
    *to = h;
    return 1;
}

/* the places of tile (i, t) as they are in the matrix, whatever is read */
static void tinyi_csl_fill(const tinyi_csl_job *j, uint16_t *tile, tiny_idx i, tiny_idx t)
{
    const tiny_idx high = tinyi_csl_high(j->to->profile), r0 = i * high, c0 = t * TLLM_CSL_WIDE,
                   rows = TINYI_MIN(high, j->to->n_out - r0), n = TINYI_MIN(TLLM_CSL_WIDE, j->to->k - c0);
    tiny_idx r, c, s;
    memset(tile, 0, (size_t)(high * TLLM_CSL_WIDE) * sizeof *tile);
    if (j->w) {
        for (r = 0; r < rows; r++)
            for (c = 0; c < n; c++)
                if (!tinyi_csl_number(j, r0 + r, c0 + c, &tile[r * TLLM_CSL_WIDE + c]) && j->fault[i] < 0)
                    j->fault[i] = (int64_t)(r0 + r) * j->to->k + (c0 + c);
        return;
    }
    for (s = r0 / tinyi_csl_high(j->from->profile); s * tinyi_csl_high(j->from->profile) < r0 + rows; s++) {
        const tiny_idx above = s * tinyi_csl_high(j->from->profile) - r0;
        const int32_t *o = j->from->offset + s * j->from->across + t;
        size_t q;
        for (q = 4 * (size_t)o[0]; q < 4 * (size_t)o[1]; q++) {
            const unsigned at = tinyi_csl_place(j->from->profile, j->from->item[q]), row = at / TLLM_CSL_WIDE;
            r = above + (tiny_idx)row;
            if (r >= 0 && r < rows)
                tile[r * TLLM_CSL_WIDE + (tiny_idx)tinyi_csl_turned(j->from->profile, row, at % TLLM_CSL_WIDE)] =
                    (uint16_t)j->from->item[q];
        }
    }
}

/* Items of a tile in the order of places, padded: zeros at the first places that are 0. How many; to NULL: only
 * that. */
static size_t tinyi_csl_items(const uint16_t *tile, size_t places, uint32_t *to, int64_t *n_nonzero)
{
    size_t i, n = 0, pad;
    for (i = 0; i < places; i++) n += (tile[i] & 0x7fffu) != 0;
    *n_nonzero += (int64_t)n;
    pad = (4 - n % 4) % 4;
    n += pad;
    for (i = 0; to && i < places; i++) {
        if (tile[i] & 0x7fffu) *to++ = (uint32_t)i << 16 | tile[i];
        else if (pad) {
            *to++ = (uint32_t)i << 16;
            pad--;
        }
    }
    return n;
}

/* The same items as the authors order them; bank: room for all items of each. */
static void tinyi_csl_lanes(uint32_t *item, size_t n, uint32_t *bank)
{
    unsigned had[TINYI_CSL_BANKS], gone[TINYI_CSL_BANKS];
    size_t i, j, lane, lanes;
    memset(had, 0, sizeof had);
    memset(gone, 0, sizeof gone);
    for (i = 0; i < n; i++) {
        const unsigned at = item[i] >> 16, row = at / TLLM_CSL_WIDE,
                       column = tinyi_csl_turned(TLLM_CSL_PUBLISHED, row, at % TLLM_CSL_WIDE),
                       b = column / 2 % TINYI_CSL_BANKS;
        bank[b * (TINYI_CSL_MOST / TINYI_CSL_BANKS) + had[b]++] =
            (uint32_t)(row * TLLM_CSL_WIDE + column) << 16 | (item[i] & 0xffffu);
    }
    for (i = 0; i < n; i += 4 * lanes) {
        lanes = TINYI_MIN((n - i) / 4, 32);
        for (j = 0; j < 4; j++)
            for (lane = 0; lane < lanes; lane++) {
                unsigned b, best = 0;
                for (b = 1; b < TINYI_CSL_BANKS; b++)
                    if (had[b] - gone[b] > had[best] - gone[best]) best = b;
                item[i + 4 * lane + j] = bank[best * (TINYI_CSL_MOST / TINYI_CSL_BANKS) + gone[best]++];
            }
    }
}

/* The same items woven; room: as many. */
static void tinyi_csl_weave(uint32_t *item, size_t n, uint32_t *room)
{
    uint32_t *to = item;
    size_t first[TLLM_CSL_WIDE], left[TLLM_CSL_WIDE], i, j, fours;
    memcpy(room, item, n * sizeof *room);
    for (j = 0; j < TLLM_CSL_WIDE; j++) left[j] = 0;
    for (i = n; i-- > 0;) {
        first[room[i] >> 22] = i;
        left[room[i] >> 22]++;
    }
    /* neighbours are in different rows, so that no sum waits for the one before */
    for (i = 0; i < TLLM_CSL_WIDE; i += 4)
        for (j = 0; j < TLLM_CSL_WIDE; j++) {
            if (left[j] < 4) continue;
            memcpy(to, room + first[j], 4 * sizeof *to);
            left[j] -= 4;
            first[j] += 4;
            to += 4;
        }
    fours = (size_t)(to - item) / 4;
    for (i = 0; i < 3; i++)
        for (j = 0; j < TLLM_CSL_WIDE; j++)
            if (i < left[j]) *to++ = room[first[j] + i];
    for (i = 0; n && i < 3; i++) item[i] |= (uint32_t)(fours >> 4 * i & 15u) << 28;
}

static void tinyi_csl_team(tiny_team *team, void *arg)
{
    const tinyi_csl_job *j = (const tinyi_csl_job *)arg;
    uint32_t *bank = (uint32_t *)team->own;
    uint16_t *tile = (uint16_t *)(void *)(bank + TINYI_CSL_MOST);
    const size_t places = (size_t)tinyi_csl_high(j->to->profile) * TLLM_CSL_WIDE;
    tiny_idx i, end, t;
    while (tiny_take(team, j->to->down, 1, &i, &end))
        for (; i < end; i++)
            for (t = 0; t < j->to->across; t++) {
                const tiny_idx at = i * j->to->across + t;
                uint32_t *to = j->item ? j->item + 4 * (size_t)j->offset[at] : NULL;
                size_t n;
                tinyi_csl_fill(j, tile, i, t);
                n = tinyi_csl_items(tile, places, to, &j->n_nonzero[i]);
                if (!to) j->offset[at + 1] = (int32_t)(n / 4);
                else if (j->to->profile == TLLM_CSL_PUBLISHED) tinyi_csl_lanes(to, n, bank);
                else if (j->to->profile == TLLM_CSL_WOVEN) tinyi_csl_weave(to, n, bank);
            }
}

/* offsets of counts, in place; 0: they are more than 31 bits can name */
static int tinyi_csl_sum(int32_t *offset, tiny_idx tiles)
{
    int64_t sum = 0;
    tiny_idx t;
    offset[0] = 0;
    for (t = 0; t < tiles; t++) {
        sum += offset[t + 1];
        if (sum > INT32_MAX || (uint64_t)sum > SIZE_MAX / 32) return 0;
        offset[t + 1] = (int32_t)sum;
    }
    offset[tiles + 1] = offset[tiles];
    return 1;
}

static size_t tinyi_csl_offsets(const tllm_csl *a)
{
    return (((size_t)(a->down * a->across) + 2) * sizeof(int32_t) + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1);
}

/* j->to has its sizes; only: no further than its counts */
static tiny_status tinyi_csl_make(tiny_ctx *ctx, const char *call, tinyi_csl_job *j, int only)
{
    const size_t own = TINYI_CSL_MOST * (sizeof(uint32_t) + sizeof(uint16_t));
    tllm_csl *a = j->to;
    const tiny_idx tiles = a->down * a->across;
    int32_t *offset = (int32_t *)tinyi_alloc(ctx, (size_t)tiles + 2, sizeof *offset);
    unsigned char *block = NULL;
    tiny_status st;
    tiny_idx i;
    j->n_nonzero = offset ? (int64_t *)tinyi_alloc(ctx, 2 * (size_t)a->down, sizeof *j->n_nonzero) : NULL;
    if (!j->n_nonzero) {
        tiny_free(ctx, offset);
        return tiny_ctx_status(ctx);
    }
    j->fault = j->n_nonzero + a->down;
    for (i = 0; i < a->down; i++) {
        j->n_nonzero[i] = 0;
        j->fault[i] = -1;
    }
    j->offset = offset;
    j->item = NULL;
    st = tiny_parallel_loose(ctx, 0, 0, own, tinyi_csl_team, j);
    for (i = 0; !st && i < a->down; i++) {
        a->n_nonzero += (uint64_t)j->n_nonzero[i];
        if (j->fault[i] >= 0)
            st = tinyi_fail(ctx, TINY_E_NUMERIC, "%s: the number in row %lld, column %lld is too large for %s", call,
                            (long long)(j->fault[i] / a->k), (long long)(j->fault[i] % a->k), j->bf16 ? "bf16" : "f16");
    }
    if (!st && !tinyi_csl_sum(offset, tiles))
        st = tinyi_fail(ctx, TINY_E_OVERFLOW,
                        "%s: %llu numbers that are not 0 are more than offsets of 31 bits can index", call,
                        (unsigned long long)a->n_nonzero);
    if (!st) a->n_item = 4 * (size_t)offset[tiles];
    if (!st && !only) {
        block = (unsigned char *)tinyi_alloc(ctx, tinyi_csl_offsets(a) + a->n_item * sizeof(uint32_t), 1);
        if (!block) st = tiny_ctx_status(ctx);
    }
    if (block) {
        a->block = block;
        memcpy(block, offset, ((size_t)tiles + 2) * sizeof *offset);
        a->offset = (const int32_t *)(const void *)block;
        j->item = (uint32_t *)(void *)(block + tinyi_csl_offsets(a));
        a->item = j->item;
        st = tiny_parallel_loose(ctx, 0, 0, own, tinyi_csl_team, j);
    }
    tiny_free(ctx, j->n_nonzero);
    tiny_free(ctx, offset);
    return st;
}

static tiny_status tinyi_csl_from(tiny_ctx *ctx, const char *call, const tiny_tensor *w, const tllm_csl_desc *desc,
                                  tllm_csl *out, int only)
{
    tinyi_csl_job j;
    tllm_csl_desc d;
    tiny_status st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if (!w || tiny_tensor_check(w) || w->rank != 2 ||
        (w->dtype != TINY_F32 && w->dtype != TINY_F16 && w->dtype != TINY_BF16))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: a matrix of f32, f16 or bf16 and a result pointer are needed", call);
    if (d.profile < 0 || d.profile >= TLLM_CSL_PROFILES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: there is no profile %d", call, d.profile);
    st = tinyi_csl_tiles(ctx, call, d.profile, (uint64_t)w->dim[0], (uint64_t)w->dim[1], out);
    memset(&j, 0, sizeof j);
    j.w = w;
    j.bf16 = out->bf16 = d.bf16 != 0;
    j.clamp = d.clamp;
    j.to = out;
    return st ? st : tinyi_csl_make(ctx, call, &j, only);
}

TINY_API tiny_status tllm_csl_build(tiny_ctx *ctx, const tiny_tensor *w, const tllm_csl_desc *desc, tllm_csl *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "csl_build: a matrix of f32, f16 or bf16 and a result pointer are needed");
    st = tinyi_csl_from(ctx, "csl_build", w, desc, out, 0);
    if (st) tllm_csl_free(ctx, out);
    return st;
}

TINY_API tiny_status tllm_csl_size(tiny_ctx *ctx, const tiny_tensor *w, const tllm_csl_desc *desc, size_t *n_item,
                                   size_t *bytes)
{
    tllm_csl a;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(&a, 0, sizeof a);
    if (n_item) *n_item = 0;
    if (bytes) *bytes = 0;
    if (!st) st = tinyi_csl_from(ctx, "csl_size", w, desc, &a, 1);
    if (st) return st;
    if (n_item) *n_item = a.n_item;
    if (bytes) *bytes = tllm_csl_bytes(&a);
    return TINY_OK;
}

TINY_API tiny_status tllm_csl_convert(tiny_ctx *ctx, const tllm_csl *a, int profile, tllm_csl *out)
{
    tinyi_csl_job j;
    tllm_csl to;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(&to, 0, sizeof to);
    if (out && out != a) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out || out == a)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "csl_convert: a result pointer other than the matrix itself is needed");
    st = tinyi_csl_check(ctx, "csl_convert", a);
    if (st) return st;
    if (profile < 0 || profile >= TLLM_CSL_PROFILES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "csl_convert: there is no profile %d", profile);
    st = tinyi_csl_tiles(ctx, "csl_convert", profile, (uint64_t)a->n_out, (uint64_t)a->k, &to);
    memset(&j, 0, sizeof j);
    j.from = a;
    j.bf16 = to.bf16 = a->bf16;
    j.to = &to;
    if (!st) st = tinyi_csl_make(ctx, "csl_convert", &j, 0);
    if (st) tllm_csl_free(ctx, &to);
    else *out = to;
    return st;
}

/* ---- back to numbers -------------------------------------------------------------------------------------------- */

typedef struct tinyi_csl_out { const tllm_csl *a; const tiny_tensor *y; } tinyi_csl_out;
static void tinyi_csl_out_team(tiny_team *team, void *arg)
{
    const tinyi_csl_out *o = (const tinyi_csl_out *)arg;
    const tllm_csl *a = o->a;
    const tiny_idx high = tinyi_csl_high(a->profile);
    tiny_idx i, end, t, r, c;
    while (tiny_take(team, a->down, 1, &i, &end))
        for (; i < end; i++) {
            float *y = (float *)o->y->data + i * high * o->y->stride[0];
            for (r = 0; r < high && i * high + r < a->n_out; r++)
                for (c = 0; c < a->k; c++) y[r * o->y->stride[0] + c * o->y->stride[1]] = 0.0f;
            for (t = 0; t < a->across; t++) {
                const int32_t *s = a->offset + i * a->across + t;
                size_t q;
                for (q = 4 * (size_t)s[0]; q < 4 * (size_t)s[1]; q++) {
                    const unsigned at = tinyi_csl_place(a->profile, a->item[q]), row = at / TLLM_CSL_WIDE;
                    c = t * TLLM_CSL_WIDE + (tiny_idx)tinyi_csl_turned(a->profile, row, at % TLLM_CSL_WIDE);
                    if (a->item[q] & 0x7fffu)
                        y[(tiny_idx)row * o->y->stride[0] + c * o->y->stride[1]] =
                            tinyi_flash_value(a->bf16, a->item[q]);
                }
            }
        }
}

TINY_API tiny_status tllm_csl_decode(tiny_ctx *ctx, const tllm_csl *a, const tiny_tensor *y)
{
    tinyi_csl_out o;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_csl_check(ctx, "csl_decode", a);
    if (st) return st;
    if (!y || tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 2 || y->dim[0] != a->n_out ||
        y->dim[1] != a->k)
        return tinyi_fail(ctx, TINY_E_SHAPE, "csl_decode: y must be %td by %td numbers of f32", a->n_out, a->k);
    o.a = a;
    o.y = y;
    return tiny_parallel_loose(ctx, 0, 0, 0, tinyi_csl_out_team, &o);
}

/* ---- as bytes --------------------------------------------------------------------------------------------------- */

TINY_API tiny_status tllm_csl_pack(tiny_ctx *ctx, const tllm_csl *a, void **bytes, size_t *n)
{
    tinyi_writer w;
    unsigned char *box;
    size_t i;
    tiny_idx t;
    tiny_status st = tinyi_ctx_check(ctx);
    if (bytes) *bytes = NULL;
    if (n) *n = 0;
    if (!st) st = tinyi_csl_check(ctx, "csl_pack", a);
    if (st) return st;
    if (!bytes || !n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "csl_pack: two result pointers are needed");
    box = (unsigned char *)tinyi_alloc(ctx, TINYI_BOX_BYTES(TINYI_CSL_HEAD + tllm_csl_bytes(a)), 1);
    if (!box) return tiny_ctx_status(ctx);
    w.at = box + TINYI_BOX_FRONT;
    w.n = 0;
    tinyi_wr(&w,
             (a->profile == TLLM_CSL_PUBLISHED ? 1u
              : a->profile == TLLM_CSL_WOVEN   ? 4u
                                               : 0u) |
                 (a->bf16 ? 2u : 0u),
             4);
    tinyi_wr(&w, (uint64_t)a->n_out, 8);
    tinyi_wr(&w, (uint64_t)a->k, 8);
    tinyi_wr(&w, a->n_nonzero, 8);
    tinyi_wr(&w, a->n_item, 8);
    for (t = 0; t < a->down * a->across + 2; t++) tinyi_wr(&w, (uint32_t)a->offset[t], 4);
    for (i = 0; i < a->n_item; i++) tinyi_wr(&w, a->item[i], 4);
    tinyi_box_seal(&tinyi_csl_box, box, w.n);
    *bytes = box;
    *n = TINYI_BOX_BYTES(w.n);
    return TINY_OK;
}

static tiny_status tinyi_csl_read(tiny_ctx *ctx, const char *where, const void *bytes, size_t n, tllm_csl *out)
{
    tinyi_cursor c;
    uint32_t flags = 0, v = 0;
    uint64_t n_out = 0, k = 0, n_nonzero = 0, n_item = 0, tiles;
    int32_t *offset;
    uint32_t *item;
    tllm_csl a;
    size_t i;
    int old;
    tiny_status st = tinyi_box_body(ctx, where, &tinyi_csl_box, bytes, n, 0, &c, &old);
    if (st) return st;
    (void)(tinyi_rd_u32(&c, &flags) && tinyi_rd_u64(&c, &n_out) && tinyi_rd_u64(&c, &k) &&
           tinyi_rd_u64(&c, &n_nonzero) && tinyi_rd_u64(&c, &n_item));
    if (flags > 7 || (flags & 5) == 5)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: flags %u; the limit is 7, and 1 and 4 exclude each other", where,
                          (unsigned)flags);
    memset(&a, 0, sizeof a);
    st = tinyi_csl_tiles(ctx, where,
                         flags & 1   ? TLLM_CSL_PUBLISHED
                         : flags & 4 ? TLLM_CSL_WOVEN
                                     : TLLM_CSL_ORDERED,
                         n_out, k, &a);
    if (st) return st;
    tiles = (uint64_t)(a.down * a.across);
    /* no sum wraps: each is below 2^34 */
    if (n_item % 4 || n_item / 4 > INT32_MAX || n_nonzero > n_item || c.left % 4 || c.left / 4 != tiles + 2 + n_item)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: %llu tiles with %llu items, %llu of them values, are not the %zu bytes that follow",
                          where, (unsigned long long)tiles, (unsigned long long)n_item, (unsigned long long)n_nonzero,
                          c.left);
    a.bf16 = flags >> 1 & 1;
    a.n_nonzero = n_nonzero;
    a.n_item = (size_t)n_item;
    a.block = tinyi_alloc(ctx, tinyi_csl_offsets(&a) + a.n_item * sizeof(uint32_t), 1);
    if (!a.block) return tiny_ctx_status(ctx);
    offset = (int32_t *)a.block;
    item = (uint32_t *)(void *)((unsigned char *)a.block + tinyi_csl_offsets(&a));
    for (i = 0; i < (size_t)tiles + 2; i++) {
        (void)tinyi_rd_u32(&c, &v);
        offset[i] = v > INT32_MAX ? -1 : (int32_t)v;
    }
    for (i = 0; i < a.n_item; i++) (void)tinyi_rd_u32(&c, &item[i]);
    a.offset = offset;
    a.item = item;
    st = tinyi_csl_check(ctx, where, &a);
    if (st) tllm_csl_free(ctx, &a);
    else *out = a;
    return st;
}

TINY_API tiny_status tllm_csl_open(tiny_ctx *ctx, const void *bytes, size_t n, tllm_csl *out)
{
    const tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "csl_open: the result pointer is NULL");
    return tinyi_csl_read(ctx, "csl_open", bytes, n, out);
}

TINY_API tiny_status tllm_csl_save(tiny_ctx *ctx, const tllm_csl *a, const char *path)
{
    void *bytes;
    size_t n;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "csl_save: a path is needed");
    st = tllm_csl_pack(ctx, a, &bytes, &n);
    if (st) return st;
    st = tiny_file_write(ctx, path, bytes, n);
    tiny_free(ctx, bytes);
    return st;
}

TINY_API tiny_status tllm_csl_load(tiny_ctx *ctx, const char *path, tllm_csl *out)
{
    tiny_file f;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!path || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "csl_load: a path and a result pointer are needed");
    st = tiny_file_open(ctx, path, &f);     /* all of it is copied, and what was copied is checked */
    if (!st) st = tinyi_csl_read(ctx, path, f.bytes, f.n_bytes, out);
    tiny_file_close(ctx, &f);
    return st;
}
