/* src/llm/dist/subnet_inside.h - some ranks of a net as a net of their own
 *
 *   tinyi_subnet s;
 *   tinyi_subnet_make(ctx, &s, net, member, n, 3);       member: ranks of net, ascending or not; this one among them
 *   coll.net = &s.net;                                   tiny_coll_* between these ranks only
 *
 * Rank i of the subnet is member[i]. All its members make the same calls on it. Messages of two subnets between the
 * same two ranks travel over one connection, in the order of the calls; the number of the subnet is part of their tags,
 * so that ranks that disagree about the order get TINY_E_PROTOCOL. A failure ends the whole net; `gone` counts the
 * ranks of the subnet, and is 0 for a rank outside. */
#ifndef TINYI_SUBNET_H
#define TINYI_SUBNET_H
#include "core/net.h"
TINYI_C_BEGIN

typedef struct tinyi_subnet {
    tiny_net net;
    tiny_net *of;
    uint64_t number;                        /* below 128, the same on all members */
    int member[TINY_NET_RANKS];
    tiny_net_count count[TINY_NET_RANKS];   /* traffic of this subnet alone */
} tinyi_subnet;

TINYI_FN tiny_status tinyi_subnet_make(tiny_ctx *ctx, tinyi_subnet *s, tiny_net *of, const int *member, int n,
                                       unsigned number);
/* Bytes that this rank has received in the subnet. */
TINYI_FN uint64_t tinyi_subnet_received(const tinyi_subnet *s);

TINYI_C_END
#endif
