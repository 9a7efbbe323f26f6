/* What the compiled kernels compute with, and for whom: see chain.py, which fills these in.
 *
 * Every tensor of parameters has a leading client axis. A pointer is to the first client's, its
 * `_step` the floats to the next one's; NULL where there is none.
 */
#ifndef FEDSUB_CHAIN_H
#define FEDSUB_CHAIN_H

#include <stdint.h>

/* One part of a layer's parameters: its weights [units, fan_in], or its biases [units]. */
typedef struct {
    float *values;
    int64_t values_step;
    float *into; /* the optimiser's buffer: into = keep * into + gradient */
    int64_t into_step;
    const float *anchor; /* a pull to it: gradient + pull * (values - anchor) [* where] */
    int64_t anchor_step;
    const float *where;
    int64_t where_step;
    const float *mask; /* multiplies the buffer */
    int64_t mask_step;
} Part;

/* A layer sees [channels, length] numbers of a sample and makes [units, made]. */
typedef struct {
    int64_t kind; /* AFFINE, or pooling, whose windows of `kernel` numbers do not overlap */
    int64_t channels, length, units, made;
    /* Of an affine layer: out[u, p] = bias[u] + sum of weight[u, c, k] * in[c, p * stride + k -
     * padding], and max(out, 0) where `relu`. One that is fully connected has length, made, kernel
     * and stride 1. */
    int64_t kernel, stride, padding;
    int64_t relu, trained;
    Part weight, bias;
} Layer;

enum { AFFINE, MAX_POOL, MEAN_POOL };

/* A chain of them, of which the last is fully connected. */
typedef struct {
    int64_t count;
    const Layer *layers;
} Chain;

/* Samples of several clients, x [clients, ..., channels, length], in which order they are seen. */
typedef struct {
    int64_t clients;
    int64_t held;          /* samples that there are of each client */
    int64_t places;        /* of each client in `order` and `weight` */
    const int64_t *counts; /* [clients]; samples, or places of `order`, that are seen */
    const float *x;
    int64_t x_step;
    const int64_t *y;
    int64_t y_step;
    const int64_t *order; /* [clients, places]; NULL: as they lie */
    int64_t order_step;
    const float *weight; /* [clients, places], each one's share in its batch's mean */
    int64_t weight_step;
} Samples;

/* How gradients are made and taken. */
typedef struct {
    int64_t batch;      /* samples of a step */
    int64_t steps;      /* of each client; 0: one for each of its batches */
    int64_t update;     /* whether values -= rate * buffer follows each gradient */
    float keep;         /* of the buffer: momentum */
    float rate, decay;  /* buffer + decay * values before the update */
    float pull;         /* weight of the pull to the anchors */
    float toward;       /* weight of the pull of what the last layer sees to prototypes */
    const float *prototypes; /* [clients, classes, channels of the last layer] */
    int64_t prototypes_step;
    const float *held; /* [clients, classes], 1 where there is a prototype */
    int64_t held_step;
    float *chosen; /* [clients, places]: the probability that each one's class got; or NULL */
    int64_t chosen_step;
    float *loss; /* [clients], to which each step's mean cross-entropy is added; may be NULL */
} Steps;

/* Relevance of every unit, summed over the samples of each class. */
typedef struct {
    int64_t rule;  /* 0: mean activation; else LRP */
    float alpha, beta;
    int64_t target; /* whether LRP starts from the true class alone */
    float *const *sums; /* of each affine layer [clients, classes, units], which are added to;
                         * NULL for others */
    float *logits;      /* [clients, held, classes] */
    int64_t logits_step;
} Relevance;

/* A kernel of an encoder is a row of KERNEL numbers, which stand at these places; those of its
 * channels follow their count. It has TAPS weights, features have levels from -FULL to FULL - 1. */
enum { DILATION, LEVEL, PLACES, THRESHOLDS = PLACES + 3, CHANNELS = THRESHOLDS + 4 };
enum { KERNEL = CHANNELS + 1 + 9, TAPS = 9, FULL = 128 };

/* A sensor is a row of AXES channels, -1 behind the last. Of so long windows there are statistics. */
enum { AXES = 4, LONGEST = 1 << 18 };

/* Raised by hand where what the kernels do changes, but no structure's size. */
#define FEDSUB_LAYOUT 4

#if defined(_WIN32)
#define VISIBLE __declspec(dllexport)
#else
#define VISIBLE __attribute__((visibility("default")))
#endif

typedef int Descend(const Chain *, const Samples *, const Steps *);
typedef int Forward(const Chain *, const Samples *, float *out, int64_t out_step);
typedef int Relate(const Chain *, const Samples *, const Relevance *);
/* Of kernels [count, KERNEL] and windows [samples, channels, time]: levels [samples, count, 5]. */
typedef int Encode(const int32_t *kernels, int64_t count, const int16_t *windows, int64_t samples,
                   int64_t channels, int64_t time, int8_t *levels);
/* Of sensors [norms, AXES] and turns [half, 2], cosine and sine: statistics of the groups whose bits
 * are set, levels [samples, statistics]. */
typedef int Describe(int64_t groups, const int32_t *sensors, int64_t norms, const int32_t *turns,
                     int64_t half, const int16_t *windows, int64_t samples, int64_t channels,
                     int64_t time, int8_t *levels);

/* What a call returns; but for DONE nothing was computed. */
enum { DONE = 0, NO_MEMORY = -1, BAD_CHAIN = -2, BAD_SAMPLES = -3, BAD_CALL = -4 };

/* The same functions for several instruction sets. */
VISIBLE Descend descend_avx512, descend_avx2, descend_portable;
VISIBLE Forward forward_avx512, forward_avx2, forward_portable;
VISIBLE Relate relate_avx512, relate_avx2, relate_portable;
VISIBLE Encode encode_avx512, encode_avx2, encode_portable;
VISIBLE Describe describe_avx512, describe_avx2, describe_portable;

#endif
