// A roster: who the people of a federation are, by their public keys, as its owner signs them. It is text, one
// person a line, and grows at its end. Keys are of curve P-384 in OpenSSH's format; signatures are ECDSA's with
// SHA-384, both numbers of 48 bytes, one after another.

import { p384 } from "@noble/curves/nist.js";
import { hexToBytes } from "@noble/hashes/utils.js";
import type { Values } from "../values.js";
import { digest } from "./digest.js";
import { bytes } from "./keys.js";
import { SIGNATURE_BYTES } from "./messages.js";
import type { Fault } from "./opened-sums.js";
import { isClientId } from "./reader.js";

const FIRST_LINE = "fedsub-roster 1", SIGNED = "\nsignature ", KIND = "ecdsa-sha2-nistp384", CURVE = "nistp384";
/** Of a point of the curve, uncompressed. */
const POINT_BYTES = 97;

/** A person who signs what it shows in sums, and goes by a roster of the others. */
export interface Signer {
  readonly roster: Roster;
  /** Its signature of a text. */
  readonly sign: (text: Uint8Array) => Promise<Uint8Array>;
}

/** People's public keys, as `publicLine` writes them, by id, in the order of the file. */
export class Roster {
  constructor(readonly people: ReadonlyMap<string, string>) {}

  /**
   * The roster in a file.
   *
   * @param owner its owner's public key, as a line.
   * @throws RangeError if it is none, is cut off, names somebody or a key twice, or another key signed it.
   */
  static read(data: Uint8Array, owner: string): Roster {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data), end = text.lastIndexOf(SIGNED);
    if (!text.startsWith(`${FIRST_LINE}\n`)) throw new RangeError(`got ${text.slice(0, 40)}, expected ${FIRST_LINE} as its first line`);
    if (end < 0 || !text.endsWith("\n")) throw new RangeError("got a file without a whole signature, expected one as its last line");
    const people = peopleIn(text.slice(0, end).split("\n").slice(1)), digits = text.slice(end + SIGNED.length, -1);
    const whole = new RegExp(`^[0-9a-f]{${2 * SIGNATURE_BYTES}}$`, "i").test(digits);
    if (!whole || !isSigned(owner, hexToBytes(digits), bytes(text.slice(0, end + 1)))) {
      throw new RangeError(`got no signature of its owner, expected that of ...${owner.slice(-16)}`);
    }
    return new Roster(people);
  }

  /** Refuse a roster that is not an earlier one with people added at most: throws a RangeError. */
  demandAfter(seen: Roster): void {
    for (const [client, key] of seen.people) {
      const own = this.people.get(client);
      if (own === undefined) throw new RangeError(`got a roster without ${client}, expected all ${seen.people.size} of the one seen before`);
      if (own !== key) throw new RangeError(`got another key of ${client}, expected ...${key.slice(-16)}`);
    }
  }

  /** The fault of somebody's signature of plain values; undefined without one. */
  fault(client: string, signature: Uint8Array, record: Values): Fault | undefined {
    const key = this.people.get(client);
    if (key === undefined) return [`'${client}', who is not in the roster`, `one of the ${this.people.size} of the roster`];
    if (isSigned(key, signature, statement(client, record))) return undefined;
    return [`what '${client}' did not sign for this run, round and session`, `a signature of its key in the roster, ...${key.slice(-16)}`];
  }
}

/** The text that somebody signs of plain values. */
export function statement(client: string, record: Values): Uint8Array {
  return bytes(`fedsub sums ${digest(new Map([...record, ["client", client]]))}`);
}

/** A public key in OpenSSH's format as one line, without a comment: throws a RangeError if it is none of P-384. */
export function publicLine(written: string): string {
  const [kind, base64 = ""] = written.trim().split(/\s+/), blob = bytesOf(base64);
  const point = kind === KIND && blob !== undefined ? pointIn(blob) : undefined;
  if (point === undefined) throw new RangeError("got no public key of P-384 in OpenSSH's format, expected one");
  return lineOf(point);
}

/** The line of a point of the curve, uncompressed, as WebCrypto exports it raw. */
export function lineOf(point: Uint8Array): string {
  const blob = [bytes(KIND), bytes(CURVE), point].flatMap((part) => [0, 0, 0, part.length, ...part]);
  return `${KIND} ${btoa(String.fromCharCode(...blob))}`;
}

function peopleIn(lines: readonly string[]): Map<string, string> {
  const people = new Map<string, string>();
  for (const line of lines) {
    const at = line.indexOf(" "), client = line.slice(0, Math.max(at, 0));
    if (!isClientId(client)) throw new RangeError(`got the line ${line.slice(0, 80)}, expected an id and a key`);
    if (people.has(client)) throw new RangeError(`got ${client} twice, expected each person once`);
    people.set(client, publicLine(line.slice(at + 1)));
  }
  if (new Set(people.values()).size < people.size) throw new RangeError("got one key of two people, expected each one's own");
  return people;
}

function isSigned(line: string, signature: Uint8Array, text: Uint8Array): boolean {
  const point = pointIn(bytesOf(line.slice(KIND.length + 1))!)!;
  return signature.length === SIGNATURE_BYTES && p384.verify(signature, text, point, { lowS: false });
}

function bytesOf(base64: string): Uint8Array | undefined {
  return /^[A-Za-z0-9+/]*={0,2}$/.test(base64) && base64.length % 4 === 0 ? Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)) : undefined;
}

/** The point in a key's bytes; undefined: it is none of the curve. */
function pointIn(blob: Uint8Array): Uint8Array | undefined {
  const head = Uint8Array.from([bytes(KIND), bytes(CURVE)].flatMap((part) => [0, 0, 0, part.length, ...part]));
  const point = blob.slice(head.length + 4);
  if (blob.length !== head.length + 4 + POINT_BYTES || blob[head.length + 3] !== POINT_BYTES) return undefined;
  if (!head.every((byte, i) => byte === blob[i]) || point[0] !== 4) return undefined;
  return p384.utils.isValidPublicKey(point, false) ? point : undefined;
}
