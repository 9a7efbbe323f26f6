// The secrets that a person keeps: of one secure sum, and of sums opened before, with whom. Keys are those of
// devices in Python; values are bytes in hexadecimal.

import { type Entropy } from "./shamir.js";
import { type Keys, hex, keysIn, shownOf, unhex } from "./keys.js";
import { type Name } from "./messages.js";
import { type OpenedSum, OpenedSums, peopleOf } from "./opened-sums.js";
import type { Reader } from "./reader.js";
import { type LastSum, NO_SUM } from "./regrouping.js";

type Texts = Readonly<Record<string, string>>;

/** What is kept. A person's answer is given with a new one of these, in place of the old. */
export interface Secrets {
  readonly run: string;
  readonly round: number;
  readonly session: string;
  /** The sum's private keys, and its self mask's seed. */
  readonly seal: string;
  readonly mask: string;
  readonly seed: string;
  /** Of its neighbours, 96 bytes each. */
  readonly keys: Texts;
  /** How many people there are in all, and a hash of the list of these. */
  readonly people: number;
  readonly listed: string;
  /** A hash of what the plan of the sum tells everybody. */
  readonly plan: string;
  /** Of its neighbours' and its own secrets, those of the pair key and of the seed. */
  readonly shares: Readonly<Record<string, readonly [string, string]>>;
  /** Its answer to the question for shares, by neighbour. */
  readonly sealed: Texts;
  /** With whom its vector was masked, and a hash of it. */
  readonly masked: readonly string[];
  readonly vector: string;
  /** A hash of all that it was told with which its vector was masked. */
  readonly transcript: string;
  /** By a roster, all people of the sum; a signed hash of who of them sent; who did. */
  readonly named: readonly string[];
  readonly view: string;
  readonly seen: readonly string[];
  /** Name of the vector if it stays the same from round to round. */
  readonly once: string;
  /** Of the sum that it opened last: who was in it, what it answered, and in which session. */
  readonly sent: readonly string[];
  readonly silent: readonly string[];
  readonly answer: Texts;
  readonly answered: string;
  /** The last round that it opened, of which run and people. */
  readonly opened: number;
  readonly opened_run: string;
  readonly opened_of: readonly string[];
  /** Of that run's sums of models: by round, a hash of vector and people; and those of the last round. */
  readonly rounds: Texts;
  readonly last: readonly OpenedSum[];
  /** The run of which it no longer knows what it helped to open; null: there is none. */
  readonly lost: string | null;
  readonly method: string;
  readonly smallest: number;
  /** All people of a group's sum, and a hash of what they were asked; [] of others. */
  readonly group: readonly string[];
  readonly asked: string;
  /** The sum that it opened last, but for those of groups. */
  readonly regroupable: LastSum;
}

/** Of one sum, all that is forgotten when the next begins. */
const ONE_SUM = {
  run: "", round: 0, session: "", seal: "", mask: "", seed: "", keys: {}, people: 0, listed: "", plan: "", shares: {},
  sealed: {}, masked: [], vector: "", transcript: "", named: [], view: "", seen: [], once: "", method: "", smallest: 0,
  group: [], asked: "",
} as const;

/** The secrets of a person who took part in nothing; or of whom what was kept of a run is lost. */
export function noSecrets(lost: string | null = null): Secrets {
  const opened = { sent: [], silent: [], answer: {}, answered: "", opened: 0, opened_run: "", opened_of: [], rounds: {}, last: [] };
  return { ...ONE_SUM, ...opened, lost, regroupable: NO_SUM };
}

/**
 * What was kept as a text.
 *
 * @throws Error if it is damaged or of another release.
 */
export function readSecrets(kept: string): Secrets {
  const found = JSON.parse(kept) as Partial<Secrets>, known = noSecrets();
  const strangers = Object.keys(found).filter((key) => !(key in known));
  const wrong = Object.entries(known).filter(([key, value]) => {
    const own = (found as Record<string, unknown>)[key];
    return own !== undefined && key !== "lost" && (typeof own !== typeof value || Array.isArray(own) !== Array.isArray(value));
  });
  if (strangers.length || wrong.length) throw new RangeError(`kept: got ${[...strangers, ...wrong.map(([key]) => key)].join(", ")}`);
  return { ...known, ...found };
}

/** Fresh secrets for another sum, with what is remembered of those opened. */
export function nextSum(before: Secrets, name: Name, entropy: Entropy): Secrets {
  const [seal, mask, seed] = [0, 1, 2].map(() => hex(entropy(32)));
  return { ...before, ...ONE_SUM, run: name.run, round: name.round, session: hex(name.session), method: name.method, seal, mask, seed };
}

/** Whether a vector of a run was sent, or may have been. */
export function tookPart(own: Secrets, run: string): boolean {
  return (own.vector !== "" && own.run === run) || (own.opened !== 0 && own.opened_run === run) || run === own.lost;
}

/** The 96 bytes of keys that the person shows. */
export function shownBy(own: Secrets): Uint8Array {
  return shownOf(unhex(own.seal), unhex(own.mask), unhex(own.seed));
}

/** A neighbour's keys. */
export function keysOf(own: Secrets, other: string): Keys {
  return keysIn(unhex(own.keys[other]));
}

/** The secrets once a sum is opened: the answer, and no more than that: nobody who finds it later shall open more. */
export function opening(own: Secrets, sent: readonly string[], silent: readonly string[]): Secrets {
  const shares = [...sent.map((c) => [c, own.shares[c][1]]), ...silent.map((c) => [c, own.shares[c][0]])];
  const { run, method, round, session, vector, once, smallest, seen } = own;
  const forgotten = { seal: "", mask: "", seed: "", shares: {}, sealed: {} };
  const opened = { ...own, ...forgotten, answer: Object.fromEntries(shares) as Texts, sent, silent, answered: session };
  if (own.group.length) return opened;
  const regroupable = { run, method, round, session, vector, once, smallest, sent, silent, seen };
  const later = round > 0 && (own.opened_run !== run || round >= own.opened);
  return { ...opened, regroupable, ...(later ? { opened_run: run, opened: round, opened_of: sent } : {}) };
}

/**
 * The secrets with a sum of models that is opened now: of a round after the last, or another one of the last,
 * of people as sums of the same numbers may be; or a round before, as it was.
 *
 * @throws MessageRefused of any other.
 */
export function forward(own: Secrets, reader: Reader, asked: OpenedSum): Secrets {
  const same = own.opened_run === own.run, rounds = same ? own.rounds : {};
  if (same && asked.round < own.opened) {
    if (own.rounds[String(asked.round)] === peopleOf(asked)) return own;
    const expected = `one after round ${own.opened}, which it has opened, or the same as then`;
    throw reader.refuse("secure sum: rounds", `round ${asked.round}, of ${asked.sent.join(", ")}`, expected);
  }
  const last = same && asked.round === own.opened ? own.last : [], again = { ...asked, vector: "" };
  const fault = new OpenedSums(last).fault(again);
  if (fault) throw reader.refuse(`secure sum: round ${asked.round} again`, ...fault);
  const remembered = own.group.length ? rounds : { ...rounds, [String(asked.round)]: peopleOf(asked) };
  return { ...own, rounds: remembered, last: [...last, again] };
}
