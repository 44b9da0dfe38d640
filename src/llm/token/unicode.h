/* src/llm/token/unicode.h - classes, lower case and base letters of code points, and UTF-8 as tokenizers read it
 *
 * unicode.py generates the tables in unicode.c.
 * UTF-8 is read as common tokenizers read it, which is laxer than the standard. Overlong forms and surrogates are read
 * as the number that their bits encode. Each byte that belongs to no character becomes one U+FFFD. */
#ifndef TINYI_UNICODE_H
#define TINYI_UNICODE_H
#include "core/bytes.h"
TINYI_C_BEGIN

/* The version of the Unicode tables, such as "15.1.0". */
TINY_API const char *tllm_unicode_version(void);

/* ---- inside: what the bodies share ---- */

/* classes; white space has TINYI_UC_SPACE added to its class */
enum {
    TINYI_UC_OTHER,
    TINYI_UC_L,
    TINYI_UC_N,
    TINYI_UC_P,
    TINYI_UC_S,
    TINYI_UC_M,
    TINYI_UC_Z,
    TINYI_UC_C,
    TINYI_UC_SPACE
};

TINYI_FN unsigned tinyi_unicode_class(uint32_t c);
TINYI_FN uint32_t tinyi_unicode_lower(uint32_t c);
/* first code point of the canonical decomposition: the letter without its accents */
TINYI_FN uint32_t tinyi_unicode_base(uint32_t c);

/* the number of bytes at the end of p that start an unfinished character: 0..3 */
TINYI_FN size_t tinyi_utf8_unfinished(const unsigned char *p, size_t n);
/* the number of bytes from the start of p that tinyi_utf8_get and tinyi_utf8_put reproduce unchanged */
TINYI_FN size_t tinyi_utf8_plain(const unsigned char *p, size_t n);

TINYI_C_END
#endif
