/* src/math/all.h - what both headers share: every public header of core and math */
#ifndef TINYI_ALL_H
#define TINYI_ALL_H
#include "core/config.h"
#include "core/status.h"
#include "core/tensor.h"
#include "core/ctx.h"
#include "core/mem.h"
#include "core/thread.h"
#include "core/rng.h"
#include "core/op.h"
#include "core/record.h"
#include "core/accel.h"
#include "core/bytes.h"
#include "core/file.h"
#include "core/checkpoint.h"
#include "core/time.h"
#include "core/conform.h"
#include "math/ops.h"
#include "math/sparse.h"
#include "math/linalg.h"
#include "math/optim.h"
#include "math/tape.h"
#endif
