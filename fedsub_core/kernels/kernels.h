/* The kernels, for vectors of LANES floats, of which REGISTERS are at hand; included by one file
 * for each instruction set.
 *
 * A block of samples lies in panels of WIDTH of them: values of a layer are [panels, channels,
 * length, WIDTH], samples last. So products, forward and backward, multiply one weight with two
 * vectors of samples, and a convolution is one with other vectors at each position. Gradients of
 * weights sum over samples: a fully connected layer's take samples as lines for that, a
 * convolution's add vectors up over positions first. Every sum has one order, and fused
 * multiply-adds: all instruction sets give the same bits, whoever shares the stack.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"

#define WIDTH (2 * LANES)
#define ROWS (REGISTERS == 32 ? 12 : 6)  /* accumulators in a product: twice as many */
#define ACROSS (REGISTERS == 32 ? 4 : 2) /* vectors of inputs in a gradient of weights */
#define DOWN 6                           /* units in a gradient of weights */
#define STABILISER 1e-6f
/* Below, z- = z - z+ is not exact enough: z- is summed by itself (lrp.py). */
#define SMALL 64
#define TINY 1e-30f
/* Samples in a block of passes that train nothing, where each position makes so many numbers. */
#define BLOCK 64
#define BLOCK_OF_SERIES 32
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

INLINE int64_t up_to(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

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
#define EACH_TILE(total, ...)                                                           \
    for (int64_t r = 0; r < (total);) {                                                 \
        Vector acc[ROWS][2];                                                            \
        if ((total) - r >= ROWS) { enum { N = ROWS }; __VA_ARGS__ r += N; }             \
        else if (ROWS > 8 && (total) - r >= 8) { enum { N = ROWS > 8 ? 8 : 1 }; __VA_ARGS__ r += N; } \
        else if ((total) - r >= 4) { enum { N = 4 }; __VA_ARGS__ r += N; }              \
        else { enum { N = 1 }; __VA_ARGS__ r += N; }                                    \
    }

/* acc += what `layer` makes at position p, by one of the products above. */
#define AT_POSITION(product, w, padded_length)                                                 \
    if (connected(layer)) {                                                                    \
        product(N, (w) + r * fan_in, fan_in, 1, fan_in, x, WIDTH, acc);                        \
    } else {                                                                                   \
        for (int64_t c = 0; c < layer->channels; c++)                                          \
            product(N, (w) + r * fan_in + c * layer->kernel, fan_in, 1, layer->kernel,         \
                    x + (c * (padded_length) + p * layer->stride) * WIDTH, WIDTH, acc);        \
    }

static int connected(const Layer *layer) {
    return layer->kernel == 1 && layer->length == 1 && !layer->padding;
}

static int64_t fan_in_of(const Layer *layer) { return layer->channels * layer->kernel; }

static const float *weights_of(const Layer *layer, int64_t client) {
    return layer->weight.values + client * layer->weight.values_step;
}

static const float *biases_of(const Layer *layer, int64_t client) {
    return layer->bias.values + client * layer->bias.values_step;
}

/* out [units, made, WIDTH] = weight x + bias, and max(out, 0) where `relu`; one panel, of which x
 * is padded. */
static void affine_forward(const Layer *layer, int64_t client, int relu, const float *x,
                           float *out) {
    const float *weight = weights_of(layer, client), *bias = biases_of(layer, client);
    const int64_t fan_in = fan_in_of(layer), padded = layer->length + 2 * layer->padding;
    for (int64_t p = 0; p < layer->made; p++)
        EACH_TILE(layer->units, {
            for (int i = 0; i < N; i++) acc[i][0] = acc[i][1] = all(bias[r + i]);
            AT_POSITION(products, weight, padded)
            for (int i = 0; i < N; i++)
                for (int half = 0; half < 2; half++) {
                    const Vector z = acc[i][half];
                    store(out + ((r + i) * layer->made + p) * WIDTH + half * LANES,
                          relu ? rectified(z) : z);
                }
        })
}

/* into [channels, length, WIDTH] = what `grad` [units, made, WIDTH] comes to at the input; one
 * panel. With `other`, a weight that is not positive takes the vectors so many floats on. */
INLINE void through_weights(const Layer *layer, int64_t client, const float *grad, int64_t other,
                            float *into) {
    const float *weight = weights_of(layer, client);
    const int64_t fan_in = fan_in_of(layer), kernel = layer->kernel, apart = layer->made * WIDTH;
    for (int64_t q = 0; q < layer->length; q++)
        EACH_TILE(layer->channels, {
            for (int i = 0; i < N; i++) acc[i][0] = acc[i][1] = all(0);
            for (int64_t k = 0; k < kernel; k++) {
                const int64_t from = q + layer->padding - k, p = from / layer->stride;
                if (from < 0 || from % layer->stride || p >= layer->made) continue;
                if (other)
                    chosen_products(N, weight + r * kernel + k, kernel, fan_in, layer->units,
                                    grad + p * WIDTH, apart, other, acc);
                else
                    products(N, weight + r * kernel + k, kernel, fan_in, layer->units,
                             grad + p * WIDTH, apart, acc);
            }
            for (int i = 0; i < N; i++)
                for (int half = 0; half < 2; half++)
                    store(into + ((r + i) * layer->length + q) * WIDTH + half * LANES,
                          acc[i][half]);
        })
}

static void affine_backward(const Layer *layer, int64_t client, const float *grad, float *into) {
    through_weights(layer, client, grad, 0, into);
}

/* Pooling of one panel. */
static void pool_forward(const Layer *layer, const float *x, float *out) {
    for (int64_t at = 0; at < layer->channels * layer->made; at++)
        for (int64_t lane = 0; lane < WIDTH; lane += LANES) {
            const float *from = x + at * layer->kernel * WIDTH + lane;
            Vector found = load(from);
            for (int64_t i = 1; i < layer->kernel; i++) {
                const Vector next = load(from + i * WIDTH);
                const Choice more = (next > found) | (next != next);
                found = layer->kind == MEAN_POOL ? found + next
                                                 : only(more, next) + only(~more, found);
            }
            if (layer->kind == MEAN_POOL) found /= (float)layer->kernel;
            store(out + at * WIDTH + lane, found);
        }
}

/* Send each gradient to where its maximum was (the first of equal ones), or to its whole window. */
static void pool_backward(const Layer *layer, const float *x, const float *out, const float *grad,
                          float *into) {
    for (int64_t at = 0; at < layer->channels * layer->made; at++)
        for (int64_t lane = 0; lane < WIDTH; lane += LANES) {
            const float *from = x + at * layer->kernel * WIDTH + lane;
            float *to = into + at * layer->kernel * WIDTH + lane;
            const Vector most = load(out + at * WIDTH + lane), whole = load(grad + at * WIDTH + lane);
            const Vector share = whole / (float)layer->kernel;
            Choice open = ~(Choice){0};
            for (int64_t i = 0; i < layer->kernel; i++) {
                const Vector seen = load(from + i * WIDTH);
                const Choice here = open & ((seen == most) | (seen != seen));
                store(to + i * WIDTH, layer->kind == MEAN_POOL ? share : only(here, whole));
                open &= ~here;
            }
        }
}

/* One client's pointers of a part, and what its buffer and values become. */
typedef struct {
    float *values, *into;
    const float *anchor, *where, *mask;
    float keep, pull, decay, rate;
    int update;
} Taking;

static Taking taking(const Part *part, const Steps *steps, int64_t client) {
    return (Taking){
        part->values + client * part->values_step,
        part->into + client * part->into_step,
        part->anchor ? part->anchor + client * part->anchor_step : NULL,
        part->where ? part->where + client * part->where_step : NULL,
        part->mask ? part->mask + client * part->mask_step : NULL,
        steps->keep, steps->pull, steps->decay, steps->rate, (int)steps->update,
    };
}

/* Take the gradient of the number, or of the vector of numbers, at a place. */
#define TAKE(how, at, gradient, Type, LOAD, STORE)                         \
    do {                                                                   \
        Type into = (how)->keep * LOAD((how)->into + (at)) + (gradient);   \
        if ((how)->anchor) {                                               \
            Type away = LOAD((how)->values + (at)) - LOAD((how)->anchor + (at)); \
            if ((how)->where) away *= LOAD((how)->where + (at));           \
            into += (how)->pull * away;                                    \
        }                                                                  \
        if ((how)->mask) into *= LOAD((how)->mask + (at));                 \
        if ((how)->update) {                                               \
            const Type values = LOAD((how)->values + (at));                \
            into += (how)->decay * values;                                 \
            STORE((how)->values + (at), values - (how)->rate * into);      \
        }                                                                  \
        STORE((how)->into + (at), into);                                   \
    } while (0)

INLINE void take(const Taking *how, int64_t at, Vector gradient) {
    TAKE(how, at, gradient, Vector, load, store);
}

#define LOAD_ONE(from) (*(from))
#define STORE_ONE(to, value) (*(to) = (value))
INLINE void take_one(const Taking *how, int64_t at, float gradient) {
    TAKE(how, at, gradient, float, LOAD_ONE, STORE_ONE);
}

/* The gradient of `down` units' weights for `across` vectors of inputs, sums over samples. */
INLINE void gradient_tile(int down, int across, const float *grad, const float *rows, int64_t line,
                          int64_t samples, Vector acc[DOWN][ACROSS]) {
    for (int d = 0; d < down; d++)
        for (int a = 0; a < across; a++) acc[d][a] = all(0);
    for (int64_t j = 0; j < samples; j++) {
        Vector seen[ACROSS];
        for (int a = 0; a < across; a++) seen[a] = load(rows + j * line + a * LANES);
        for (int d = 0; d < down; d++) {
            const Vector one = all(grad[d * samples + j]);
            for (int a = 0; a < across; a++) acc[d][a] += one * seen[a];
        }
    }
}

/* Units d.. of a layer: its gradient of weights, taken; `grad` [units, samples]. */
INLINE void gradient_rows(int down, const Taking *how, int64_t fan_in, int64_t d, const float *grad,
                          const float *rows, int64_t line, int64_t samples) {
    Vector acc[DOWN][ACROSS];
    int64_t at = 0;
    for (; at + ACROSS * LANES <= fan_in; at += ACROSS * LANES) {
        gradient_tile(down, ACROSS, grad + d * samples, rows + at, line, samples, acc);
        for (int i = 0; i < down; i++)
            for (int a = 0; a < ACROSS; a++)
                take(how, (d + i) * fan_in + at + a * LANES, acc[i][a]);
    }
    for (; at < fan_in; at += LANES) {
        gradient_tile(down, 1, grad + d * samples, rows + at, line, samples, acc);
        for (int i = 0; i < down; i++) {
            if (at + LANES <= fan_in) {
                take(how, (d + i) * fan_in + at, acc[i][0]);
            } else {
                for (int64_t k = at; k < fan_in; k++)
                    take_one(how, (d + i) * fan_in + k, acc[i][0][k - at]);
            }
        }
    }
}

/* Take a fully connected layer's gradients: `grad` [units, samples] with respect to what it made, `rows` [samples,
 * line] what it saw. */
static void connected_gradient(const Layer *layer, const Steps *steps, int64_t client,
                           const float *grad, const float *rows, int64_t line, int64_t samples) {
    const Taking weight = taking(&layer->weight, steps, client);
    const Taking bias = taking(&layer->bias, steps, client);
    int64_t d = 0;
    for (; d + DOWN <= layer->units; d += DOWN)
        gradient_rows(DOWN, &weight, layer->channels, d, grad, rows, line, samples);
    for (; d < layer->units; d++)
        gradient_rows(1, &weight, layer->channels, d, grad, rows, line, samples);
    for (d = 0; d < layer->units; d++) take_one(&bias, d, sum(grad + d * samples, samples));
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

/* Take the gradients of `units` units' weights w.. of channel c; x is padded. */
INLINE void convolved_tile(int units, int weights, const Layer *layer, const Taking *how,
                           int64_t u, int64_t c, int64_t k, const float *grad, const float *x,
                           int64_t padded_length, int64_t samples) {
    Vector acc[UNITS_AT_ONCE][WEIGHTS_AT_ONCE][PARTS];
    const int64_t made = layer->made, panel_out = layer->units * made * WIDTH;
    const int64_t panel_in = layer->channels * padded_length * WIDTH;
    for (int d = 0; d < units; d++)
        for (int a = 0; a < weights; a++)
            for (int part = 0; part < PARTS; part++) acc[d][a][part] = all(0);
    for (int64_t p = 0; p < made; p++) {
        const float *seen = x + (c * padded_length + p * layer->stride + k) * WIDTH;
        for (int64_t group = 0; group < samples / GROUP; group++)
            for (int part = 0; part < PARTS; part++) {
                const int64_t in = place_of(group, part, panel_in);
                const int64_t out = place_of(group, part, panel_out);
                Vector one[UNITS_AT_ONCE];
                for (int d = 0; d < units; d++) one[d] = load(grad + ((u + d) * made + p) * WIDTH + out);
                for (int a = 0; a < weights; a++) {
                    const Vector of = load(seen + a * WIDTH + in);
                    for (int d = 0; d < units; d++) acc[d][a][part] += one[d] * of;
                }
            }
    }
    for (int d = 0; d < units; d++)
        for (int a = 0; a < weights; a++)
            take_one(how, ((u + d) * layer->channels + c) * layer->kernel + k + a,
                     sum_of_group(acc[d][a]));
}

/* Take a convolution's gradients: `grad` [panels, units, made, WIDTH] with respect to what it made,
 * x what it saw, padded. */
static void convolved_gradient(const Layer *layer, const Steps *steps, int64_t client,
                               const float *grad, const float *x, int64_t samples) {
    const Taking weight = taking(&layer->weight, steps, client);
    const Taking bias = taking(&layer->bias, steps, client);
    const int64_t padded = layer->length + 2 * layer->padding;
    for (int64_t u = 0; u < layer->units; u += UNITS_AT_ONCE) {
        const int whole = u + UNITS_AT_ONCE <= layer->units;
        for (int64_t c = 0; c < layer->channels; c++)
            for (int64_t k = 0; k < layer->kernel; k += WEIGHTS_AT_ONCE) {
                const int64_t left = layer->kernel - k;
                if (whole && left >= WEIGHTS_AT_ONCE) {
                    convolved_tile(UNITS_AT_ONCE, WEIGHTS_AT_ONCE, layer, &weight, u, c, k, grad, x,
                                   padded, samples);
                } else if (whole && left == WEIGHTS_AT_ONCE - 1) {
                    convolved_tile(UNITS_AT_ONCE, WEIGHTS_AT_ONCE - 1, layer, &weight, u, c, k, grad,
                                   x, padded, samples);
                } else {
                    for (int64_t d = u; d < layer->units && d < u + UNITS_AT_ONCE; d++)
                        for (int64_t a = k; a < layer->kernel && a < k + WEIGHTS_AT_ONCE; a++)
                            convolved_tile(1, 1, layer, &weight, d, c, a, grad, x, padded, samples);
                }
            }
    }
    for (int64_t u = 0; u < layer->units; u++) {
        Vector acc[PARTS];
        for (int part = 0; part < PARTS; part++) acc[part] = all(0);
        for (int64_t p = 0; p < layer->made; p++)
            for (int64_t group = 0; group < samples / GROUP; group++)
                for (int part = 0; part < PARTS; part++)
                    acc[part] += load(grad + (u * layer->made + p) * WIDTH +
                                      place_of(group, part, layer->units * layer->made * WIDTH));
        take_one(&bias, u, sum_of_group(acc));
    }
}

/* Put samples `begin`.. of a client into panels [panels, numbers, WIDTH], and, where `rows` is
 * given, into lines [samples, line]; what pads both is 0. */
static void gather(const Samples *samples, int64_t client, int64_t begin, int64_t count,
                   int64_t numbers, float *panels, int64_t padded, float *rows, int64_t line) {
    const float *x = samples->x + client * samples->x_step;
    const int64_t *order = samples->order ? samples->order + client * samples->order_step : NULL;
    for (int64_t j = 0; j < padded; j++) {
        float *column = panels + j / WIDTH * numbers * WIDTH + j % WIDTH;
        const float *from = NULL;
        if (j < count) from = x + (order ? order[begin + j] : begin + j) * numbers;
        for (int64_t k = 0; k < numbers; k++) column[k * WIDTH] = from ? from[k] : 0;
        if (rows) {
            memset(rows + j * line, 0, line * sizeof(float));
            if (from) memcpy(rows + j * line, from, numbers * sizeof(float));
        }
    }
}

/* Panels [panels, units, WIDTH] as lines [samples, line], and as [units, samples]. */
static void to_lines(const float *panels, int64_t units, int64_t padded, float *rows, int64_t line) {
    for (int64_t j = 0; j < padded; j += 8)
        for (int64_t k = 0; k < units; k++) {
            const float *from = panels + (j / WIDTH * units + k) * WIDTH + j % WIDTH;
            for (int i = 0; i < 8; i++) rows[(j + i) * line + k] = from[i];
        }
    for (int64_t j = 0; j < padded; j++)
        for (int64_t k = units; k < line; k++) rows[j * line + k] = 0;
}

/* What layers see and make of one block of samples, in one piece of memory. */
typedef struct {
    float *memory;
    /* [layers + 1]: what the first layer sees, and what each makes. */
    float **panels;
    /* [layers]: what each sees, padded where it is a convolution that pads. */
    float **seen;
    /* [layers]: what each sees as lines, to train, or makes before max(z, 0), for relevance. */
    float **beside;
    /* Gradients, or relevance, of two layers; and what is made of one of them. */
    float *grad, *below, *joined;
    int64_t *lines, *y;
} Scratch;

static void let_go(Scratch *scratch) {
    free(scratch->memory);
    free(scratch->panels);
    free(scratch->lines);
}

static int64_t numbers_in(const Layer *layer) { return layer->channels * layer->length; }

static int64_t numbers_out(const Layer *layer) { return layer->units * layer->made; }

static int64_t block_of(const Chain *chain) {
    for (int64_t i = 0; i < chain->count; i++)
        if (!connected(chain->layers + i)) return BLOCK_OF_SERIES;
    return BLOCK;
}

enum { TO_PREDICT, TO_TRAIN, TO_RELATE };

/* Memory for blocks of `padded` samples. */
static int make(Scratch *scratch, const Chain *chain, int64_t padded, int purpose) {
    const int64_t count = chain->count;
    int64_t widest = numbers_in(chain->layers), total = widest;
    memset(scratch, 0, sizeof *scratch);
    scratch->panels = calloc(3 * count + 1, sizeof(float *));
    scratch->lines = calloc(count + padded, sizeof(int64_t));
    for (int64_t i = 0; i < count; i++) {
        const Layer *layer = chain->layers + i;
        widest = more(widest, numbers_out(layer));
        total += 2 * numbers_out(layer) + up_to(numbers_in(layer), LANES);
        if (layer->padding) total += layer->channels * (layer->length + 2 * layer->padding);
    }
    /* Gradients of two layers; of one with its samples last, or LRP's two shares of one. */
    total += 4 * widest;
    scratch->memory = malloc(total * padded * sizeof(float) + 64);
    if (!scratch->panels || !scratch->lines || !scratch->memory) {
        let_go(scratch);
        return -1;
    }
    scratch->seen = scratch->panels + count + 1;
    scratch->beside = scratch->seen + count;
    scratch->y = scratch->lines + count;
    float *at = (float *)(((uintptr_t)scratch->memory + 63) & ~(uintptr_t)63);
    scratch->panels[0] = at;
    at += numbers_in(chain->layers) * padded;
    for (int64_t i = 0; i < count; i++) {
        const Layer *layer = chain->layers + i;
        scratch->seen[i] = scratch->panels[i];
        if (layer->padding) {
            scratch->seen[i] = at;
            at += layer->channels * (layer->length + 2 * layer->padding) * padded;
        }
        scratch->panels[i + 1] = at;
        at += numbers_out(layer) * padded;
        scratch->lines[i] = up_to(numbers_in(layer), LANES);
        scratch->beside[i] = at;
        if (purpose == TO_TRAIN && connected(layer)) at += scratch->lines[i] * padded;
        if (purpose == TO_RELATE) at += numbers_out(layer) * padded;
    }
    scratch->grad = at;
    scratch->below = at + widest * padded;
    scratch->joined = at + 2 * widest * padded;
    return 0;
}

/* Put what a convolution sees between zeros. */
static void pad(const Layer *layer, const float *x, float *into, int64_t panels) {
    const int64_t around = layer->padding * WIDTH, inside = layer->length * WIDTH;
    for (int64_t row = 0; row < panels * layer->channels; row++, x += inside) {
        memset(into, 0, around * sizeof(float));
        memcpy(into + around, x, inside * sizeof(float));
        memset(into + around + inside, 0, around * sizeof(float));
        into += inside + 2 * around;
    }
}

/* What layer i makes of what the one before has made, before max(z, 0) unless `relu`. */
static void layer_forward(const Chain *chain, int64_t i, int64_t client, const Scratch *scratch,
                          int64_t padded, int relu, float *out) {
    const Layer *layer = chain->layers + i;
    const int64_t panels = padded / WIDTH, length = layer->length + 2 * layer->padding;
    if (layer->padding) pad(layer, scratch->panels[i], scratch->seen[i], panels);
    for (int64_t p = 0; p < panels; p++) {
        const float *x = scratch->seen[i] + p * layer->channels * length * WIDTH;
        float *to = out + p * numbers_out(layer) * WIDTH;
        if (layer->kind == AFFINE)
            affine_forward(layer, client, relu, x, to);
        else
            pool_forward(layer, x, to);
    }
}

/* What layer i's input gets of the gradient with respect to its output. */
static void layer_backward(const Chain *chain, int64_t i, int64_t client, const Scratch *scratch,
                           int64_t padded, const float *grad, float *below) {
    const Layer *layer = chain->layers + i;
    for (int64_t p = 0; p < padded / WIDTH; p++) {
        const int64_t in = p * numbers_in(layer) * WIDTH, out = p * numbers_out(layer) * WIDTH;
        if (layer->kind == AFFINE)
            affine_backward(layer, client, grad + out, below + in);
        else
            pool_backward(layer, scratch->panels[i] + in, scratch->panels[i + 1] + out, grad + out,
                          below + in);
    }
}

static void pass_forward(const Chain *chain, int64_t client, const Scratch *scratch,
                         int64_t padded) {
    for (int64_t i = 0; i < chain->count; i++)
        layer_forward(chain, i, client, scratch, padded, (int)chain->layers[i].relu,
                      scratch->panels[i + 1]);
}

/* Logits [panels, classes, WIDTH] become the gradient of the batch's mean cross-entropy, whose
 * value is returned. */
static float softmax_gradient(float *logits, int64_t classes, int64_t padded, int64_t count,
                              const int64_t *y, const float *weight, float *chosen) {
    float loss = 0;
    for (int64_t j = 0; j < padded; j++) {
        float *z = logits + j / WIDTH * classes * WIDTH + j % WIDTH;
        if (j >= count) {
            for (int64_t c = 0; c < classes; c++) z[c * WIDTH] = 0;
            continue;
        }
        float most = z[0], total = 0;
        for (int64_t c = 1; c < classes; c++) most = z[c * WIDTH] > most ? z[c * WIDTH] : most;
        for (int64_t c = 0; c < classes; c++) total += z[c * WIDTH] = expf(z[c * WIDTH] - most);
        for (int64_t c = 0; c < classes; c++) z[c * WIDTH] /= total;
        const float got = z[y[j] * WIDTH];
        if (chosen) chosen[j] = got;
        loss -= logf(got < TINY ? TINY : got) * weight[j];
        z[y[j] * WIDTH] -= 1;
        for (int64_t c = 0; c < classes; c++) z[c * WIDTH] *= weight[j];
    }
    return loss;
}

/* Add the gradient of the pull to prototypes to that with respect to what the last layer sees. */
static void pull_to_prototypes(const Steps *steps, int64_t client, int64_t d, int64_t count,
                               const int64_t *y, const float *weight, const float *seen,
                               float *grad) {
    const float *prototypes = steps->prototypes + client * steps->prototypes_step;
    const float *held = steps->held + client * steps->held_step;
    for (int64_t j = 0; j < count; j++) {
        const float by = 2 * steps->toward / d * (held[y[j]] * weight[j]);
        const int64_t column = j / WIDTH * d * WIDTH + j % WIDTH;
        for (int64_t k = 0; k < d; k++) {
            const int64_t at = column + k * WIDTH;
            grad[at] += by * (seen[at] - prototypes[y[j] * d + k]);
        }
    }
}

/* Take layer i's gradients. */
static void layer_gradient(const Chain *chain, int64_t i, const Steps *steps, int64_t client,
                           const Scratch *scratch, int64_t padded, const float *grad) {
    const Layer *layer = chain->layers + i;
    if (!connected(layer)) {
        convolved_gradient(layer, steps, client, grad, scratch->seen[i], padded);
        return;
    }
    if (i)
        to_lines(scratch->panels[i], layer->channels, padded, scratch->beside[i],
                 scratch->lines[i]);
    if (padded > WIDTH) {
        for (int64_t p = 0; p < padded / WIDTH; p++)
            for (int64_t u = 0; u < layer->units; u++)
                memcpy(scratch->joined + u * padded + p * WIDTH,
                       grad + (p * layer->units + u) * WIDTH, WIDTH * sizeof(float));
        grad = scratch->joined;
    }
    connected_gradient(layer, steps, client, grad, scratch->beside[i], scratch->lines[i], padded);
}

/* One step of one client: samples begin.. of its order. */
static void step(const Chain *chain, const Samples *samples, const Steps *steps, int64_t client,
                 int64_t begin, int64_t count, const Scratch *scratch) {
    const int64_t padded = up_to(count, PADDED), last = chain->count - 1;
    const Layer *layers = chain->layers;
    const int64_t *labels = samples->y + client * samples->y_step;
    const int64_t *order = samples->order ? samples->order + client * samples->order_step : NULL;
    const float *weight = samples->weight + client * samples->weight_step + begin;
    int64_t first = 0, *y = scratch->y;
    for (int64_t j = 0; j < count; j++) y[j] = labels[order ? order[begin + j] : begin + j];
    while (!layers[first].trained) first++;
    gather(samples, client, begin, count, numbers_in(layers), scratch->panels[0], padded,
           layers[0].trained && connected(layers) ? scratch->beside[0] : NULL, scratch->lines[0]);
    pass_forward(chain, client, scratch, padded);
    float *chosen = steps->chosen ? steps->chosen + client * steps->chosen_step + begin : NULL;
    float *grad = scratch->panels[last + 1], *below = scratch->below;
    const float loss = softmax_gradient(grad, layers[last].units, padded, count, y, weight, chosen);
    if (steps->loss) steps->loss[client] += loss;
    for (int64_t i = last; i >= first; i--) {
        if (layers[i].relu)
            for (int64_t at = 0; at < numbers_out(layers + i) * padded; at += LANES) {
                const Vector made = load(scratch->panels[i + 1] + at);
                store(grad + at, only(~(made <= 0), load(grad + at)));
            }
        if (i > first) layer_backward(chain, i, client, scratch, padded, grad, below);
        if (i > first && i == last && steps->toward != 0)
            pull_to_prototypes(steps, client, layers[i].channels, count, y, weight,
                               scratch->panels[i], below);
        if (layers[i].trained) layer_gradient(chain, i, steps, client, scratch, padded, grad);
        float *free = i == last ? scratch->grad : grad;
        grad = below;
        below = free;
    }
}

int ENTRY(descend)(const Chain *chain, const Samples *samples, const Steps *steps) {
    Scratch scratch;
    if (make(&scratch, chain, up_to(steps->batch, PADDED), TO_TRAIN)) return -1;
    for (int64_t client = 0; client < samples->clients; client++) {
        const int64_t count = samples->counts[client];
        const int64_t batches = (count + steps->batch - 1) / steps->batch;
        const int64_t todo = steps->steps ? steps->steps : batches;
        for (int64_t n = 0; n < todo && count; n++) {
            const int64_t begin = n % batches * steps->batch;
            const int64_t left = count - begin;
            step(chain, samples, steps, client, begin, left < steps->batch ? left : steps->batch,
                 &scratch);
        }
    }
    let_go(&scratch);
    return 0;
}

/* Panels [panels, numbers, WIDTH] as [samples, numbers]. */
static void scatter(const float *panels, int64_t numbers, int64_t count, float *to) {
    for (int64_t j = 0; j < count; j++)
        for (int64_t k = 0; k < numbers; k++)
            to[j * numbers + k] = panels[(j / WIDTH * numbers + k) * WIDTH + j % WIDTH];
}

int ENTRY(forward)(const Chain *chain, const Samples *samples, float *out, int64_t out_step) {
    Scratch scratch;
    const int64_t block = block_of(chain), numbers = numbers_out(chain->layers + chain->count - 1);
    if (make(&scratch, chain, block, TO_PREDICT)) return -1;
    for (int64_t client = 0; client < samples->clients; client++)
        for (int64_t begin = 0; begin < samples->counts[client]; begin += block) {
            const int64_t left = samples->counts[client] - begin, count = left < block ? left : block;
            const int64_t padded = up_to(count, PADDED);
            gather(samples, client, begin, count, numbers_in(chain->layers), scratch.panels[0],
                   padded, NULL, 0);
            pass_forward(chain, client, &scratch, padded);
            scatter(scratch.panels[chain->count], numbers, count,
                    out + client * out_step + begin * numbers);
        }
    let_go(&scratch);
    return 0;
}

/* Of which class each sample of a block is: masks [classes, padded]. */
static void mark(const int64_t *y, int64_t classes, int64_t count, int64_t padded, float *masks) {
    memset(masks, 0, classes * padded * sizeof(float));
    for (int64_t j = 0; j < count; j++) masks[y[j] * padded + j] = 1;
}

/* Add the values of each class's samples up: values [panels, units, WIDTH], to [classes, units]. */
static void add_by_class(const float *values, int64_t units, int64_t padded, const float *masks,
                         int64_t classes, float *to) {
    for (int64_t c = 0; c < classes; c++) {
        const float *mask = masks + c * padded;
        if (sum(mask, padded) == 0) continue;
        for (int64_t u = 0; u < units; u++) {
            Eight total = {0};
            for (int64_t j = 0; j < padded; j += 8) {
                Eight value, of;
                memcpy(&value, values + (j / WIDTH * units + u) * WIDTH + j % WIDTH, sizeof value);
                memcpy(&of, mask + j, sizeof of);
                total += of * value;
            }
            to[c * units + u] += sum((const float *)&total, 8);
        }
    }
}

/* Relevance of a layer's units, or how active they are, summed over each class's samples:
 * positions are added up, or averaged, in scratch->joined. */
static void add_units(const Layer *layer, int64_t client, const Relevance *how, int64_t i,
                      const float *values, int64_t padded, const Scratch *scratch,
                      const float *masks, int64_t classes) {
    const float *of = values;
    if (layer->made > 1) {
        for (int64_t u = 0; u < padded / WIDTH * layer->units; u++)
            for (int64_t lane = 0; lane < WIDTH; lane += LANES) {
                Vector total = all(0);
                for (int64_t p = 0; p < layer->made; p++)
                    total += load(values + (u * layer->made + p) * WIDTH + lane);
                if (!how->rule) total /= (float)layer->made;
                store(scratch->joined + u * WIDTH + lane, total);
            }
        of = scratch->joined;
    }
    add_by_class(of, layer->units, padded, masks, classes,
                 how->sums[i] + client * classes * layer->units);
}

/* shares [2, units, made, WIDTH]: relevance over the sums of the positive and of the negative
 * contributions to each unit, weighed by the rule; one panel. `positive` are the positive weights, 0
 * in place of others; x is padded, `z` is what the layer made. */
static void layer_shares(const Layer *layer, int64_t client, const Relevance *how,
                         const float *positive, const float *x, const float *z,
                         const float *relevance, float *shares) {
    const float *weight = weights_of(layer, client), *bias = biases_of(layer, client);
    const int64_t fan_in = fan_in_of(layer), padded = layer->length + 2 * layer->padding;
    const int apart = how->beta != 0 && (fan_in < SMALL || layer->units < SMALL);
    float *others = shares + numbers_out(layer) * WIDTH;
    const Vector most = all(-STABILISER);
    for (int64_t p = 0; p < layer->made; p++) {
        EACH_TILE(layer->units, {
            for (int i = 0; i < N; i++)
                acc[i][0] = acc[i][1] = all((bias[r + i] > 0 ? bias[r + i] : 0) + STABILISER);
            AT_POSITION(products, positive, padded)
            for (int i = 0; i < N; i++)
                for (int half = 0; half < 2; half++) {
                    const int64_t at = ((r + i) * layer->made + p) * WIDTH + half * LANES;
                    const Vector whole = load(relevance + at), above = acc[i][half];
                    const Vector under = load(z + at) - above;
                    const Vector clamped = only(~(under >= most), under) + only(under >= most, most);
                    store(shares + at, how->alpha * whole / above);
                    store(others + at, how->beta != 0 ? -how->beta * whole / clamped : all(0));
                }
        })
        if (!apart) continue;
        EACH_TILE(layer->units, {
            for (int i = 0; i < N; i++)
                acc[i][0] = acc[i][1] = all((bias[r + i] < 0 ? bias[r + i] : 0) - STABILISER);
            AT_POSITION(negative_products, weight, padded)
            for (int i = 0; i < N; i++)
                for (int half = 0; half < 2; half++) {
                    const int64_t at = ((r + i) * layer->made + p) * WIDTH + half * LANES;
                    store(others + at, -how->beta * load(relevance + at) / acc[i][half]);
                }
        })
    }
}

/* Relevance at what an affine layer saw, which is not negative; one panel. */
static void affine_relevance(const Layer *layer, int64_t client, const float *x,
                             const float *shares, float *into) {
    through_weights(layer, client, shares, numbers_out(layer) * WIDTH, into);
    for (int64_t at = 0; at < numbers_in(layer) * WIDTH; at += LANES)
        store(into + at, load(into + at) * load(x + at));
}

/* Relevance at what a pooling layer saw: the largest takes all, averages share by how large. */
static void pool_relevance(const Layer *layer, const float *x, const float *out,
                           float *relevance, float *into) {
    if (layer->kind == MEAN_POOL)
        for (int64_t at = 0; at < numbers_out(layer) * WIDTH; at += LANES) {
            const Vector made = load(out + at), most = all(STABILISER);
            const Vector sign = only(made < 0, -most) + only(~(made < 0), most);
            store(relevance + at, load(relevance + at) / (made + sign));
        }
    pool_backward(layer, x, out, relevance, into);
    if (layer->kind == MEAN_POOL)
        for (int64_t at = 0; at < numbers_in(layer) * WIDTH; at += LANES)
            store(into + at, load(into + at) * load(x + at));
}

/* One block of a client's samples. */
static void relate_block(const Chain *chain, const Samples *samples, const Relevance *how,
                         int64_t client, int64_t begin, int64_t count, const Scratch *scratch,
                         float *const *positive, float *masks) {
    const int64_t padded = up_to(count, PADDED), last = chain->count - 1;
    const int64_t classes = chain->layers[last].units;
    const int64_t *y = samples->y + client * samples->y_step + begin;
    gather(samples, client, begin, count, numbers_in(chain->layers), scratch->panels[0], padded,
           NULL, 0);
    mark(y, classes, count, padded, masks);
    for (int64_t i = 0; i <= last; i++) {
        const Layer *layer = chain->layers + i;
        layer_forward(chain, i, client, scratch, padded, 0, scratch->beside[i]);
        for (int64_t at = 0; at < numbers_out(layer) * padded; at += LANES) {
            const Vector z = load(scratch->beside[i] + at);
            store(scratch->panels[i + 1] + at, layer->relu ? rectified(z) : z);
        }
        if (!how->rule && layer->kind == AFFINE)
            add_units(layer, client, how, i, scratch->panels[i + 1], padded, scratch, masks,
                      classes);
    }
    const float *made = scratch->panels[last + 1];
    scatter(made, classes, count, how->logits + client * how->logits_step + begin * classes);
    if (!how->rule) return;
    float *relevance = scratch->grad, *below = scratch->below;
    for (int64_t j = 0; j < padded; j++)
        for (int64_t c = 0; c < classes; c++) {
            const int64_t at = (j / WIDTH * classes + c) * WIDTH + j % WIDTH;
            const int counts = j < count && !(made[at] <= 0) && (!how->target || c == y[j]);
            relevance[at] = counts ? made[at] : 0;
        }
    for (int64_t i = last;; i--) {
        const Layer *layer = chain->layers + i;
        if (layer->kind == AFFINE)
            add_units(layer, client, how, i, relevance, padded, scratch, masks, classes);
        if (!i) return;
        for (int64_t p = 0; p < padded / WIDTH; p++) {
            const int64_t in = p * numbers_in(layer) * WIDTH, out = p * numbers_out(layer) * WIDTH;
            const int64_t length = layer->length + 2 * layer->padding;
            const float *seen = scratch->panels[i] + in;
            if (layer->kind == AFFINE) {
                layer_shares(layer, client, how, positive[i],
                             scratch->seen[i] + p * layer->channels * length * WIDTH,
                             scratch->beside[i] + out, relevance + out, scratch->joined);
                affine_relevance(layer, client, seen, scratch->joined, below + in);
            } else {
                pool_relevance(layer, seen, scratch->panels[i + 1] + out, relevance + out,
                               below + in);
            }
        }
        float *free = relevance;
        relevance = below;
        below = free;
    }
}

/* A client's positive weights, 0 in place of others, of every layer but the first. */
static void keep_positive(const Chain *chain, int64_t client, float *const *positive) {
    for (int64_t i = 1; i < chain->count; i++) {
        const Layer *layer = chain->layers + i;
        if (layer->kind != AFFINE) continue;
        const float *weight = weights_of(layer, client);
        for (int64_t k = 0; k < layer->units * fan_in_of(layer); k++)
            positive[i][k] = weight[k] > 0 ? weight[k] : 0;
    }
}

int ENTRY(relate)(const Chain *chain, const Samples *samples, const Relevance *how) {
    Scratch scratch;
    const int64_t classes = chain->layers[chain->count - 1].units, block = block_of(chain);
    int64_t weights = 0;
    for (int64_t i = 1; i < chain->count; i++)
        if (chain->layers[i].kind == AFFINE)
            weights += chain->layers[i].units * fan_in_of(chain->layers + i);
    if (make(&scratch, chain, block, TO_RELATE)) return -1;
    float *beside = malloc((classes * block + weights) * sizeof(float));
    float **positive = calloc(chain->count, sizeof(float *));
    const int made = beside && positive;
    for (int64_t i = 1, at = classes * block; made && i < chain->count; i++) {
        if (chain->layers[i].kind != AFFINE) continue;
        positive[i] = beside + at;
        at += chain->layers[i].units * fan_in_of(chain->layers + i);
    }
    for (int64_t client = 0; made && client < samples->clients; client++) {
        if (how->rule) keep_positive(chain, client, positive);
        for (int64_t begin = 0; begin < samples->counts[client]; begin += block) {
            const int64_t left = samples->counts[client] - begin;
            relate_block(chain, samples, how, client, begin, left < block ? left : block, &scratch,
                         positive, beside);
        }
    }
    free(positive);
    free(beside);
    let_go(&scratch);
    return made ? 0 : -1;
}
