// Linear equations, by Gauss's elimination and by Cholesky's factor.

import { Matrix, addTo, dot } from "./matrix.js";

/**
 * The solution `[n, m]` of `matrix` `[n, n]` times it being `right` `[n, m]`, with partial pivoting.
 *
 * @throws RangeError where a pivot is 0: there is no one solution.
 */
export function solve(matrix: Matrix, right: Matrix): Matrix {
  const n = matrix.rows, a = matrix.copy(), x = right.copy();
  for (let k = 0; k < n; k++) {
    let pivot = k;
    for (let i = k + 1; i < n; i++) if (Math.abs(a.at(i, k)) > Math.abs(a.at(pivot, k))) pivot = i;
    if (a.at(pivot, k) === 0) throw new RangeError("solve: got a singular matrix");
    if (pivot !== k) {
      exchange(a.row(k), a.row(pivot));
      exchange(x.row(k), x.row(pivot));
    }
    for (let i = k + 1; i < n; i++) {
      const by = -a.at(i, k) / a.at(k, k);
      if (by === 0) continue;
      addTo(a.row(i).subarray(k), a.row(k).subarray(k), by);
      addTo(x.row(i), x.row(k), by);
    }
  }
  for (let i = n - 1; i >= 0; i--) {
    const row = x.row(i);
    for (let k = i + 1; k < n; k++) addTo(row, x.row(k), -a.at(i, k));
    for (let j = 0; j < row.length; j++) row[j] /= a.at(i, i);
  }
  return x;
}

/** Cholesky's factor L `[n, n]` of a symmetric matrix `L L^T`; undefined where it is not positive. */
export function cholesky(matrix: Matrix): Matrix | undefined {
  const n = matrix.rows, factor = new Matrix(n, n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      const above = dot(factor.row(i).subarray(0, j), factor.row(j).subarray(0, j));
      const left = matrix.at(i, j) - above;
      if (i !== j) {
        factor.values[i * n + j] = left / factor.at(j, j);
      } else {
        if (!(left > 0)) return undefined;
        factor.values[i * n + i] = Math.sqrt(left);
      }
    }
  }
  return factor;
}

/** The solution `[n, m]` of equations with the matrix that has this Cholesky factor. */
export function solveFactored(factor: Matrix, right: Matrix): Matrix {
  const n = factor.rows, x = right.copy();
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < i; k++) addTo(x.row(i), x.row(k), -factor.at(i, k));
    scale(x.row(i), 1 / factor.at(i, i));
  }
  for (let i = n - 1; i >= 0; i--) {
    scale(x.row(i), 1 / factor.at(i, i));
    for (let k = 0; k < i; k++) addTo(x.row(k), x.row(i), -factor.at(i, k));
  }
  return x;
}

function exchange(one: Float64Array, other: Float64Array): void {
  const kept = one.slice();
  one.set(other);
  other.set(kept);
}

function scale(row: Float64Array, by: number): void {
  for (let j = 0; j < row.length; j++) row[j] *= by;
}
