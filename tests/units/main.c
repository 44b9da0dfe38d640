/* tests/units/main.c - calls every unit of the program: UNITS is a list such as X(unit_1) X(unit_2) */
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#define X(f) int f(void);
UNITS
#undef X
#ifdef __cplusplus
}
#endif

int main(void)
{
    int bad = 0, r;
#define X(f) if ((r = f()) != 0) { printf("%s answers %d\n", #f, r); bad = 1; }
    UNITS
#undef X
    return bad;
}
