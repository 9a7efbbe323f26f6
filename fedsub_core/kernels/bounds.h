/* What is held before anything is computed: no call reads or writes beside what it was given. How
 * long tensors are only who calls knows; that counts, orders and shapes go together is held here. */

/* The most numbers of a sample that a layer sees or makes, and of anything that a call counts: so
 * no product of two of them leaves int64_t. */
#define MOST ((int64_t)1 << 31)
#define MOST_LAYERS 65536

static int within(int64_t value, int64_t least) { return value >= least && value < MOST; }

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
               layer->made == (seen - layer->kernel) / layer->stride + 1 && layer->weight.values &&
               layer->bias.values;
    return (layer->kind == MAX_POOL || layer->kind == MEAN_POOL) && !layer->padding &&
           !layer->trained && layer->units == layer->channels &&
           layer->made * layer->kernel == layer->length;
}

/* Whether each layer can be passed, and makes what the next one sees. */
static int sound_chain(const Chain *chain) {
    if (chain->count < 1 || chain->count > MOST_LAYERS || !chain->layers) return 0;
    for (int64_t i = 0; i < chain->count; i++) {
        const Layer *layer = chain->layers + i;
        if (!sound_layer(layer)) return 0;
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
static int sound_samples(const Samples *samples, int64_t classes) {
    if (!within(samples->clients, 0) || !within(samples->held, 0) || !within(samples->places, 0))
        return 0;
    if (samples->clients && !samples->counts) return 0;
    for (int64_t client = 0; client < samples->clients; client++) {
        const int64_t count = samples->counts[client];
        const int64_t *order = samples->order;
        if (count < 0 || count > (order ? samples->places : samples->held)) return 0;
        if (count && (!samples->x || (classes && !samples->y))) return 0;
        if (order) order += client * samples->order_step;
        for (int64_t j = 0; j < count && (order || classes); j++) {
            const int64_t at = order ? order[j] : j;
            if (at < 0 || at >= samples->held) return 0;
            if (!classes) continue;
            const int64_t y = samples->y[client * samples->y_step + at];
            if (y < 0 || y >= classes) return 0;
        }
    }
    return 1;
}

/* The most that is counted of a client; where nobody has anything, pointers may lead nowhere. */
static int64_t most_counted(const Samples *samples) {
    int64_t most = 0;
    for (int64_t client = 0; client < samples->clients; client++)
        most = more(most, samples->counts[client]);
    return most;
}

/* Whether a part of `numbers` numbers can be trained: clients do not write over each other. */
static int sound_part(const Part *part, int64_t numbers, const Samples *samples, int update) {
    if (!part->into) return 0;
    if (samples->clients < 2) return 1;
    return part->into_step >= numbers && (!update || part->values_step >= numbers);
}

static int sound_steps(const Chain *chain, const Samples *samples, const Steps *steps) {
    if (!within(steps->batch, 1) || !within(steps->steps, 0)) return 0;
    if (steps->toward != 0 && (!steps->prototypes || !steps->held)) return 0;
    /* Each place has a weight, and says its class's probability where that is asked for. */
    if (most_counted(samples) > (samples->weight ? samples->places : 0)) return 0;
    if (steps->chosen && samples->clients > 1 && steps->chosen_step < samples->places) return 0;
    int64_t trained = 0;
    for (int64_t i = 0; i < chain->count; i++) {
        const Layer *layer = chain->layers + i;
        if (!layer->trained) continue;
        trained++;
        if (!sound_part(&layer->weight, layer->units * fan_in_of(layer), samples, steps->update) ||
            !sound_part(&layer->bias, layer->units, samples, steps->update))
            return 0;
    }
    return trained > 0;
}

static int sound_relevance(const Chain *chain, const Samples *samples, const Relevance *how) {
    const int64_t classes = chain->layers[chain->count - 1].units;
    if (!how->sums || chain->layers->kind != AFFINE) return 0;
    if (!how->logits && most_counted(samples)) return 0;
    if (samples->clients > 1 && how->logits_step < samples->held * classes) return 0;
    for (int64_t i = 0; i < chain->count; i++) {
        const Layer *layer = chain->layers + i;
        if (layer->kind != AFFINE) continue;
        /* What a layer above sees is taken to be not negative. */
        if (!how->sums[i] || (i < chain->count - 1 && !layer->relu)) return 0;
    }
    return 1;
}

/* Whether an encoder's kernel reads windows where they are. */
static int sound_kernel(const int32_t *kernel, int64_t channels) {
    if (kernel[DILATION] < 1 || kernel[LEVEL] < 1) return 0;
    for (int i = 0; i < 3; i++)
        if (kernel[PLACES + i] < 0 || kernel[PLACES + i] >= TAPS) return 0;
    if (kernel[CHANNELS] < 0 || kernel[CHANNELS] > KERNEL - CHANNELS - 1) return 0;
    for (int32_t c = 0; c < kernel[CHANNELS]; c++)
        if (kernel[CHANNELS + 1 + c] < 0 || kernel[CHANNELS + 1 + c] >= channels) return 0;
    return 1;
}
