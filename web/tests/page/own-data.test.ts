import assert from "node:assert/strict";
import { test } from "node:test";
import { csvOf, recordingsOf } from "../../src/data/csv.js";
import type { Card } from "../../src/data/person.js";
import { DataError } from "../../src/errors.js";
import { covers } from "../../src/page/consent.js";
import { ownData } from "../../src/page/own-data.js";

const CARD: Card = { classes: ["sit", "walk"], features: ["acc_x", "acc_y"], overlap: 0, timeOrdered: true, samplingRate: 10, windowLength: 1 };
const lines = (n: number, of: (i: number) => string) => Array.from({ length: n }, (_, i) => of(i)).join("\n");

test("a file becomes windows with labels, and without, in the card's units", () => {
  const text = `t,label,acc_y,acc_x\n${lines(40, (i) => `${i / 10},${["sit", "walk", "", "walk"][Math.floor(i / 10)]},${i},${-i}`)}\n`;
  const [rows] = recordingsOf(text, CARD);
  const { person, counts, unlabelled } = ownData("p1", CARD, [{ ...rows, id: 1, measured: false }]);
  assert.deepEqual({ counts, unlabelled }, { counts: [1, 2], unlabelled: 1 });
  assert.deepEqual([...person!.y], [0, 1, 1]);
  assert.deepEqual([...person!.x.values.subarray(0, 20)], [...Array.from({ length: 10 }, (_, i) => 0 - i), ...Array.from({ length: 10 }, (_, i) => i)]);
});

test("times are in the unit in which the card's rate is met", () => {
  for (const [unit, scale] of [["s", 1], ["ms", 1e3], ["us", 1e6], ["ns", 1e9]] as const) {
    const [{ t }] = recordingsOf(`time;acc_x;acc_y\n${lines(30, (i) => `${(i / 10) * scale};1;2`)}`, CARD);
    assert.ok(Math.abs(t[29] - 2.9) < 1e-9, unit);
  }
});

test("recordings are written as they are read", () => {
  const text = `recording,t,label,acc_x,acc_y\n${lines(40, (i) => `${Math.floor(i / 20)},${i / 10},walk,${Math.fround(i / 3)},${i}`)}\n`;
  const found = recordingsOf(text, CARD);
  assert.equal(found.length, 2);
  assert.deepEqual(recordingsOf(csvOf(found, CARD), CARD), found);
});

test("what is no recording is refused with its column or line", () => {
  const refused = (text: string, words: RegExp) => {
    assert.throws(() => recordingsOf(text, CARD), (error) => error instanceof DataError && words.test(error.message));
  };
  refused("t,acc_x\n1,2", /acc_y/);
  refused("acc_x,acc_y\n1,2", /seconds/);
  refused("t,label,acc_x,acc_y\n1,run,1,2", /line 2: got the label run/);
  refused("t,acc_x,acc_y\nNaN,1,2\n1,,2", /no row/);
  refused("", /columns/);
});

test("a recording that is far too slow gives no windows, and the others stay", () => {
  const [slow] = recordingsOf(`t,label,acc_x,acc_y\n${lines(30, (i) => `${i / 3},sit,1,2`)}`, CARD);
  const [good] = recordingsOf(`t,label,acc_x,acc_y\n${lines(30, (i) => `${i / 10},walk,${i},2`)}`, CARD);
  const { counts, refused } = ownData("p1", CARD, [{ ...slow, id: 4, measured: false }, { ...good, id: 5, measured: false }]);
  assert.deepEqual(counts, [0, 3]);
  assert.match(refused.get(4) ?? "", /3.00 samples a second/);
});

test("consent covers no further method, no fewer people in a sum, and no less noise", () => {
  const agreed = { methods: ["fedavg", "fedsub-ridge"], least: 5, noise: true };
  assert.ok(covers(agreed, { methods: ["fedavg"], least: 6, noise: true }));
  assert.ok(covers({ ...agreed, least: 0, noise: false }, agreed));
  for (const other of [{ methods: ["fedavg", "fedprox"] }, { least: 4 }, { least: 0 }, { noise: false }]) assert.ok(!covers(agreed, { ...agreed, ...other }));
});
