// What a person demands of a sum who goes by a roster: signed keys, and one view of all. A server could pass on
// keys of its own, so keys are signed. And it could tell some that a person sent its vector, and others that it did
// not: so each signs once a session what it saw (Bonawitz et al. 2017, figure 4), and helps only if enough saw the same.

import type { Values } from "../values.js";
import { digest, sorted } from "./digest.js";
import { neighbours } from "./graph.js";
import type { Secrets } from "./kept-secrets.js";
import { hex } from "./keys.js";
import { type Name, SHOWN_BYTES, SIGNED_KEYS_BYTES, type Unmask, nameRecord } from "./messages.js";
import type { Reader } from "./reader.js";
import { type Roster, type Signer, statement } from "./roster.js";

/** An answer with the person's signature of the keys or the view in it, if it has any. */
export async function withSignature({ sign }: Signer, client: string, name: Name, answer: Values): Promise<Values> {
  const keys = answer.get("keys"), view = answer.get("view");
  if (!(keys instanceof Uint8Array) && !(view instanceof Uint8Array)) return answer;
  const record = keys instanceof Uint8Array ? ofKeys(name, keys) : ofView(name, hex(view as Uint8Array));
  return new Map([...answer, ["signature", await sign(statement(client, record))]]);
}

/**
 * The keys of all people of a sum, each signed by its key in the roster.
 *
 * @param shown the keys of the person's neighbours.
 * @param own the person's own.
 * @throws MessageRefused if somebody is not in the roster, or did not sign its keys for this session; or if others
 *   than follow from the session's name are neighbours.
 */
export function signedKeys(
  roster: Roster, reader: Reader, record: Values, shown: ReadonlyMap<string, Uint8Array>, own: Uint8Array,
): Map<string, Uint8Array> {
  const name = reader.name(record), { client } = reader, keys = new Map<string, Uint8Array>();
  if (!record.has("signed")) {
    throw reader.refuse("secure sum: keys", "keys without signatures", `keys signed by people of the roster, of whom there are ${roster.people.size}`);
  }
  for (const [other, signed] of reader.values(record, SIGNED_KEYS_BYTES, ["signed", "signed_keys"])) {
    const joined = signed.slice(0, SHOWN_BYTES), fault = roster.fault(other, signed.slice(SHOWN_BYTES), ofKeys(name, joined));
    if (fault) throw reader.refuse("secure sum: keys", ...fault);
    keys.set(other, joined);
  }
  const mine = keys.get(client);
  if (mine === undefined || hex(mine) !== hex(own)) {
    throw reader.refuse("secure sum: keys", `a list of ${keys.size} people without the keys that '${client}' showed`, "these among them");
  }
  const near = neighbours([...keys.keys()], name.session, client);
  if (near.join() !== sorted(shown.keys()).join()) {
    throw reader.refuse("secure sum: clients", sorted(shown.keys()).join(", "), near.join(", "));
  }
  const others = near.filter((other) => hex(keys.get(other)!) !== hex(shown.get(other)!));
  if (others.length) throw reader.refuse("secure sum: keys", `other keys of ${others.join(", ")}`, "those that they signed");
  return keys;
}

/**
 * The secrets with a view of who of all people sent a vector and who did not: one a session.
 *
 * @throws MessageRefused of a view that is none, or another than before.
 */
export function seen(own: Secrets, reader: Reader, asked: Unmask): Secrets {
  const everybody = sorted([reader.client, ...own.masked]), near = new Set(everybody);
  const [sent, silent] = [asked.sent, asked.silent].map((who) => sorted(who.filter((one) => near.has(one))));
  if (!own.masked.length || sorted([...sent, ...silent]).join() !== everybody.join() || !sent.includes(reader.client)) {
    const got = `sent ${sent.join(", ")}, silent ${silent.join(", ")}`;
    throw reader.refuse("secure sum: view", got, `${everybody.join(", ")}, each once, it among sent`);
  }
  const strangers = [...asked.sent, ...asked.silent].filter((one) => !own.named.includes(one));
  if (strangers.length) throw reader.refuse("secure sum: view", strangers.join(", "), "people who showed keys");
  if (own.group.length && sorted(asked.sent).join() !== own.group.join()) {
    throw reader.refuse("secure sum: view", `a group of which ${asked.sent.join(", ")} sent`, `all of it: ${own.group.join(", ")}`);
  }
  const view = digest({ sent: sorted(asked.sent), silent: sorted(asked.silent), told: own.transcript });
  // Who signs two lets two groups believe each that all saw the same.
  if (own.view && own.view !== view) throw reader.refuse("secure sum: view", "another than before", "the same");
  return { ...own, view, seen: sorted(asked.sent) };
}

/** Refuse to open a sum of which somebody saw something else, or too few signed the same. */
export function demandOneView(roster: Roster, reader: Reader, asked: Unmask, own: Secrets): void {
  const near = new Set([reader.client, ...own.masked]), there = own.seen.filter((one) => near.has(one));
  if (!own.view || sorted(asked.sent).join() !== there.join()) {
    throw reader.refuse("secure sum: unmask", `sent ${asked.sent.join(", ")}`, "those of whom it signed that they sent");
  }
  for (const [other, signed] of asked.views) {
    const view = hex(signed.subarray(0, 32)), fault = roster.fault(other, signed.slice(32), ofView(asked.name, view));
    if (fault) throw reader.refuse("secure sum: views", ...fault);
    if (view !== own.view) {
      throw reader.refuse("secure sum: views", `${view.slice(0, 16)}..., signed by '${other}': it was told something else`, `${own.view.slice(0, 16)}...`);
    }
  }
  const strangers = [...asked.views.keys()].filter((other) => !own.seen.includes(other));
  if (strangers.length) throw reader.refuse("secure sum: views", `those of ${strangers.join(", ")}`, "of those who sent");
  const same = new Set([...asked.views.keys(), reader.client]).size, quorum = Math.floor((2 * own.people) / 3) + 1;
  if (same < quorum) throw reader.refuse("secure sum: views", `the same of ${same} people`, `${quorum} of ${own.people} at least`);
}

function ofKeys(name: Name, keys: Uint8Array): Values {
  return new Map([...nameRecord(name, "keys"), ["keys", keys]]);
}

function ofView(name: Name, view: string): Values {
  return new Map([...nameRecord(name, "view"), ["view", view]]);
}
