// The list of a sum's people and their keys, as hashes, by which each of them goes.

import { hashOf } from "./digest.js";
import { enough } from "./graph.js";
import { unhex } from "./keys.js";
import type { Fault } from "./opened-sums.js";

/** A hash of a list of people, whose hashes are ascending. */
export function listHash(leaves: readonly string[]): string {
  return hashOf(unhex(leaves.join("")));
}

/**
 * The fault of a list for a person who knows some people of it. A list of many people, each with few
 * neighbours, would make a sum of these few look like one of all.
 */
export function faultOfList(leaves: readonly string[], known: readonly string[]): Fault | undefined {
  const there = new Set(leaves), lacking = known.filter((leaf) => !there.has(leaf)).length;
  if (lacking) return [`a list without ${lacking} of them, or of other keys`, "all neighbours in it"];
  const expected = enough(leaves.length);
  if (known.length === expected + 1) return undefined;
  return [`${known.length - 1} neighbours among ${leaves.length} people`, `${expected}`];
}
