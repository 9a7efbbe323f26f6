import assert from "node:assert/strict";
import { test } from "node:test";
import { eigen } from "../../src/linear/eigen.js";
import { Matrix } from "../../src/linear/matrix.js";
import { orthogonal } from "../../src/linear/orthogonal.js";
import { rint } from "../../src/linear/rounding.js";
import { cholesky, solve, solveFactored } from "../../src/linear/solve.js";
import { close, random } from "./numbers.js";

const SIZE = 60;

/** A symmetric matrix `[SIZE, SIZE]` of a rank, whose numbers are of very different sizes. */
function symmetric(rank: number): Matrix {
  const rows = random(SIZE, rank, 3);
  return rows.map((value, i) => value * 10 ** (i % 4)).rowProducts();
}

for (const [name, matrix] of [
  ["of full rank", symmetric(SIZE)],
  ["of rank 7", symmetric(7)],
  ["that is diagonal", Matrix.of(SIZE, SIZE, (i, j) => (i === j ? 5 - i : 0))],
  ["of zeros", new Matrix(SIZE, SIZE)],
  ["of one number", new Matrix(1, 1, Float64Array.of(-3))],
  ["of none", new Matrix(0, 0)],
  ["with one eigenvalue", Matrix.identity(SIZE)],
] as const) {
  test(`a matrix ${name} is what its eigenvalues and vectors make`, () => {
    const { values, vectors } = eigen(matrix);
    const size = Math.max(...matrix.values.map(Math.abs), 0) + 1e-300;
    const again = vectors.transposedTimes(vectors.map((value, i) => value * values[i]));
    close(again.values, matrix.values, 1e-13 * size * SIZE);
    close(vectors.rowProducts().values, Matrix.identity(matrix.rows).values, 1e-13 * SIZE);
    assert.deepEqual([...values], [...values].sort((a, b) => a - b));
  });
}

test("eigenvalues of a tridiagonal matrix are those of the formula", () => {
  const n = 25;
  const matrix = Matrix.of(n, n, (i, j) => (i === j ? 2 : Math.abs(i - j) === 1 ? -1 : 0));
  const known = Array.from({ length: n }, (_, k) => 2 - 2 * Math.cos(((k + 1) * Math.PI) / (n + 1)));
  close(eigen(matrix).values, known, 1e-13);
});

test("a matrix with NaN has no eigenvalues", () => {
  assert.throws(() => eigen(new Matrix(3, 3, new Float64Array(9).fill(NaN))), RangeError);
});

test("equations are solved, also where the first pivot is 0", () => {
  const matrix = random(20, 20, 5), x = random(20, 3, 6);
  matrix.values[0] = 0;
  close(solve(matrix, matrix.times(x)).values, x.values, 1e-11);
  assert.throws(() => solve(new Matrix(2, 2), new Matrix(2, 1)), RangeError);
});

test("Cholesky's factor solves equations, and there is none of a matrix that is not positive", () => {
  const rows = random(20, 30, 7), matrix = rows.rowProducts(), x = random(20, 3, 8);
  const factor = cholesky(matrix)!;
  close(factor.timesTransposed(factor).values, matrix.values, 1e-12);
  close(solveFactored(factor, matrix.times(x)).values, x.values, 1e-11);
  assert.equal(cholesky(random(20, 5, 9).rowProducts().plus(Matrix.identity(20), -1e-6)), undefined);
  assert.equal(cholesky(new Matrix(2, 2, new Float64Array(4).fill(NaN))), undefined);
});

test("directions are orthonormal and make the matrix, also of linearly dependent columns", () => {
  const matrix = random(40, 12, 10);
  for (let i = 0; i < 40; i++) {
    matrix.values[12 * i + 5] = matrix.at(i, 2);
    matrix.values[12 * i + 7] = 0;
  }
  const { directions, factor } = orthogonal(matrix);
  close(directions.transposedTimes(factor).values, matrix.values, 1e-13);
  close(directions.rowProducts().values, Matrix.identity(12).values, 1e-13);
  assert.ok(factor.values.every((value, k) => k % 12 >= Math.floor(k / 12) || value === 0));
});

test("halves are rounded to the even number", () => {
  const numbers = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, 2 ** 51 + 0.5, 2 ** 53, -7.2];
  assert.deepEqual(numbers.map(rint), [0, 2, 2, -0, -2, -2, 0, 2 ** 51, 2 ** 53, -7]);
});
