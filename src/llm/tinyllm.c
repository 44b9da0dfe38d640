/* src/llm/tinyllm.c - for the stitched form, the bodies of src/llm that have no header of their own */
#include "llm/tinyllm.h"
#ifdef TINYI_STITCHED
#include "llm/token/spm.c"
#include "llm/token/bpe.c"
#include "llm/token/wordpiece.c"
#include "llm/token/unigram.c"
#include "llm/token/rwkv.c"
#include "llm/model/load.c"
#include "llm/model/step.c"
#include "llm/model/attn.c"
#include "llm/model/mla.c"
#include "llm/model/delta.c"
#include "llm/model/ssm.c"
#include "llm/model/rwkv.c"
#include "llm/model/ffn.c"
#include "llm/model/streams.c"
#include "llm/model/forward.c"
#endif
