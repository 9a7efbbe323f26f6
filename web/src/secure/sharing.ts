// How a person shares its secrets of a sum among its neighbours and itself.

import type { Values } from "../values.js";
import { sorted } from "./digest.js";
import { threshold } from "./graph.js";
import { type Secrets, shownBy } from "./kept-secrets.js";
import { agreed, hex, joined, keysIn, seal, unhex } from "./keys.js";
import { SHOWN_BYTES } from "./messages.js";
import { aboutShares, demandPeople } from "./participant.js";
import { faultOfList, listHash } from "./people-list.js";
import { type Reader, leafOf } from "./reader.js";
import type { Roster } from "./roster.js";
import { signedKeys } from "./signed.js";
import { type Entropy, split } from "./shamir.js";

/** A question for shares, and by what it is answered. */
interface Asked {
  readonly reader: Reader;
  readonly record: Values;
  readonly least: number;
  readonly entropy: Entropy;
  readonly roster: Roster | undefined;
}

/** The secrets with shares, and these, sealed for each neighbour. */
interface Shared {
  readonly own: Secrets;
  readonly sealed: ReadonlyMap<string, Uint8Array>;
}

/**
 * A person's shares. Asked the same again it answers the same: who shares twice gives away more than it meant to.
 *
 * @throws MessageRefused if keys are others than before, or come twice; if the neighbours are not as many as a sum
 *   of so many people needs, or too few; or if the list of people lacks somebody.
 */
export function sharing(own: Secrets, { reader, record, least, entropy, roster }: Asked): Shared {
  const { client } = reader, shown = reader.values(record, SHOWN_BYTES);
  const every = roster && signedKeys(roster, reader, record, shown, shownBy(own));
  const leaves = every ? [...every].map(([one, keys]) => leafOf(one, keys)).sort() : reader.people(record);
  if (Object.keys(own.sealed).length) {
    const names = sorted(shown.keys());
    const same = names.join() === sorted(Object.keys(own.keys)).join() && names.every((one) => hex(shown.get(one)!) === own.keys[one]);
    if (!same || (leaves.length && listHash(leaves) !== own.listed)) {
      throw reader.refuse("secure sum: keys", "others than before", "the same");
    }
    return { own, sealed: new Map(Object.entries(own.sealed).map(([other, one]) => [other, unhex(one)])) };
  }
  const listed = { ...peopleOf(own, reader, shown, leaves), named: sorted(every?.keys() ?? []) };
  const holders = sorted([client, ...shown.keys()]);
  demandPeople(reader, holders.length, least);
  const needed = threshold(holders.length);
  const [ofMask, ofSeed] = [own.mask, own.seed].map((secret) => split(unhex(secret), needed, holders.length, entropy));
  const sealed = new Map<string, Uint8Array>();
  let kept: readonly [string, string] = ["", ""];
  holders.forEach((other, i) => {
    if (other === client) {
      kept = [hex(ofMask[i]), hex(ofSeed[i])];
      return;
    }
    const about = aboutShares({ ...own, ...listed }, client, other, roster);
    try {
      const key = agreed(unhex(own.seal), keysIn(shown.get(other)!).seal, about);
      sealed.set(other, seal(key, joined(ofMask[i], ofSeed[i]), about));
    } catch {
      throw reader.refuse(`secure sum: keys of '${other}'`, "no key that a secret leads to", "a key");
    }
  });
  const texts = (values: ReadonlyMap<string, Uint8Array>) => Object.fromEntries([...values].map(([one, value]) => [one, hex(value)]));
  const shares = { ...own.shares, [client]: kept };
  return { own: { ...own, ...listed, shares, sealed: texts(sealed), keys: texts(shown) }, sealed };
}

/** How many people there are in all, and a hash of the list of these. */
function peopleOf(own: Secrets, reader: Reader, shown: ReadonlyMap<string, Uint8Array>, leaves: readonly string[]) {
  const { client } = reader, mine = shownBy(own);
  if (shown.has(client)) throw reader.refuse("secure sum: clients", `'${client}'`, "its neighbours alone");
  const keys = [mine, ...shown.values()].flatMap((one) => [hex(one.subarray(0, 32)), hex(one.subarray(32, 64))]);
  if (new Set(keys).size < keys.length) throw reader.refuse("secure sum: keys", "one key twice", "each client's own");
  const known = [leafOf(client, mine), ...[...shown].map(([other, one]) => leafOf(other, one))].sort();
  const list = leaves.length ? leaves : known, fault = faultOfList(list, known);
  if (fault) throw reader.refuse("secure sum: people", ...fault);
  const strangers = [...shown.keys()].some((other) => !own.group.includes(other));
  if (own.group.length && (list.length < own.group.length || strangers)) {
    const got = `keys of ${list.length} people, ${[...shown.keys()].join(", ")} near it`;
    throw reader.refuse("secure sum: groups", got, `those of ${own.group.join(", ")}`);
  }
  return { people: list.length, listed: listHash(list) };
}
