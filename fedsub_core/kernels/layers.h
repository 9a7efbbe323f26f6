/* What layers make of one panel of samples, and what comes back through them. */
/* acc += what `layer` makes at position p, by one of the products above. */
#define AT_POSITION(product, w, padded_length)                                                 \
    if (connected(layer)) {                                                                    \
        product(N, (w) + r * fan_in, fan_in, 1, fan_in, x, WIDTH, acc);                        \
    } else {                                                                                   \
        for (int64_t c = 0; c < layer->channels; c++)                                          \
            product(N, (w) + r * fan_in + c * layer->kernel, fan_in, 1, layer->kernel,         \
                    x + (c * (padded_length) + p * layer->stride) * WIDTH, WIDTH, acc);        \
    }

/* A client's numbers; NULL where there are none. */
static float *numbers_of(const Floats *floats, int64_t client) {
    return floats->at ? floats->at + client * floats->step : NULL;
}

static const int64_t *whole_of(const FedsubInts *ints, int64_t client) {
    return ints->at ? ints->at + client * ints->step : NULL;
}

static int connected(const Layer *layer) {
    return layer->kernel == 1 && layer->length == 1 && !layer->padding;
}

static int64_t fan_in_of(const Layer *layer) { return layer->channels * layer->kernel; }

static const float *weights_of(const Layer *layer, int64_t client) {
    return numbers_of(&layer->weight.values, client);
}

static const float *biases_of(const Layer *layer, int64_t client) {
    return numbers_of(&layer->bias.values, client);
}

static int64_t numbers_in(const Layer *layer) { return layer->channels * layer->length; }

static int64_t numbers_out(const Layer *layer) { return layer->units * layer->made; }

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
            const Vector most = load(out + at * WIDTH + lane);
            const Vector whole = load(grad + at * WIDTH + lane);
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
