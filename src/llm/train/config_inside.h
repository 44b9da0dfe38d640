/* src/llm/train/config_inside.h - inside the trainer: the keys of a run's description, their defaults and limits */
#ifndef TINYI_TRAIN_CONFIG_H
#define TINYI_TRAIN_CONFIG_H
#include "llm/train/trainer.h"
TINYI_C_BEGIN

enum { TINYI_TK_INT, TINYI_TK_REAL, TINYI_TK_SEED, TINYI_TK_OPTIMIZER, TINYI_TK_FORM };
typedef struct tinyi_train_key { const char *name; int kind; size_t at; double least, most; } tinyi_train_key;

TINYI_FN const tinyi_train_key *tinyi_train_key_at(size_t i);                       /* NULL past the last */
TINYI_FN double tinyi_train_get(const tllm_train_desc *d, const tinyi_train_key *k);        /* not of a seed */
TINYI_FN void tinyi_train_defaults(tllm_train_desc *d);                             /* in place of zeros */
TINYI_FN tiny_status tinyi_train_check(tiny_ctx *ctx, const tllm_train_desc *d);    /* with the defaults written in */

TINYI_C_END
#endif
