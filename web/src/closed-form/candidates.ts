// Candidate heads of one person, and what each would say of samples that it had not seen. A candidate
// is a ridge head `W = (A + lam I)^-1 B` on sums in which the person's own samples weigh more. Written
// with kernels of the person's own samples, as Gaussian processes are (Rasmussen and Williams 2006, 5.12).

import { eigen } from "../linear/eigen.js";
import { Matrix, addTo } from "../linear/matrix.js";
import { orthogonal } from "../linear/orthogonal.js";
import { OWN_WEIGHTS, PENALTIES, WITH_OTHERS } from "./grids.js";
import { residuals } from "./left-out.js";
import { type LinearHead, Scale } from "./scale.js";
import type { Statistics } from "./statistics.js";

/** A person's features `[n, D]`, and the roots of how much each counts; undefined: all once. */
export interface Counted {
  readonly x: Matrix;
  readonly root: Float64Array | undefined;
}

/** Whose heads a mixture is of. */
export interface HeadSet {
  /** What each says of the person's samples, block by block left out, each `[n, classes]`. */
  readonly said: readonly Matrix[];
  readonly penalties: readonly number[];
  /** The candidates' sum, each `mixed` times. */
  head(mixed: Float64Array, samples: Counted): LinearHead;
}

/** Sums of several people, solved: eigenvalues, vectors (one a row), and `B` in them. */
export class Shared {
  readonly values: Float64Array;
  readonly vectors: Matrix;
  readonly b: Matrix;

  constructor(readonly sums: Statistics, readonly scale = Scale.of(sums)) {
    const { a, b } = scale.moments(sums), { values, vectors } = eigen(a);
    this.values = values.map((value) => Math.max(value, 0));
    this.vectors = vectors;
    this.b = vectors.times(b);
  }
}

/** Heads that differ in penalty and own weight, all on the same sums. */
export class Candidates implements HeadSet {
  /**
   * @param dual of each `[n, classes]`, by which each sample moves the head.
   * @param shared on whose sums; undefined: the person's own alone.
   */
  constructor(
    readonly said: readonly Matrix[],
    readonly dual: readonly Matrix[],
    readonly penalties: readonly number[],
    readonly scale: Scale,
    readonly shared?: Shared,
  ) {}

  head(mixed: Float64Array, samples: Counted): LinearHead {
    const rows = this.scale.rows(samples.x, samples.root), { shared, penalties } = this;
    if (shared === undefined) {
      const each = summed(this.dual, mixed.map((weight, k) => weight / penalties[k]));
      return this.scale.unscaled(rows.transposedTimes(each));
    }
    const head = new Matrix(shared.b.rows, shared.b.columns);
    for (const penalty of new Set(penalties)) {
      const here = mixed.map((weight, k) => (penalties[k] === penalty ? weight : 0));
      if (here.every((weight) => weight === 0)) continue;
      const moved = shared.vectors.times(rows.transposedTimes(summed(this.dual, here)));
      addTo(moved.values, shared.b.values, here.reduce((total, weight) => total + weight, 0));
      addTo(head.values, divided(moved, shared.values, penalty).values, 1);
    }
    return this.scale.unscaled(shared.vectors.transposedTimes(head));
  }
}

/** Samples in as few directions as they have: no more than features, however many they are. */
export class Span {
  /** Of the scaled samples, `[m, D + 1]`, along orthonormal directions (one a row), if they are many. */
  readonly rows: Matrix;
  readonly directions: Matrix | undefined;
  /** Eigenvalues `[m]` and vectors of these rows' products. */
  readonly values: Float64Array;
  readonly vectors: Matrix;

  constructor(samples: Counted, readonly scale: Scale) {
    const rows = scale.rows(samples.x, samples.root);
    const many = rows.rows > rows.columns ? orthogonal(rows) : undefined;
    this.rows = many?.factor ?? rows;
    this.directions = many?.directions;
    const { values, vectors } = eigen(this.rows.rowProducts());
    this.values = values.map((value) => Math.max(value, 0));
    this.vectors = vectors;
  }

  /** Directions of the samples `[n, m]`, of vectors along these directions, one a row. */
  amongSamples(vectors: Matrix): Matrix {
    return this.directions === undefined ? vectors.T : this.directions.transposedTimes(vectors.T);
  }

  /** The part of targets `[n, classes]` that no head could say: 0 of a whole basis. */
  rest(basis: Matrix, targets: Matrix): Matrix {
    if (this.directions === undefined) return new Matrix(targets.rows, targets.columns);
    return targets.plus(basis.times(basis.transposedTimes(targets)), -1);
  }
}

/**
 * Heads on the person's own samples alone.
 *
 * @param targets `[n, classes]`, 1 for a sample's class, else -1; times the root of how much it counts.
 */
export function alone(span: Span, targets: Matrix, blocks: readonly number[][]): Candidates {
  const basis = span.amongSamples(span.vectors), y = basis.transposedTimes(targets);
  const rest = span.rest(basis, targets), said: Matrix[] = [], dual: Matrix[] = [];
  for (const penalty of PENALTIES) {
    const inverse = span.values.map((value) => 1 / (value / penalty + 1));
    const own = basis.times(y.map((value, i) => value * inverse[i]));
    said.push(targets.plus(residuals(blocks, { basis, inverse, outside: 1 }, own.plus(rest)), -1));
    dual.push(own);
  }
  return new Candidates(said, dual, PENALTIES, span.scale);
}

/**
 * Heads on sums that hold the person's own samples and others'. The head without the person's samples is
 * a prior of the head with them: own samples then add what they say beyond it, at each own weight.
 */
export function withOthers(span: Span, targets: Matrix, shared: Shared, blocks: readonly number[][]): Candidates {
  const turned = span.rows.timesTransposed(shared.vectors), said: Matrix[] = [], dual: Matrix[] = [];
  for (const penalty of WITH_OTHERS) {
    const root = turned.map((value, _, j) => value / Math.sqrt(shared.values[j] + penalty));
    const { values: leverage, vectors } = eigen(root.rowProducts());
    const basis = span.amongSamples(vectors), y = basis.transposedTimes(targets);
    const saidNow = vectors.times(turned.times(divided(shared.b, shared.values, penalty)));
    const rest = span.rest(basis, targets);
    // Sums that hold the own samples give these no more leverage than they have alone (Weyl), if nothing
    // was rounded: what was, might say that a head without them is infinite.
    const left = leverage.map((value, i) => Math.max(1 - value, penalty / (penalty + span.values[i])));
    const prior = saidNow.map((value, i, c) => (value - (1 - left[i]) * y.at(i, c)) / left[i]);
    for (const weight of OWN_WEIGHTS) {
      const inverse = left.map((value) => 1 / ((1 - value) / value + 1 / weight));
      const pull = basis.times(y.map((value, i, c) => inverse[i] * (value - prior.at(i, c)))).plus(rest, weight);
      said.push(targets.plus(residuals(blocks, { basis, inverse, outside: weight }, pull), -1));
      // With the leverage as it is: by any other this would be no head on these sums.
      const more = leverage.map((value) => (weight - 1) / (1 + (weight - 1) * value));
      dual.push(basis.times(y.map((value, i, c) => more[i] * (value - saidNow.at(i, c)))));
    }
  }
  const penalties = WITH_OTHERS.flatMap((penalty) => OWN_WEIGHTS.map(() => penalty));
  return new Candidates(said, dual, penalties, shared.scale, shared);
}

/** The sum of matrices, each so many times. */
export function summed(parts: readonly Matrix[], times: Float64Array): Matrix {
  const found = new Matrix(parts[0].rows, parts[0].columns);
  parts.forEach((part, k) => {
    if (times[k] !== 0) addTo(found.values, part.values, times[k]);
  });
  return found;
}

/** Rows divided by eigenvalues and a penalty. */
function divided(of: Matrix, values: Float64Array, penalty: number): Matrix {
  return of.map((value, i) => value / (values[i] + penalty));
}
