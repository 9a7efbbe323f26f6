// The random stream of a run's encoder: digests alone, the same in every language.

import { deriveSeed } from "../random/seeds.js";
import { normalQuantile } from "./normal.js";

export class Draws {
  private drawn = 0;

  constructor(private readonly seed: bigint) {}

  /** A whole number from 0 to n - 1. */
  below(n: number): number {
    return Number((this.next() * BigInt(n)) >> 63n);
  }

  /** A number between 0 and 1, neither of them. */
  uniform(): number {
    return (Number(this.next() >> 11n) + 0.5) * 2 ** -52;
  }

  /** A number between -1 and 1, neither of them. */
  bothSigns(): number {
    return 2 * this.uniform() - 1;
  }

  /** A whole number from 1 to `most`, about as often below as above its square root. */
  exponential(most: number): number {
    return Math.min(most, Math.floor((most + 1) ** this.uniform()));
  }

  /** A number of mean 0 and variance 1. */
  normal(): number {
    return normalQuantile(this.uniform());
  }

  /** Different whole numbers below `of`, so `many`, ascending. */
  some(many: number, of: number): number[] {
    const left = Array.from({ length: of }, (_, i) => i);
    const found = Array.from({ length: many }, () => left.splice(this.below(left.length), 1)[0]);
    return found.sort((a, b) => a - b);
  }

  private next(): bigint {
    return deriveSeed(this.seed, "", this.drawn++, "encoder");
  }
}
