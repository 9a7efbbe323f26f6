import type { Left } from "../device/leaving.js";

/** Names under which page and thread keep values in the database, and what both count by. */
export const CARD = "card";
export const KEYS = "keys";
export const MODEL = "model";
/** Receipts of secure sums, as lines by their runs: {@link Receipts}. */
export const RECEIPTS = "receipts";
export type Receipts = ReadonlyMap<string, readonly string[]>;
/** The public key of the roster's owner. */
export const OWNER = "roster owner";
export const JOINED = "joined";
export const LANGUAGE = "language";
export const PAUSED = "paused";
/** When the person lets it take part: a {@link Policy}; none: always. */
export const POLICY = "policy";
/** Whether the service worker takes part, too. */
export const BACKGROUND = "background";
/** There from when a person leaves until the server has said what it deleted: a {@link Leaving}. */
export const LEAVING = "leaving";
/** Activities that a device needs to take part. */
export const FEWEST = 2;

/** A leave of which the server may not have heard yet. */
export interface Leaving {
  /** The node's id when it was active last, since then. */
  readonly node: bigint | undefined;
  /** Whether an answer of it has said so. */
  readonly said: boolean;
  /** What runs deleted, once they have said so: each says it once. */
  readonly left?: Left;
  /** The SuperLink's numbers of runs that have not said it yet, of those that the person took part in. */
  readonly runs?: readonly string[];
}
