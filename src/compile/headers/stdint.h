// <stdint.h> for kernels. CCCL defines these names for NVRTC in the global namespace, with 64-bit
// types made of long long: taking them from there is what lets a kernel include both.
#pragma once
#include <cuda/std/cstdint>
