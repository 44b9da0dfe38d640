/* src/gnn/layer/net_file.h - what net.c and net_file.c say to each other */
#ifndef TINYI_GNN_NET_FILE_H
#define TINYI_GNN_NET_FILE_H
#include "gnn/layer/net.h"
TINYI_C_BEGIN

#define TINYI_NET_MAX_JSON ((size_t)1 << 20)

/* The description into a net that is all zero: stages with every width, no weights. */
TINYI_FN tiny_status tinyi_net_describe(tiny_ctx *ctx, const char *path, const void *json, size_t n_json, tgnn_net *net);
TINYI_FN const char *tinyi_net_act_name(int act);
TINYI_FN const char *tinyi_net_aggr_name(int aggr);

TINYI_C_END
#endif
