/* Which vectors this processor has, and the system keeps: asked for here, since zig's
 * __builtin_cpu_supports knows none of them. */
#ifndef FEDSUB_PROCESSOR_H
#define FEDSUB_PROCESSOR_H

enum { PORTABLE, AVX2, AVX512 };

#if defined(__x86_64__)
#include <cpuid.h>

static int best_vectors(void) {
    unsigned a, b, c, d, states, high;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return PORTABLE;
    /* FMA, OSXSAVE and AVX. */
    const unsigned basic = 1u << 12 | 1u << 27 | 1u << 28;
    if ((c & basic) != basic || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return PORTABLE;
    __asm__ volatile("xgetbv" : "=a"(states), "=d"(high) : "c"(0));
    /* AVX2; registers of 256 bits. */
    if (!(b >> 5 & 1) || (states & 0x06) != 0x06) return PORTABLE;
    /* AVX-512 F and VL; registers of 512 bits and masks. */
    return (b >> 16 & 1) && (b >> 31 & 1) && (states & 0xE6) == 0xE6 ? AVX512 : AVX2;
}
#else
static inline int best_vectors(void) { return PORTABLE; }
#endif

#endif
