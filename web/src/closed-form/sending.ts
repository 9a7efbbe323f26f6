// What statistics travel as: what devices and the server make of them must be alike to the bit.

import { Matrix } from "../linear/matrix.js";
import { rint } from "../linear/rounding.js";
import { packed } from "./grids.js";
import type { Equations } from "./stacking.js";
import { GREATEST, type Statistics, aboutZero, squared } from "./statistics.js";

/** A person's statistics in 16 bits a number: class sums, and products about whole means. */
export interface Rounded {
  /** A lower triangle; 0 in the constant's column, which is the class sums'. */
  readonly gram: Int16Array;
  /** `[classes, D + 1]`. */
  readonly cross: Int16Array;
  /** `[D + 2]`: how often `cross` was halved; then each feature's halvings of a product. */
  readonly shifts: Int32Array;
}

/** A person's statistics, rounded as they travel. */
export function rounded(exact: Statistics): Rounded {
  const width = exact.cross.columns, ofCross = shiftOf(exact.cross.values);
  const cross = exact.cross.map((value) => halved(value, ofCross));
  const moved = aboutZero(cross.map((value) => value * 2 ** ofCross));
  const about = exact.gram.map((value, i) => value - moved[i]);
  const shifts = Int32Array.from({ length: width + 1 }, (_, i) => {
    const feature = i - 1;
    // The constant's row is 0. What four halvings of a square leave, two of each feature do.
    const products = feature > 0 ? about[packed(feature) - 1] : 0;
    return i === 0 ? ofCross : halvings(Math.max(products, 0));
  });
  const gram = new Int16Array(about.length);
  eachPair(width, (i, j, at) => {
    const whole = halved(about[at], shifts[i + 1] + shifts[j + 1]);
    gram[at] = j === 0 ? 0 : Math.min(Math.max(whole, -GREATEST), GREATEST);
  });
  return { gram, cross: Int16Array.from(cross.values), shifts };
}

/** The whole numbers that arrive. */
export function arrived(sums: Rounded): Statistics {
  const width = sums.shifts.length - 1, times = 2 ** sums.shifts[0];
  const values = Float64Array.from(sums.cross, (value) => value * times);
  const cross = new Matrix(values.length / width, width, values), gram = aboutZero(cross);
  eachPair(width, (i, j, at) => (gram[at] += sums.gram[at] * 2 ** (sums.shifts[i + 1] + sums.shifts[j + 1])));
  return { gram, cross };
}

/** The summand where so many `samples` count as fewer: whole numbers. */
export function counted(sums: Rounded, samples: number, countsAs: number): Statistics {
  const whole = arrived(sums), part = Math.max(countsAs, 0) / samples;
  if (countsAs > 0 && countsAs >= samples) return whole;
  const less = (value: number) => (countsAs <= 0 ? 0 : Math.floor(part * value));
  return { gram: whole.gram.map(less), cross: whole.cross.map(less) };
}

/** Sums over people that came as float32 numbers, times two to the power of `exponent`; whole again. */
export function portable(gram: Float32Array, cross: Float32Array, exponent: number, classes: number): Statistics {
  const whole = (values: Float32Array) => Float64Array.from(values, (value) => rint(value * 2 ** exponent));
  return { gram: whole(gram), cross: new Matrix(classes, cross.length / classes, whole(cross)) };
}

/** Equations in a row: the lower triangle of `gram`, `target`, `losses`. */
export function flat(of: Equations): Float64Array {
  const k = of.target.length, found = new Float64Array(packed(k - 1) + k + of.losses.length);
  eachPair(k, (i, j, at) => (found[at] = of.gram.at(i, j)));
  found.set(of.target, packed(k - 1));
  found.set(of.losses, packed(k - 1) + k);
  return found;
}

/** Inverse of `flat`, of one sample's worth. */
export function unflat(row: ArrayLike<number>, candidates: number): Equations {
  const all = Float64Array.from(row), triangle = packed(candidates - 1);
  return {
    samples: 1,
    gram: squared(all.subarray(0, triangle), candidates),
    target: all.slice(triangle, triangle + candidates),
    losses: all.slice(triangle + candidates),
  };
}

/** Call `work` for each number of a lower triangle, row after row, with its place. */
export function eachPair(width: number, work: (row: number, column: number, at: number) => void): void {
  for (let i = 0, at = 0; i < width; i++) for (let j = 0; j <= i; j++, at++) work(i, j, at);
}

/** A whole number halved so often; halves are rounded up. */
function halved(value: number, times: number): number {
  return times === 0 ? value : Math.floor((value + 2 ** (times - 1)) / 2 ** times);
}

/** How often numbers are halved until all fit 16 bits. */
function shiftOf(values: Float64Array): number {
  let shift = 0;
  while (values.some((value) => Math.abs(halved(value, shift)) > GREATEST)) shift++;
  return shift;
}

function halvings(product: number): number {
  let times = 0;
  while (product > GREATEST * 4 ** times) times++;
  return times;
}
