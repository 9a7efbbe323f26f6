// What an encoder is: samples as small whole numbers, features as whole numbers.

import { rint } from "../linear/rounding.js";

/** Steps in a standard deviation, deviations from which on a value counts as no larger. */
export const UNIT = 256, CLIP = 8;
/** A feature's full scale: it is one of the levels -128 to 127, divided by this. */
export const FULL = 128;
const GREATEST = UNIT * CLIP - 1;

/** Features of samples, which a text, a seed and a sample's shape fix to the last bit. */
export interface Encoder {
  /** How many features a sample has. */
  readonly features: number;
  /** The encoder of a person with quantised training samples, which may be none. */
  ofPerson(steps: Int16Array): Encoder;
  /** Levels `[n, features]` of quantised samples. */
  levels(steps: Int16Array): Int8Array;
}

/** Standardised values in steps of 1/256 deviation, from -2048 to 2047; halves to the even step. */
export function quantised(x: Float32Array): Int16Array {
  const clipped = (value: number) => Math.min(Math.max(value, -CLIP), CLIP);
  return Int16Array.from(x, (value) => Math.min(rint(clipped(value) * UNIT), GREATEST));
}

/** Features in [-1, 1) of their levels; exact. */
export function scaled(levels: Int8Array): Float32Array {
  return Float32Array.from(levels, (level) => level / FULL);
}
