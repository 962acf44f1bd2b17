// All math functions; basic.h states the rules they share.
#ifndef TESSERA_INTERP_CPU_MATH_MATH_H_
#define TESSERA_INTERP_CPU_MATH_MATH_H_

#include "interp/cpu/math/activation.h"
#include "interp/cpu/math/basic.h"
#include "interp/cpu/math/exp.h"
#include "interp/cpu/math/hyperbolic.h"
#include "interp/cpu/math/inverse_trig.h"
#include "interp/cpu/math/log.h"
#include "interp/cpu/math/power.h"
#include "interp/cpu/math/remainder.h"
#include "interp/cpu/math/special.h"
#include "interp/cpu/math/trig.h"

#endif  // TESSERA_INTERP_CPU_MATH_MATH_H_
