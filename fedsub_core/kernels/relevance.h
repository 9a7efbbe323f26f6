/* Relevance of units, by activation or LRP (fedsub_client/methods/fedsub/lrp.py has the rules). */
#define STABILISER 1e-6f
/* Below, z- = z - z+ is not exact enough: z- is summed by itself (lrp.py). */
#define SMALL 64

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
                 numbers_of(how->sums + i, client));
}

/* shares [2, units, made, WIDTH]: relevance over the sums of the positive and of the negative
 * contributions to each unit, weighed by the rule; one panel. `positive` are the positive weights,
 * 0 in place of others; x is padded, `z` is what the layer made. */
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
                    const Choice near = under >= most;
                    const Vector clamped = only(~near, under) + only(near, most);
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
    const int64_t *y = whole_of(&samples->y, client) + begin;
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
    scatter(made, classes, count, numbers_of(&how->logits, client) + begin * classes);
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
    if (!sound_chain(chain, samples->clients) || !ends_in_classes(chain)) return BAD_CHAIN;
    const int64_t classes = chain->layers[chain->count - 1].units, block = block_of(chain);
    if (!sound_samples(chain, samples, classes)) return BAD_SAMPLES;
    if (!sound_relevance(chain, samples, how)) return BAD_CALL;
    int64_t weights = 0;
    for (int64_t i = 1; i < chain->count; i++)
        if (chain->layers[i].kind == AFFINE)
            weights += chain->layers[i].units * fan_in_of(chain->layers + i);
    if (make(&scratch, chain, block, TO_RELATE)) return NO_MEMORY;
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
        for (int64_t begin = 0; begin < samples->counts.at[client]; begin += block) {
            const int64_t left = samples->counts.at[client] - begin;
            relate_block(chain, samples, how, client, begin, left < block ? left : block, &scratch,
                         positive, beside);
        }
    }
    free(positive);
    free(beside);
    let_go(&scratch);
    return made ? DONE : NO_MEMORY;
}
