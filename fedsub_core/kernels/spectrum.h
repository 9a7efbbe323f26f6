/* Arithmetic of whole numbers, and the spectrum of series (fedsub_core/encoders/whole.py and
 * spectrum.py are the oracles). */

/* Of so many series, of several windows where one has fewer, transforms are computed at once: each
 * has a lane. */
#define SERIES LANES
typedef int32_t Lanes __attribute__((vector_size(4 * SERIES), aligned(4)));
/* Half as many, of which doubles fill a vector. */
typedef int32_t Ints __attribute__((vector_size(SERIES / 2 * 4), aligned(4)));
typedef float Singles __attribute__((vector_size(SERIES / 2 * 4), aligned(4)));
typedef int64_t Longs __attribute__((vector_size(SERIES / 2 * 8), aligned(8)));
typedef double Doubles __attribute__((vector_size(SERIES / 2 * 8), aligned(8)));

enum { BANDS = 8, CELLS = 64, OCTAVE = 32 };

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

/* One stage of the transform: pairs half a window apart become neighbours `s` apart. What the first
 * one sees has no imaginary part. */
INLINE void stage(Lanes *const *from, Lanes *const *to, const int32_t *turns, int64_t half,
                  int64_t s, int real, int halved) {
    Lanes *re = to[0], *im = to[1];
    for (int64_t p = 0; p < half; p += s) {
        const int32_t cos = turns[2 * p], sin = turns[2 * p + 1];
        for (int64_t at = p; at < p + s; at++, re++, im++) {
            const Lanes none = {0}, a = from[0][at], b = from[0][at + half],
                        c = real ? none : from[1][at], d = real ? none : from[1][at + half];
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

/* The last stage, of which only the first half and one more value are wanted, and their power in
 * each cell. Sums are 2**37 at most, which doubles hold. */
INLINE void powers_of(Lanes *const *from, int64_t half, Doubles power[2][CELLS]) {
    for (int k = 0; k < CELLS; k++) {
        Doubles sums[2] = {{0}};
        for (int64_t at = k * (half / CELLS) + 1; at <= (k + 1) * (half / CELLS); at++)
            for (int i = 0; i < 2; i++) {
                const Lanes *a = from[i], *b = a + half;
                const Lanes value = ((at < half ? a[at] + b[at] : a[0] - b[0]) + 1) >> 1;
                Ints halves[2];
                memcpy(halves, &value, sizeof value);
                for (int h = 0; h < 2; h++) {
                    const Doubles wide = __builtin_convertvector(halves[h], Doubles);
                    sums[h] += wide * wide;
                }
            }
        for (int h = 0; h < 2; h++) power[h][k] = sums[h];
    }
}

/* The levels of so many series, each `levels[l]`; power is of values that were halved. */
static void bands(const Doubles *power, int64_t some, int64_t time, int64_t half,
                  int8_t *const *levels) {
    static const int edges[BANDS + 1] = {0, 2, 3, 5, 8, 13, 23, 38, 64};
    const int twice = 2 * (power_of(half) - 5);
    const int64_t middle = OCTAVE * (power_of(half) + 8);
    int64_t totals[SERIES / 2] = {0};
    Doubles unit = {0}, most = {0};
    Ints weight = {0}, logs = {0};
    Longs peak = {0};
    for (int b = 0; b < BANDS; b++) {
        Doubles sum = {0};
        for (int k = edges[b]; k < edges[b + 1]; k++) sum += power[k];
        for (int64_t l = 0; l < some; l++) {
            const int64_t whole = (int64_t)sum[l] << twice;
            totals[l] += whole;
            levels[l][b] =
                clipped((octaves(whole / time + 1) - middle + 24 * FULL) / 3 - 8 * FULL);
        }
    }
    for (int64_t l = 0; l < some; l++)
        unit[l] = ldexp(1, twice - (totals[l] >> 15 ? power_of(totals[l]) - 15 : 0));
    for (int k = 0; k < CELLS; k++) {
        /* Shares of the whole, which are below 2**17, times their logs: a float's bits are its
         * exponent and what is left of it, as octaves() has them. */
        const Ints shares = __builtin_convertvector(power[k] * unit, Ints);
        const Ints bits = (Ints)__builtin_convertvector(shares, Singles);
        const Longs more = power[k] > most;
        weight += shares;
        logs += shares * ((bits >> 18) - 127 * OCTAVE);
        peak = (more & k) | (~more & peak);
        most = (Doubles)((more & (Longs)power[k]) | (~more & (Longs)most));
    }
    for (int64_t l = 0; l < some; l++) {
        const int32_t all = weight[l] < 1 ? 1 : weight[l];
        const int64_t entropy = octaves(all) - logs[l] / all;
        levels[l][BANDS] =
            clipped((entropy * 2 * FULL + FULL * OCTAVE * 6) / (OCTAVE * 6) - 2 * FULL);
        levels[l][BANDS + 1] = (int8_t)(peak[l] * (2 * FULL / CELLS) - FULL);
    }
}

/* Some windows' series: values [windows, series, time], then the transform of SERIES of them. */
typedef struct {
    int16_t *values;
    int64_t *squares;
    Lanes *parts[2][2];
} Room;

/* The spectra of `some` series, SERIES at most. */
static void spectra(const Room *room, const int16_t *values, int64_t some, int64_t time,
                    const int32_t *turns, int64_t half, int8_t *const *levels) {
    Doubles power[2][CELLS];
    Lanes *first = room->parts[0][0];
    int now = 1;
    memset(first + (some < SERIES ? 0 : time), 0,
           (2 * half - (some < SERIES ? 0 : time)) * sizeof(Lanes));
    for (int64_t l = 0; l < some; l++)
        for (int64_t t = 0; t < time; t++) first[t][l] = values[l * time + t];
    stage(room->parts[0], room->parts[1], turns, half, 1, 1, 0);
    for (int64_t s = 2; s < 64; s *= 2, now ^= 1)
        stage(room->parts[now], room->parts[now ^ 1], turns, half, s, 0, 0);
    for (int64_t s = 64; s < half; s *= 2, now ^= 1)
        stage(room->parts[now], room->parts[now ^ 1], turns, half, s, 0, 1);
    powers_of(room->parts[now], half, power);
    for (int h = 0; h < 2; h++) {
        const int64_t left = some - h * (SERIES / 2);
        bands(power[h], left < SERIES / 2 ? left : SERIES / 2, time, half, levels + h * SERIES / 2);
    }
}
