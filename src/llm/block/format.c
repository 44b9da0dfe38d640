/* src/llm/block/format.c - the table of block formats and its look-ups */
#include "llm/block/format.h"
#include "llm/block/direct_inside.h"
#include "llm/block/kformats_inside.h"
#include "llm/block/lattice_inside.h"

#define TINYI_FORMAT_PACK_0(name, values) NULL
#ifdef TINYI_NO_PACK
#define TINYI_FORMAT_PACK_1(name, values) \
    (values > 32 ? NULL : tinyi_pack_##name) /* caches are packed, models are not */
#else
#define TINYI_FORMAT_PACK_1(name, values) tinyi_pack_##name
#endif
#define TINYI_FORMAT_ROW(name, id, values, bytes, dot, packs, flags) \
    { #name, id, values, bytes, dot, flags, tinyi_unpack_##name, TINYI_FORMAT_PACK_##packs(name, values) },
#ifdef TINYLLM_FEW_FORMATS
#define TINYI_FORMAT_MORE(name, id, values, bytes, dot, packs, flags)
#else
#define TINYI_FORMAT_MORE(name, id, values, bytes, dot, packs, flags) \
    TINYI_FORMAT_ROW(name, id, values, bytes, dot, packs, flags)
#endif
static const tllm_format tinyi_format_rows[] = { TINYI_FORMATS_OF(TINYI_FORMAT_ROW, TINYI_FORMAT_MORE) };
#undef TINYI_FORMAT_ROW
#undef TINYI_FORMAT_MORE
#undef TINYI_FORMAT_PACK_0
#undef TINYI_FORMAT_PACK_1

TINY_API const tllm_format *tllm_format_at(size_t i)
{
    return i < TINYI_COUNT(tinyi_format_rows) ? &tinyi_format_rows[i] : NULL;
}

TINY_API const tllm_format *tllm_format_of(int id)
{
    size_t i;
    for (i = 0; i < TINYI_COUNT(tinyi_format_rows); i++)
        if (tinyi_format_rows[i].id == id) return &tinyi_format_rows[i];
    return NULL;
}

static int tinyi_format_upper(char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; }

TINY_API const tllm_format *tllm_format_by_name(const char *name)
{
    size_t i, k;
    if (!name) return NULL;
    for (i = 0; i < TINYI_COUNT(tinyi_format_rows); i++) {
        const char *s = tinyi_format_rows[i].name;
        for (k = 0; s[k] && tinyi_format_upper(name[k]) == s[k]; k++) { }
        if (!s[k] && !name[k]) return &tinyi_format_rows[i];
    }
    return NULL;
}

TINY_API size_t tllm_format_bytes(const tllm_format *f, uint64_t n_values)
{
    uint64_t blocks;
    if (!f || !f->values || !f->bytes || n_values % (unsigned)f->values) return 0;
    blocks = n_values / (unsigned)f->values;
    return blocks > (uint64_t)PTRDIFF_MAX / (unsigned)f->bytes ? 0 : (size_t)(blocks * (unsigned)f->bytes);
}
