/* src/core/forget.h - drops pages of a mapped file that are not needed for now */
#ifndef TINYI_FORGET_H
#define TINYI_FORGET_H
#include "core/file.h"
TINYI_C_BEGIN

/* ---- inside: what the bodies share ---- */

/* Drops the whole pages among the n bytes of the file at `at` from memory; a later read loads them again. Returns 1 if
 * they were dropped. Does nothing if the file is not mapped or the system cannot drop pages. */
TINYI_FN int tinyi_file_forget(const tiny_file *file, const unsigned char *at, size_t n);

TINYI_C_END
#endif
