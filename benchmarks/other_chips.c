/* The encoders' levels of windows that the standard input holds, for processors without Python:
 * other_chips.py writes the input, and compiles this with one VARIANT of the kernels. */
#include <stdio.h>
#include <stdlib.h>

#include "chain.h"

#define JOINED(name, variant) name##_##variant
#define OF(name, variant) JOINED(name, variant)

enum { COUNT, GROUPS, NORMS, HALF, STATISTICS, SAMPLES, SERIES, TIME, NUMBERS };

/* So many bytes of the input, or as many zeros. */
static void *room(int64_t bytes, int filled) {
    void *found = calloc(bytes + 1, 1);
    if (!found || (filled && fread(found, 1, bytes, stdin) != (size_t)bytes)) exit(2);
    return found;
}

int main(void) {
    const int64_t *n = room(NUMBERS * sizeof *n, 1);
    const int32_t *kernels = room(n[COUNT] * KERNEL * sizeof *kernels, 1);
    const int32_t *sensors = room(n[NORMS] * AXES * sizeof *sensors, 1);
    const int32_t *turns = room(n[HALF] * 2 * sizeof *turns, 1);
    const int16_t *windows = room(n[SAMPLES] * n[SERIES] * n[TIME] * sizeof *windows, 1);
    const int64_t answers = n[SAMPLES] * n[COUNT] * 5, statistics = n[SAMPLES] * n[STATISTICS];
    int8_t *levels = room(answers + statistics, 0);
    int failed = OF(encode, VARIANT)(kernels, n[COUNT], windows, n[SAMPLES], n[SERIES], n[TIME],
                                     levels);
    failed |= OF(describe, VARIANT)(n[GROUPS], sensors, n[NORMS], turns, n[HALF], windows,
                                    n[SAMPLES], n[SERIES], n[TIME], levels + answers);
    if (failed) return 3;
    return fwrite(levels, 1, answers + statistics, stdout) != (size_t)(answers + statistics);
}
