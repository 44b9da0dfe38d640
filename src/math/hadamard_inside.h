/* src/math/hadamard_inside.h - Hadamard matrices whose order is no power of two, row by row
 *
 * Papers   R. Paley, "On orthogonal matrices", J. Math. Phys. 12, 1933; J. Williamson, "Hadamard's determinant theorem
 *          and the sum of four squares", Duke Math. J. 11, 1944
 * Formula  chi(x) = 1 for squares modulo the prime q, -1 for the others, 0 for 0; Q[i][j] = chi(j - i);
 *          q = 3 mod 4: H = (1 1; -1 I + Q), order q + 1;   q = 1 mod 4, C = (0 1; 1 Q): H = (C + I, C - I; C - I, -C -
 *                                                           I), order 2 (q + 1);
 *          order 172: (A B C D; -B A -D C; -C D A -B; -D -C B A) of circulants of 43 that are the same at x, 6 x, 7 x
 *          and their negatives
 * Data     the signs of a circulant stand twice in a row, so that each of its rows is a piece of them */
#ifndef TINYI_HADAMARD_H
#define TINYI_HADAMARD_H
#include "core/op.h"

#define TINYI_HAD_MOST 256

typedef struct tinyi_had {
    size_t r, q;                            /* order, 1: (1); q: of a circulant */
    int kind;                               /* 1 and 2 as above, 4: order 172, 0: (1) */
    float sign[2 * TINYI_HAD_MOST];         /* of one circulant, or four */
} tinyi_had;

/* What stands before the power of two in n: its order in h->r; 0: there is no such matrix here, or n is 0. */
TINYI_FN int tinyi_had_of(tinyi_had *h, size_t n);
/* row i of the matrix, or of its transpose: r signs */
TINYI_FN void tinyi_had_row(const tinyi_had *h, int transposed, size_t i, float *row);
#endif
