/* The kernels for x86-64 with AVX-512. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512vl,avx2,fma")
#endif
#define LANES 16
#define REGISTERS 32
#define ENTRY(name) fedsub_##name##_avx512
#include "kernels.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int nothing;
#endif
