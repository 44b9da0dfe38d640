/* src/core/time.h - a clock that never goes back */
#ifndef TINYI_TIME_H
#define TINYI_TIME_H
#include "core/config.h"
TINYI_C_BEGIN

TINY_API uint64_t tiny_now_ns(void);        /* nanoseconds since some moment; 0 where there is no clock */

TINYI_C_END
#endif
