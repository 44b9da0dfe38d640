/* src/core/forget.h - pages of a mapped file that are not needed for now */
#ifndef TINYI_FORGET_H
#define TINYI_FORGET_H
#include "core/file.h"
TINYI_C_BEGIN



/* ---- inside: what the bodies share ---- */

/* The whole pages of n bytes from `at` on, which lie in the file, leave the memory of this process; who reads them
 * again gets them from the file again. Nothing happens where the file is not mapped, or the system cannot. 1: they are
 * gone. */
TINYI_FN int tinyi_file_forget(const tiny_file *file, const unsigned char *at, size_t n);

TINYI_C_END
#endif
