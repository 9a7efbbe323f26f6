/* Training: steps of stochastic gradient descent. */
#define TINY 1e-30f

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
        for (int64_t c = 0; c < classes; c++)
            total += z[c * WIDTH] = exponential(z[c * WIDTH] - most);
        for (int64_t c = 0; c < classes; c++) z[c * WIDTH] /= total;
        const float got = z[y[j] * WIDTH];
        if (chosen) chosen[j] = got;
        loss -= logarithm(got < TINY ? TINY : got) * weight[j];
        z[y[j] * WIDTH] -= 1;
        for (int64_t c = 0; c < classes; c++) z[c * WIDTH] *= weight[j];
    }
    return loss;
}

/* Add the gradient of the pull to prototypes to that with respect to what the last layer sees. */
static void pull_to_prototypes(const Steps *steps, int64_t client, int64_t d, int64_t count,
                               const int64_t *y, const float *weight, const float *seen,
                               float *grad) {
    const float *prototypes = numbers_of(&steps->prototypes, client);
    const float *present = numbers_of(&steps->present, client);
    for (int64_t j = 0; j < count; j++) {
        const float by = 2 * steps->toward / d * (present[y[j]] * weight[j]);
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
    const int64_t *labels = whole_of(&samples->y, client);
    const int64_t *order = whole_of(&samples->order, client);
    const float *weight = numbers_of(&samples->weight, client) + begin;
    int64_t first = 0, *y = scratch->y;
    for (int64_t j = 0; j < count; j++) y[j] = labels[order ? order[begin + j] : begin + j];
    while (!layers[first].trained) first++;
    gather(samples, client, begin, count, numbers_in(layers), scratch->panels[0], padded,
           layers[0].trained && connected(layers) ? scratch->beside[0] : NULL, scratch->lines[0]);
    pass_forward(chain, client, scratch, padded);
    float *chosen = steps->chosen.at ? numbers_of(&steps->chosen, client) + begin : NULL;
    float *grad = scratch->panels[last + 1], *below = scratch->below;
    const float loss = softmax_gradient(grad, layers[last].units, padded, count, y, weight, chosen);
    if (steps->loss.at) steps->loss.at[client] += loss;
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
    if (!sound_chain(chain, samples->clients) || !ends_in_classes(chain)) return BAD_CHAIN;
    if (!sound_samples(chain, samples, chain->layers[chain->count - 1].units)) return BAD_SAMPLES;
    if (!sound_steps(chain, samples, steps)) return BAD_CALL;
    if (make(&scratch, chain, up_to(steps->batch, PADDED), TO_TRAIN)) return NO_MEMORY;
    for (int64_t client = 0; client < samples->clients; client++) {
        const int64_t count = samples->counts.at[client];
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
    return DONE;
}
