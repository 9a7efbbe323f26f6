// A device half's vectors for secure sums, and what is told of them.

import { RunError } from "../errors.js";
import type { Learner } from "../methods/method.js";
import { type Bundle, floatsOf } from "../wire/bundles.js";
import { type Levels, type Words, vectorOf } from "./quantise.js";
import { hashOfBundle } from "./transcript.js";

/** What a method's half says of its part in sums. */
export interface Summed {
  /** A person's vector. */
  vector(upload: Bundle, received: Bundle, levels: Levels): Words;
  /** The name of a vector that stays the same from round to round; "": it changes. */
  once(received: Bundle): string;
  /** The part of a download that all who are in a sum share. */
  toldAlike(received: Bundle): Bundle;
}

/** What a person's vector is and was made of. */
export interface Origin {
  readonly once: string;
  /** Hash of what the server sent for the vector. */
  readonly madeOf: string;
}

/** Methods whose sums are means of changes. */
const OF_MEANS = ["fedavg", "fedprox", "fedper", "fedrep", "ditto", "local"];

/** Refuse a method whose sums this device does not know: throws a RunError. */
export function sumsKnown(method: string): void {
  if (method !== "fedsub-ridge" && !OF_MEANS.includes(method)) {
    throw new RunError(`secure-aggregation: got method ${method}, expected fedsub-ridge, ${OF_MEANS.join(", ")}`);
  }
}

/** A learner's part in sums. */
export function summed(learner: Learner): Summed {
  if ("vector" in learner) return learner as Learner & Summed;
  return {
    vector: (upload, received, levels) => vectorOf(changeOf(learner, upload, received), upload.examples, levels),
    once: () => "",
    toldAlike: (received) => received,
  };
}

/** Where a vector comes from, after a download. */
export function originOf(of: Summed, received: Bundle): Origin {
  return { once: of.once(received), madeOf: hashOfBundle(of.toldAlike(received)) };
}

/** How somebody moved from what it received, tensor after tensor, in float32. */
function changeOf({ sends }: Learner, upload: Bundle, received: Bundle): Float64Array {
  const moves = [...sends.keys()].map((name) => {
    if (!received.tensors.has(name)) throw new RangeError(`download: got no ${name}, expected all that is sent`);
    const from = floatsOf(received, name).values;
    return floatsOf(upload, name).values.map((value, i) => value - from[i]);
  });
  return Float64Array.from(moves.flatMap((move) => [...move]));
}
