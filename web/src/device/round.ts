/** What a device keeps and sends of a round of local work. */
import type { Fitted, State } from "../methods/method.js";
import { type Part, vectorOfRound } from "../secure/device-sums.js";
import { addsUp } from "../secure/settings.js";
import { type Bundle, within } from "../wire/bundles.js";
import { type Address, encodeUpload } from "../wire/encode.js";
import { emptyReference, type Reference } from "../wire/references.js";
import type { Half } from "./half.js";
import type { Saved } from "./kept.js";
import type { Instructions } from "./turn.js";

/** What a round began with. */
export interface Start {
  /** The state before it; undefined: there was none. */
  readonly before: State | undefined;
  readonly reference: Reference | undefined;
  readonly received: Bundle;
}

/**
 * The state after a round, and its reply; of a part in a sum the vector before it is masked.
 *
 * @param samples names the person's samples.
 */
export function afterRound(half: Half, told: Instructions, fitted: Fitted, start: Start, part: Part | undefined, samples: string): Saved {
  const { round } = told.turn;
  const { learner, settings } = half;
  const { before } = start;
  const address = { client: half.person.client, round };
  const sent = part ? vectorOfRound(part, learner, fitted.upload, start.received, address) : encoded(half, fitted, start, address);
  const largest = settings.number("largest-number", 1e6);
  const whole = [...fitted.upload.tensors.values()].every((one) => one.kind !== "floats" || within(one.values, largest));
  // A model that left all bounds is of no use to its owner either.
  const state = whole ? fitted.state : (before ?? learner.first());
  const anew = round > 1 && before === undefined ? { begins_anew: 1 } : {};
  return { run: told.run, method: told.method, round, samples, state, report: { ...fitted.report, ...anew }, ...sent };
}

function encoded({ learner, encoding, settings }: Half, { upload }: Fitted, start: Start, address: Address) {
  const same = !encoding.delta || start.reference?.round === start.received.reference;
  // Where server and device do not have the same, both start anew.
  const reference = same || !start.reference ? start.reference : emptyReference(learner.sends);
  // In sums a version might tell of samples.
  const version = addsUp(settings) && upload.version !== start.received.version ? 0n : upload.version;
  const { bytes, reference: after } = encodeUpload({ ...upload, version }, address, learner.sends, encoding, reference);
  return { reply: bytes, reference: after, beside: {} };
}
