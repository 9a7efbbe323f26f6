/* Gradients of weights and biases, taken by the optimiser as they are made. */

/* One client's pointers of a part, and what its buffer and values become. */
typedef struct {
    float *values, *into;
    const float *anchor, *where, *mask;
    float momentum, pull, decay, rate;
    int update;
} Taking;

static Taking taking(const Part *part, const Steps *steps, int64_t client) {
    return (Taking){
        numbers_of(&part->values, client), numbers_of(&part->into, client),
        numbers_of(&part->anchor, client), numbers_of(&part->where, client),
        numbers_of(&part->mask, client), steps->momentum, steps->pull,
        steps->decay, steps->rate, (int)steps->update,
    };
}

/* Take the gradient of the number, or of the vector of numbers, at a place. */
#define TAKE(how, at, gradient, Type, LOAD, STORE)                         \
    do {                                                                   \
        Type into = (how)->momentum * LOAD((how)->into + (at)) + (gradient);   \
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

/* Take a fully connected layer's gradients: `grad` [units, samples] with respect to what it made,
 * `rows` [samples, line] what it saw. */
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
                for (int d = 0; d < units; d++)
                    one[d] = load(grad + ((u + d) * made + p) * WIDTH + out);
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
                    convolved_tile(UNITS_AT_ONCE, WEIGHTS_AT_ONCE - 1, layer, &weight, u, c, k,
                                   grad, x, padded, samples);
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

/* Panels [panels, units, WIDTH] as lines [samples, line], and as [units, samples]. */
static void to_lines(const float *panels, int64_t units, int64_t padded, float *rows,
                     int64_t line) {
    for (int64_t j = 0; j < padded; j += 8)
        for (int64_t k = 0; k < units; k++) {
            const float *from = panels + (j / WIDTH * units + k) * WIDTH + j % WIDTH;
            for (int i = 0; i < 8; i++) rows[(j + i) * line + k] = from[i];
        }
    for (int64_t j = 0; j < padded; j++)
        for (int64_t k = units; k < line; k++) rows[j * line + k] = 0;
}
