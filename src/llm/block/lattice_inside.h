/* src/llm/block/lattice_inside.h - super-blocks of 256 values from code books: 8 or 4 values are one entry */
#ifndef TINYI_LATTICE_H
#define TINYI_LATTICE_H
#include "llm/block/blocks_inside.h"
TINYI_C_BEGIN

TINYI_Q_DECLARE(IQ1_S) TINYI_Q_DECLARE(IQ1_M) TINYI_Q_DECLARE(IQ2_XXS) TINYI_Q_DECLARE(IQ2_XS) TINYI_Q_DECLARE(IQ2_S)
TINYI_Q_DECLARE(IQ3_XXS) TINYI_Q_DECLARE(IQ3_S)

/* A block taken apart for products: number i is d k[i / 16] code[i], less than 0 where bit i % 8 of sign[i / 8] is set.
 * Codes are bytes with a sign of their own (IQ1) or magnitudes up to 62. */
typedef struct tinyi_book {
    unsigned char code[256], sign[32], k[16];
    float d;
} tinyi_book;
/* All entries of a code book one after the other: 4 magnitudes each for IQ3, 8 for the others; eight times -1, 0, 1 for
 * IQ1. For kernels that look them up as a whole. */
#define TINYI_BOOK_TABLE (2048 * 8)         /* bytes, at most */
#ifndef TINYLLM_FEW_FORMATS
TINYI_FN void tinyi_book_table(unsigned char *to, int blk);
#endif
/* the same of a block with such a table; codes have their signs, `sign` is not used */
typedef void (*tinyi_book_open)(tinyi_book *to, const unsigned char *b, const unsigned char *table);
typedef void (*tinyi_book_get)(tinyi_book *to, const unsigned char *b);
TINYI_FN void tinyi_book_IQ1_S(tinyi_book *to, const unsigned char *b);
TINYI_FN void tinyi_book_IQ1_M(tinyi_book *to, const unsigned char *b);
TINYI_FN void tinyi_book_IQ2_XXS(tinyi_book *to, const unsigned char *b);
TINYI_FN void tinyi_book_IQ2_XS(tinyi_book *to, const unsigned char *b);
TINYI_FN void tinyi_book_IQ2_S(tinyi_book *to, const unsigned char *b);
TINYI_FN void tinyi_book_IQ3_XXS(tinyi_book *to, const unsigned char *b);
TINYI_FN void tinyi_book_IQ3_S(tinyi_book *to, const unsigned char *b);

TINYI_C_END
#endif
