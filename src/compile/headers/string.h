// <string.h> for kernels: memcpy and memset, which NVRTC itself declares.
#pragma once
