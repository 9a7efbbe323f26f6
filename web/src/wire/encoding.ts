/** Encodings of a bundle's tensors, as a list of filters: `delta,top-k:0.25,int8`. */
import { RunError } from "../errors.js";
import { FORMATS, type Format } from "./numbers.js";

/** What happens to tensors between a method and the wire. */
export interface Encoding {
  readonly numbers: Format;
  /** Send differences from what the receiver has already. */
  readonly delta: boolean;
  /** Of the entries that the receiver has, send only this share, those that changed most. */
  readonly topK: number;
}

/** Numbers as they are. */
export const EXACT: Encoding = { numbers: "float32", delta: false, topK: 1 };

/** Whether the sender keeps what the receiver has or lacks, between rounds. */
export function feedsBack(encoding: Encoding): boolean {
  return encoding.delta || encoding.numbers !== "float32";
}

/**
 * The encoding that a comma-separated list of filters describes.
 *
 * @throws RunError for a filter that this device does not have, such as zstd.
 */
export function parseEncoding(text: string): Encoding {
  let found = EXACT;
  for (const filter of text.split(",").map((part) => part.trim()).filter(Boolean)) {
    const format = FORMATS.find((name) => name === filter);
    const share = Number(/^top-k:(.+)$/.exec(filter)?.[1] ?? NaN);
    if (format) found = { ...found, numbers: format };
    else if (filter === "delta") found = { ...found, delta: true };
    else if (share > 0 && share <= 1) found = { ...found, topK: share };
    else throw new RunError(`encoding ${text}: got ${filter}, expected ${FORMATS.join(", ")}, delta or top-k:SHARE: this device has no other`);
  }
  if (found.topK < 1 && !found.delta) throw new RunError(`encoding ${text}: got top-k alone, expected delta beside it`);
  return found;
}
