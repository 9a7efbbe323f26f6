/* Blocks of samples: their memory, and passes of a chain over them. */
/* Samples in a block of passes that train nothing, where each position makes so many numbers. */
#define BLOCK 64
#define BLOCK_OF_SERIES 32

/* Put samples `begin`.. of a client into panels [panels, numbers, WIDTH], and, where `rows` is
 * given, into lines [samples, line]; what pads both is 0. */
static void gather(const Samples *samples, int64_t client, int64_t begin, int64_t count,
                   int64_t numbers, float *panels, int64_t padded, float *rows, int64_t line) {
    const float *x = numbers_of(&samples->x, client);
    const int64_t *order = whole_of(&samples->order, client);
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

/* Panels [panels, numbers, WIDTH] as [samples, numbers]. */
static void scatter(const float *panels, int64_t numbers, int64_t count, float *to) {
    for (int64_t j = 0; j < count; j++)
        for (int64_t k = 0; k < numbers; k++)
            to[j * numbers + k] = panels[(j / WIDTH * numbers + k) * WIDTH + j % WIDTH];
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
    const int64_t room = (PTRDIFF_MAX - 64) / (int64_t)sizeof(float) / total;
    if (padded <= room) scratch->memory = malloc(total * padded * sizeof(float) + 64);
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

int ENTRY(forward)(const Chain *chain, const Samples *samples, const Floats *out) {
    Scratch scratch;
    if (!sound_chain(chain, samples->clients)) return BAD_CHAIN;
    if (!sound_samples(chain, samples, 0)) return BAD_SAMPLES;
    const int64_t block = block_of(chain), numbers = numbers_out(chain->layers + chain->count - 1);
    if (most_counted(samples) && !writes(out, samples->clients, samples->held * numbers))
        return BAD_CALL;
    if (make(&scratch, chain, block, TO_PREDICT)) return NO_MEMORY;
    for (int64_t client = 0; client < samples->clients; client++)
        for (int64_t begin = 0; begin < samples->counts.at[client]; begin += block) {
            const int64_t left = samples->counts.at[client] - begin;
            const int64_t count = left < block ? left : block;
            const int64_t padded = up_to(count, PADDED);
            gather(samples, client, begin, count, numbers_in(chain->layers), scratch.panels[0],
                   padded, NULL, 0);
            pass_forward(chain, client, &scratch, padded);
            scatter(scratch.panels[chain->count], numbers, count,
                    numbers_of(out, client) + begin * numbers);
        }
    let_go(&scratch);
    return DONE;
}
