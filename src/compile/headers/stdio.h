// <stdio.h> for kernels: printf, which NVRTC itself declares.
#pragma once
