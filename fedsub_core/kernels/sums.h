/* Samples in units of deviations, and sums over them for heads in closed form: the oracles are
 * fedsub_core/data/standardise.py, encoders/encoder.py and closed_form/sums.py. */

int ENTRY(standardise)(const float *x, int64_t samples, int64_t channels, int64_t time,
                       const float *mean, const float *deviation, float *out) {
    if (!within(samples, 0) || !within(channels, 1) || !within(time, 1)) return BAD_SAMPLES;
    if (samples && !x) return BAD_SAMPLES;
    if (!mean || !deviation || (samples && !out)) return BAD_CALL;
    for (int64_t c = 0; c < channels; c++)
        if (!(deviation[c] > 0)) return BAD_CALL;
    for (int64_t row = 0; row < samples * channels; row++) {
        const float centre = mean[row % channels], by = deviation[row % channels];
        for (int64_t t = row * time; t < (row + 1) * time; t++) out[t] = (x[t] - centre) / by;
    }
    return DONE;
}

/* Added to a float below 2^22 and taken away, it rounds to whole numbers, halves to even. */
#define ROUNDS_FLOAT 12582912.0f

int ENTRY(quantise)(const float *x, int64_t count, int16_t *steps) {
    if (count < 0 || (count && !x)) return BAD_SAMPLES;
    if (count && !steps) return BAD_CALL;
    for (int64_t i = 0; i < count; i++)
        if (x[i] != x[i]) return BAD_SAMPLES;
    for (int64_t i = 0; i < count; i++) {
        const float value = x[i] < -CLIP ? -CLIP : x[i] > CLIP ? CLIP : x[i];
        const int32_t step = (int32_t)(value * STEPS + ROUNDS_FLOAT - ROUNDS_FLOAT);
        steps[i] = (int16_t)(step < CLIP * STEPS ? step : CLIP * STEPS - 1);
    }
    return DONE;
}

/* Samples whose products are summed at once: 2^14 each, of which 32 bits hold 2^16. */
#define AT_ONCE 1024

/* Sum of products of padded columns. */
INLINE int32_t product_of(const int16_t *a, const int16_t *b, int64_t count) {
    int32_t sum = 0;
    for (int64_t t = 0; t < count; t += 32)
        for (int i = 0; i < 32; i++) sum += a[t + i] * b[t + i];
    return sum;
}

int ENTRY(sums)(const int8_t *levels, const int64_t *y, int64_t samples, int64_t features,
                int64_t classes, int64_t *gram, int64_t *cross) {
    if (!within(samples, 0) || !within(features, 1) || (samples && (!levels || !y)))
        return BAD_SAMPLES;
    if (!within(classes, 1) || !gram || !cross) return BAD_CALL;
    for (int64_t j = 0; j < samples; j++)
        if (y[j] < 0 || y[j] >= classes) return BAD_SAMPLES;
    const int64_t width = features + 1;
    int16_t *columns = malloc(width * AT_ONCE * sizeof(int16_t));
    if (!columns) return NO_MEMORY;
    for (int64_t first = 0; first < samples; first += AT_ONCE) {
        const int64_t count = samples - first < AT_ONCE ? samples - first : AT_ONCE;
        memset(columns, 0, width * AT_ONCE * sizeof(int16_t));
        for (int64_t j = 0; j < count; j++) {
            const int8_t *row = levels + (first + j) * features;
            int64_t *of_class = cross + y[first + j] * width;
            columns[j] = FULL;
            of_class[0] += FULL;
            for (int64_t k = 0; k < features; k++) {
                columns[(k + 1) * AT_ONCE + j] = row[k];
                of_class[k + 1] += row[k];
            }
        }
        int64_t *to = gram;
        for (int64_t row = 0; row < width; row++)
            for (int64_t column = 0; column <= row; column++)
                *to++ += product_of(columns + row * AT_ONCE, columns + column * AT_ONCE,
                                    up_to(count, 32));
    }
    free(columns);
    return DONE;
}
