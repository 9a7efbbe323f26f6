/* Vectors of samples, and products of weights with them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "variants.h"

#define WIDTH (2 * LANES)
#define ROWS (REGISTERS == 32 ? 12 : 6)  /* accumulators in a product: twice as many */
#define ACROSS (REGISTERS == 32 ? 4 : 2) /* vectors of inputs in a gradient of weights */
#define DOWN 6                           /* units in a gradient of weights */
/* Samples that convolutions' gradients sum apart, whatever LANES is. */
#define GROUP 16
#define PARTS (GROUP / LANES)
#define PADDED (WIDTH > GROUP ? WIDTH : GROUP)
#define UNITS_AT_ONCE (REGISTERS == 32 && LANES > 4 ? 4 : 2)
#define WEIGHTS_AT_ONCE (LANES == 16 ? 6 : 3)
#define INLINE static inline __attribute__((always_inline))

typedef float Vector __attribute__((vector_size(LANES * 4)));
typedef int32_t Choice __attribute__((vector_size(LANES * 4)));
/* Of eight lanes everywhere, so that sums over samples have one order. */
typedef float Eight __attribute__((vector_size(32)));

INLINE Vector load(const float *from) {
    Vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void store(float *to, Vector v) { memcpy(to, &v, sizeof v); }

INLINE Vector all(float one) { return one - (Vector){0}; }

/* `v` where it is wanted, 0 elsewhere. */
INLINE Vector only(Choice wanted, Vector v) { return (Vector)((Choice)v & wanted); }

/* max(v, 0), and what is no number stays none. */
INLINE Vector rectified(Vector v) { return only(~(v < 0), v); }

INLINE float sum(const float *from, int64_t count) {
    Eight total = {0};
    for (int64_t i = 0; i < count; i += 8) {
        Eight v;
        memcpy(&v, from + i, sizeof v);
        total += v;
    }
    return ((total[0] + total[4]) + (total[2] + total[6])) +
           ((total[1] + total[5]) + (total[3] + total[7]));
}

INLINE int64_t more(int64_t a, int64_t b) { return a > b ? a : b; }

INLINE int64_t up_to(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/* Where the vector of lanes `part` of a group of samples lies. */
INLINE int64_t place_of(int64_t group, int part, int64_t panel) {
    const int64_t sample = group * GROUP + part * LANES;
    return sample / WIDTH * panel + sample % WIDTH;
}

/* GROUP lanes in PARTS vectors, added up. */
INLINE float sum_of_group(const Vector *parts) {
    float lanes[GROUP];
    for (int part = 0; part < PARTS; part++) store(lanes + part * LANES, parts[part]);
    return sum(lanes, GROUP);
}

/* acc[r] += sum over i of w[r * row + i * step] * x[i], for `rows` rows and one panel of x, whose
 * vectors are `apart` floats apart. */
INLINE void products(int rows, const float *w, int64_t row, int64_t step, int64_t depth,
                     const float *x, int64_t apart, Vector acc[ROWS][2]) {
    for (int64_t i = 0; i < depth; i++) {
        const Vector first = load(x + i * apart), second = load(x + i * apart + LANES);
        for (int r = 0; r < rows; r++) {
            const Vector weight = all(w[r * row + i * step]);
            acc[r][0] += weight * first;
            acc[r][1] += weight * second;
        }
    }
}

/* The same of negative weights alone. */
INLINE void negative_products(int rows, const float *w, int64_t row, int64_t step, int64_t depth,
                              const float *x, int64_t apart, Vector acc[ROWS][2]) {
    for (int64_t i = 0; i < depth; i++) {
        const Vector first = load(x + i * apart), second = load(x + i * apart + LANES);
        for (int r = 0; r < rows; r++) {
            const float one = w[r * row + i * step];
            const Vector weight = all(one < 0 ? one : 0);
            acc[r][0] += weight * first;
            acc[r][1] += weight * second;
        }
    }
}

/* The same of all weights, those that are not positive with the vectors `other` floats on. */
INLINE void chosen_products(int rows, const float *w, int64_t row, int64_t step, int64_t depth,
                            const float *x, int64_t apart, int64_t other, Vector acc[ROWS][2]) {
    for (int64_t i = 0; i < depth; i++) {
        for (int r = 0; r < rows; r++) {
            const float one = w[r * row + i * step];
            const float *from = x + i * apart + (one > 0 ? 0 : other);
            const Vector weight = all(one);
            acc[r][0] += weight * load(from);
            acc[r][1] += weight * load(from + LANES);
        }
    }
}

/* Do the rest with a number N of rows that the compiler knows: at most ROWS from `r` on. */
#define EACH_TILE(total, ...)                                   \
    for (int64_t r = 0; r < (total);) {                         \
        Vector acc[ROWS][2];                                    \
        if ((total) - r >= ROWS) {                              \
            enum { N = ROWS };                                  \
            __VA_ARGS__ r += N;                                 \
        } else if (ROWS > 8 && (total) - r >= 8) {              \
            enum { N = ROWS > 8 ? 8 : 1 };                      \
            __VA_ARGS__ r += N;                                 \
        } else if ((total) - r >= 4) {                          \
            enum { N = 4 };                                     \
            __VA_ARGS__ r += N;                                 \
        } else {                                                \
            enum { N = 1 };                                     \
            __VA_ARGS__ r += N;                                 \
        }                                                       \
    }
