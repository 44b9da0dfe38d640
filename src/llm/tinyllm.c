/* src/llm/tinyllm.c - for the stitched form, the bodies of src/llm that have no header of their own */
#include "llm/tinyllm.h"
