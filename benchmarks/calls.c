/* Makes the calls of libfedsub that the standard input holds, on processors without Python, and
 * writes what they return and their buffers: calls.py says how both are written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedsub.h"

typedef union {
    void *at;
    int64_t number;
} Word;

static int64_t next(void) {
    int64_t word;
    if (fread(&word, 8, 1, stdin) != 1) exit(2);
    return word;
}

static void *room(int64_t bytes) {
    void *found = calloc(bytes + 8, 1);
    if (!found) exit(2);
    return found;
}

static int64_t called(int64_t function, const Word *a) {
    switch (function) {
    case 0: return fedsub_descend(a[0].at, a[1].at, a[2].at);
    case 1: return fedsub_forward(a[0].at, a[1].at, a[2].at);
    case 2: return fedsub_relate(a[0].at, a[1].at, a[2].at);
    case 3:
        return fedsub_standardise(a[0].at, a[1].number, a[2].number, a[3].number, a[4].at, a[5].at,
                                  a[6].at);
    case 4: return fedsub_quantise(a[0].at, a[1].number, a[2].at);
    case 5:
        return fedsub_encode(a[0].at, a[1].number, a[2].at, a[3].number, a[4].number, a[5].number,
                             a[6].at);
    case 6:
        return fedsub_describe(a[0].number, a[1].at, a[2].number, a[3].at, a[4].number, a[5].at,
                               a[6].number, a[7].number, a[8].number, a[9].at);
    case 7:
        return fedsub_sums(a[0].at, a[1].at, a[2].number, a[3].number, a[4].number, a[5].at,
                           a[6].at);
    }
    exit(3);
}

int main(void) {
    const int64_t count = next();
    char **buffers = room(count * sizeof *buffers);
    int64_t *sizes = room(count * sizeof *sizes), **pairs = room(count * sizeof *pairs);
    for (int64_t i = 0; i < count; i++) {
        sizes[i] = next();
        const int64_t addresses = next();
        pairs[i] = room((2 * addresses + 1) * sizeof(int64_t));
        pairs[i][0] = addresses;
        if (fread(pairs[i] + 1, 16, addresses, stdin) != (size_t)addresses) return 2;
        buffers[i] = room(sizes[i]);
        if (fread(buffers[i], 1, sizes[i], stdin) != (size_t)sizes[i]) return 2;
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < pairs[i][0]; k++) {
            const int64_t *pair = pairs[i] + 1 + 2 * k;
            memcpy(buffers[i] + pair[0], buffers + pair[1], sizeof(char *));
        }
    for (int64_t calls = next(); calls > 0; calls--) {
        const int64_t function = next(), arguments = next();
        Word words[16] = {{0}};
        for (int64_t i = 0; i < arguments; i++) {
            const int64_t address = next(), value = next();
            if (address)
                words[i].at = buffers[value];
            else
                words[i].number = value;
        }
        const int64_t returned = called(function, words);
        fwrite(&returned, 8, 1, stdout);
    }
    for (int64_t i = 0; i < count; i++) fwrite(buffers[i], 1, sizes[i], stdout);
    return 0;
}
