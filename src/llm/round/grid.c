/* src/llm/round/grid.c - block formats as grids
 * Data     Q8_0: codes -127 .. 127; Q4_0, Q5_0: from -8, -16 on under a scale with a sign; Q4_1, Q5_1: from 0 on, m the
 *          minimum; Q2_K, Q4_K, Q5_K: from 0 on, s = D k, m = -M k'; Q3_K, Q6_K: from -4, -32 on, s = D k
 * Left out IQ4_NL and IQ4_XS, whose steps are unequal, and the formats with code books, whose vectors span several
 *          columns */
#include "llm/round/grid_inside.h"
#include "llm/block/blocks_inside.h"

TINYI_FN int tinyi_grid_of(int format, tinyi_grid *g)
{
    static const short row[][4] = { { TLLM_FORMAT_Q8_0, 32, -127, 127 }, { TLLM_FORMAT_Q4_0, 32, -8, 7 },
#ifndef TINYLLM_FEW_FORMATS
                                    { TLLM_FORMAT_Q4_1, 32, 0, 15 },     { TLLM_FORMAT_Q5_0, 32, -16, 15 },
                                    { TLLM_FORMAT_Q5_1, 32, 0, 31 },     { TLLM_FORMAT_Q2_K, 16, 0, 3 },
                                    { TLLM_FORMAT_Q3_K, 16, -4, 3 },     { TLLM_FORMAT_Q5_K, 32, 0, 31 },
#endif
                                    { TLLM_FORMAT_Q4_K, 32, 0, 15 },     { TLLM_FORMAT_Q6_K, 16, -32, 31 } };
    size_t i;
    for (i = 0; i < TINYI_COUNT(row); i++)
        if (row[i][0] == format) {
            g->format = tllm_format_of(format);
            g->size = row[i][1];
            g->low = row[i][2];
            g->high = row[i][3];
            return g->format != NULL && g->format->pack != NULL;
        }
    return 0;
}

TINY_REF_BEGIN                              /* products are rounded as unpack rounds them */
TINYI_FN void tinyi_grid_scale(const tinyi_grid *g, const unsigned char *b, int group, float *s, float *m)
{
    int k, low;
    *m = 0.0f;
    switch (g->format->id) {
    case TLLM_FORMAT_Q4_0: case TLLM_FORMAT_Q5_0: case TLLM_FORMAT_Q8_0: *s = tinyi_q_half(b); break;
#ifndef TINYLLM_FEW_FORMATS
    case TLLM_FORMAT_Q4_1: case TLLM_FORMAT_Q5_1:
        *s = tinyi_q_half(b);
        *m = tinyi_q_half(b + 2);
        break;
    case TLLM_FORMAT_Q2_K:
        *s = tinyi_q_half(b + 80) * (float)(b[group] & 15);
        *m = -(tinyi_q_half(b + 82) * (float)(b[group] >> 4));
        break;
    case TLLM_FORMAT_Q3_K: *s = tinyi_q_half(b + 108) * (float)tinyi_q_scale_Q3_K(b, group); break;
#endif
    case TLLM_FORMAT_Q6_K: *s = tinyi_q_half(b + 208) * (float)((b[192 + group] ^ 128) - 128); break;
    default:                                /* Q4_K, Q5_K */
        tinyi_q_scale6(b + 4, group, &k, &low);
        *s = tinyi_q_half(b) * (float)k;
        *m = -(tinyi_q_half(b + 2) * (float)low);
        break;
    }
}
TINY_REF_END

TINYI_FN void tinyi_grid_put(const tinyi_grid *g, unsigned char *b, const unsigned char *code)
{
    signed char value[256];
    int i;
    switch (g->format->id) {
    case TLLM_FORMAT_Q8_0:
        for (i = 0; i < 32; i++) b[2 + i] = (unsigned char)(code[i] - 127);
        break;
    case TLLM_FORMAT_Q4_0: tinyi_q_put45(b, code, 4, 0); break;
#ifndef TINYLLM_FEW_FORMATS
    case TLLM_FORMAT_Q4_1: tinyi_q_put45(b, code, 4, 1); break;
    case TLLM_FORMAT_Q5_0: tinyi_q_put45(b, code, 5, 0); break;
    case TLLM_FORMAT_Q5_1: tinyi_q_put45(b, code, 5, 1); break;
    case TLLM_FORMAT_Q2_K: tinyi_q_put_Q2_K(b, code); break;
    case TLLM_FORMAT_Q3_K:
        for (i = 0; i < 256; i++) value[i] = (signed char)(code[i] - 4);
        tinyi_q_put_Q3_K(b, value);
        break;
    case TLLM_FORMAT_Q5_K: tinyi_q_put45_K(b, code, 5); break;
#endif
    case TLLM_FORMAT_Q6_K:
        for (i = 0; i < 256; i++) value[i] = (signed char)(code[i] - 32);
        tinyi_q_put_Q6_K(b, value);
        break;
    default: tinyi_q_put45_K(b, code, 4); break;
    }
}

