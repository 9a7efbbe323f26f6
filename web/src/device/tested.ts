// What a device answers of its person's model in use: scores on the test part, and what it is held against.

import { together } from "../data/windows.js";
import type { State } from "../methods/method.js";
import { Pcg64 } from "../random/pcg.js";
import { deriveSeed } from "../random/seeds.js";
import type { Tensor } from "../tensors.js";
import type { Value, Values } from "../values.js";
import type { Bundle } from "../wire/bundles.js";
import { evaluated, strongest } from "./evaluation.js";
import { pairedGain } from "./gain.js";
import type { Half } from "./half.js";
import type { Instructions } from "./turn.js";

/** The state in which a person's model is in use after a download, which may be of nothing. */
export function inUseAfter(half: Half, told: Instructions, state: State, received: Bundle): State {
  return half.learner.tested(state, received, half.parts(told.shared).train, told.turn);
}

/** The record `metrics` of a state in use. */
export function testedMetrics(half: Half, told: Instructions, inUse: State): Values {
  const { learner, settings } = half, parts = half.parts(told.shared), { train, test } = parts;
  const logits = learner.predict(inUse, test.x);
  const found = new Map<string, Value>(evaluated(logits, test.y, new Set(train.y), settings.flag("class-counts", true)));
  const alone = learner.predictAlone?.(inUse, test.x);
  const gains = alone ? gainOverOwn(half, told, labelsOf(logits), labelsOf(alone)) : [];
  for (const [key, value] of [...gains, ...half.ownHead.scores(told.shared, parts)]) found.set(key, value);
  return found;
}

/** Macro F1 less that of the model without others, and its interval. */
function gainOverOwn({ person, split }: Half, { turn }: Instructions, ours: readonly number[], theirs: readonly number[]) {
  const { t, y } = person, order = [...split.test.keys()];
  if (t) order.sort((a, b) => t[split.test[a]] - t[split.test[b]] || a - b);
  const said = (labels: readonly number[]) => order.map((i) => labels[i]);
  const of = { y: order.map((i) => y[split.test[i]]), ours: said(ours), theirs: said(theirs) };
  const random = new Pcg64(deriveSeed(turn.seed, person.client, turn.round, "gain"));
  const { mean, low, high } = pairedGain(of, random, together(person));
  return [["gain_over_own", mean], ["gain_over_own_low", low], ["gain_over_own_high", high]] as const;
}

function labelsOf({ shape, values }: Tensor): number[] {
  return Array.from({ length: shape[0] }, (_, i) => strongest(values.subarray(i * shape[1], (i + 1) * shape[1])));
}
