/* libfedsub: what a device computes, as functions of plain buffers.
 *
 * Training, forward passes and relevance of chains of layers, features of windows, standardised
 * samples and sums of the closed form. No function keeps anything between calls, prints, reads a
 * file or draws a random number: the order of samples is an argument. The caller owns all buffers.
 * Functions may run in several threads at once, on buffers that no two of them write.
 *
 * Structures have one layout on all targets of little-endian numbers: each field is a word of eight
 * bytes, in order, but for the pairs of floats in FedsubSteps and FedsubRelevance. A pointer of 32
 * bits is the lower half of its word. A structure of zeros is what nothing was said in: a buffer
 * that is absent has the address NULL.
 *
 * A function returns FEDSUB_DONE, or a code that says which argument does not fit the others. Then
 * nothing was written. Numbers that are not finite are no error: they go through as IEEE 754 says.
 */
#ifndef FEDSUB_H
#define FEDSUB_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define FEDSUB_WORD alignas(8)
#else
#define FEDSUB_WORD _Alignas(8)
#endif

#if defined(_WIN32)
#define FEDSUB_VISIBLE __declspec(dllexport)
#else
#define FEDSUB_VISIBLE __attribute__((visibility("default")))
#endif

enum {
    FEDSUB_DONE = 0,
    FEDSUB_NO_MEMORY = -1,
    FEDSUB_BAD_CHAIN = -2,   /* layers, their parameters, kernels or sensors of an encoder */
    FEDSUB_BAD_SAMPLES = -3, /* samples, their classes, order or counts; windows */
    FEDSUB_BAD_CALL = -4     /* what else the function takes, and what it writes */
};

/* `count` numbers from `at` on. A client's are `step` from the next one's. With one client any step
 * serves; 0 gives all clients the same numbers. */
typedef struct {
    FEDSUB_WORD float *at;
    int64_t count, step;
} FedsubFloats;

typedef struct {
    FEDSUB_WORD int64_t *at;
    int64_t count, step;
} FedsubInts;

/* One part of a layer's parameters: its weights [clients, units, channels, kernel], or its biases
 * [clients, units]. All buffers of a part have its shape. */
typedef struct {
    FedsubFloats values;
    FedsubFloats into;   /* of a trained layer the optimiser's buffer: momentum * into + gradient */
    FedsubFloats anchor; /* or absent: a pull to it, gradient + pull * (values - anchor) */
    FedsubFloats where;  /* or absent: multiplies that pull */
    FedsubFloats mask;   /* or absent: multiplies the optimiser's buffer */
} FedsubPart;

enum { FEDSUB_AFFINE, FEDSUB_MAX_POOL, FEDSUB_MEAN_POOL };

/* A layer sees [channels, length] numbers of a sample and makes [units, made].
 *
 * An affine layer makes out[u, p] = bias[u] + sum over c, k of weight[u, c, k] * in[c, p * stride +
 * k - padding], and max(out, 0) where `relu`; made = (length + 2 * padding - kernel) / stride + 1.
 * A fully connected one has length, made, kernel and stride 1; its channels are the units * made of
 * the layer before. Pooling has no parameters, units = channels, padding 0, and windows of `kernel`
 * numbers that do not overlap: made * kernel = length. */
typedef struct {
    int64_t kind; /* FEDSUB_AFFINE, FEDSUB_MAX_POOL or FEDSUB_MEAN_POOL */
    int64_t channels, length, units, made;
    int64_t kernel, stride, padding;
    int64_t relu;    /* 0 or 1 */
    int64_t trained; /* 0 or 1; of an affine layer */
    FedsubPart weight, bias;
} FedsubLayer;

/* Layers one after another. To train or relate them, the last is fully connected without `relu`:
 * its units are the classes. */
typedef struct {
    int64_t count;
    FEDSUB_WORD const FedsubLayer *layers;
} FedsubChain;

/* Samples of several clients; a device has one client. */
typedef struct {
    int64_t clients;
    int64_t held;       /* samples of each client that lie in x and y */
    int64_t places;     /* of each client in order and weight */
    FedsubInts counts;  /* [clients]: how many samples, or places of order, are used; step is 0 */
    FedsubFloats x;     /* [clients, held, channels, length] of the first layer */
    FedsubInts y;       /* [clients, held], classes from 0 on; a forward pass needs none */
    FedsubInts order;   /* [clients, places], samples from 0 on; absent: as they lie */
    FedsubFloats weight; /* [clients, places], each one's share in its batch's mean; to train */
} FedsubSamples;

/* How gradients are made and taken. Batches are `batch` places of the order, one after another; the
 * last may be smaller. Each gradient is of the batch's mean cross-entropy with pulls and mask. */
typedef struct {
    int64_t batch;      /* samples of a step */
    int64_t steps;      /* of each client, from its first batch on anew; 0: one for each batch */
    int64_t update;     /* 1: values -= rate * into after each gradient; 0: into alone changes */
    float momentum;
    float rate;         /* learning rate */
    float decay;        /* weight decay: into + decay * values before the update */
    float pull;         /* weight of the pull to the anchors: mu of FedProx */
    float toward;       /* weight of the pull of what the last layer sees to prototypes */
    float unused;       /* 0 */
    FedsubFloats prototypes; /* [clients, classes, channels of the last layer], or absent */
    FedsubFloats present; /* [clients, classes], 1 where there is a prototype, 0 elsewhere */
    FedsubFloats chosen; /* [clients, places], or absent: written the probability of each class */
    FedsubFloats loss;   /* [clients], step 1, or absent: each step's mean cross-entropy is added */
} FedsubSteps;

/* Relevance of every unit, summed over the samples of each class and over positions. */
typedef struct {
    int64_t rule;       /* 0: activation, the mean over positions; 1: LRP */
    float alpha, beta;  /* of LRP */
    int64_t target;     /* 1: LRP starts from the true class alone; 0: from all positive logits */
    /* A row for each layer: [clients, classes, units], added to; absent for pooling. */
    FEDSUB_WORD const FedsubFloats *sums;
    FedsubFloats logits; /* [clients, held, classes], written */
} FedsubRelevance;

/* Steps of stochastic gradient descent on the samples, as FedsubSteps has it. */
FEDSUB_VISIBLE int fedsub_descend(const FedsubChain *chain, const FedsubSamples *samples,
                                  const FedsubSteps *steps);

/* What the last layer makes: out [clients, held, units * made]. */
FEDSUB_VISIBLE int fedsub_forward(const FedsubChain *chain, const FedsubSamples *samples,
                                  const FedsubFloats *out);

/* Relevance; samples are taken as they lie. */
FEDSUB_VISIBLE int fedsub_relate(const FedsubChain *chain, const FedsubSamples *samples,
                                 const FedsubRelevance *relevance);

/* Samples x [samples, channels, time] less the mean [channels], over the deviation [channels], all
 * positive: out is of the shape of x, and may be x. Feature vectors [samples, features] are channels
 * of one number in time. */
FEDSUB_VISIBLE int fedsub_standardise(const float *x, int64_t samples, int64_t channels,
                                      int64_t time, const float *mean, const float *deviation,
                                      float *out);

/* What an encoder sees of standardised samples x [count]: steps [count] of 1/256 deviation, from
 * -2048 to 2047, halves to even. What is no number is refused. */
FEDSUB_VISIBLE int fedsub_quantise(const float *x, int64_t count, int16_t *steps);

/* A kernel of an encoder is a row of FEDSUB_KERNEL numbers: dilation, level, the three places of
 * weight 2, four thresholds, how many channels, then these; 0 behind the last. */
enum { FEDSUB_KERNEL = 19, FEDSUB_AXES = 4 };

/* Features of windows by kernels [count, FEDSUB_KERNEL], whose dilation is at most `time`: of
 * quantised windows [samples, channels, time], levels [samples, count, 5]. */
FEDSUB_VISIBLE int fedsub_encode(const int32_t *kernels, int64_t count, const int16_t *windows,
                                 int64_t samples, int64_t channels, int64_t time, int8_t *levels);

/* Statistics of the same windows, levels [samples, statistics], of the groups whose bits are set: 1
 * shape, 2 autocorrelation, 4 spectrum, 8 correlations. Windows have 2^18 numbers in time at most.
 *
 * sensors [norms, FEDSUB_AXES]: channels of each sensor, -1 behind the last.
 * turns [half, 2]: 4096 cos and -4096 sin of pi k / half, rounded; half is a power of two, at least
 * 64 and at least time / 2. */
FEDSUB_VISIBLE int fedsub_describe(int64_t groups, const int32_t *sensors, int64_t norms,
                                   const int32_t *turns, int64_t half, const int16_t *windows,
                                   int64_t samples, int64_t channels, int64_t time, int8_t *levels);

/* Sums for a head in closed form, of levels [samples, features] with a constant 128 in front and
 * classes y [samples]: added to gram [(features + 1) (features + 2) / 2], the lower triangle of
 * products, row after row, and to cross [classes, features + 1], the levels of each class. */
FEDSUB_VISIBLE int fedsub_sums(const int8_t *levels, const int64_t *y, int64_t samples,
                               int64_t features, int64_t classes, int64_t *gram, int64_t *cross);

/* Memory in which a page of JavaScript places its buffers: `bytes` of it, at a multiple of 16, or
 * NULL. It is the caller's until fedsub_release. Any other memory serves as well. */
FEDSUB_VISIBLE void *fedsub_memory(int64_t bytes);
FEDSUB_VISIBLE void fedsub_release(void *memory);

#ifdef __cplusplus
}
#endif
#endif
