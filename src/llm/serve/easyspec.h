/* src/llm/serve/easyspec.h - the layers of a draft side by side: fuzzy speculation
 *
 * Paper  Y. Wu et al., "EasySpec: Layer-Parallel Speculative Decoding for Efficient Multi-GPU Utilization", NeurIPS
 *        2025 (arXiv 2502.02493).
 *
 *   tllm_easyspec_desc e = { 0 };
 *   e.n = 2;                                        groups of two layers
 *   tllm_easyspec_open(small, &e, &fuzzy);          small: the session of a draft
 *   d.model = small;                                d: a tllm_draft_desc, for a chain or a tree
 *   tllm_draft_open(session, &d, &draft); ...       the text is exact all the same
 *   tllm_draft_close(draft);
 *   tllm_easyspec_close(fuzzy);
 *
 * The draft's proposals need not be those of its exact layers, because the model checks them anyway. So the attention
 * sub-layers of a group of n layers all read the input h of the group, and are computed at the same time:
 *
 *   A_j = attention_j(norm_j h) for all layers j of the group;  then in order:  h = h + A_j;  h = h + network_j(norm h)
 *
 * The first and the last layer stay exact, and so does the order of the networks. n = 1 is the model itself, bit for
 * bit. Before a draft proposes, what it computed in that order is dropped from its cache, and it reads the kept tokens
 * in the order of its layers ("bonus calibration"). Without tllm_draft_desc.always, drafts time both orders and propose
 * in the faster one.
 *
 * The sub-layers run on the threads of the session's context, one sub-layer on one thread. With `net` they run on
 * several ranks. Every rank opens the model of the draft and calls tllm_easyspec_open; rank 0 then drafts as above, and
 * all others call tllm_easyspec_follow. A rank computes the sub-layers j with j mod world = rank, and gets the others
 * by one all-gather for each group. Ranks must compute alike: the same file, and processors of one kind. */
#ifndef TINYI_EASYSPEC_H
#define TINYI_EASYSPEC_H
#include "core/collective.h"
#include "llm/session/session.h"
TINYI_C_BEGIN

#define TLLM_EASYSPEC_GROUP 32              /* the most layers of a group */

typedef enum tllm_easyspec_mode {
    TLLM_EASYSPEC_REPEAT,                   /* every rank computes all networks */
    /* a rank computes its share of the columns of each network, and the shares are added: one more sum for each layer.
     * The model must have networks that tllm_model_cut can cut */
    TLLM_EASYSPEC_SPLIT
} tllm_easyspec_mode;

typedef struct tllm_easyspec_desc {         /* all zero: groups of 4, on threads */
    int n;                                  /* layers of a group; 0: 4; 1: the order of the model */
    int mode;                               /* of the networks: tllm_easyspec_mode */
    int no_calibration;                     /* for experiments: fuzzy keys and values stay in the draft's cache */
    tiny_net *net;                          /* the transport of this rank; NULL: threads */
    uint64_t timeout_ns;                    /* of a wait for another rank; 0: 60 s */
} tllm_easyspec_desc;

typedef struct tllm_easyspec_counts {
    uint64_t exact, fuzzy, groups;          /* passes in either order; groups of the fuzzy ones */
    uint64_t gathers, sums, commands;       /* messages of ranks, as collective calls */
    uint64_t clock;                         /* nanoseconds of this rank on a virtual clock */
} tllm_easyspec_counts;

typedef struct tllm_easyspec tllm_easyspec;
/* TINY_E_UNSUPPORTED: layers that are not a norm, attention, a norm and a network, each added to the stream. With net,
 * only sequence 0 of the session can be computed, so drafts are chains. On failure *out is NULL. */
TINY_API tiny_status tllm_easyspec_open(tllm_session *s, const tllm_easyspec_desc *desc, tllm_easyspec **out);
/* Rank 0 tells the others to end. The session computes as before. Call it after tllm_draft_close and before
 * tllm_session_close. Takes NULL. */
TINY_API void tllm_easyspec_close(tllm_easyspec *e);
/* Ranks above 0: computes what rank 0 does, until it closes. */
TINY_API tiny_status tllm_easyspec_follow(tllm_easyspec *e);
/* nonzero: passes of the session take the fuzzy order until the next call. Drafts do this by themselves. */
TINY_API tiny_status tllm_easyspec_fuzzy(tllm_easyspec *e, int on);
TINY_API void tllm_easyspec_count(const tllm_easyspec *e, tllm_easyspec_counts *out);

/* Time of a draft's step if a layer takes ta for attention and tm for its network: exact for n = 1, else ends + sum
 * over groups of (ta + layers tm). */
TINY_API double tllm_easyspec_path(int n_layer, int n, double ta, double tm);

TINYI_C_END
#endif
