import assert from "node:assert/strict";
import { test } from "node:test";
import { Shared } from "../../src/closed-form/candidates.js";
import { type Mixing, type Others, personalHead } from "../../src/closed-form/personal.js";
import { soundSums } from "../../src/closed-form/possible.js";
import { rounded } from "../../src/closed-form/sending.js";
import { type Samples, type Statistics, plus, recency, statistics } from "../../src/closed-form/statistics.js";
import { Matrix } from "../../src/linear/matrix.js";
import { golden, stepsOf } from "../encoders/golden.js";
import { close } from "../linear/numbers.js";

const FEATURES = 6, CLASSES = 4;

interface Recorded {
  readonly samples: number;
  readonly labels: number;
  readonly others: number;
  readonly group: string;
  readonly pooled: boolean;
  readonly forgetting: number;
  readonly holders: boolean;
  readonly mixing: Record<string, unknown>;
  readonly weight: number[];
  readonly bias: number[];
  readonly squares: number[];
  readonly target: number[];
  readonly losses: number[];
  readonly alone: [number[], number[]];
  readonly rounded: [number[], number[], number[]];
  readonly sound: boolean[];
}

const PLAIN: Mixing = {
  prior: 300, heads: "mixed", lentFrom: 0, noisy: false, lends: true, holders: undefined, stretches: 3,
};

/** Features and labels of a person, as tests/golden_parts/heads.py says. */
function personOf(seed: number, samples: number, labels: number): Samples {
  const y = Int32Array.from({ length: samples }, (_, i) => i % Math.max(labels, 1));
  const steps = stepsOf(seed, samples * FEATURES, 1);
  const x = Matrix.of(samples, FEATURES, (i, j) => {
    const level = Math.floor(steps[i * FEATURES + j] / 16) + (y[i] === j ? 40 : 0);
    return j === FEATURES - 1 ? 0 : Math.min(level, 127) / 128;
  });
  return { x, y };
}

function othersOf(one: Recorded, own: Statistics): Others | undefined {
  if (!one.others) return undefined;
  const each = Array.from({ length: one.others }, (_, i) => statistics(personOf(i + 2, 30, CLASSES), CLASSES));
  const everybody = new Shared(each.reduce((sums, other) => plus(sums, other), own));
  const pair = new Shared(plus(own, each[0]));
  const group = { one: pair, class: [everybody, pair, everybody, everybody] }[one.group];
  const others = { everybody, group, pooled: undefined };
  if (!one.pooled) return others;
  const samples = personOf(2, 30, CLASSES);
  const { equations } = personalHead({ samples, classes: CLASSES, weights: undefined }, others, PLAIN);
  const part = (value: number) => value / 30;
  const pooled = { samples: 1, gram: equations.gram.map(part), target: equations.target.map(part), losses: equations.losses.map(part) };
  return { everybody, group, pooled };
}

for (const [name, one] of Object.entries(golden("heads") as Record<string, Recorded>)) {
  test(`the head of a person is Python's: ${name}`, () => {
    const samples = personOf(1, one.samples, one.labels);
    const weights = one.forgetting === 1 ? undefined : recency(samples.y, one.forgetting);
    const own = statistics(samples, CLASSES, weights), others = othersOf(one, own), { mixing } = one;
    const holders = one.holders ? { ofClass: Float64Array.of(5, 3, 5, 2), people: 5 } : undefined;
    const how = { ...PLAIN, ...mixing, holders, lentFrom: (mixing.lent_from ?? 0) as number } as Mixing;
    const sums = rounded(own);
    assert.deepEqual([[...sums.gram], [...sums.cross], [...sums.shifts]], one.rounded);
    if (others) assert.deepEqual([soundSums(others.everybody.sums)], one.sound);
    const head = personalHead({ samples, classes: CLASSES, weights }, others, how);
    close(head.weight.values, one.weight, 1e-9);
    close(head.bias, one.bias, 1e-9);
    close(head.equations.gram.diagonal(), one.squares, 1e-8);
    close(head.equations.target, one.target, 1e-8);
    close(head.equations.losses, one.losses, 1e-8);
    close(head.alone.weight.values, one.alone[0], 1e-9);
    close(head.alone.bias, one.alone[1], 1e-9);
  });
}
