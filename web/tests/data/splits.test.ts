import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Person } from "../../src/data/person.js";
import { split } from "../../src/data/splits.js";
import { DataError } from "../../src/errors.js";

interface Case {
  readonly split: string;
  readonly seed: number;
  readonly card: { readonly overlap: number | null; readonly time_ordered: boolean; readonly window_s: number | null; readonly groups: string | null };
  readonly x: readonly number[];
  readonly y: readonly number[];
  readonly t: readonly number[] | null;
  readonly group: readonly number[] | null;
  readonly train?: readonly number[];
  readonly test: readonly number[];
  readonly words: string;
  readonly repeated: number;
}

function personOf({ card, x, y, t, group }: Case): Person {
  return {
    client: "p1",
    card: {
      classes: ["sit", "walk", "run", "climb"],
      features: ["a"],
      overlap: card.overlap ?? undefined,
      timeOrdered: card.time_ordered,
      ...(card.window_s !== null && { windowLength: card.window_s }),
      ...(card.groups !== null && { groups: card.groups }),
    },
    x: { shape: [x.length, 1], values: Float32Array.from(x) },
    y: Int32Array.from(y),
    ...(t && { t: Float64Array.from(t) }),
    ...(group && { group: Float64Array.from(group) }),
  };
}

const CASES = JSON.parse(readFileSync("../proto/golden/parts/splits.json", "utf8")) as Record<string, Case>;

for (const [name, one] of Object.entries(CASES)) {
  test(`samples ${name} are divided as Python divides them`, () => {
    const divide = () => split(personOf(one), one.split, 0.3, BigInt(one.seed));
    if (!one.train) {
      assert.throws(divide, DataError);
      return;
    }
    const { train, test: tested, words, parts } = divide();
    assert.deepEqual({ train, test: tested, words }, { train: one.train, test: one.test, words: one.words });
    const neither = one.x.length - train.length - tested.length;
    assert.deepEqual(parts, [train.length, tested.length, neither, one.repeated, 0]);
  });
}
