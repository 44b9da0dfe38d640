/* src/math/all.c - the .c files that have no header of their own, for the stitched header; an x.c next to an x.h is
 * stitched in by itself */
#include "math/all.h"
#ifdef TINYI_STITCHED
#include "core/doc/value_text.c"
#include "math/edges_grad.c"
#include "math/normal.c"
#include "math/targets.c"
#endif
