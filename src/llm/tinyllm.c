/* src/llm/tinyllm.c - for the stitched form, the bodies of src/llm that have no header of their own */
#include "llm/tinyllm.h"
#ifdef TINYI_STITCHED
#include "llm/token/spm.c"
#include "llm/token/bpe.c"
#include "llm/token/wordpiece.c"
#include "llm/token/unigram.c"
#include "llm/token/rwkv.c"
#endif
