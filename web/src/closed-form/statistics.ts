// A person's statistics: sums of whole numbers, so that no order of adding changes a bit. All are
// below 2^53, which float64 holds exactly.

import { Matrix } from "../linear/matrix.js";
import { rint } from "../linear/rounding.js";
import { packed } from "./grids.js";

/** Levels in a unit, and the greatest whole number that travels in 16 bits. */
export const UNIT = 128, GREATEST = 2 ** 15 - 1;

/** What heads need to know of samples: sums over them. */
export interface Statistics {
  /** Of levels with a constant in front, `phi^T phi`: the lower triangle, row after row. */
  readonly gram: Float64Array;
  /** The levels of each class's samples, summed, `[classes, D + 1]`; the constant's, over UNIT, counts. */
  readonly cross: Matrix;
}

/** Labelled features. */
export interface Samples {
  /** Whole levels over 128, `[n, D]`. */
  readonly x: Matrix;
  /** Labels `[n]`, each class's in order of time. */
  readonly y: Int32Array;
}

/** Statistics with `times` the numbers of others added. */
export function plus(one: Statistics, other: Statistics, times: 1 | -1 = 1): Statistics {
  const gram = one.gram.map((value, i) => value + times * other.gram[i]);
  return { gram, cross: one.cross.plus(other.cross, times) };
}

/** Samples of each class `[classes]`, in part where they count so. */
export function counts(of: Statistics): Float64Array {
  return of.cross.column(0).map((value) => Math.floor(value / UNIT));
}

/** Sums over classes `[D + 1]`. */
export function classTotal(cross: Matrix): Float64Array {
  const found = new Float64Array(cross.columns);
  for (let c = 0; c < cross.rows; c++) cross.row(c).forEach((value, j) => (found[j] += value));
  return found;
}

/** `phi^T phi` in units, `[D + 1, D + 1]`. */
export function square(of: Statistics): Matrix {
  return squared(of.gram, of.cross.columns).map((value) => value / UNIT ** 2);
}

/** The symmetric matrix `[rows, rows]` of a lower triangle. */
export function squared(triangle: ArrayLike<number>, rows: number): Matrix {
  const found = new Matrix(rows, rows);
  for (let i = 0, at = 0; i < rows; i++) {
    for (let j = 0; j <= i; j++, at++) {
      found.values[i * rows + j] = triangle[at];
      found.values[j * rows + i] = triangle[at];
    }
  }
  return found;
}

/**
 * The statistics of samples.
 *
 * @param weights how much each sample counts, as `recency` has it; undefined: all once.
 */
export function statistics(samples: Samples, classes: number, weights?: Float64Array): Statistics {
  const { x, y } = samples, width = x.columns + 1;
  const gram = new Float64Array(packed(x.columns)), cross = new Matrix(classes, width);
  const phi = new Float64Array(width), counted = new Float64Array(width);
  for (let s = 0; s < x.rows; s++) {
    const row = x.row(s), weight = weights?.[s] ?? 1;
    for (let j = 0; j < width; j++) {
      phi[j] = j === 0 ? UNIT : rint(row[j - 1] * UNIT);
      counted[j] = weight * phi[j];
    }
    const of = cross.row(y[s]);
    for (let i = 0, at = 0; i < width; i++) {
      of[i] += counted[i];
      const by = phi[i];
      for (let j = 0; j <= i; j++, at++) gram[at] += by * counted[j];
    }
  }
  if (weights === undefined) return { gram, cross };
  // Rounded are products about the means that follow from rounded sums: they are what is checked.
  const whole = cross.map(rint), moved = movedBy(classTotal(cross), whole), back = aboutZero(whole);
  return { gram: gram.map((value, i) => rint(value - moved[i]) + back[i]), cross: whole };
}

/** By how much products about zero are larger than those about whole means: a triangle. */
export function aboutZero(cross: Matrix): Float64Array {
  return movedBy(classTotal(cross), cross);
}

/** Of levels with sums s, about m: `m s^T + s m^T - n m m^T`; the constant's column is s itself. */
function movedBy(sums: Float64Array, whole: Matrix): Float64Array {
  const { means, samples } = wholeMeans(whole), found = new Float64Array(packed(sums.length - 1));
  for (let i = 0, at = 0; i < sums.length; i++) {
    for (let j = 0; j <= i; j++, at++) {
      const about = means[i] * sums[j] + sums[i] * means[j] - samples * means[i] * means[j];
      found[at] = j === 0 ? UNIT * sums[i] : about;
    }
  }
  return found;
}

function wholeMeans(cross: Matrix): { means: Float64Array; samples: number } {
  const sums = classTotal(cross), samples = Math.max(Math.floor(sums[0] / UNIT), 1);
  const means = sums.map((value) => rint(value / samples));
  means[0] = 0;
  return { means, samples };
}

/**
 * How much each sample counts where older ones count less, `[n]`, at most 1: `factor` times as much as
 * the next newer one of its class. Those of a class add up to a whole number.
 */
export function recency(y: Int32Array, factor: number): Float64Array {
  const weights = new Float64Array(y.length), later = new Map<number, number>(), totals = new Map<number, number>();
  for (let i = y.length - 1; i >= 0; i--) {
    const newer = later.get(y[i]) ?? 0;
    weights[i] = factor ** newer;
    later.set(y[i], newer + 1);
    totals.set(y[i], (totals.get(y[i]) ?? 0) + weights[i]);
  }
  // A sum of ones must not fall below itself by rounding.
  return weights.map((weight, i) => weight * (Math.floor(totals.get(y[i])! + 1e-9) / totals.get(y[i])!));
}
