// What reads records of secure sums that came from the other side, in which it trusts nothing.

import { MessageRefused } from "../errors.js";
import type { Values } from "../values.js";
import { digest, hashOf } from "./digest.js";
import { hex } from "./keys.js";
import {
  LEAF_BYTES, MOST_PEOPLE, type Name, type Plan, SEALED_BYTES, SESSION_BYTES, SUMS_VERSION, type Unmask, VIEW_BYTES,
} from "./messages.js";

const CLIENT_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
/** Of a plan, what differs from person to person. */
const OWN_OF_PLAN = new Set(["clients", "values", "salt"]);
/** Characters of an error's parts that came from outside. */
const SHOWN = 300;

/** A record without some of its keys. */
export function alike(record: Values, own: ReadonlySet<string>): Values {
  return new Map([...record].filter(([key]) => !own.has(key)));
}

/** Whether a text is a person's id. */
export function isClientId(id: unknown): id is string {
  return typeof id === "string" && CLIENT_ID.test(id);
}

export class Reader {
  constructor(readonly client: string, readonly round: number) {}

  /** The error for a part of a record. */
  refuse(what: string, got: string, expected: string): MessageRefused {
    return new MessageRefused(this.client, this.round, what, got.slice(0, SHOWN), expected);
  }

  /** The name of the sum that a record is about. */
  name(record: Values): Name {
    const version = record.get("version") ?? 1n;
    if (version !== SUMS_VERSION) throw this.refuse("secure sums", `version ${shown(version)}`, `version ${SUMS_VERSION}`);
    const round = record.get("round"), session = record.get("session");
    if (round !== BigInt(this.round) || !(session instanceof Uint8Array) || session.length !== SESSION_BYTES) {
      const got = `round ${shown(round)}, session ${shown(session)}`;
      throw this.refuse("secure sum", got, `round ${this.round}, ${SESSION_BYTES} bytes`);
    }
    const [run, method] = ["run", "method"].map((key) => {
      const value = record.get(key) ?? "";
      if (typeof value !== "string") throw this.refuse(`secure sum: ${key}`, shown(value), "a text");
      return value;
    });
    return { round: this.round, session, run, method };
  }

  /** Values of `size` bytes each by client. */
  values(record: Values, size: number, keys: readonly [string, string] = ["clients", "values"]): Map<string, Uint8Array> {
    const names = this.names(record, keys[0]), values = record.get(keys[1]);
    if (!Array.isArray(values) || values.length !== names.length) {
      throw this.refuse(`secure sum: ${keys[1]}`, "another number", `${names.length} of them`);
    }
    return new Map(
      names.map((name, i) => {
        const value: unknown = values[i];
        if (!(value instanceof Uint8Array) || value.length !== size) {
          throw this.refuse(`secure sum: of '${name}'`, shown(value), `${size} bytes`);
        }
        return [name, value];
      }),
    );
  }

  /** A list of clients, each named once. */
  names(record: Values, key: string): string[] {
    const names = record.get(key);
    if (!Array.isArray(names) || names.length > MOST_PEOPLE) throw this.refuse(`secure sum: ${key}`, shown(names), "a list of client ids");
    const found = names.map((name: unknown) => {
      if (!isClientId(name)) throw this.refuse(`secure sum: ${key}`, shown(name), "client ids");
      return name;
    });
    if (new Set(found).size < found.length) throw this.refuse(`secure sum: ${key}`, "somebody twice", "each client once");
    return found;
  }

  /** The plan that came with a download. */
  plan(record: Values): Plan {
    return {
      sealed: this.values(record, SEALED_BYTES),
      weight: this.whole(record, "weight"),
      each: this.whole(record, "each"),
      smallest: record.has("smallest") ? this.whole(record, "smallest") : 0,
      head: record.has("head") ? hex(this.bytes(record, "head", 32)) : "",
      told: digest(alike(record, OWN_OF_PLAN)),
      name: this.name(record),
    };
  }

  /** The list of a sum's people where it came, ascending, in hexadecimal; none: it did not. */
  people(record: Values): string[] {
    const joined = record.get("people") ?? new Uint8Array();
    if (!(joined instanceof Uint8Array) || joined.length % LEAF_BYTES || joined.length > LEAF_BYTES * MOST_PEOPLE) {
      throw this.refuse("secure sum: people", shown(joined), `a list of ${LEAF_BYTES} bytes each`);
    }
    const leaves = Array.from({ length: joined.length / LEAF_BYTES }, (_, i) => hex(joined.subarray(i * LEAF_BYTES, (i + 1) * LEAF_BYTES)));
    if (leaves.some((leaf, i) => i > 0 && leaf <= leaves[i - 1])) {
      throw this.refuse("secure sum: people", "a list out of order", "each once, ascending");
    }
    return leaves;
  }

  /** The request to open masks, or to see who sent. */
  unmask(record: Values): Unmask {
    const views = record.has("signers") ? this.values(record, VIEW_BYTES, ["signers", "views"]) : new Map<string, Uint8Array>();
    return { name: this.name(record), sent: this.names(record, "sent"), silent: this.names(record, "silent"), views };
  }

  /** Bytes of a length. */
  bytes(record: Values, key: string, size: number): Uint8Array {
    const value = record.get(key);
    if (!(value instanceof Uint8Array) || value.length !== size) throw this.refuse(`secure sum: ${key}`, shown(value), `${size} bytes`);
    return value;
  }

  private whole(record: Values, key: string): number {
    const value = record.get(key);
    if (typeof value !== "bigint" || value < 1n || value >= 2n ** 31n) {
      throw this.refuse(`secure sum: ${key}`, shown(value), "1 to 2^31");
    }
    return Number(value);
  }
}

/** Somebody in a list of people: a hash of id and keys, in hexadecimal. */
export function leafOf(client: string, keys: Uint8Array): string {
  const text = new TextEncoder().encode(`fedsub person ${client} `), both = new Uint8Array(text.length + keys.length);
  both.set(text);
  both.set(keys, text.length);
  return hashOf(both);
}

function shown(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  return Array.isArray(value) ? "a list" : String(value);
}
