// How much each candidate counts, by what it says of a person's samples that it did not see. Stacking
// (Wolpert 1992; non-negative weights: Breiman 1996) needs the normal equations of what candidates say.

import { Matrix, dot, greatest } from "../linear/matrix.js";
import { solve } from "../linear/solve.js";
import { TEMPERATURES } from "./grids.js";

/** Of the greatest diagonal element, added to all: candidates are often nearly equal. */
const JITTER = 1e-9;

/** Sums over samples that weights and temperature follow from. */
export interface Equations {
  readonly samples: number;
  /** Of what candidates say, over samples and classes, `[K, K]`. */
  readonly gram: Matrix;
  /** Of what they say with what is right, `[K]`. */
  readonly target: Float64Array;
  /** Negative log likelihood at each temperature, nats. */
  readonly losses: Float64Array;
}

/** The equations of both's samples, each of which counts so many times. */
export function combined(one: Equations, times: number, other: Equations, otherTimes: number): Equations {
  const both = (a: number, b: number) => times * a + otherTimes * b;
  return {
    samples: both(one.samples, other.samples),
    gram: one.gram.map((value, i, j) => both(value, other.gram.at(i, j))),
    target: one.target.map((value, i) => both(value, other.target[i])),
    losses: one.losses.map((value, i) => both(value, other.losses[i])),
  };
}

/** Products of what candidates say of some samples, each `[n, classes]`, and with targets. */
export function normalEquations(said: readonly Matrix[], targets: Matrix): { gram: Matrix; target: Float64Array } {
  const rows = said.map((one) => one.values);
  const gram = Matrix.of(rows.length, rows.length, (i, j) => dot(rows[i], rows[j]));
  return { gram, target: Float64Array.from(rows, (row) => dot(row, targets.values)) };
}

/**
 * The weights `[K]`, none negative, of the least squared error: the active-set method of Lawson and
 * Hanson (1974, algorithm NNLS), on normal equations.
 */
export function mixingWeights(exact: Matrix, target: Float64Array): Float64Array {
  const n = target.length, jitter = JITTER * Math.max(greatest(exact.diagonal(), 0), 1e-300);
  const gram = exact.map((value, i, j) => (i === j ? value + jitter : value));
  const enough = 1e-10 * greatest(target.map(Math.abs), 0);
  let weights = new Float64Array(n), used = new Uint8Array(n);
  for (let turn = 0; turn < 3 * n; turn++) {
    const gain = target.map((value, i) => (used[i] ? -Infinity : value - dot(gram.row(i), weights)));
    const next = gain.indexOf(greatest(gain));
    if (used.every(Boolean) || gain[next] <= enough) break;
    used[next] = 1;
    let best = restricted(gram, target, used);
    while (best.some((value, i) => used[i] && value <= 0)) {
      weights = toward(weights, best, used);
      used = Uint8Array.from(weights, (weight, i) => (used[i] && weight > 1e-14 ? 1 : 0));
      weights = weights.map((weight, i) => (used[i] ? weight : 0));
      if (!used.some(Boolean)) {
        best = weights;
        break;
      }
      best = restricted(gram, target, used);
    }
    weights = best;
  }
  return weights;
}

/** The least squares among those that are used; 0 elsewhere. */
function restricted(gram: Matrix, target: Float64Array, used: Uint8Array): Float64Array<ArrayBuffer> {
  const some = [...used.keys()].filter((i) => used[i]);
  const rows = Matrix.of(some.length, some.length, (i, j) => gram.at(some[i], some[j]));
  const found = solve(rows, Matrix.of(some.length, 1, (i) => target[some[i]]));
  const best = new Float64Array(target.length);
  some.forEach((i, k) => (best[i] = found.values[k]));
  return best;
}

/** As far toward the best as no weight falls below 0. */
function toward(weights: Float64Array, best: Float64Array, used: Uint8Array): Float64Array<ArrayBuffer> {
  let step = Infinity;
  best.forEach((value, i) => {
    if (used[i] && value <= 0) step = Math.min(step, weights[i] / (weights[i] - value));
  });
  return Float64Array.from(weights, (weight, i) => weight + step * (best[i] - weight));
}

/**
 * The negative log likelihood of labels `[n]` at each temperature, summed, nats.
 *
 * @param added to scores at any temperature, `[classes]`.
 * @param weights how much each sample counts; undefined: all once.
 */
export function logLosses(scores: Matrix, labels: Int32Array, added: Float64Array, weights?: Float64Array): Float64Array {
  return Float64Array.from(TEMPERATURES, (temperature) => {
    let total = 0;
    for (let i = 0; i < labels.length; i++) {
      const scaled = scores.row(i).map((score, c) => temperature * score + added[c]);
      const most = greatest(scaled);
      const whole = Math.log(scaled.reduce((sum, one) => sum + Math.exp(one - most), 0));
      total += (whole - (scaled[labels[i]] - most)) * (weights?.[i] ?? 1);
    }
    return total;
  });
}
