import assert from "node:assert/strict";
import { test } from "node:test";
import { buildEncoder } from "../../src/encoders/build.js";
import { quantised, scaled } from "../../src/encoders/encoder.js";
import { parseEncoder, resolveEncoder } from "../../src/encoders/names.js";
import { normalQuantile } from "../../src/encoders/normal.js";
import { RunError } from "../../src/errors.js";
import { golden, stepsOf } from "./golden.js";
import { kernels } from "./library.js";

interface Recorded {
  readonly encoder: string;
  readonly shape: number[];
  readonly seed: number;
  readonly sensors: number[][];
  readonly levels: string;
}

const compiled = await kernels();

function built(text: string, shape: number[], seed = 1, capacity = 1, sensors: number[][] = []) {
  return buildEncoder(text, { seed: BigInt(seed), shape, sensors, capacity, kernels: compiled })!;
}

for (const { encoder, shape, seed, sensors, levels } of golden("encoders") as Recorded[]) {
  test(`${encoder} of samples [${shape.join(", ")}] has Python's levels`, () => {
    const each = shape.reduce((product, length) => product * length, 1);
    const own = built(encoder, shape, seed, 1, sensors).ofPerson(stepsOf(2, each, 2));
    const found = own.levels(stepsOf(1, each, 4));
    assert.deepEqual(Buffer.from(found), Buffer.from(levels, "base64"));
    assert.equal(found.length, 4 * own.features);
  });
}

test("a device of half the capacity has the first kernels and units, rounded to the even number", () => {
  const steps = stepsOf(1, 60, 2);
  const [whole, half] = [1, 0.5].map((capacity) => built("kernels:5", [2, 30], 3, capacity));
  assert.equal(half.features, 10);
  assert.deepEqual(half.levels(steps).subarray(0, 10), whole.levels(steps).subarray(0, 10));
  assert.equal(built("relu:3", [4], 3, 0.5).features, 6);
  assert.equal(built("kernels:5", [2, 30], 3, 0.01).features, 5);
});

test("values beyond eight deviations are cut, and halves go to the even step", () => {
  const values = Float32Array.of(9, -9, 0.5 / 256, 1.5 / 256, -0.5 / 256, 8);
  assert.deepEqual([...quantised(values)], [2047, -2048, 0, 2, 0, 2047]);
  assert.deepEqual([...scaled(Int8Array.of(-128, 127))], [-1, 127 / 128]);
});

test("the normal's quantile is exact in the middle and in the tails", () => {
  assert.equal(normalQuantile(0.5), 0);
  assert.ok(Math.abs(normalQuantile(0.975) - 1.959963984540054) < 1e-15);
  assert.ok(Math.abs(normalQuantile(1e-20) + 9.26234008979841) < 1e-13);
});

const WRONG: [string, number[]][] = [
  ["kernels:0", [3, 50]],
  ["kernels:07", [3, 50]],
  ["kernels:5+spectrum+shape", [3, 50]],
  ["kernels:5+shape+shape", [3, 50]],
  ["kernels:5+noise", [3, 50]],
  ["kernels:99999", [3, 50]],
  ["relu:4+shape", [3]],
  ["relu:4", [3, 50]],
  ["kernels:4", [3]],
  ["kernels:4", [3, 15]],
  ["file.py:builder", [3, 50]],
  ["", [3]],
];
for (const [text, shape] of WRONG) {
  test(`'${text}' of samples [${shape.join(", ")}] is refused`, () => {
    assert.throws(() => built(text, shape), RunError);
  });
}

test("auto is what the wire page says", () => {
  assert.equal(resolveEncoder("auto", true, [6, 128]), "kernels:100+statistics");
  assert.equal(resolveEncoder("auto", true, [65, 128]), "kernels:100");
  assert.equal(resolveEncoder("auto", true, [9]), "ranks:450");
  assert.equal(resolveEncoder("auto", false, [9]), "none");
  assert.deepEqual(parseEncoder("kernels:2+statistics").groups.length, 4);
});
