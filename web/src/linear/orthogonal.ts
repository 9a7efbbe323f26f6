// The reduced QR decomposition, by Householder's reflections (Golub and Van Loan, 5.2).

import { Matrix, addTo, dot } from "./matrix.js";

/** Orthonormal columns, one a row here, `[m, n]`, and the factor R `[m, m]` of `A = Q R`. */
export interface Orthogonal {
  readonly directions: Matrix;
  readonly factor: Matrix;
}

/** The decomposition of a matrix `[n, m]` with n of m or more. */
export function orthogonal(matrix: Matrix): Orthogonal {
  const columns = matrix.T, m = columns.rows;
  const factor = new Matrix(m, m), scales = new Float64Array(m);
  for (let k = 0; k < m; k++) {
    const column = columns.row(k);
    factor.row(k).set(column.subarray(0, k));
    const v = column.subarray(k), size = Math.sqrt(dot(v, v)), first = v[0];
    const to = first > 0 ? -size : size;
    factor.values[k * m + k] = to;
    if (size === 0) continue;
    const by = first - to;
    v[0] = by;
    for (let i = 0; i < v.length; i++) v[i] /= by;
    scales[k] = (to - first) / to;
    for (let j = k + 1; j < m; j++) {
      const other = columns.row(j).subarray(k);
      addTo(other, v, -scales[k] * dot(other, v));
    }
  }
  const directions = new Matrix(m, columns.columns);
  for (let j = 0; j < m; j++) {
    const row = directions.row(j);
    row[j] = 1;
    for (let k = m - 1; k >= 0; k--) {
      const v = columns.row(k).subarray(k), part = row.subarray(k);
      addTo(part, v, -scales[k] * dot(part, v));
    }
  }
  return { directions, factor: factor.T };
}
