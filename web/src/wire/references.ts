/** What a device remembers of the numbers that went over the wire. */
import { type Tensor, zeros } from "../tensors.js";
import { type Declaration, encoded } from "./bundles.js";

/**
 * Numbers remembered from a device's last upload.
 *
 * With `delta`: what the server decoded; the next upload and the next download are differences from
 * it. Without it: what a lossy format cut off, to be added to the next upload.
 */
export interface Reference {
  /** Of the upload that left it; 0: none, and then all numbers are 0. */
  readonly round: number;
  /** Whole tensors by name. */
  readonly tensors: ReadonlyMap<string, Tensor>;
}

/** A reference of nothing, for the tensors that a device sends. */
export function emptyReference(sends: Declaration): Reference {
  const kept = [...sends].filter(([, one]) => encoded(one));
  return { round: 0, tensors: new Map(kept.map(([name, one]) => [name, zeros(one.shape)])) };
}
