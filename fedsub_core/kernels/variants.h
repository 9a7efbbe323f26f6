/* The functions of fedsub.h for each instruction set, and short names for what they take. */
#ifndef FEDSUB_VARIANTS_H
#define FEDSUB_VARIANTS_H

#include "fedsub.h"

typedef FedsubFloats Floats;
typedef FedsubPart Part;
typedef FedsubLayer Layer;
typedef FedsubChain Chain;
typedef FedsubSamples Samples;
typedef FedsubSteps Steps;
typedef FedsubRelevance Relevance;

enum { AFFINE = FEDSUB_AFFINE, MAX_POOL = FEDSUB_MAX_POOL, MEAN_POOL = FEDSUB_MEAN_POOL };
enum { DONE = FEDSUB_DONE, NO_MEMORY = FEDSUB_NO_MEMORY, BAD_CHAIN = FEDSUB_BAD_CHAIN };
enum { BAD_SAMPLES = FEDSUB_BAD_SAMPLES, BAD_CALL = FEDSUB_BAD_CALL };

/* Where the numbers of an encoder's kernel stand. It has TAPS weights, features have levels from
 * -FULL to FULL - 1. */
enum { DILATION, LEVEL, PLACES, THRESHOLDS = PLACES + 3, CHANNELS = THRESHOLDS + 4 };
enum { KERNEL = FEDSUB_KERNEL, TAPS = 9, FULL = 128, AXES = FEDSUB_AXES };
/* Steps in a deviation, and the deviations from which on a value counts as no larger. */
enum { STEPS = 256, CLIP = 8 };
/* Of so long windows there are statistics. */
enum { LONGEST = 1 << 18 };

/* Raised by hand where what the kernels do changes, but no structure's size. */
#define FEDSUB_LAYOUT 5
_Static_assert(sizeof(Floats) == 24 && sizeof(Layer) == 320, "each field is a word");
_Static_assert(sizeof(Samples) == 144 && sizeof(Steps) == 144, "each field is a word");
_Static_assert(sizeof(Chain) == 16 && sizeof(Relevance) == 56, "each field is a word");

/* Python chooses among them; libfedsub hides them. */
#ifndef FEDSUB_CHOSEN
#define FEDSUB_CHOSEN FEDSUB_VISIBLE
#endif
#define FEDSUB_EACH(VARIANT)                                                   \
    FEDSUB_CHOSEN __typeof__(fedsub_descend) fedsub_descend_##VARIANT;         \
    FEDSUB_CHOSEN __typeof__(fedsub_forward) fedsub_forward_##VARIANT;         \
    FEDSUB_CHOSEN __typeof__(fedsub_relate) fedsub_relate_##VARIANT;           \
    FEDSUB_CHOSEN __typeof__(fedsub_standardise) fedsub_standardise_##VARIANT; \
    FEDSUB_CHOSEN __typeof__(fedsub_quantise) fedsub_quantise_##VARIANT;       \
    FEDSUB_CHOSEN __typeof__(fedsub_encode) fedsub_encode_##VARIANT;           \
    FEDSUB_CHOSEN __typeof__(fedsub_describe) fedsub_describe_##VARIANT;       \
    FEDSUB_CHOSEN __typeof__(fedsub_sums) fedsub_sums_##VARIANT;

FEDSUB_EACH(avx512)
FEDSUB_EACH(avx2)
FEDSUB_EACH(portable)

#endif
