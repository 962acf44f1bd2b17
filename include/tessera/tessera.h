// The one header an application includes.
#ifndef TESSERA_TESSERA_H_
#define TESSERA_TESSERA_H_

#include "tessera/autodiff.h"
#include "tessera/builder.h"
#include "tessera/communicator.h"
#include "tessera/cuda.h"
#include "tessera/cuda_kernel.h"
#include "tessera/dtype.h"
#include "tessera/function.h"
#include "tessera/lang.h"
#include "tessera/ops.h"
#include "tessera/runtime.h"
#include "tessera/status.h"
#include "tessera/tensor.h"
#include "tessera/upload.h"

#endif  // TESSERA_TESSERA_H_
