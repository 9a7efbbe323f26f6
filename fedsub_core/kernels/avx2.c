/* The kernels for x86-64 with AVX2 and FMA. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define LANES 8
#define REGISTERS 16
#define ENTRY(name) fedsub_##name##_avx2
#include "kernels.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int nothing;
#endif
