// Groups in which a sum is made anew that nobody's samples can have led to. There is one partition of a sum's
// people in a run; a group's sum is of the whole group, or of nobody; each vector is the one of the first sum.

import type { Values } from "../values.js";
import { digest, hashOf, sorted } from "./digest.js";
import { bytes, hex } from "./keys.js";
import { type Name, SESSION_BYTES } from "./messages.js";
import type { Reader } from "./reader.js";

/** The sum that a person opened last, as it is needed where that sum is made anew; keys as Python keeps them. */
export interface LastSum {
  readonly run: string;
  readonly method: string;
  readonly round: number;
  readonly session: string;
  /** Hash of the person's vector in it, and its name if it stays the same from round to round. */
  readonly vector: string;
  readonly once: string;
  /** People of a group at least, as the plan said to all; 0: it is not made anew. */
  readonly smallest: number;
  /** Of the person and its neighbours, who was in it and who was not. */
  readonly sent: readonly string[];
  readonly silent: readonly string[];
  /** By a roster, all who were in it; [] without one. */
  readonly seen: readonly string[];
}

export const NO_SUM: LastSum = {
  run: "", method: "", round: 0, session: "", vector: "", once: "", smallest: 0, sent: [], silent: [], seen: [],
};

/** A person's group, all its people ascending, and a hash of what they are told of it. */
export interface Group {
  readonly people: readonly string[];
  readonly asked: string;
}

/** The partition of a sum's people into as many groups as can be, of like sizes. */
export function groupsOf(people: readonly string[], run: string, method: string, smallest: number): string[][] {
  const place = (one: string) => hashOf(bytes(`fedsub groups\x1f${run}\x1f${method}\x1f${one}`));
  const order = people.map((one) => [place(one), one] as const).sort(([a], [b]) => (a < b ? -1 : 1));
  const count = Math.max(1, Math.floor(order.length / smallest));
  const end = (i: number) => Math.floor((order.length * i) / count);
  return Array.from({ length: count }, (_, i) => sorted(order.slice(end(i), end(i + 1)).map(([, one]) => one)));
}

/**
 * The group in which a person adds its vector again, by a question for keys that has `anew`.
 *
 * @throws MessageRefused if it is of another sum than the one that the person opened last, or of other people;
 *   if that sum is not made anew; or if the group is of fewer people than `least`.
 */
export function groupIn(reader: Reader, record: Values, name: Name, last: LastSum, least: number): Group {
  const of = hex(reader.bytes(record, "anew", SESSION_BYTES)), people = reader.names(record, "sent");
  const refuse = (got: string, expected: string) => reader.refuse("secure sum: groups", got, expected);
  if (name.run !== last.run || name.method !== last.method || name.round !== last.round || of !== last.session) {
    throw refuse(`one in place of sum ${of}`, `of the sum that it opened last, ${last.session || "none"}`);
  }
  if (last.smallest < least) throw refuse(`groups of ${last.smallest}`, `${least} people at least, as the sum's plan says`);
  const known = new Set([...last.sent, ...last.silent]), there = people.filter((one) => known.has(one));
  const wrong = sorted(there).join() !== sorted(last.sent).join();
  if (wrong || (last.seen.length && sorted(people).join() !== sorted(last.seen).join())) {
    throw refuse(sorted(people).join(", "), `those with whom it opened that sum, ${last.sent.join(", ")} among them`);
  }
  const parted = groupsOf(people, last.run, last.method, last.smallest);
  if (parted.length < 2) throw refuse(`one group of ${people.length} people`, `${2 * last.smallest} people or more`);
  const own = parted.find((group) => group.includes(reader.client))!;
  return { people: own, asked: digest({ of, people: sorted(people) }) };
}
