/* src/math/hadamard.c - Hadamard matrices whose order is not a power of two: see math/hadamard_inside.h */
#include "math/hadamard_inside.h"
#include <string.h>

static int tinyi_had_prime(size_t q)
{
    size_t d;
    for (d = 2; d * d <= q; d++)
        if (q % d == 0) return 0;
    return q > 1;
}

static int tinyi_had_kind(size_t r)
{
    if (tinyi_had_prime(r - 1)) return 1;   /* r is a multiple of four: r - 1 is 3 mod 4 */
    if (r % 8 == 4 && tinyi_had_prime(r / 2 - 1)) return 2;
    return r == 172 ? 4 : 0;
}

TINYI_FN int tinyi_had_of(tinyi_had *h, size_t n)
{
    /* of order 172: signs at the powers 0 to 6 of 3, which stand for all; at 0 a plus. Found by trying all with this
     * symmetry. */
    static const signed char four[4][7] = {
        { 1, 1, -1, -1, -1, 1, 1 }, { 1, -1, -1, 1, -1, -1, 1 }, { 1, 1, -1, 1, 1, -1, -1 }, { -1, 1, 1, 1, -1, -1, 1 }
    };
    size_t odd = n, r, x, k;
    if (!n) return 0;
    while (odd % 2 == 0) odd /= 2;
    h->r = h->q = 1;
    h->kind = 0;
    if (odd == 1) return 1;
    if (odd > TINYI_HAD_MOST / 4) return 0;
    for (r = 4 * odd; r <= TINYI_HAD_MOST && n % r == 0 && !h->kind; r *= 2) {
        h->r = r;
        h->kind = tinyi_had_kind(r);
    }
    if (!h->kind) return 0;
    h->q = h->kind == 4 ? 43 : h->r / (size_t)h->kind - 1;
    if (h->kind == 4) {
        for (k = 0; k < 4; k++) {
            size_t power = 1, e;
            h->sign[86 * k] = 1.0f;
            for (e = 0; e < 42; e++, power = power * 3 % 43) h->sign[86 * k + power] = (float)four[k][e % 7];
            memcpy(h->sign + 86 * k + 43, h->sign + 86 * k, 43 * sizeof *h->sign);
        }
        return 1;
    }
    h->sign[0] = 0.0f;
    for (x = 1; x < h->q; x++) h->sign[x] = -1.0f;
    for (x = 1; x < h->q; x++) h->sign[x * x % h->q] = 1.0f;
    memcpy(h->sign + h->q, h->sign, h->q * sizeof *h->sign);
    return 1;
}

/* row i of (0 1; e Q) times by, where Q times e is its transpose; its diagonal is diagonal */
static void tinyi_had_conference(const tinyi_had *h, size_t i, float edge, float by, float diagonal, float *row)
{
    size_t j;
    row[0] = i ? by * edge : diagonal;
    for (j = 0; j < h->q; j++) row[j + 1] = i ? by * h->sign[h->q - (i - 1) + j] : by;
    if (i) row[i] = diagonal;
}

TINYI_FN void tinyi_had_row(const tinyi_had *h, int transposed, size_t i, float *row)
{
    static const signed char sign[4][4] = { { 1, 1, 1, 1 }, { -1, 1, -1, 1 }, { -1, 1, 1, -1 }, { -1, -1, 1, 1 } };
    const size_t half = h->r / 2, a = i / h->q;
    size_t b, j;
    switch (h->kind) {
    case 1:                                 /* the transpose is the same with all but the diagonal turned round */
        tinyi_had_conference(h, i, -1.0f, transposed ? -1.0f : 1.0f, 1.0f, row);
        break;
    case 2:
        tinyi_had_conference(h, i % half, 1.0f, 1.0f, i < half ? 1.0f : -1.0f, row);
        tinyi_had_conference(h, i % half, 1.0f, i < half ? 1.0f : -1.0f, -1.0f, row + half);
        break;
    case 4:
        for (b = 0; b < 4; b++)
            for (j = 0; j < 43; j++)
                row[43 * b + j] =
                    (float)(transposed ? sign[b][a] : sign[a][b]) * h->sign[86 * (a ^ b) + 43 - i % 43 + j];
        break;
    default: row[0] = 1.0f;
    }
}
