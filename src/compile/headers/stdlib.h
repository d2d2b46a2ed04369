// <stdlib.h> for kernels: malloc, free, abs, labs and llabs, which NVRTC itself declares.
#pragma once
