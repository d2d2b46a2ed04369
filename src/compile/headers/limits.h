// <limits.h> for kernels, from CCCL as <stdint.h> is.
#pragma once
#include <cuda/std/climits>
