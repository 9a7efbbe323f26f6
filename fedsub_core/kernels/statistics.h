/* Statistics and spectrum of windows (fedsub_core/encoders/statistics_encoder.py is the oracle, and
 * says why nothing overflows). All numbers are whole, so the order of sums changes no bit. */

/* Of so many series the transforms are computed at once, a lane each. */
#define SERIES 8
typedef int32_t Lanes __attribute__((vector_size(4 * SERIES), aligned(4)));

enum { SHAPE = 1, AUTOCORRELATION = 2, SPECTRUM = 4, CORRELATIONS = 8 };
enum { LAGS = 4, BANDS = 8, CELLS = 64, PAIRS = 36, OCTAVE = 32, CUT = 2047 };

/* What is divided is made positive: C rounds to 0, and levels are rounded down. */
static int8_t level(int64_t part, int64_t whole) {
    const int64_t top = part < -FULL * whole ? -FULL * whole : part;
    const int64_t found = (2 * top + (2 * FULL + 1) * whole) / (2 * whole) - FULL;
    return found < FULL ? found : FULL - 1;
}

static int8_t clipped(int64_t found) {
    return found < -FULL ? -FULL : found < FULL ? found : FULL - 1;
}

/* A double's root may be one off. */
INLINE int64_t root(int64_t n) {
    int64_t r = (int64_t)sqrt((double)n);
    r -= r * r > n;
    return r + ((r + 1) * (r + 1) <= n);
}

INLINE int power_of(int64_t n) { return 63 - __builtin_clzll((unsigned long long)n); }

static int64_t octaves(int64_t n) {
    const int e = power_of(n);
    return OCTAVE * e + ((n - (INT64_C(1) << e)) * OCTAVE >> e);
}

/* The norm of a sensor at each time: a sum of four squares at most, 2**24, which floats hold. */
static void norm(const int32_t *axes, const int16_t *window, int64_t time, int32_t *values) {
    memset(values, 0, time * sizeof(int32_t));
    for (int a = 0; a < AXES && axes[a] >= 0; a++) {
        const int16_t *from = window + axes[a] * time;
        for (int64_t t = 0; t < time; t++) values[t] += from[t] * from[t];
    }
    for (int64_t t = 0; t < time; t++) {
        const int32_t n = values[t];
        int32_t r = (int32_t)sqrtf((float)n);
        r -= r * r > n;
        values[t] = r + ((r + 1) * (r + 1) <= n);
    }
}

/* Take the rounded mean away; return the sum of squares. */
static int64_t centre(int32_t *values, int64_t time) {
    int64_t sum = 0, squares = 0;
    for (int64_t t = 0; t < time; t++) sum += values[t];
    const int32_t mean = (2 * sum + time + 8192 * time) / (2 * time) - 4096;
    for (int64_t t = 0; t < time; t++) values[t] -= mean;
    for (int64_t t = 0; t < time; t++) squares += values[t] * values[t];
    return squares;
}

static void shape_of(const int32_t *values, int64_t squares, int64_t time, int8_t *levels) {
    int64_t deviation = root(256 * squares / time), cubes = 0, fourths = 0;
    int32_t crossings = 0;
    const int32_t scale = (INT32_C(1) << 26) / (int32_t)(deviation < 1 ? 1 : deviation);
    for (int64_t t = 0; t < time; t++) {
        /* Rounded down after 2**15 for halves; 2**54 keeps it positive, whole multiples of 2**16. */
        int32_t z = (int32_t)(((int64_t)values[t] * scale + 32768) >> 16);
        z = z < -CUT ? -CUT : z > CUT ? CUT : z;
        const int32_t square = z * z;
        cubes += (int64_t)square * z;
        fourths += (int64_t)square * square;
    }
    for (int64_t t = 1; t < time; t++) crossings += (values[t] >= 0) != (values[t - 1] >= 0);
    levels[0] = level(cubes, time * 8192);
    fourths /= time;
    levels[1] = clipped(octaves(fourths < 1 ? 1 : fourths) - OCTAVE * 26);
    levels[2] = (2 * (2 * FULL - 1) * (int64_t)crossings + time - 1) / (2 * (time - 1)) - FULL;
}

static int64_t product(const int32_t *a, const int32_t *b, int64_t time) {
    int64_t sum = 0;
    for (int64_t t = 0; t < time; t++) sum += a[t] * b[t];
    return sum;
}

static void autocorrelation(const int32_t *values, int64_t squares, int64_t time, int8_t *levels) {
    static const int64_t lags[LAGS] = {2, 5, 10, 20};
    for (int i = 0; i < LAGS; i++) {
        const int64_t left = time - lags[i];
        const int64_t sum = left > 0 ? product(values + lags[i], values, left) : 0;
        levels[i] = level(FULL * sum, squares < 1 ? 1 : squares);
    }
}

/* One stage of the transform: pairs half a window apart become neighbours `s` apart. */
INLINE void stage(Lanes *const *from, Lanes *const *to, const int32_t *turns, int64_t half,
                  int64_t s, int halved) {
    Lanes *re = to[0], *im = to[1];
    for (int64_t p = 0; p < half; p += s) {
        const int32_t cos = turns[2 * p], sin = turns[2 * p + 1];
        for (int64_t at = p; at < p + s; at++, re++, im++) {
            const Lanes a = from[0][at], b = from[0][at + half], c = from[1][at],
                        d = from[1][at + half];
            Lanes x = a - b, y = c - d, sum = a + b, other = c + d;
            if (halved) {
                x = (x + 1) >> 1;
                y = (y + 1) >> 1;
                sum = (sum + 1) >> 1;
                other = (other + 1) >> 1;
            }
            re[0] = sum;
            im[0] = other;
            re[s] = (x * cos - y * sin + 2048) >> 12;
            im[s] = (x * sin + y * cos + 2048) >> 12;
        }
        re += s;
        im += s;
    }
}

/* Shares of the whole, which are below 2**17, times their logs: a float's bits are its exponent and
 * what is left of it, as octaves() has them. */
static int64_t weighted(const int32_t *shares) {
    float as[CELLS];
    int32_t bits[CELLS], sum = 0;
    for (int k = 0; k < CELLS; k++) as[k] = (float)shares[k];
    memcpy(bits, as, sizeof bits);
    for (int k = 0; k < CELLS; k++) sum += shares[k] * ((bits[k] >> 18) - 127 * OCTAVE);
    return sum;
}

/* The levels of one series; power is of values that were halved. */
static void bands(const double *power, int64_t time, int64_t half, int8_t *levels) {
    static const int edges[BANDS + 1] = {0, 2, 3, 5, 8, 13, 23, 38, 64};
    const int twice = 2 * (power_of(half) - 5);
    const int64_t middle = OCTAVE * (power_of(half) + 8);
    int64_t total = 0;
    int32_t shares[CELLS], weight = 0;
    int peak = 0;
    for (int b = 0; b < BANDS; b++) {
        double sum = 0;
        for (int k = edges[b]; k < edges[b + 1]; k++) sum += power[k];
        const int64_t whole = (int64_t)sum << twice;
        total += whole;
        levels[b] = clipped((octaves(whole / time + 1) - middle + 24 * FULL) / 3 - 8 * FULL);
    }
    const double unit = ldexp(1, twice - (total >> 15 ? power_of(total) - 15 : 0));
    for (int k = 0; k < CELLS; k++) shares[k] = (int32_t)(power[k] * unit);
    for (int k = 0; k < CELLS; k++) weight += shares[k];
    for (int k = 0; k < CELLS; k++)
        if (power[k] > power[peak]) peak = k;
    if (weight < 1) weight = 1;
    const int64_t entropy = octaves(weight) - weighted(shares) / weight;
    levels[BANDS] = clipped((entropy * 2 * FULL + FULL * OCTAVE * 6) / (OCTAVE * 6) - 2 * FULL);
    levels[BANDS + 1] = peak * (2 * FULL / CELLS) - FULL;
}

/* The places of one window's series: values [series, time], then the transform of SERIES of them. */
typedef struct {
    int32_t *values;
    int64_t *squares;
    Lanes *parts[2][2];
} Room;

static void spectra(const Room *room, int64_t series, int64_t time, const int32_t *turns,
                    int64_t half, int8_t *levels) {
    for (int64_t first = 0; first < series; first += SERIES) {
        const int64_t some = series - first < SERIES ? series - first : SERIES;
        /* Their sums are 2**37 at most, which doubles hold. */
        double power[CELLS][SERIES] = {{0}};
        int now = 0;
        memset(room->parts[0][0], 0, 2 * half * sizeof(Lanes));
        memset(room->parts[0][1], 0, 2 * half * sizeof(Lanes));
        for (int64_t l = 0; l < some; l++)
            for (int64_t t = 0; t < time; t++)
                room->parts[0][0][t][l] = room->values[(first + l) * time + t];
        for (int64_t s = 1; s < 64; s *= 2, now ^= 1)
            stage(room->parts[now], room->parts[now ^ 1], turns, half, s, 0);
        for (int64_t s = 64; s <= half; s *= 2, now ^= 1)
            stage(room->parts[now], room->parts[now ^ 1], turns, half, s, 1);
        const Lanes *re = room->parts[now][0] + 1, *im = room->parts[now][1] + 1;
        for (int k = 0; k < CELLS; k++)
            for (int64_t i = 0; i < half / CELLS; i++, re++, im++)
                for (int l = 0; l < SERIES; l++)
                    power[k][l] += (double)(*re)[l] * (*re)[l] + (double)(*im)[l] * (*im)[l];
        for (int64_t l = 0; l < some; l++, levels += BANDS + 2) {
            double own[CELLS];
            for (int k = 0; k < CELLS; k++) own[k] = power[k][l];
            bands(own, time, half, levels);
        }
    }
}

static void correlations(const Room *room, int64_t channels, int64_t time, int8_t *levels) {
    int pairs = 0;
    for (int64_t apart = 1; apart < channels; apart++)
        for (int64_t i = 0; i + apart < channels && pairs < PAIRS; i++, pairs++) {
            const int64_t j = i + apart;
            const int64_t whole = root(256 * room->squares[i]) * root(256 * room->squares[j]);
            const int64_t sum = product(room->values + i * time, room->values + j * time, time);
            *levels++ = level(256 * FULL * sum, whole < 1 ? 1 : whole);
        }
}

/* Fill one window's statistics in; return where the next one's begin. */
static int8_t *statistics_of(const int16_t *window, int64_t groups, const int32_t *sensors,
                             int64_t norms, int64_t channels, int64_t time, const int32_t *turns,
                             int64_t half, const Room *room, int8_t *levels) {
    const int64_t series = channels + norms;
    for (int64_t i = 0; i < channels * time; i++) room->values[i] = window[i];
    for (int64_t i = 0; i < norms; i++)
        norm(sensors + i * AXES, window, time, room->values + (channels + i) * time);
    for (int64_t i = 0; i < series; i++)
        room->squares[i] = centre(room->values + i * time, time);
    if (groups & SHAPE)
        for (int64_t i = 0; i < series; i++, levels += 3)
            shape_of(room->values + i * time, room->squares[i], time, levels);
    if (groups & AUTOCORRELATION)
        for (int64_t i = 0; i < series; i++, levels += LAGS)
            autocorrelation(room->values + i * time, room->squares[i], time, levels);
    if (groups & SPECTRUM) {
        spectra(room, series, time, turns, half, levels);
        levels += series * (BANDS + 2);
    }
    if (groups & CORRELATIONS) {
        const int64_t all = channels * (channels - 1) / 2;
        correlations(room, channels, time, levels);
        levels += all < PAIRS ? all : PAIRS;
    }
    return levels;
}

int ENTRY(describe)(int64_t groups, const int32_t *sensors, int64_t norms, const int32_t *turns,
                    int64_t half, const int16_t *windows, int64_t samples, int64_t channels,
                    int64_t time, int8_t *levels) {
    if (!within(groups, 1) || !within(norms, 0) || !within(samples, 0) || !within(channels, 1) ||
        !within(time, 2) || time > LONGEST || half < CELLS || half % CELLS || half & (half - 1) ||
        2 * half < time)
        return BAD_SAMPLES;
    for (int64_t i = 0; i < norms * AXES; i++)
        if (sensors[i] >= channels) return BAD_CHAIN;
    const int64_t series = channels + norms, lanes = 2 * half;
    int32_t *values = malloc(series * time * sizeof(int32_t));
    int64_t *squares = malloc(series * sizeof(int64_t));
    Lanes *parts = malloc(4 * lanes * sizeof(Lanes));
    const int enough = values && squares && parts;
    const Room room = {values, squares, {{parts, parts + lanes},
                                         {parts + 2 * lanes, parts + 3 * lanes}}};
    for (int64_t n = 0; enough && n < samples; n++, windows += channels * time)
        levels = statistics_of(windows, groups, sensors, norms, channels, time, turns, half, &room,
                               levels);
    free(values);
    free(squares);
    free(parts);
    return enough ? DONE : NO_MEMORY;
}
