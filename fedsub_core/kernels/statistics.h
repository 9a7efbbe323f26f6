/* Statistics and spectrum of windows (fedsub_core/encoders/statistics_encoder.py is the oracle, and
 * says why nothing overflows). All numbers are whole, so the order of sums changes no bit. */

enum { SHAPE = 1, AUTOCORRELATION = 2, SPECTRUM = 4, CORRELATIONS = 8 };
enum { LAGS = 4, PAIRS = 36, CUT = 2047, PRODUCTS = 64 };

/* The sum of products of 2**24 at most, of which 32 bits hold PRODUCTS. */
static int64_t product(const int16_t *a, const int16_t *b, int64_t time) {
    int64_t total = 0;
    for (; time >= PRODUCTS; a += PRODUCTS, b += PRODUCTS, time -= PRODUCTS) {
        int32_t sum = 0;
        for (int t = 0; t < PRODUCTS; t++) sum += a[t] * b[t];
        total += sum;
    }
    for (int64_t t = 0; t < time; t++) total += a[t] * b[t];
    return total;
}

/* The norm of a sensor at each time: a sum of four squares at most, 2**24, which floats hold. */
static void norm(const int32_t *axes, const int16_t *window, int64_t time, int32_t *squares,
                 int16_t *values) {
    memset(squares, 0, time * sizeof(int32_t));
    for (int a = 0; a < AXES && axes[a] >= 0; a++) {
        const int16_t *from = window + axes[a] * time;
        for (int64_t t = 0; t < time; t++) squares[t] += from[t] * from[t];
    }
    for (int64_t t = 0; t < time; t++) {
        const int32_t n = squares[t];
        int32_t r = (int32_t)sqrtf((float)n);
        r -= r * r > n;
        values[t] = (int16_t)(r + ((r + 1) * (r + 1) <= n));
    }
}

/* Take the rounded mean away; return the sum of squares. */
static int64_t centre(const int16_t *from, int64_t time, int16_t *values) {
    int32_t sum = 0;
    for (int64_t t = 0; t < time; t++) sum += from[t];
    const int16_t mean = (int16_t)((2 * (int64_t)sum + time + 8192 * time) / (2 * time) - 4096);
    for (int64_t t = 0; t < time; t++) values[t] = from[t] - mean;
    return product(values, values, time);
}

static void shape_of(const int16_t *values, int64_t squares, int64_t time, int8_t *levels) {
    int64_t deviation = root(256 * squares / time), cubes = 0, fourths = 0;
    int32_t crossings = 0;
    const int32_t scale = (INT32_C(1) << 26) / (int32_t)(deviation < 1 ? 1 : deviation);
    for (int64_t t = 0; t < time; t++) {
        /* 2**15 rounds halves up. */
        int32_t z = (int32_t)(((int64_t)values[t] * scale + 32768) >> 16);
        z = z < -CUT ? -CUT : z > CUT ? CUT : z;
        const int32_t square = z * z;
        cubes += (int64_t)square * z;
        fourths += (int64_t)square * square;
    }
    for (int64_t t = 1; t < time; t++) crossings += (values[t] ^ values[t - 1]) < 0;
    levels[0] = level(cubes, time * 8192);
    fourths /= time;
    levels[1] = clipped(octaves(fourths < 1 ? 1 : fourths) - OCTAVE * 26);
    levels[2] = (2 * (2 * FULL - 1) * (int64_t)crossings + time - 1) / (2 * (time - 1)) - FULL;
}

static void autocorrelation(const int16_t *values, int64_t squares, int64_t time, int8_t *levels) {
    static const int64_t lags[LAGS] = {2, 5, 10, 20};
    for (int i = 0; i < LAGS; i++) {
        const int64_t left = time - lags[i];
        const int64_t sum = left > 0 ? product(values + lags[i], values, left) : 0;
        levels[i] = level(FULL * sum, squares < 1 ? 1 : squares);
    }
}

static void correlations(const int16_t *values, const int64_t *squares, int64_t channels,
                         int64_t time, int8_t *levels) {
    int pairs = 0;
    for (int64_t apart = 1; apart < channels; apart++)
        for (int64_t i = 0; i + apart < channels && pairs < PAIRS; i++, pairs++) {
            const int64_t j = i + apart, whole = root(256 * squares[i]) * root(256 * squares[j]);
            const int64_t sum = product(values + i * time, values + j * time, time);
            *levels++ = level(256 * FULL * sum, whole < 1 ? 1 : whole);
        }
}

/* What all windows have alike, and how many statistics one has, of which `before` come before its
 * spectra. */
typedef struct {
    int64_t groups, norms, channels, time, series, half, before, all;
    const int32_t *sensors, *turns;
} Form;

/* One window's series, and its statistics but for spectra. */
static void statistics_of(const Form *f, const int16_t *window, int16_t *values, int64_t *squares,
                          int32_t *room, int8_t *levels) {
    const int64_t time = f->time;
    for (int64_t i = 0; i < f->series; i++) {
        int16_t *to = values + i * time;
        const int64_t sensor = i - f->channels;
        if (sensor >= 0) norm(f->sensors + sensor * AXES, window, time, room, to);
        squares[i] = centre(sensor < 0 ? window + i * time : to, time, to);
    }
    if (f->groups & SHAPE)
        for (int64_t i = 0; i < f->series; i++, levels += 3)
            shape_of(values + i * time, squares[i], time, levels);
    if (f->groups & AUTOCORRELATION)
        for (int64_t i = 0; i < f->series; i++, levels += LAGS)
            autocorrelation(values + i * time, squares[i], time, levels);
    if (f->groups & SPECTRUM) levels += f->series * (BANDS + 2);
    if (f->groups & CORRELATIONS) correlations(values, squares, f->channels, time, levels);
}

/* Statistics of `some` windows, whose series fill lanes. */
static void statistics_of_some(const Form *f, const int16_t *windows, int64_t some,
                               const Room *room, int8_t *levels) {
    const int64_t series = some * f->series;
    for (int64_t n = 0; n < some; n++)
        statistics_of(f, windows + n * f->channels * f->time,
                      room->values + n * f->series * f->time, room->squares,
                      (int32_t *)room->parts[0][0], levels + n * f->all);
    for (int64_t first = 0; f->groups & SPECTRUM && first < series; first += SERIES) {
        int8_t *to[SERIES];
        const int64_t count = series - first < SERIES ? series - first : SERIES;
        for (int64_t l = 0; l < count; l++)
            to[l] = levels + (first + l) / f->series * f->all + f->before +
                    (first + l) % f->series * (BANDS + 2);
        spectra(room, room->values + first * f->time, count, f->time, f->turns, f->half, to);
    }
}

int ENTRY(describe)(int64_t groups, const int32_t *sensors, int64_t norms, const int32_t *turns,
                    int64_t half, const int16_t *windows, int64_t samples, int64_t channels,
                    int64_t time, int8_t *levels) {
    if (!within(groups, 1) || !within(norms, 0) || !within(samples, 0) || !within(channels, 1) ||
        !within(time, 2) || time > LONGEST || half < CELLS || half % CELLS || half & (half - 1) ||
        2 * half < time)
        return BAD_SAMPLES;
    if (!turns || (norms && !sensors)) return BAD_CHAIN;
    if (!sound_windows(windows, samples, channels * time)) return BAD_SAMPLES;
    if (samples && !levels) return BAD_CALL;
    for (int64_t i = 0; i < norms * AXES; i++)
        if (sensors[i] >= channels) return BAD_CHAIN;
    const int64_t series = channels + norms, lanes = 2 * half;
    const int64_t every = channels * (channels - 1) / 2;
    /* The fewest windows whose series fill all lanes. */
    const int64_t shared = series & -series, some = shared < SERIES ? SERIES / shared : 1;
    const int64_t before =
        series * (!!(groups & SHAPE) * 3 + !!(groups & AUTOCORRELATION) * LAGS);
    const int64_t all = before + series * !!(groups & SPECTRUM) * (BANDS + 2) +
                        !!(groups & CORRELATIONS) * (every < PAIRS ? every : PAIRS);
    const Form form = {groups, norms, channels, time, series, half, before, all, sensors, turns};
    int16_t *values = malloc(some * series * time * sizeof(int16_t));
    int64_t *squares = malloc(series * sizeof(int64_t));
    Lanes *parts = malloc(4 * lanes * sizeof(Lanes));
    const int enough = values && squares && parts;
    const Room room = {values, squares, {{parts, parts + lanes},
                                         {parts + 2 * lanes, parts + 3 * lanes}}};
    for (int64_t n = 0; enough && n < samples; n += some)
        statistics_of_some(&form, windows + n * channels * time,
                           samples - n < some ? samples - n : some, &room, levels + n * all);
    free(values);
    free(squares);
    free(parts);
    return enough ? DONE : NO_MEMORY;
}
