// What server and devices tell each other for one sum, as records of plain values.

import type { Values } from "../values.js";

/** The version of secure sums. */
export const SUMS_VERSION = 2n;
export const SESSION_BYTES = 16, SEALED_BYTES = 82, LEAF_BYTES = 32, SHOWN_BYTES = 96;
export const SIGNATURE_BYTES = 96, SIGNED_KEYS_BYTES = SHOWN_BYTES + SIGNATURE_BYTES, VIEW_BYTES = 32 + SIGNATURE_BYTES;
/** People of one sum at most. */
export const MOST_PEOPLE = 2 ** 20;

/** Which sum it is: `session` is random and tells a round that is repeated from itself. */
export interface Name {
  readonly round: number;
  readonly session: Uint8Array;
  readonly run: string;
  readonly method: string;
}

/** What comes with a download: neighbours' sealed shares, and how numbers become whole. */
export interface Plan {
  readonly name: Name;
  /** By neighbour. */
  readonly sealed: ReadonlyMap<string, Uint8Array>;
  readonly weight: number;
  readonly each: number;
  /** Hash of all of it that everybody is told. */
  readonly told: string;
  /** People of a group at least, if the sum is made anew in groups; 0: it is not. */
  readonly smallest: number;
  /** Of the run's transcript, in hexadecimal; "": the server keeps none. */
  readonly head: string;
}

/** Who sent a vector and who did not; by a roster, what all others saw of that, signed. */
export interface Unmask {
  readonly name: Name;
  readonly sent: readonly string[];
  readonly silent: readonly string[];
  readonly views: ReadonlyMap<string, Uint8Array>;
}

/** A sum's name as plain values, of which signatures are made. */
export function nameRecord({ round, session, run, method }: Name, phase: string): Values {
  return new Map<string, string | bigint | Uint8Array>([
    ["version", SUMS_VERSION], ["phase", phase], ["round", BigInt(round)], ["session", session], ["run", run], ["method", method],
  ]);
}

/** Values by client as plain lists. */
export function byClient(values: ReadonlyMap<string, Uint8Array>): Values {
  return new Map<string, readonly string[] | readonly Uint8Array[]>([["clients", [...values.keys()]], ["values", [...values.values()]]]);
}
