// A person's own samples beside sums over people: what the sums lack of them.

import { blake2b } from "@noble/hashes/blake2.js";
import { counted, rounded } from "../closed-form/sending.js";
import { type Samples, type Statistics, plus, recency, statistics } from "../closed-form/statistics.js";
import { type Bundle, floatsOf } from "../wire/bundles.js";

/** The samples of a person that sums hold. */
export interface There {
  /** Its name for the samples; 0: there are none. */
  readonly version: bigint;
  readonly samples: number;
  /** As how many they count. */
  readonly counted: number;
  /** Of which classes the sums hold any, `[classes]`; undefined: of all. */
  readonly classes: readonly boolean[] | undefined;
}

/** The samples that a download names. */
export function namedIn(bundle: Bundle): There {
  const [samples, counted] = floatsOf(bundle, "held").values;
  return { version: bundle.version, samples, counted, classes: undefined };
}

/** A person's samples, and their statistics. */
export class OwnSamples {
  /** A name of these samples. */
  readonly version: bigint;
  /** How much each counts; undefined: all once. */
  readonly weights: Float64Array | undefined;

  /** @param forgetting how much a sample counts of what the next newer of its class does. */
  constructor(readonly samples: Samples, readonly classes: number, private readonly forgetting: number) {
    this.version = this.versionOf(samples.y.length);
    this.weights = this.weightsOf(samples.y.length);
  }

  /** As how many samples they count together. */
  get counted(): number {
    return Math.round(this.weights?.reduce((sum, one) => sum + one, 0) ?? this.samples.y.length);
  }

  /** Of which classes there are samples, `[classes]`. */
  get held(): boolean[] {
    return Array.from({ length: this.classes }, (_, c) => this.samples.y.includes(c));
  }

  /** Whether the server has equations of these samples for the sums in a download. */
  answered(bundle: Bundle): boolean {
    return bundle.version === this.version && floatsOf(bundle, "held").values[2] !== 0;
  }

  /** Statistics, exact; of the samples of some classes alone. */
  statistics(classes?: readonly boolean[]): Statistics {
    return this.ofFirst(this.samples.y.length, classes);
  }

  /**
   * The statistics that sums lack to hold these samples once; undefined: they do. Of samples that they
   * hold of this person and that were not the first of these, the device knows nothing any more.
   */
  lacks(there: There): Statistics | undefined {
    let old: number | undefined = this.samples.y.length;
    if (there.version === this.version) {
      const lacking = this.samples.y.some((label) => there.classes?.[label] === false);
      if (there.counted >= there.samples && !lacking) return undefined;
    } else {
      old = this.before(there.version, there.samples);
    }
    if (old === undefined) return this.statistics();
    const inside = rounded(this.ofFirst(old, there.classes));
    return plus(this.statistics(), counted(inside, there.samples, there.counted), -1);
  }

  /** The number of first samples that have a name; undefined: none have. */
  private before(version: bigint, held: number): number | undefined {
    const all = this.samples.y.length, last = this.forgetting === 1 ? held + 1 : all;
    for (let n = Math.max(held, 1); n < Math.min(last, all); n++) if (this.versionOf(n) === version) return n;
    return undefined;
  }

  private ofFirst(count: number, classes?: readonly boolean[]): Statistics {
    const { x, y } = this.samples, weights = this.weightsOf(count);
    const some = [...y.subarray(0, count).keys()].filter((i) => classes?.[y[i]] ?? true);
    const samples = { x: x.take(some), y: Int32Array.from(some, (i) => y[i]) };
    return statistics(samples, this.classes, weights && Float64Array.from(some, (i) => weights[i]));
  }

  private weightsOf(count: number): Float64Array | undefined {
    return this.forgetting === 1 ? undefined : recency(this.samples.y.subarray(0, count), this.forgetting);
  }

  /** A hash of features, float32, and labels, int64, as they lie in memory, little-endian. */
  private versionOf(count: number): bigint {
    const { x, y } = this.samples, bytes = new DataView(new ArrayBuffer(count * (4 * x.columns + 8)));
    x.values.subarray(0, count * x.columns).forEach((value, i) => {
      bytes.setFloat32(4 * i, value, true);
    });
    y.subarray(0, count).forEach((label, i) => {
      bytes.setBigInt64(4 * count * x.columns + 8 * i, BigInt(label), true);
    });
    const digest = blake2b(new Uint8Array(bytes.buffer), { dkLen: 8 });
    return new DataView(digest.buffer, digest.byteOffset).getBigUint64(0, true) >> 1n || 1n;
  }
}
