/* tests/place.h - where oracles and data stand; after tinyllm.h or tinygnn.h. Shell: tests/place.sh */
#ifndef T_PLACE_H
#define T_PLACE_H
#include <stdlib.h>
#include <string.h>

#define T_FN TINYI_UNUSED static

/* The i-th folder that may have oracles and data; NULL after the last. Files that are too large for this repository are
 * in a folder next to it; T_SHARED in the environment names another one. T_SHARED=none hides it: tests then see what a
 * clone has, tests/golden and examples/models. A model of tests/golden/oracle/llm may be smaller than the one of that
 * name in the other folder: read its widths from the file, or from its line of the index next to it. TINY_SHARED is the
 * older name of the variable. */
T_FN const char *t_place(int i)
{
    static const char *const beside[] = { "../shared", "../../shared", "shared" };
    const char *named = getenv("T_SHARED");
    const int n = (int)(sizeof beside / sizeof *beside);
    if (!named || !*named) named = getenv("TINY_SHARED");
    if (!named || !*named) return i < n ? beside[i] : i == n ? "tests/golden" : NULL;
    if (!strcmp(named, "none")) i++;
    return i == 0 ? named : i == 1 ? "tests/golden" : NULL;
}
#endif
