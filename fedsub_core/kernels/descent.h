/* Training: gradients that are taken as they are made. */
#define TINY 1e-30f

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
