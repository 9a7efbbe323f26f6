// Downloads of a server that lies: a head stays one of finite numbers, or the message is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { rounded } from "../../src/closed-form/sending.js";
import { plus, statistics } from "../../src/closed-form/statistics.js";
import { Matrix } from "../../src/linear/matrix.js";
import { FedSubRidge } from "../../src/methods/fedsub-ridge.js";
import { OwnSamples } from "../../src/methods/fedsub-ridge-own.js";
import type { RidgeHyperparameters } from "../../src/methods/fedsub-ridge-tensors.js";
import type { State } from "../../src/methods/method.js";
import { type Bundle, NOTHING, type Part } from "../../src/wire/bundles.js";

const CLASSES = 3, FEATURES = 5, TURN = { round: 2, rounds: 3, seed: 1n };
const HYPER: RidgeHyperparameters = {
  heads: "mixed", groups: "none", prior: 300, stretches: 3, openClasses: "on", forgetting: 1, noise: 0,
};
const y = Int32Array.from({ length: 21 }, (_, i) => i % CLASSES);
const x = Matrix.of(y.length, FEATURES, (i, j) => (((7 * i + 13 * j * j) % 50) + (y[i] === j ? 30 : 0)) / 128);
const train = { x: { shape: [y.length, FEATURES], values: Float32Array.from(x.values) }, y };
const own = new OwnSamples({ x, y }, CLASSES, 1);

function floats(...values: readonly number[]): Part {
  return { kind: "floats", values: Float32Array.from(values) };
}

/** Sums of the person three times over, with some tensors in place of the true ones. */
function download(changes: Readonly<Record<string, Part>> = {}): Bundle {
  const one = statistics({ x, y }, CLASSES), sums = plus(plus(one, one), one);
  const tensors = {
    held: floats(y.length, y.length, 0),
    "everybody.gram": floats(...sums.gram.map((value) => value / 2 ** 24)),
    "everybody.cross": floats(...sums.cross.values.map((value) => value / 2 ** 24)),
    "everybody.exponent": floats(24),
    holders: floats(3, 3, 3, 3),
    ...changes,
  };
  return { ...NOTHING, version: own.version, tensors: new Map(Object.entries(tensors)) };
}

function finite(state: State): boolean {
  return Object.values(state).every(({ values }) => Array.from(values, Number).every(Number.isFinite));
}

const learner = () => new FedSubRidge({ classes: CLASSES, features: FEATURES }, HYPER);
const some = (count: number, value: number) => floats(...new Array<number>(count).fill(value));
const LIES: readonly [string, Readonly<Record<string, Part>>][] = [
  ["sums of 0", { "everybody.gram": some(21, 0), "everybody.cross": some(18, 0) }],
  ["squares below 0", { "everybody.gram": some(21, -1) }],
  ["products larger than squares", { "everybody.gram": some(21, 1) }],
  ["counts below 0", { "everybody.cross": some(18, -1) }],
  ["an exponent of 2000", { "everybody.exponent": floats(2000) }],
  ["an exponent of -2000", { "everybody.exponent": floats(-2000) }],
  ["an exponent of 0.5", { "everybody.exponent": floats(0.5) }],
  ["more people with a class than there are", { holders: floats(9, 3, 3, 3) }],
  ["nobody", { holders: floats(0, 0, 0, 0) }],
  ["samples that it never had", { held: floats(1e6, 1e6, 0) }],
  ["fewer than no samples", { held: floats(-5, -5, 0) }],
  ["pooled equations of candidates that say nothing", { pooled: some(574, 0) }],
  ["pooled equations that are not positive", { pooled: some(574, -1e6) }],
  ["pooled equations that are huge", { pooled: some(574, 1e6) }],
];
for (const [name, changes] of LIES) {
  test(`a download with ${name} leaves a head of finite numbers`, () => {
    const ridge = learner(), { state, upload } = ridge.fit(ridge.first(), download(changes), train, TURN);
    assert.ok(finite(state));
    for (const part of upload.tensors.values()) assert.ok(Array.from(part.values).every(Number.isFinite));
    const logits = ridge.predict(state, train.x).values;
    assert.ok(logits.every(Number.isFinite));
  });
}

test("sums without what is held are no sums", () => {
  const ridge = learner(), { tensors, ...rest } = download();
  const lacking = new Map(tensors);
  lacking.delete("held");
  assert.throws(() => ridge.fit(ridge.first(), { ...rest, tensors: lacking }, train, TURN), TypeError);
});

test("statistics are sent once, and a head is solved when there is news", () => {
  const ridge = learner(), first = ridge.fit(ridge.first(), NOTHING, train, { ...TURN, round: 1 });
  assert.deepEqual([...first.upload.tensors.keys()], ["gram", "cross", "shifts"]);
  const sums = rounded(own.statistics());
  assert.deepEqual((first.upload.tensors.get("gram") as { values: Int16Array }).values, sums.gram);
  const second = ridge.fit(first.state, download(), train, TURN);
  assert.deepEqual([...second.upload.tensors.keys()], ["equations"]);
  assert.notDeepEqual(second.state["model.linear1.weight"], first.state["model.linear1.weight"]);
  const third = ridge.fit(second.state, { ...NOTHING, version: own.version }, train, { ...TURN, round: 3 });
  assert.deepEqual([third.upload.tensors.size, third.state], [0, second.state]);
});
