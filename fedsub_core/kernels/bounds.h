/* What is checked before anything is computed: no call reads or writes beside the buffers that it
 * was given, and counts, orders and shapes go together. */

/* The most numbers of a sample that a layer sees or makes, and of anything that a call counts: so
 * no product of two of them leaves int64_t. */
#define MOST ((int64_t)1 << 31)
#define MOST_LAYERS 65536

static int within(int64_t value, int64_t least) { return value >= least && value < MOST; }

/* Whether a buffer of so many numbers, a client's `step` from the next one's, has each client's. */
static int reaches(const void *at, int64_t count, int64_t step, int64_t clients, int64_t numbers) {
    /* More clients than there may be are the samples' fault. */
    if (!within(clients, 1) || !numbers) return 1;
    return at && step >= 0 && count >= numbers &&
           (clients == 1 || step <= (count - numbers) / (clients - 1));
}

static int reads(const Floats *floats, int64_t clients, int64_t numbers) {
    return reaches(floats->at, floats->count, floats->step, clients, numbers);
}

static int counts(const FedsubInts *ints, int64_t clients, int64_t numbers) {
    return reaches(ints->at, ints->count, ints->step, clients, numbers);
}

/* The same of what is written: clients do not write over each other. */
static int writes(const Floats *floats, int64_t clients, int64_t numbers) {
    return reads(floats, clients, numbers) && (clients < 2 || floats->step >= numbers);
}

static int sound_values(const Layer *layer, int64_t clients) {
    return reads(&layer->weight.values, clients, layer->units * fan_in_of(layer)) &&
           reads(&layer->bias.values, clients, layer->units);
}

static int sound_layer(const Layer *layer) {
    if (!within(layer->channels, 1) || !within(layer->length, 1) || !within(layer->units, 1) ||
        !within(layer->made, 1) || !within(layer->kernel, 1) || !within(layer->stride, 1) ||
        !within(layer->padding, 0) || !within(layer->units * layer->made, 1))
        return 0;
    const int64_t seen = layer->length + 2 * layer->padding;
    if (!within(seen, 1) || !within(layer->channels * seen, 1)) return 0;
    if (layer->kind == AFFINE)
        return within(layer->channels * layer->kernel, 1) &&
               within(layer->units * fan_in_of(layer), 1) && layer->kernel <= seen &&
               layer->made == (seen - layer->kernel) / layer->stride + 1;
    return (layer->kind == MAX_POOL || layer->kind == MEAN_POOL) && !layer->padding &&
           !layer->trained && layer->units == layer->channels &&
           layer->made * layer->kernel == layer->length;
}

/* Whether each layer can be passed, and makes what the next one sees. */
static int sound_chain(const Chain *chain, int64_t clients) {
    if (chain->count < 1 || chain->count > MOST_LAYERS || !chain->layers) return 0;
    for (int64_t i = 0; i < chain->count; i++) {
        const Layer *layer = chain->layers + i;
        if (!sound_layer(layer)) return 0;
        if (layer->kind == AFFINE && !sound_values(layer, clients)) return 0;
        if (i && numbers_in(layer) != numbers_out(layer - 1)) return 0;
    }
    return 1;
}

/* Whether the last layer makes logits. */
static int ends_in_classes(const Chain *chain) {
    const Layer *last = chain->layers + chain->count - 1;
    return last->kind == AFFINE && !last->relu && connected(last);
}

/* Whether what is counted of each client is there, and of a class below `classes` where it has any;
 * 0 classes: nobody asks for them. */
static int sound_samples(const Chain *chain, const Samples *samples, int64_t classes) {
    const int64_t clients = samples->clients, held = samples->held, places = samples->places;
    if (!within(clients, 0) || !within(held, 0) || !within(places, 0)) return 0;
    if (!reaches(samples->counts.at, samples->counts.count, 0, 1, clients)) return 0;
    if (!reads(&samples->x, clients, held * numbers_in(chain->layers))) return 0;
    if (classes && !counts(&samples->y, clients, held)) return 0;
    if (samples->order.at && !counts(&samples->order, clients, places)) return 0;
    for (int64_t client = 0; client < clients; client++) {
        const int64_t count = samples->counts.at[client];
        const int64_t *order = whole_of(&samples->order, client);
        const int64_t *y = classes ? whole_of(&samples->y, client) : NULL;
        if (count < 0 || count > (order ? places : held)) return 0;
        for (int64_t j = 0; j < count && (order || y); j++) {
            const int64_t at = order ? order[j] : j;
            if (at < 0 || at >= held) return 0;
            if (y && (y[at] < 0 || y[at] >= classes)) return 0;
        }
    }
    return 1;
}

/* The most that is counted of a client; where nobody has anything, pointers may lead nowhere. */
static int64_t most_counted(const Samples *samples) {
    int64_t most = 0;
    for (int64_t client = 0; client < samples->clients; client++)
        most = more(most, samples->counts.at[client]);
    return most;
}

/* Whether a part of `numbers` numbers can be trained: clients do not write over each other. */
static int sound_part(const Part *part, int64_t numbers, int64_t clients, int update) {
    const Floats *beside[] = {&part->anchor, &part->where, &part->mask};
    for (int i = 0; i < 3; i++)
        if (beside[i]->at && !reads(beside[i], clients, numbers)) return 0;
    return writes(&part->into, clients, numbers) &&
           (!update || writes(&part->values, clients, numbers));
}

static int sound_steps(const Chain *chain, const Samples *samples, const Steps *steps) {
    const int64_t clients = samples->clients, places = samples->places;
    const Layer *last = chain->layers + chain->count - 1;
    if (!within(steps->batch, 1) || !within(steps->steps, 0)) return 0;
    if (steps->toward != 0 && (!reads(&steps->prototypes, clients, last->units * last->channels) ||
                               !reads(&steps->present, clients, last->units)))
        return 0;
    /* Each place has a weight, and is written its class's probability where that is asked for. */
    if (most_counted(samples) > places || !reads(&samples->weight, clients, places)) return 0;
    if (steps->chosen.at && !writes(&steps->chosen, clients, places)) return 0;
    if (steps->loss.at && steps->loss.count < clients) return 0;
    int64_t trained = 0;
    for (int64_t i = 0; i < chain->count; i++) {
        const Layer *layer = chain->layers + i;
        const int update = steps->update != 0;
        if (!layer->trained) continue;
        trained++;
        if (!sound_part(&layer->weight, layer->units * fan_in_of(layer), clients, update) ||
            !sound_part(&layer->bias, layer->units, clients, update))
            return 0;
    }
    return trained > 0;
}

static int sound_relevance(const Chain *chain, const Samples *samples, const Relevance *how) {
    const int64_t classes = chain->layers[chain->count - 1].units, clients = samples->clients;
    if (!how->sums || chain->layers->kind != AFFINE) return 0;
    if (!writes(&how->logits, clients, samples->held * classes)) return 0;
    for (int64_t i = 0; i < chain->count; i++) {
        const Layer *layer = chain->layers + i;
        if (layer->kind != AFFINE) continue;
        if (!writes(how->sums + i, clients, classes * layer->units)) return 0;
        /* What a layer above sees is taken to be not negative. */
        if (i < chain->count - 1 && !layer->relu) return 0;
    }
    return 1;
}

/* Whether windows are quantised: sums of other values could leave 32 bits. */
static int sound_windows(const int16_t *windows, int64_t samples, int64_t numbers) {
    if (samples && !windows) return 0;
    int beyond = 0;
    for (int64_t i = 0; i < samples * numbers; i++)
        beyond |= (windows[i] < -CLIP * STEPS) | (windows[i] >= CLIP * STEPS);
    return !beyond;
}

/* Whether an encoder's kernel reads windows where they are. */
static int sound_kernel(const int32_t *kernel, int64_t channels, int64_t time) {
    if (kernel[DILATION] < 1 || kernel[DILATION] > time || kernel[LEVEL] < 1) return 0;
    for (int i = 0; i < 3; i++)
        if (kernel[PLACES + i] < 0 || kernel[PLACES + i] >= TAPS) return 0;
    if (kernel[CHANNELS] < 0 || kernel[CHANNELS] > KERNEL - CHANNELS - 1) return 0;
    for (int32_t c = 0; c < kernel[CHANNELS]; c++)
        if (kernel[CHANNELS + 1 + c] < 0 || kernel[CHANNELS + 1 + c] >= channels) return 0;
    return 1;
}
