// What a fit that had not seen some samples would say of them, without that fit (Allen's PRESS, 1974).
// A stretch of time is left out at once: windows overlap their neighbours.

import { Matrix } from "../linear/matrix.js";
import { solve } from "../linear/solve.js";

/** `C^-1 = basis diag(inverse) basis^T + outside (I - basis basis^T)`: see `residuals`. */
export interface Inverse {
  /** `[n, m]`. */
  readonly basis: Matrix;
  /** `[m]`. */
  readonly inverse: Float64Array;
  /** Of no matter where the basis is whole. */
  readonly outside: number;
}

/** Each class's samples, in their order, cut into `stretches` of like length, or singles. */
export function blocksOf(y: Int32Array, stretches: number): number[][] {
  const labels = [...new Set(y)].sort((a, b) => a - b);
  return labels.flatMap((label) => {
    const own = [...y.keys()].filter((i) => y[i] === label);
    const count = Math.min(stretches, own.length), longer = own.length % count;
    const length = Math.floor(own.length / count);
    const start = (k: number) => k * length + Math.min(k, longer);
    return Array.from({ length: count }, (_, k) => own.slice(start(k), start(k + 1)));
  });
}

/**
 * Targets minus what a fit says without a sample's block, `[n, classes]`.
 *
 * @param of the inverse of the covariance of targets that the fit amounts to.
 * @param pull that inverse times the targets' distance from what is said without own samples.
 */
export function residuals(blocks: readonly number[][], of: Inverse, pull: Matrix): Matrix {
  const { basis, inverse } = of, outside = basis.rows === basis.columns ? 0 : of.outside;
  const within = inverse.map((value) => value - outside);
  const found = new Matrix(pull.rows, pull.columns);
  for (const block of blocks) {
    const rows = basis.take(block), weighted = rows.map((value, _, j) => value * within[j]);
    const covariance = weighted.timesTransposed(rows);
    for (let i = 0; i < block.length; i++) covariance.values[i * block.length + i] += outside;
    const left = solve(covariance, pull.take(block));
    block.forEach((sample, i) => {
      found.row(sample).set(left.row(i));
    });
  }
  return found;
}
