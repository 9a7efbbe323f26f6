import assert from "node:assert/strict";
import { test } from "node:test";
import { Pcg64 } from "../../src/random/pcg.js";
import { deriveSeed } from "../../src/random/seeds.js";
import { Twister } from "../../src/random/twister.js";

// What Python's devices draw, by NumPy 2 and PyTorch 2.
test("seeds are Python's", () => {
  assert.equal(deriveSeed(7n, "p1", 0, "split"), 5073327585526437683n);
  assert.equal(deriveSeed(7n, "p1", 2, "batches of epoch 0"), 1067488778391993878n);
});

test("permutations of splits are NumPy's", () => {
  const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
  const drawn = new Pcg64(deriveSeed(7n, "p1", 0, "split")).permutation(range(10, 30));
  assert.deepEqual(drawn, [25, 28, 19, 14, 15, 10, 29, 22, 16, 17, 13, 20, 18, 27, 24, 26, 12, 23, 11, 21]);
  assert.deepEqual(new Pcg64(5n).permutation(range(0, 1000)).slice(0, 5), [478, 816, 154, 7, 779]);
});

test("orders of batches are PyTorch's", () => {
  const order = new Twister(deriveSeed(7n, "p1", 2, "batches of epoch 0")).permutation(18);
  assert.deepEqual([...order].map(Number), [15, 16, 5, 13, 14, 1, 12, 8, 2, 0, 7, 9, 6, 4, 17, 3, 11, 10]);
});
