/* The functions of fedsub.h by the best instruction set of this processor. */
#include <stdlib.h>

#include "processor.h"
#include "variants.h"

void *fedsub_memory(int64_t bytes) {
    return bytes < 0 || bytes > PTRDIFF_MAX ? NULL : malloc((size_t)bytes);
}

void fedsub_release(void *memory) { free(memory); }

#if defined(__x86_64__)
#define BY_BEST(name, ...)                                           \
    switch (best_vectors()) {                                        \
    case AVX512: return fedsub_##name##_avx512(__VA_ARGS__);         \
    case AVX2: return fedsub_##name##_avx2(__VA_ARGS__);             \
    default: return fedsub_##name##_portable(__VA_ARGS__);           \
    }
#else
#define BY_BEST(name, ...) return fedsub_##name##_portable(__VA_ARGS__);
#endif

int fedsub_descend(const Chain *chain, const Samples *samples, const Steps *steps) {
    BY_BEST(descend, chain, samples, steps)
}

int fedsub_forward(const Chain *chain, const Samples *samples, const Floats *out) {
    BY_BEST(forward, chain, samples, out)
}

int fedsub_relate(const Chain *chain, const Samples *samples, const Relevance *how) {
    BY_BEST(relate, chain, samples, how)
}

int fedsub_encode(const int32_t *kernels, int64_t count, const int16_t *windows, int64_t samples,
                  int64_t channels, int64_t time, int8_t *levels) {
    BY_BEST(encode, kernels, count, windows, samples, channels, time, levels)
}

int fedsub_describe(int64_t groups, const int32_t *sensors, int64_t norms, const int32_t *turns,
                    int64_t half, const int16_t *windows, int64_t samples, int64_t channels,
                    int64_t time, int8_t *levels) {
    BY_BEST(describe, groups, sensors, norms, turns, half, windows, samples, channels, time, levels)
}

int fedsub_standardise(const float *x, int64_t samples, int64_t channels, int64_t time,
                       const float *mean, const float *deviation, float *out) {
    BY_BEST(standardise, x, samples, channels, time, mean, deviation, out)
}

int fedsub_quantise(const float *x, int64_t count, int16_t *steps) {
    BY_BEST(quantise, x, count, steps)
}

int fedsub_sums(const int8_t *levels, const int64_t *y, int64_t samples, int64_t features,
                int64_t classes, int64_t *gram, int64_t *cross) {
    BY_BEST(sums, levels, y, samples, features, classes, gram, cross)
}
