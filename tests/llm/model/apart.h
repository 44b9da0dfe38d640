/* tests/llm/model/apart.h - how far results are from those of another model */
#ifndef T_APART_H
#define T_APART_H
#include "t.h"
#include <math.h>

/* |a - b| over |a| */
T_FN double apart(const float *a, const float *b, size_t n)
{
    double off = 0, size = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)a[i] * (double)a[i];
    }
    return sqrt(off / size);
}

#endif
