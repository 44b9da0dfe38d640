/* src/gnn/layer/net_file_inside.h - what net.c and net_file.c say to each other */
#ifndef TINYI_GNN_NET_FILE_H
#define TINYI_GNN_NET_FILE_H
#include "gnn/layer/net.h"
TINYI_C_BEGIN

#define TINYI_NET_MAX_JSON ((size_t)1 << 20)
#define TINYI_NET_QUANTS 9                  /* net->quant is 1 to this, or 0 */

/* The description into a net that is all zero: stages with every width, no weights. */
TINYI_FN tiny_status tinyi_net_describe(tiny_ctx *ctx, const char *path, const void *json, size_t n_json,
                                        tgnn_net *net);
TINYI_FN const char *tinyi_net_act_name(int act);
TINYI_FN const char *tinyi_net_aggr_name(int aggr);
TINYI_FN const char *tinyi_net_quant_name(int quant);

/* room for a weight; path without its ending, and with another, one block of the context; a text that both have in a
 * name of a tensor */
TINYI_FN tiny_status tinyi_net_weight_room(tiny_ctx *ctx, tgnn_layer *l, int i, const tinyi_net_weight *w);
TINYI_FN char *tinyi_net_path(tiny_ctx *ctx, const char *path, const char *ending);
/* writes the description beside path */
TINYI_FN tiny_status tinyi_net_write_json(tiny_ctx *ctx, const char *path, const tgnn_net *net);
TINYI_FN void tinyi_net_put_f32(unsigned char *to, const float *v);    /* as a file has it, on every machine */

TINYI_C_END
#endif
