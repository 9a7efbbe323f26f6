// `kernels:N` and `kernels:N+statistics`: how often and how strongly N random dilated kernels answer
// to a window, behind statistics of its series. What is drawn and tabled is made here, what is
// computed of windows by the compiled kernels.

import { RunError } from "../errors.js";
import { rint } from "../linear/rounding.js";
import { Draws } from "./draws.js";
import { type Encoder, FULL, UNIT } from "./encoder.js";
import { GROUPS, type Group, LARGEST, PER_KERNEL } from "./names.js";

/** Weights of a kernel, the squared length of all nine, and channels at most. */
const LENGTH = 9, SQUARED = 18, MOST_CHANNELS = 9;
/** Samples in time of a window, deviations that are a maximum's full scale. */
const SHORTEST = 16, LONGEST = 2 ** 18, OF_MAXIMUM = 4;
/** Numbers of a kernel's row, axes of a sensor, pairs of channels that are correlated at most. */
export const ROW = 19, AXES = 4;
const PAIRS = 36;
/** Levels of each series; of correlations one for each pair. */
const EACH: Record<Group, number> = { shape: 3, autocorrelation: 4, spectrum: 10, correlations: 0 };
const COSINE = 2 ** 12, LEAST_LENGTH = 128;
/** Where the three weights of 2 may stand, in lexicographic order. */
const PLACES = triples();

/** Windows `[n, channels, time]` in steps. */
export interface Windows {
  readonly steps: Int16Array;
  readonly shape: readonly [samples: number, channels: number, time: number];
}

/** The functions of `fedsub.h` that encode windows. */
export interface WindowKernels {
  /** Levels `[n, kernels, 5]` of a table of kernels `[kernels, 19]`. */
  encode(table: Int32Array, windows: Windows): Int8Array;
  /** Levels `[n, statistics]` of the groups whose bits are set; sensors `[norms, 4]`, turns `[half, 2]`. */
  describe(groups: number, sensors: Int32Array, turns: Int32Array, windows: Windows, each: number): Int8Array;
}

export class WindowsEncoder implements Encoder {
  private readonly table: Int32Array;
  private readonly statistics: number;

  /**
   * @param size kernels.
   * @param shape `[channels, time]` of a window.
   * @param sensors of each sensor its channels.
   * @throws RunError where it cannot take such windows.
   */
  constructor(
    readonly size: number,
    readonly seed: bigint,
    readonly shape: readonly [number, number],
    readonly groups: readonly Group[],
    readonly sensors: readonly (readonly number[])[],
    private readonly kernels: WindowKernels,
  ) {
    const [channels, time] = shape;
    if (!(time >= SHORTEST && time <= LONGEST)) {
      throw new RunError(`encoder: got windows of ${time} samples in time, expected ${SHORTEST} to ${LONGEST}`);
    }
    const series = channels + sensors.length;
    const pairs = Math.min(PAIRS, (channels * (channels - 1)) / 2);
    this.statistics = groups.reduce((sum, name) => sum + (EACH[name] ? EACH[name] * series : pairs), 0);
    if (this.features > LARGEST) {
      throw new RunError(`encoder: got ${channels} channels, of ${this.features} features, expected ${LARGEST} at most`);
    }
    this.table = tableOf(size, new Draws(seed), shape);
  }

  get features(): number {
    return this.statistics + PER_KERNEL * this.size;
  }

  ofPerson(): Encoder {
    return this;
  }

  levels(steps: Int16Array): Int8Array {
    const [channels, time] = this.shape, n = steps.length / (channels * time);
    const windows: Windows = { steps, shape: [n, channels, time] };
    const answers = this.kernels.encode(this.table, windows);
    if (!this.groups.length) return answers;
    const chosen = this.groups.reduce((bits, name) => bits | (1 << GROUPS.indexOf(name)), 0);
    const tables = [sensorTable(this.sensors), turns(time)] as const;
    const described = this.kernels.describe(chosen, ...tables, windows, this.statistics);
    const found = new Int8Array(n * this.features), own = PER_KERNEL * this.size;
    for (let i = 0; i < n; i++) {
      found.set(described.subarray(i * this.statistics, (i + 1) * this.statistics), i * this.features);
      found.set(answers.subarray(i * own, (i + 1) * own), i * this.features + this.statistics);
    }
    return found;
  }
}

/** Rows of numbers of the kernels, `[kernels, 19]`, as `fedsub.h` orders them. */
function tableOf(size: number, draws: Draws, [channels, time]: readonly [number, number]): Int32Array {
  const table = new Int32Array(size * ROW);
  for (let k = 0; k < size; k++) {
    const dilation = draws.exponential(Math.max(1, Math.floor((time - 1) / (LENGTH - 1))));
    const some = draws.some(draws.exponential(Math.min(channels, MOST_CHANNELS)), channels);
    const places = PLACES[draws.below(PLACES.length)];
    const deviation = UNIT * Math.sqrt(SQUARED * some.length);
    const thresholds = Array.from({ length: PER_KERNEL - 1 }, () => rint(deviation * draws.bothSigns()));
    const level = rint((OF_MAXIMUM * deviation) / FULL);
    table.set([dilation, level, ...places, ...thresholds, some.length, ...some], k * ROW);
  }
  return table;
}

function triples(): readonly (readonly number[])[] {
  const found: number[][] = [];
  for (let i = 0; i < LENGTH; i++) {
    for (let j = i + 1; j < LENGTH; j++) for (let k = j + 1; k < LENGTH; k++) found.push([i, j, k]);
  }
  return found;
}

function sensorTable(sensors: readonly (readonly number[])[]): Int32Array {
  const table = new Int32Array(sensors.length * AXES).fill(-1);
  sensors.forEach((axes, row) => {
    table.set(axes, row * AXES);
  });
  return table;
}

/** Both parts of `exp(-2 pi i k / M)` for k below M / 2, in 1/4096, `[M / 2, 2]`. */
function turns(time: number): Int32Array {
  let length = LEAST_LENGTH;
  while (length < time) length *= 2;
  const found = new Int32Array(length);
  for (let k = 0; k < length / 2; k++) {
    const angle = (2 * Math.PI * k) / length;
    found[2 * k] = rint(COSINE * Math.cos(angle));
    found[2 * k + 1] = rint(-COSINE * Math.sin(angle));
  }
  return found;
}
