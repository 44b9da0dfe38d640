/* src/llm/dist/narrow.h - activations in 16 or 8 bits on the wire
 *
 *   tllm_narrow_desc d = { 0 };
 *   d.inner = tiny_tcp_net(tcp);
 *   d.format = TLLM_FORMAT_F16; d.n_most = n_batch * n_embd;                      the same on all ranks
 *   tllm_narrow_open(ctx, &d, &narrow);
 *   comm_desc.net = tllm_narrow_net(narrow);
 *   ... tiny_comm_close(comm), then tllm_narrow_close(ctx, narrow) ...
 *
 * A transport around another one, for the sums of a model that is cut over ranks. It sends the numbers of sums with
 * tags below 128, those of layers, as F16 (half of the bytes) or Q8_0 (blocks of 32 with one scale: 34 bytes in place
 * of 128). Commands, agreements and everything else with a tag of 128 or more travel unchanged.
 *
 * The sender goes on with the rounded numbers, as its receivers do, so all ranks have the same bits. Between more than
 * two ranks this holds for sums through rank 0 only, so the net is a star: ranks other than 0 cannot send to each
 * other. Only tiny_comm may use it, not tiny_coll_*: the bytes of messages are taken for floats.
 * A number that is not finite after it was rounded (F16: from 65520 on, Q8_0: above 8.3 million) ends the group. */
#ifndef TINYI_NARROW_H
#define TINYI_NARROW_H
#include "core/net.h"
TINYI_C_BEGIN

typedef struct tllm_narrow_desc {
    tiny_net *inner;                        /* stays the caller's */
    int format;                             /* TLLM_FORMAT_F32: unchanged; F16; Q8_0 */
    size_t n_most;                          /* numbers of the longest sum that is narrowed; 0: 65536 */
} tllm_narrow_desc;

typedef struct tllm_narrow tllm_narrow;
TINY_API tiny_status tllm_narrow_open(tiny_ctx *ctx, const tllm_narrow_desc *desc, tllm_narrow **out);
TINY_API tiny_net *tllm_narrow_net(tllm_narrow *narrow);
TINY_API void tllm_narrow_close(tiny_ctx *ctx, tllm_narrow *narrow);       /* after the comm. Takes NULL */
/* bytes of n numbers on the wire; 0: an unknown format */
TINY_API size_t tllm_narrow_bytes(int format, size_t n);

TINYI_C_END
#endif
