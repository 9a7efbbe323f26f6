// How a person's samples stand in equations: features of mean 0 and deviation 1, and a constant.

import { Matrix } from "../linear/matrix.js";
import { type Statistics, UNIT, classTotal, square } from "./statistics.js";

/** Least deviation of a feature, in units: a constant one stays near zero. */
export const LEAST_DEVIATION = 0.01;

/** A head for features as they come: weight `[classes, D]`, bias `[classes]`. */
export interface LinearHead {
  readonly weight: Matrix;
  readonly bias: Float64Array;
}

/** What makes features have mean 0 and deviation 1: `z = (phi - mean) / deviation`, `[D]`. */
export class Scale {
  constructor(readonly mean: Float64Array, readonly deviation: Float64Array) {}

  /** The scale of the samples that were summed: the constant's row says all. */
  static of(sums: Statistics): Scale {
    // Not of whole samples: of whom few count in part, a part of a sample does, too.
    const n = samplesOf(sums), whole = square(sums);
    const mean = whole.row(0).slice(1).map((value) => value / n);
    const least = LEAST_DEVIATION ** 2;
    const variance = mean.map((value, j) => Math.max(whole.at(j + 1, j + 1) / n - value ** 2, least));
    return new Scale(mean, variance.map(Math.sqrt));
  }

  /** The scale that takes the mean of features `[n, D]` away, and no more. */
  static centred(x: Matrix): Scale {
    const mean = new Float64Array(x.columns);
    for (let i = 0; i < x.rows; i++) x.row(i).forEach((value, j) => (mean[j] += value));
    return new Scale(mean.map((value) => value / Math.max(x.rows, 1)), mean.map(() => 1));
  }

  /**
   * Features `[n, D]` scaled, with a constant 1 behind them, `[n, D + 1]`.
   *
   * @param root each sample's sums of squares count so much, squared; undefined: all once.
   */
  rows(x: Matrix, root?: Float64Array): Matrix {
    const { mean, deviation } = this;
    return Matrix.of(x.rows, x.columns + 1, (i, j) => {
      const one = j === x.columns ? 1 : (x.at(i, j) - mean[j]) / deviation[j];
      return root === undefined ? one : one * root[i];
    });
  }

  /** `A = z^T z` `[D + 1, D + 1]` and `B = z^T Y` `[D + 1, classes]`, Y 1 for a sample's class, else -1. */
  moments(sums: Statistics): { a: Matrix; b: Matrix } {
    const { mean, deviation } = this, last = mean.length, s = square(sums);
    const n = s.at(0, 0), centred = (j: number) => s.at(0, j + 1) - mean[j] * n;
    const a = Matrix.of(last + 1, last + 1, (j, k) => {
      if (j === last) return k === last ? n : centred(k) / deviation[k];
      if (k === last) return centred(j) / deviation[j];
      const about = s.at(j + 1, k + 1) - mean[j] * s.at(0, k + 1) - mean[k] * centred(j);
      return about / (deviation[j] * deviation[k]);
    });
    const t = targets(sums);
    const b = Matrix.of(last + 1, t.rows, (j, c) =>
      j === last ? t.at(c, 0) : (t.at(c, j + 1) - mean[j] * t.at(c, 0)) / deviation[j],
    );
    return { a, b };
  }

  /** A head for features as they come; `weights` `[D + 1, classes]` are for scaled ones. */
  unscaled(weights: Matrix): LinearHead {
    const { mean, deviation } = this, classes = weights.columns, features = mean.length;
    const weight = Matrix.of(classes, features, (c, j) => weights.at(j, c) / deviation[j]);
    const bias = Float64Array.from({ length: classes }, (_, c) =>
      mean.reduce((left, value, j) => left - weight.at(c, j) * value, weights.at(features, c)),
    );
    return { weight, bias };
  }
}

/** As how many samples sums count, 1 at least. */
export function samplesOf(sums: Statistics): number {
  return Math.max(sums.cross.column(0).reduce((total, value) => total + value, 0) / UNIT, 1);
}

/** Products of features and targets, 1 for a sample's class or -1, `[classes, D + 1]`, in units. */
export function targets(sums: Statistics): Matrix {
  const total = classTotal(sums.cross);
  return sums.cross.map((value, _, j) => (2 * value - total[j]) / UNIT);
}
