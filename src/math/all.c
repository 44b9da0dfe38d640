/* src/math/all.c - for the stitched form, the bodies that have no header of their own: x.c beside an x.h joins by
 * itself */
#include "math/all.h"
#ifdef TINYI_STITCHED
#include "core/doc/value_text.c"
#include "math/edges_grad.c"
#include "math/normal.c"
#include "math/targets.c"
#endif
