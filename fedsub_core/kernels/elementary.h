/* Exponentials and logarithms of our own, so that no system's C library decides on bits.
 *
 * Both are Taylor series in double precision by Horner's rule, off by 1e-14 of the result at most.
 * So the float is the nearest one, but where two are as near to within 1e-6 of their distance. With
 * fused products and without it is nearly always the same.
 */
#define LN2 0.69314718055994530942
/* Added to a double below 2^51 and taken away, it rounds to the next whole number. */
#define ROUNDS 6755399441055744.0

/* 2^n of a normal double. */
static double power_of_two(int64_t n) {
    const int64_t bits = (n + 1023) << 52;
    double found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

/* e^x = 2^n e^r, |r| <= ln(2) / 2. */
static float exponential(float x) {
    if (x != x) return x;
    if (x < -150) return 0;
    if (x > 150) return INFINITY;
    const double n = x * (1 / LN2) + ROUNDS - ROUNDS, r = x - n * LN2;
    double found = 1;
    for (int i = 12; i > 0; i--) found = 1 + r * (1.0 / i) * found;
    return (float)(found * power_of_two((int64_t)n));
}

/* ln(x) = n ln(2) + ln(m), m from sqrt(1/2) to sqrt(2); ln(m) = 2 artanh(s),
 * s = (m - 1) / (m + 1). */
static float logarithm(float x) {
    if (!(x > 0) || x == INFINITY) return x > 0 ? x : x == 0 ? -INFINITY : NAN;
    const double wide = x;
    int64_t bits;
    memcpy(&bits, &wide, sizeof bits);
    const int64_t n = (bits - INT64_C(0x3FE6A09E667F3BCD)) >> 52;
    const double m = wide * power_of_two(-n), s = (m - 1) / (m + 1), square = s * s;
    double found = 0;
    for (int i = 19; i > 0; i -= 2) found = 1.0 / i + square * found;
    return (float)(2 * s * found + n * LN2);
}
