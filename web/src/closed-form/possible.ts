// Whether any samples can have led to sums, by their heads: a head's squared error over samples,
// `y^T y - 2 b^T w + w^T A w`, is not below 0.

import { eigen } from "../linear/eigen.js";
import { Matrix, dot, greatest } from "../linear/matrix.js";
import { cholesky, solveFactored } from "../linear/solve.js";
import { WITH_OTHERS, packed } from "./grids.js";
import { Scale, samplesOf, targets } from "./scale.js";
import { GREATEST, type Statistics, UNIT, counts, square } from "./statistics.js";

/** Explained share beyond which sums may lead people astray. */
const MOST_EXPLAINED = 100;

/**
 * Whether samples can have led to these sums. Of how many people they are nobody says: what rounding may
 * have done is that of people who have ten samples each.
 */
export function soundSums(sums: Statistics): boolean {
  const samples = counts(sums).reduce((total, count) => total + count, 0);
  const { share, head } = explained(sums);
  return share <= MOST_EXPLAINED || squaredError(sums, head, Math.floor(samples / 10) + 1) >= 0;
}

/**
 * The greatest share of its targets' squares that a class's head explains, and the head `[D + 1]`, for
 * features in units, with the constant in front.
 */
function explained(sums: Statistics): { share: number; head: Float64Array } {
  const n = samplesOf(sums), right = targets(sums), { mean, deviation } = Scale.of(sums), s = square(sums);
  const features = mean.length;
  const about = Matrix.of(features, features, (j, k) =>
    (s.at(j + 1, k + 1) - n * mean[j] * mean[k]) / (deviation[j] * deviation[k]),
  );
  const b = Matrix.of(features, right.rows, (j, c) => (right.at(c, j + 1) - right.at(c, 0) * mean[j]) / deviation[j]);
  const heads = ridge(about, b).T, products = heads.times(about);
  const bias = right.column(0).map((value) => value / (n + WITH_OTHERS[0]));
  const much = bias.map((one, c) => {
    const weights = 2 * dot(b.column(c), heads.row(c)) - dot(heads.row(c), products.row(c));
    return weights + (2 * right.at(c, 0) - n * one) * one;
  });
  const most = much.indexOf(greatest(much));
  const weight = heads.row(most).map((value, j) => value / deviation[j]);
  return { share: much[most] / n, head: Float64Array.of(bias[most] - dot(weight, mean), ...weight) };
}

/** `(products + lam I)^-1 b` at the least penalty; eigenvalues below 0 count as 0. */
function ridge(products: Matrix, b: Matrix): Matrix {
  const penalty = WITH_OTHERS[0], factor = cholesky(products.plus(Matrix.identity(products.rows), penalty));
  if (factor !== undefined) return solveFactored(factor, b);
  const { values, vectors } = eigen(products);
  const along = vectors.times(b).map((value, i) => value / (Math.max(values[i], 0) + penalty));
  return vectors.transposedTimes(along);
}

/** The upper bound of a head's squared error over the samples of sums of so many people. */
function squaredError(sums: Statistics, head: Float64Array, people: number): number {
  const right = targets(sums), s = square(sums), column = new Matrix(head.length, 1, head);
  const n = sums.cross.column(0).reduce((total, value) => total + value, 0) / UNIT;
  const said = greatest(right.times(column).values);
  return n - 2 * said + dot(head, s.times(column).values) + mostLost(sums, head, people);
}

/** The most by which rounding can lower that error. */
function mostLost(sums: Statistics, head: Float64Array, people: number): number {
  const size = head.map(Math.abs), rest = size.subarray(1).reduce((total, one) => total + one, 0);
  const samples = sums.cross.column(0).reduce((total, value) => total + value, 0);
  const steps = size.map((_, j) => (4 * Math.max(sums.gram[packed(j) - 1], 0)) / GREATEST + 3 * people);
  const products = size.reduce((total, one, j) => total + one * Math.sqrt(steps[j]), 0) ** 2 / 2;
  const cross = (2 * samples) / GREATEST + 2 * people;
  const lost = sums.cross.rows * cross * UNIT * (size[0] * (size[0] + rest) + size[0] + rest + 1);
  return (products + lost) / UNIT ** 2;
}
