// Eigenvalues and vectors of symmetric matrices.
//
// Householder's tridiagonal form and the implicit QL algorithm (Golub and Van Loan, Matrix
// Computations, 8.3). All that is large goes along rows, as the numbers lie in memory.

import { Matrix, addTo, dot } from "./matrix.js";

/** Eigenvalues `[n]`, ascending, and their vectors, one a row, `[n, n]`. */
export interface Eigen {
  readonly values: Float64Array;
  readonly vectors: Matrix;
}

/** Steps of QL for an eigenvalue at most; two or three are needed. */
const MOST_STEPS = 60;

/**
 * The eigendecomposition of a symmetric matrix, of which the lower triangle is read.
 *
 * @throws RangeError where it has NaN or infinite numbers: QL does not end then.
 */
export function eigen(matrix: Matrix): Eigen {
  const n = matrix.rows;
  const reduced = matrix.copy();
  const { diagonal, beside, scales } = tridiagonal(reduced);
  const vectors = reflections(reduced, scales);
  implicitQl(diagonal, beside, vectors);
  const order = Array.from({ length: n }, (_, i) => i).sort((a, b) => diagonal[a] - diagonal[b]);
  return { values: Float64Array.from(order, (i) => diagonal[i]), vectors: vectors.take(order) };
}

interface Tridiagonal {
  readonly diagonal: Float64Array;
  /** Beside the diagonal: number i stands between i and i + 1. */
  readonly beside: Float64Array;
  /** Of each reflection `I - scale v v^T`. */
  readonly scales: Float64Array;
}

/**
 * Reduce the lower triangle from its last row up: row i is reflected to one number, beside the
 * diagonal, and keeps the reflection's vector.
 */
function tridiagonal(a: Matrix): Tridiagonal {
  const n = a.rows;
  const diagonal = new Float64Array(n), beside = new Float64Array(n), scales = new Float64Array(n);
  const p = new Float64Array(n);
  for (let i = n - 1; i > 0; i--) {
    diagonal[i] = a.at(i, i);
    const v = a.row(i).subarray(0, i);
    const last = v[i - 1];
    const size = norm(v);
    const rest = i === 1 ? 0 : norm(v.subarray(0, i - 1));
    if (rest === 0) {
      beside[i - 1] = last;
      continue; // reflected already
    }
    const to = last > 0 ? -size : size;
    beside[i - 1] = to;
    v[i - 1] = last - to;
    // Scaled to a last number of 1: v^T v does not overflow.
    const by = v[i - 1];
    for (let k = 0; k < i; k++) v[k] /= by;
    const scale = (to - last) / to;
    scales[i] = scale;
    symmetricTimes(a, v, p);
    const q = p.subarray(0, i);
    for (let k = 0; k < i; k++) q[k] *= scale;
    addTo(q, v, (-scale / 2) * dot(q, v));
    for (let r = 0; r < i; r++) {
      const row = a.values.subarray(r * n, r * n + r + 1);
      const vr = v[r], qr = q[r];
      for (let c = 0; c <= r; c++) row[c] -= vr * q[c] + qr * v[c];
    }
  }
  diagonal[0] = a.at(0, 0);
  return { diagonal, beside, scales };
}

/** Write the product of the leading symmetric block, of the size of `v`, with `v` into `p`. */
function symmetricTimes(a: Matrix, v: Float64Array, p: Float64Array): void {
  p.fill(0);
  for (let r = 0; r < v.length; r++) {
    const row = a.values.subarray(r * a.columns, r * a.columns + r);
    const vr = v[r];
    let total = a.at(r, r) * vr;
    for (let c = 0; c < r; c++) {
      total += row[c] * v[c];
      p[c] += row[c] * vr;
    }
    p[r] += total;
  }
}

/** The transpose of the product of all reflections, whose vectors stand in rows of `a`. */
function reflections(a: Matrix, scales: Float64Array): Matrix {
  const n = a.rows, found = Matrix.identity(n);
  for (let i = 1; i < n; i++) {
    const scale = scales[i];
    if (scale === 0) continue;
    const v = a.row(i).subarray(0, i);
    // Of the leading block alone: all else is the identity so far.
    for (let r = 0; r < i; r++) {
      const row = found.values.subarray(r * n, r * n + i);
      addTo(row, v, -scale * dot(row, v));
    }
  }
  return found;
}

/** Diagonalise; rows of `vectors` are turned along. */
function implicitQl(d: Float64Array, e: Float64Array, vectors: Matrix): void {
  const n = d.length;
  for (let low = 0; low < n; low++) {
    for (let step = 0; ; step++) {
      const m = smallFrom(d, e, low);
      if (m === low) break;
      if (step === MOST_STEPS) throw new RangeError("eigenvalues: got no finite numbers");
      qlStep(d, e, low, m, vectors);
    }
  }
}

/** The first place from `low` on, beside which there is nothing. */
function smallFrom(d: Float64Array, e: Float64Array, low: number): number {
  let m = low;
  for (; m < d.length - 1; m++) {
    const near = Math.abs(d[m]) + Math.abs(d[m + 1]);
    if (near + Math.abs(e[m]) === near) break;
  }
  return m;
}

/** One step with Wilkinson's shift: a rotation at the end, and more that chase what it leaves. */
function qlStep(d: Float64Array, e: Float64Array, low: number, m: number, vectors: Matrix): void {
  const half = (d[low + 1] - d[low]) / (2 * e[low]);
  const root = Math.hypot(half, 1);
  let g = d[m] - d[low] + e[low] / (half + (half < 0 ? -root : root));
  let sine = 1, cosine = 1, moved = 0;
  for (let i = m - 1; i >= low; i--) {
    const f = sine * e[i], b = cosine * e[i];
    const length = Math.hypot(f, g);
    e[i + 1] = length;
    if (length === 0) {
      // It fell apart before the end.
      d[i + 1] -= moved;
      e[m] = 0;
      return;
    }
    sine = f / length;
    cosine = g / length;
    const shifted = d[i + 1] - moved;
    const turned = (d[i] - shifted) * sine + 2 * cosine * b;
    moved = sine * turned;
    d[i + 1] = shifted + moved;
    g = cosine * turned - b;
    turn(vectors.row(i), vectors.row(i + 1), cosine, sine);
  }
  d[low] -= moved;
  e[low] = g;
  e[m] = 0;
}

function turn(one: Float64Array, other: Float64Array, cosine: number, sine: number): void {
  for (let k = 0; k < one.length; k++) {
    const x = one[k], y = other[k];
    other[k] = sine * x + cosine * y;
    one[k] = cosine * x - sine * y;
  }
}

function norm(v: Float64Array): number {
  return Math.sqrt(dot(v, v));
}
