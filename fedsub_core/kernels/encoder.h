/* Features of windows by dilated kernels (fedsub_core/encoders/kernels_encoder.py is the oracle).
 * All numbers are integers, so the compiler may add them in any order. */

/* One kernel's answers to a window whose channels are added up in `seen`, zeros on either side. */
static void answer(const int32_t *kernel, const int32_t *seen, int64_t time, int8_t *levels) {
    const int64_t dilation = kernel[DILATION];
    const int32_t *a = seen + kernel[PLACES] * dilation, *b = seen + kernel[PLACES + 1] * dilation,
                  *c = seen + kernel[PLACES + 2] * dilation;
    const int32_t first = kernel[THRESHOLDS], second = kernel[THRESHOLDS + 1],
                  third = kernel[THRESHOLDS + 2], fourth = kernel[THRESHOLDS + 3];
    int32_t above[4] = {0}, most = INT32_MIN;
    for (int64_t t = 0; t < time; t++) {
        int32_t z = 3 * (a[t] + b[t] + c[t]);
        for (int64_t i = 0; i < TAPS; i++) z -= seen[t + i * dilation];
        above[0] += z > first;
        above[1] += z > second;
        above[2] += z > third;
        above[3] += z > fourth;
        most = z > most ? z : most;
    }
    for (int i = 0; i < 4; i++)
        levels[i] = (2 * (2 * FULL - 1) * (int64_t)above[i] + time) / (2 * time) - FULL;
    /* What is divided is never negative, so that C rounds down, too. */
    const int64_t one = kernel[LEVEL], top = most < -FULL * one ? -FULL * one : most;
    const int64_t level = (2 * top + one + 2 * FULL * one) / (2 * one) - FULL;
    levels[4] = level < FULL ? level : FULL - 1;
}

int ENTRY(encode)(const int32_t *kernels, int64_t count, const int16_t *windows, int64_t samples,
                  int64_t channels, int64_t time, int8_t *levels) {
    int64_t widest = 0;
    if (!within(count, 0) || !within(samples, 0) || !within(channels, 1) || !within(time, 1))
        return BAD_SAMPLES;
    if (count && !kernels) return BAD_CHAIN;
    if (!sound_windows(windows, samples, channels * time)) return BAD_SAMPLES;
    if (samples && count && !levels) return BAD_CALL;
    for (int64_t k = 0; k < count; k++) {
        if (!sound_kernel(kernels + k * KERNEL, channels, time)) return BAD_CHAIN;
        if (kernels[k * KERNEL + DILATION] > widest) widest = kernels[k * KERNEL + DILATION];
    }
    int32_t *seen = malloc((time + (TAPS - 1) * widest) * sizeof(int32_t));
    if (!seen) return NO_MEMORY;
    for (int64_t n = 0; n < samples; n++, windows += channels * time)
        for (int64_t k = 0; k < count; k++, levels += 5) {
            const int32_t *kernel = kernels + k * KERNEL;
            const int64_t reach = TAPS / 2 * (int64_t)kernel[DILATION];
            memset(seen, 0, (time + 2 * reach) * sizeof(int32_t));
            for (int32_t c = 0; c < kernel[CHANNELS]; c++) {
                const int16_t *window = windows + kernel[CHANNELS + 1 + c] * time;
                for (int64_t t = 0; t < time; t++) seen[reach + t] += window[t];
            }
            answer(kernel, seen, time, levels);
        }
    free(seen);
    return DONE;
}
