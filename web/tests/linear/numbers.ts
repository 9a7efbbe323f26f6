// Numbers of tests.

import assert from "node:assert/strict";
import { Matrix } from "../../src/linear/matrix.js";

/** Numbers between -1 and 1, the same for the same seed. */
export function random(rows: number, columns: number, seed: number): Matrix {
  let state = seed * 2654435761 + 1;
  return Matrix.of(rows, columns, () => {
    // Park and Miller's generator.
    state = (state * 48271) % 2147483647;
    return state / 1073741823.5 - 1;
  });
}

/** Assert that all numbers are as expected, up to `error`. */
export function close(got: ArrayLike<number>, expected: ArrayLike<number>, error: number): void {
  assert.equal(got.length, expected.length);
  const away = Array.from(got, (value, i) => Math.abs(value - expected[i]));
  const worst = away.reduce((most, one, i) => (one <= away[most] ? most : i), 0);
  assert.ok(
    away.length === 0 || away[worst] <= error,
    `number ${worst}: got ${got[worst]}, expected ${expected[worst]} up to ${error}`,
  );
}
