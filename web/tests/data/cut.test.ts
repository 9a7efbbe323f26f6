import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { cutOf, windowsOf } from "../../src/data/cut.js";
import { DataError } from "../../src/errors.js";

interface Case {
  readonly rate: number;
  readonly length: number;
  readonly step: number;
  readonly purity: number;
  readonly t: readonly number[];
  readonly x: readonly (readonly number[])[];
  readonly y: readonly number[];
  readonly windows?: { readonly x: readonly (readonly (readonly number[])[])[]; readonly y: readonly number[]; readonly t: readonly number[] };
}

const CASES = JSON.parse(readFileSync("../proto/golden/parts/windows.json", "utf8")) as Record<string, Case>;

for (const [name, one] of Object.entries(CASES)) {
  test(`a recording ${name} is cut as Python cuts it, to the bit`, () => {
    const rows = { t: Float64Array.from(one.t), x: Float32Array.from(one.x.flat()), y: Int32Array.from(one.y) };
    const cut = () => windowsOf(rows, 2, one);
    if (!one.windows) {
      assert.throws(cut, DataError);
      return;
    }
    const { x, y, t } = cut();
    assert.deepEqual(x.shape, [one.windows.y.length, 2, one.length]);
    assert.deepEqual([...x.values], one.windows.x.flat(2).map(Math.fround));
    assert.deepEqual({ y: [...y], t: [...t] }, { y: [...one.windows.y], t: [...one.windows.t] });
  });
}

test("a card without rate, length or overlap is refused", () => {
  const card = { classes: ["a"], features: ["x"], timeOrdered: false };
  assert.throws(() => cutOf({ ...card, overlap: undefined, samplingRate: 20, windowLength: 2 }), DataError);
  assert.throws(() => cutOf({ ...card, overlap: 0.5, windowLength: 2 }), DataError);
  assert.deepEqual(cutOf({ ...card, overlap: 0.5, samplingRate: 20, windowLength: 2.56 }), { rate: 20, length: 51, step: 26, purity: 0.5 });
});
