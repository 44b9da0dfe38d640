/* src/math/normal.c - the normal numbers of core/rng.h, with the log, sin and cos of this library
 *
 * Formula  z = sqrt(-2 ln u) cos(2 pi v), u in (0, 1], v in [0, 1), in double, rounded once */
#include "core/rng.h"
#include "math/elem.h"

TINY_REF_BEGIN
TINY_API float tiny_rng_normal(tiny_rng *r)
{
    double u = ((double)tiny_rng_u32(r) + 1.0) * (1.0 / 4294967296.0);
    double v = (double)tiny_rng_u32(r) * (1.0 / 4294967296.0);
    return (float)(tinyi_sqrt64(-2.0 * tinyi_log64(u)) * tinyi_cos64(6.283185307179586 * v));
}
TINY_REF_END

TINY_API void tiny_rng_fill_normal(tiny_rng *r, float *x, size_t n)
{
    size_t i;
    for (i = 0; r && x && i < n; i++) x[i] = tiny_rng_normal(r);
}
