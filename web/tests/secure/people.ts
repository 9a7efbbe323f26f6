// People who make sums with each other, as a server that passes their messages on sees them.

import { nameRecord, type Name } from "../../src/secure/messages.js";
import { noSecrets } from "../../src/secure/kept-secrets.js";
import { neighbours } from "../../src/secure/graph.js";
import { unhex } from "../../src/secure/keys.js";
import { OpenedSums } from "../../src/secure/opened-sums.js";
import { Participant } from "../../src/secure/participant.js";
import { Reader, leafOf } from "../../src/secure/reader.js";
import type { Words } from "../../src/secure/quantise.js";
import type { Origin } from "../../src/secure/vectors.js";
import type { Value, Values } from "../../src/values.js";

export const MODELS: Origin = { once: "", madeOf: "00" };

/** People `p0`, `p1`, ... who want sums of three at least. */
export function people(count: number, least = 3): Map<string, Participant> {
  const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes));
  const one = (id: string) => new Participant(id, least, noSecrets(), new OpenedSums(), random);
  return new Map(Array.from({ length: count }, (_, i) => [`p${i}`, one(`p${i}`)]));
}

/** A sum's name; each number is another session. */
export function named(session: number, round = 1, run = "run"): Name {
  return { round, session: new Uint8Array(16).fill(session), run, method: "fedavg" };
}

/** A question, with some of its values changed. */
export function question(name: Name, phase: string, more: Readonly<Record<string, Value>> = {}): Values {
  return new Map([...nameRecord(name, phase), ...Object.entries(more)]);
}

/** A sum of people, from phase to phase. */
export class Sum {
  readonly keys = new Map<string, Uint8Array>();
  readonly sealed = new Map<string, ReadonlyMap<string, Uint8Array>>();
  readonly total: Words;

  constructor(
    readonly people: ReadonlyMap<string, Participant>,
    readonly name: Name,
    numbers = 4,
  ) {
    this.total = new Uint32Array(numbers);
  }

  near(id: string): string[] {
    return neighbours([...this.people.keys()], this.name.session, id);
  }

  /** All show keys. */
  show(): this {
    for (const [id, one] of this.people) this.keys.set(id, one.answer(question(this.name, "keys"), this.name.round).get("keys") as Uint8Array);
    return this;
  }

  /** The question for shares to somebody. */
  forShares(id: string): Values {
    const near = this.near(id), all = near.length === this.people.size - 1;
    const leaves = [...this.keys].map(([other, keys]) => leafOf(other, keys)).sort();
    const list: Readonly<Record<string, Value>> = all ? {} : { people: unhex(leaves.join("")) };
    return question(this.name, "shares", { clients: near, values: near.map((other) => this.keys.get(other)!), ...list });
  }

  /** All share their secrets. */
  share(): this {
    for (const [id, one] of this.people) {
      const said = one.answer(this.forShares(id), this.name.round), clients = said.get("clients") as string[];
      this.sealed.set(id, new Map(clients.map((other, i) => [other, (said.get("values") as Uint8Array[])[i]])));
    }
    return this;
  }

  /** The plan for somebody. */
  plan(id: string, more: Readonly<Record<string, Value>> = {}): Values {
    const near = this.near(id).filter((other) => this.sealed.has(other));
    const values = near.map((other) => this.sealed.get(other)!.get(id)!);
    return question(this.name, "sum", { weight: 1n, each: 1024n, clients: near, values, ...more });
  }

  /** Somebody sends a vector, which is added to the total. */
  send(id: string, vector: Words, origin = MODELS, more: Readonly<Record<string, Value>> = {}): Words {
    const one = this.people.get(id)!;
    one.accept(new Reader(id, this.name.round).plan(this.plan(id, more)));
    const masked = one.masked(vector, this.name, origin);
    masked.forEach((word, i) => {
      this.total[i] += word;
    });
    return masked;
  }

  /** The question that opens the sum, of who sent and who did not. */
  forShare(id: string, silent: readonly string[] = []): Values {
    const known = [id, ...this.near(id)].sort();
    const is = (one: string) => silent.includes(one);
    return question(this.name, "unmask", { sent: known.filter((one) => !is(one)), silent: known.filter(is) });
  }

  /** Somebody's answer to it. */
  opens(id: string, silent: readonly string[] = []): Values {
    return this.people.get(id)!.answer(this.forShare(id, silent), this.name.round);
  }
}
