// `relu:N`: a feature vector's own entries, and N random units max(0, w x + b) of 1 to 3 of them.
// `ranks:N`: the same, of entries' ranks: everybody's for units 0, 2, 4, ..., the person's for others.

import { rint } from "../linear/rounding.js";
import { Draws } from "./draws.js";
import { type Encoder, FULL, UNIT } from "./encoder.js";
import { normalQuantile } from "./normal.js";

/** Inputs of a unit at most; steps of a weight of 1; deviations of an input's and a unit's full scale. */
const INPUTS = 3, WEIGHT = 64, OF_INPUT = 8, OF_UNIT = 4;
const INPUT_LEVEL = (UNIT * OF_INPUT) / FULL, UNIT_LEVEL = (UNIT * WEIGHT * OF_UNIT) / FULL;
/** Values that an entry is compared with, and steps of half a place. */
const PLACES = 32, HALF_PLACE = 14;
const NORMAL_PLACES = Array.from({ length: PLACES }, (_, i) =>
  rint(UNIT * normalQuantile((i + 0.5) / PLACES)),
);

interface Unit {
  readonly inputs: readonly number[];
  readonly weights: readonly number[];
  readonly bias: number;
}

export class ReluEncoder implements Encoder {
  protected readonly units: readonly Unit[];

  /** @param inputs of a sample, `[inputs]`. */
  constructor(readonly size: number, readonly seed: bigint, readonly inputs: number) {
    const draws = new Draws(seed);
    this.units = Array.from({ length: size }, () => unit(draws, inputs));
  }

  get features(): number {
    return this.inputs + this.size;
  }

  ofPerson(steps: Int16Array): Encoder;
  ofPerson(): Encoder {
    return this;
  }

  levels(steps: Int16Array): Int8Array {
    const n = steps.length / this.inputs, found = new Int8Array(n * this.features);
    for (let s = 0; s < n; s++) {
      const sample = steps.subarray(s * this.inputs, (s + 1) * this.inputs);
      const into = found.subarray(s * this.features, (s + 1) * this.features);
      for (let i = 0; i < this.inputs; i++) {
        into[i] = Math.min(Math.floor((sample[i] + INPUT_LEVEL / 2) / INPUT_LEVEL), FULL - 1);
      }
      const views = this.views(sample);
      this.units.forEach((one, i) => (into[this.inputs + i] = level(one, views[i % views.length])));
    }
    return found;
  }

  /** What units see of a sample: each takes the next view, in turn. */
  protected views(sample: Int16Array): readonly Int16Array[] {
    return [sample];
  }
}

export class RanksEncoder extends ReluEncoder {
  private readonly everybodys = places(new Int16Array(0), this.inputs);
  private own = this.everybodys;

  override ofPerson(steps: Int16Array): Encoder {
    const found = new RanksEncoder(this.size, this.seed, this.inputs);
    found.own = places(steps, this.inputs);
    return found;
  }

  protected override views(sample: Int16Array): readonly Int16Array[] {
    return [ranks(sample, this.everybodys), ranks(sample, this.own)];
  }
}

function unit(draws: Draws, entries: number): Unit {
  const inputs = draws.some(1 + draws.below(Math.min(INPUTS, entries)), entries);
  const drawn = inputs.map(() => draws.normal());
  const length = Math.sqrt(drawn.reduce((sum, weight) => sum + weight * weight, 0));
  const weights = drawn.map((weight) => rint((WEIGHT * weight) / length));
  return { inputs, weights, bias: rint(WEIGHT * UNIT * draws.bothSigns()) };
}

function level({ inputs, weights, bias }: Unit, sample: Int16Array): number {
  const sum = inputs.reduce((total, at, k) => total + weights[k] * sample[at], bias);
  return Math.min(Math.floor((Math.max(sum, 0) + UNIT_LEVEL / 2) / UNIT_LEVEL), FULL - 1);
}

/** Ascending places of each input, at equal shares of samples and the normal's values. */
function places(steps: Int16Array, inputs: number): readonly Int16Array[] {
  const n = steps.length / inputs, every = n + PLACES;
  return Array.from({ length: inputs }, (_, input) => {
    const own = Array.from({ length: n }, (_, s) => steps[s * inputs + input]);
    const sorted = Int16Array.from([...NORMAL_PLACES, ...own]).sort();
    const kept = (_: unknown, i: number) => sorted[Math.floor(((2 * i + 1) * every) / (2 * PLACES))];
    return Int16Array.from({ length: PLACES }, kept);
  });
}

/** Ranks of a sample's entries, from -448 to 448; an equal place counts half. */
function ranks(sample: Int16Array, places: readonly Int16Array[]): Int16Array {
  return sample.map((step, input) => {
    let found = -PLACES;
    for (const place of places[input]) found += Number(step > place) + Number(step >= place);
    return HALF_PLACE * found;
  });
}
