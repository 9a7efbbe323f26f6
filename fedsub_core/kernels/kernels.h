/* The kernels, for vectors of LANES floats, of which REGISTERS are at hand; included by one file
 * for each instruction set.
 *
 * A block of samples lies in panels of WIDTH of them: values of a layer are [panels, units, WIDTH],
 * samples last. So forward and backward products multiply one weight with two vectors of samples;
 * the gradient of weights, which sums over samples, takes them the other way round. Every sum goes
 * from first to last in one accumulator, by fused multiply-adds: all instruction sets give the same
 * bits, whoever shares the stack.
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
/* Samples in a block of passes that train nothing. */
#define BLOCK 64
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

/* acc[r] += sum over i of w[r * row + i * step] * x[i], for `rows` rows and one panel of x. */
INLINE void products(int rows, const float *w, int64_t row, int64_t step, int64_t depth,
                     const float *x, Vector acc[ROWS][2]) {
    for (int64_t i = 0; i < depth; i++) {
        const Vector first = load(x + i * WIDTH), second = load(x + i * WIDTH + LANES);
        for (int r = 0; r < rows; r++) {
            const Vector weight = all(w[r * row + i * step]);
            acc[r][0] += weight * first;
            acc[r][1] += weight * second;
        }
    }
}

/* The same of negative weights alone. */
INLINE void negative_products(int rows, const float *w, int64_t row, int64_t depth, const float *x,
                              Vector acc[ROWS][2]) {
    for (int64_t i = 0; i < depth; i++) {
        const Vector first = load(x + i * WIDTH), second = load(x + i * WIDTH + LANES);
        for (int r = 0; r < rows; r++) {
            const float one = w[r * row + i];
            const Vector weight = all(one < 0 ? one : 0);
            acc[r][0] += weight * first;
            acc[r][1] += weight * second;
        }
    }
}

/* acc[r] += sum over i of w[r + i * step] * (x[i] if that weight is positive, else beside[i]);
 * `x` [depth, 2, WIDTH] holds both. */
INLINE void chosen_products(int rows, const float *w, int64_t step, int64_t depth, const float *x,
                            Vector acc[ROWS][2]) {
    for (int64_t i = 0; i < depth; i++) {
        for (int r = 0; r < rows; r++) {
            const float one = w[r + i * step];
            const float *from = x + (2 * i + !(one > 0)) * WIDTH;
            const Vector weight = all(one);
            acc[r][0] += weight * load(from);
            acc[r][1] += weight * load(from + LANES);
        }
    }
}

/* Do the rest with a number of rows that the compiler knows: at most ROWS from `r` on. */
#define EACH_TILE(total, ...)                                   \
    for (int64_t r = 0; r < (total);) {                         \
        Vector acc[ROWS][2];                                    \
        if ((total) - r >= ROWS) { enum { N = ROWS }; __VA_ARGS__ r += N; }            \
        else if (ROWS > 6 && (total) - r >= 6) { enum { N = 6 }; __VA_ARGS__ r += N; } \
        else if ((total) - r >= 3) { enum { N = 3 }; __VA_ARGS__ r += N; }             \
        else { enum { N = 1 }; __VA_ARGS__ r += N; }                                   \
    }

/* out = weight x + bias, and max(out, 0); one panel. */
static void layer_forward(const Dense *layer, int64_t client, const float *x, float *out) {
    const float *weight = layer->weight.values + client * layer->weight.values_step;
    const float *bias = layer->bias.values + client * layer->bias.values_step;
    EACH_TILE(layer->units, {
        for (int i = 0; i < N; i++) acc[i][0] = acc[i][1] = all(bias[r + i]);
        products(N, weight + r * layer->fan_in, layer->fan_in, 1, layer->fan_in, x, acc);
        for (int i = 0; i < N; i++)
            for (int half = 0; half < 2; half++) {
                const Vector z = acc[i][half];
                store(out + (r + i) * WIDTH + half * LANES, layer->relu ? rectified(z) : z);
            }
    })
}

/* into = weight^T grad; one panel. */
static void layer_backward(const Dense *layer, int64_t client, const float *grad, float *into) {
    const float *weight = layer->weight.values + client * layer->weight.values_step;
    EACH_TILE(layer->fan_in, {
        for (int i = 0; i < N; i++) acc[i][0] = acc[i][1] = all(0);
        products(N, weight + r, 1, layer->fan_in, layer->units, grad, acc);
        for (int i = 0; i < N; i++)
            for (int half = 0; half < 2; half++)
                store(into + (r + i) * WIDTH + half * LANES, acc[i][half]);
    })
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

/* Take a layer's gradients: `grad` [units, samples] with respect to what it made, `rows` [samples,
 * line] what it saw. */
static void layer_gradient(const Dense *layer, const Steps *steps, int64_t client,
                           const float *grad, const float *rows, int64_t line, int64_t samples) {
    const Taking weight = taking(&layer->weight, steps, client);
    const Taking bias = taking(&layer->bias, steps, client);
    int64_t d = 0;
    for (; d + DOWN <= layer->units; d += DOWN)
        gradient_rows(DOWN, &weight, layer->fan_in, d, grad, rows, line, samples);
    for (; d < layer->units; d++)
        gradient_rows(1, &weight, layer->fan_in, d, grad, rows, line, samples);
    for (d = 0; d < layer->units; d++) take_one(&bias, d, sum(grad + d * samples, samples));
}

/* Put samples `places` of a client into panels [panels, fan_in, WIDTH], and, where `rows` is given,
 * into lines [samples, line]; what pads both is 0. */
static void gather(const Samples *samples, int64_t client, int64_t begin, int64_t count,
                   int64_t fan_in, float *panels, int64_t padded, float *rows, int64_t line) {
    const float *x = samples->x + client * samples->x_step;
    const int64_t *order = samples->order ? samples->order + client * samples->order_step : NULL;
    for (int64_t j = 0; j < padded; j++) {
        float *column = panels + j / WIDTH * fan_in * WIDTH + j % WIDTH;
        const float *from = NULL;
        if (j < count) from = x + (order ? order[begin + j] : begin + j) * fan_in;
        for (int64_t k = 0; k < fan_in; k++) column[k * WIDTH] = from ? from[k] : 0;
        if (rows) {
            memset(rows + j * line, 0, line * sizeof(float));
            if (from) memcpy(rows + j * line, from, fan_in * sizeof(float));
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

/* Where the values of each layer stand in one block of memory. */
typedef struct {
    float *memory, *grad, *below, *joined;
    float **panels, **rows;
    int64_t *lines, *y, widest;
} Scratch;

static void let_go(Scratch *scratch) {
    free(scratch->memory);
    free(scratch->panels);
    free(scratch->lines);
}

/* Memory for blocks of `padded` samples. `beside` what layers see stand rows: what they see as
 * lines, to train; or what they make before max(z, 0), for relevance. */
static int make(Scratch *scratch, const Chain *chain, int64_t padded, int beside) {
    const int64_t count = chain->count;
    memset(scratch, 0, sizeof *scratch);
    scratch->panels = calloc(2 * count + 1, sizeof(float *));
    scratch->lines = calloc(count + padded, sizeof(int64_t));
    if (!scratch->panels || !scratch->lines) {
        let_go(scratch);
        return -1;
    }
    scratch->y = scratch->lines + count;
    scratch->rows = scratch->panels + count + 1;
    int64_t widest = chain->layers[0].fan_in, total = chain->layers[0].fan_in * padded;
    for (int64_t i = 0; i < count; i++) {
        const Dense *layer = chain->layers + i;
        const int64_t line = scratch->lines[i] = up_to(layer->fan_in, LANES);
        widest = more(widest, layer->units);
        total += (layer->units + (beside ? more(line, layer->units) : 0)) * padded;
    }
    /* Gradients of two layers and of one with its samples last; LRP's two shares of one. */
    total += 4 * widest * padded;
    if (!(scratch->memory = malloc(total * sizeof(float) + 64))) {
        let_go(scratch);
        return -1;
    }
    float *at = (float *)(((uintptr_t)scratch->memory + 63) & ~(uintptr_t)63);
    scratch->panels[0] = at;
    at += chain->layers[0].fan_in * padded;
    for (int64_t i = 0; i < count; i++) {
        scratch->panels[i + 1] = at;
        at += chain->layers[i].units * padded;
        if (beside) {
            scratch->rows[i] = at;
            at += more(scratch->lines[i], chain->layers[i].units) * padded;
        }
    }
    scratch->widest = widest;
    scratch->grad = at;
    scratch->below = at + widest * padded;
    scratch->joined = at + 2 * widest * padded;
    return 0;
}

static void pass_forward(const Chain *chain, int64_t client, const Scratch *scratch, int64_t padded) {
    for (int64_t i = 0; i < chain->count; i++) {
        const Dense *layer = chain->layers + i;
        for (int64_t p = 0; p < padded / WIDTH; p++)
            layer_forward(layer, client, scratch->panels[i] + p * layer->fan_in * WIDTH,
                          scratch->panels[i + 1] + p * layer->units * WIDTH);
    }
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

/* One step of one client: samples begin.. of its order. */
static void step(const Chain *chain, const Samples *samples, const Steps *steps, int64_t client,
                 int64_t begin, int64_t count, const Scratch *scratch) {
    const int64_t padded = up_to(count, WIDTH), last = chain->count - 1;
    const int64_t *labels = samples->y + client * samples->y_step;
    const int64_t *order = samples->order ? samples->order + client * samples->order_step : NULL;
    const float *weight = samples->weight + client * samples->weight_step + begin;
    int64_t first = 0, *y = scratch->y;
    for (int64_t j = 0; j < count; j++) y[j] = labels[order ? order[begin + j] : begin + j];
    while (!chain->layers[first].trained) first++;
    gather(samples, client, begin, count, chain->layers[0].fan_in, scratch->panels[0], padded,
           chain->layers[0].trained ? scratch->rows[0] : NULL, scratch->lines[0]);
    pass_forward(chain, client, scratch, padded);
    float *chosen = steps->chosen ? steps->chosen + client * steps->chosen_step + begin : NULL;
    float *grad = scratch->panels[last + 1], *below = scratch->below;
    const float loss = softmax_gradient(grad, chain->layers[last].units, padded, count, y, weight,
                                        chosen);
    if (steps->loss) steps->loss[client] += loss;
    for (int64_t i = last; i >= first; i--) {
        const Dense *layer = chain->layers + i;
        const float *seen = scratch->panels[i];
        if (i > first) {
            for (int64_t p = 0; p < padded / WIDTH; p++)
                layer_backward(layer, client, grad + p * layer->units * WIDTH,
                               below + p * layer->fan_in * WIDTH);
            if (i == last && steps->toward != 0)
                pull_to_prototypes(steps, client, layer->fan_in, count, y, weight, seen, below);
            if (layer[-1].relu)
                for (int64_t at = 0; at < layer->fan_in * padded; at += LANES)
                    store(below + at, only(~(load(seen + at) <= 0), load(below + at)));
        }
        if (layer->trained) {
            if (i) to_lines(seen, layer->fan_in, padded, scratch->rows[i], scratch->lines[i]);
            const float *joined = grad;
            if (padded > WIDTH) {
                for (int64_t p = 0; p < padded / WIDTH; p++)
                    for (int64_t u = 0; u < layer->units; u++)
                        memcpy(scratch->joined + u * padded + p * WIDTH,
                               grad + (p * layer->units + u) * WIDTH, WIDTH * sizeof(float));
                joined = scratch->joined;
            }
            layer_gradient(layer, steps, client, joined, scratch->rows[i], scratch->lines[i],
                           padded);
        }
        float *free = i == last ? scratch->grad : grad;
        grad = below;
        below = free;
    }
}

int ENTRY(descend)(const Chain *chain, const Samples *samples, const Steps *steps) {
    Scratch scratch;
    if (make(&scratch, chain, up_to(steps->batch, WIDTH), 1)) return -1;
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

int ENTRY(forward)(const Chain *chain, const Samples *samples, float *out, int64_t out_step) {
    Scratch scratch;
    const int64_t units = chain->layers[chain->count - 1].units;
    if (make(&scratch, chain, BLOCK, 0)) return -1;
    for (int64_t client = 0; client < samples->clients; client++)
        for (int64_t begin = 0; begin < samples->counts[client]; begin += BLOCK) {
            const int64_t left = samples->counts[client] - begin, count = left < BLOCK ? left : BLOCK;
            const int64_t padded = up_to(count, WIDTH);
            gather(samples, client, begin, count, chain->layers[0].fan_in, scratch.panels[0], padded,
                   NULL, 0);
            pass_forward(chain, client, &scratch, padded);
            const float *made = scratch.panels[chain->count];
            float *to = out + client * out_step + begin * units;
            for (int64_t j = 0; j < count; j++)
                for (int64_t u = 0; u < units; u++)
                    to[j * units + u] = made[(j / WIDTH * units + u) * WIDTH + j % WIDTH];
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

/* shares [units, 2, WIDTH]: relevance over the sums of the positive and of the negative
 * contributions to each unit, weighed by the rule; one panel. `positive` are the positive weights, 0
 * in place of others; `z` is what the layer made. */
static void layer_shares(const Dense *layer, int64_t client, const Relevance *how,
                         const float *positive, const float *x, const float *z,
                         const float *relevance, float *shares) {
    const float *weight = layer->weight.values + client * layer->weight.values_step;
    const float *bias = layer->bias.values + client * layer->bias.values_step;
    const int64_t fan_in = layer->fan_in;
    const int apart = how->beta != 0 && (fan_in < SMALL || layer->units < SMALL);
    EACH_TILE(layer->units, {
        for (int i = 0; i < N; i++)
            acc[i][0] = acc[i][1] = all((bias[r + i] > 0 ? bias[r + i] : 0) + STABILISER);
        products(N, positive + r * fan_in, fan_in, 1, fan_in, x, acc);
        for (int i = 0; i < N; i++)
            for (int half = 0; half < 2; half++) {
                const int64_t at = (r + i) * WIDTH + half * LANES;
                float *to = shares + 2 * (r + i) * WIDTH + half * LANES;
                const Vector all_of_it = load(relevance + at), above = acc[i][half];
                const Vector under = load(z + at) - above, most = all(-STABILISER);
                const Vector clamped = only(under < most, under) + only(~(under < most), most);
                store(to, how->alpha * all_of_it / above);
                store(to + WIDTH, how->beta != 0 ? -how->beta * all_of_it / clamped : all(0));
            }
    })
    if (!apart) return;
    EACH_TILE(layer->units, {
        for (int i = 0; i < N; i++)
            acc[i][0] = acc[i][1] = all((bias[r + i] < 0 ? bias[r + i] : 0) - STABILISER);
        negative_products(N, weight + r * fan_in, fan_in, fan_in, x, acc);
        for (int i = 0; i < N; i++)
            for (int half = 0; half < 2; half++) {
                const int64_t at = (r + i) * WIDTH + half * LANES;
                float *to = shares + (2 * (r + i) + 1) * WIDTH + half * LANES;
                store(to, -how->beta * load(relevance + at) / acc[i][half]);
            }
    })
}

/* Relevance at what a layer saw, which is not negative; one panel. */
static void layer_relevance(const Dense *layer, int64_t client, const float *x,
                            const float *shares, float *into) {
    const float *weight = layer->weight.values + client * layer->weight.values_step;
    EACH_TILE(layer->fan_in, {
        for (int i = 0; i < N; i++) acc[i][0] = acc[i][1] = all(0);
        chosen_products(N, weight + r, layer->fan_in, layer->units, shares, acc);
        for (int i = 0; i < N; i++)
            for (int half = 0; half < 2; half++) {
                const int64_t at = (r + i) * WIDTH + half * LANES;
                store(into + at, acc[i][half] * load(x + at));
            }
    })
}

/* One block of a client's samples. What layers made before max(z, 0) is in scratch->rows. */
static void relate_block(const Chain *chain, const Samples *samples, const Relevance *how,
                         int64_t client, int64_t begin, int64_t count, const Scratch *scratch,
                         float *const *positive, float *masks) {
    const int64_t padded = up_to(count, WIDTH), last = chain->count - 1;
    const int64_t classes = chain->layers[last].units;
    const int64_t *y = samples->y + client * samples->y_step + begin;
    gather(samples, client, begin, count, chain->layers[0].fan_in, scratch->panels[0], padded, NULL,
           0);
    mark(y, classes, count, padded, masks);
    for (int64_t i = 0; i <= last; i++) {
        Dense layer = chain->layers[i];
        layer.relu = 0;
        for (int64_t p = 0; p < padded / WIDTH; p++)
            layer_forward(&layer, client, scratch->panels[i] + p * layer.fan_in * WIDTH,
                          scratch->rows[i] + p * layer.units * WIDTH);
        for (int64_t at = 0; at < layer.units * padded; at += LANES) {
            const Vector z = load(scratch->rows[i] + at);
            store(scratch->panels[i + 1] + at, i < last ? rectified(z) : z);
        }
        if (!how->rule)
            add_by_class(scratch->panels[i + 1], layer.units, padded, masks, classes,
                         how->sums[i] + client * classes * layer.units);
    }
    const float *made = scratch->panels[last + 1];
    float *logits = how->logits + client * how->logits_step + begin * classes;
    for (int64_t j = 0; j < count; j++)
        for (int64_t c = 0; c < classes; c++)
            logits[j * classes + c] = made[(j / WIDTH * classes + c) * WIDTH + j % WIDTH];
    if (!how->rule) return;
    float *relevance = scratch->grad, *below = scratch->below;
    for (int64_t j = 0; j < padded; j++)
        for (int64_t c = 0; c < classes; c++) {
            const int64_t at = (j / WIDTH * classes + c) * WIDTH + j % WIDTH;
            const int counts = j < count && made[at] > 0 && (!how->target || c == y[j]);
            relevance[at] = counts ? made[at] : 0;
        }
    for (int64_t i = last;; i--) {
        const Dense *layer = chain->layers + i;
        add_by_class(relevance, layer->units, padded, masks, classes,
                     how->sums[i] + client * classes * layer->units);
        if (!i) return;
        for (int64_t p = 0; p < padded / WIDTH; p++) {
            const float *seen = scratch->panels[i] + p * layer->fan_in * WIDTH;
            layer_shares(layer, client, how, positive[i], seen, scratch->rows[i] + p * layer->units * WIDTH,
                         relevance + p * layer->units * WIDTH, scratch->joined);
            layer_relevance(layer, client, seen, scratch->joined, below + p * layer->fan_in * WIDTH);
        }
        float *free = relevance;
        relevance = below;
        below = free;
    }
}

/* A client's positive weights, 0 in place of others, of every layer but the first. */
static void keep_positive(const Chain *chain, int64_t client, float *const *positive) {
    for (int64_t i = 1; i < chain->count; i++) {
        const Part *part = &chain->layers[i].weight;
        const float *weight = part->values + client * part->values_step;
        for (int64_t k = 0; k < chain->layers[i].units * chain->layers[i].fan_in; k++)
            positive[i][k] = weight[k] > 0 ? weight[k] : 0;
    }
}

int ENTRY(relate)(const Chain *chain, const Samples *samples, const Relevance *how) {
    Scratch scratch;
    const int64_t classes = chain->layers[chain->count - 1].units;
    int64_t weights = 0;
    for (int64_t i = 1; i < chain->count; i++)
        weights += chain->layers[i].units * chain->layers[i].fan_in;
    if (make(&scratch, chain, BLOCK, 1)) return -1;
    float *beside = malloc((classes * BLOCK + weights) * sizeof(float));
    float **positive = calloc(chain->count, sizeof(float *));
    const int made = beside && positive;
    for (int64_t i = 1, at = classes * BLOCK; made && i < chain->count; i++) {
        positive[i] = beside + at;
        at += chain->layers[i].units * chain->layers[i].fan_in;
    }
    for (int64_t client = 0; made && client < samples->clients; client++) {
        if (how->rule) keep_positive(chain, client, positive);
        for (int64_t begin = 0; begin < samples->counts[client]; begin += BLOCK) {
            const int64_t left = samples->counts[client] - begin;
            relate_block(chain, samples, how, client, begin, left < BLOCK ? left : BLOCK, &scratch,
                         positive, beside);
        }
    }
    free(positive);
    free(beside);
    let_go(&scratch);
    return made ? 0 : -1;
}
