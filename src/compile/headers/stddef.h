// <stddef.h> for kernels. NVRTC itself knows size_t, ptrdiff_t, wchar_t and NULL.
#pragma once

typedef decltype(nullptr) nullptr_t;
typedef long double max_align_t;

#ifndef offsetof
// A constant expression, which the usual pointer arithmetic is not.
#define offsetof(type, member) (__INTADDR__(&(((type *)0)->member)))
#endif
