// One person's side of secure aggregation (Bonawitz et al. 2017, figure 4, the user's part). It answers in
// order: its keys, its shares for its neighbours, its masked vector, and once the shares that open the sum. It
// goes by nothing that the server says without checking it against what it knows.

import type { Values } from "../values.js";
import { digest, hashOf, sorted } from "./digest.js";
import { type Secrets, forward, keysOf, nextSum, opening, shownBy, tookPart } from "./kept-secrets.js";
import { agreed, hex, mask, unhex, unseal, wordBytes } from "./keys.js";
import { type Name, type Plan, type Unmask, byClient } from "./messages.js";
import { type OpenedSum, OpenedSums } from "./opened-sums.js";
import { Reader, leafOf } from "./reader.js";
import { groupIn } from "./regrouping.js";
import type { Roster } from "./roster.js";
import { SHARE_BYTES, type Entropy } from "./shamir.js";
import { demandOneView, seen } from "./signed.js";
import { sharing } from "./sharing.js";
import type { Words } from "./quantise.js";
import type { Origin } from "./vectors.js";

/** What is to be kept of an answer, to check the server's transcript by. */
export type Receipt = Readonly<Record<string, string | number | boolean>>;

/** A person's last answer, and what it keeps of it. */
export class Participant {
  receipt: Receipt | undefined;
  private head = "";

  /**
   * @param least people in a sum at least, itself among them.
   * @param own what is kept; what came of the last answer when that is given.
   * @param opened the sums that it opened in any run, which it adds to.
   * @param roster by which it knows whose the others' keys are; undefined: it goes by none.
   */
  constructor(
    readonly client: string,
    readonly least: number,
    public own: Secrets,
    readonly opened: OpenedSums,
    private readonly entropy: Entropy,
    private readonly roster?: Roster,
  ) {}

  /** Whether it sent a vector of a run, or may have. */
  tookPart(run: string): boolean {
    return tookPart(this.own, run) || this.opened.ofRun(run);
  }

  /**
   * The answer to a question about a round's sum.
   *
   * @throws MessageRefused if it is none that this person may answer.
   */
  answer(record: Values, round: number): Values {
    const reader = new Reader(this.client, round), name = reader.name(record), phase = record.get("phase");
    if (phase === "keys") return this.showKeys(reader, record, name);
    if (phase !== "shares" && phase !== "unmask" && (phase !== "view" || !this.roster)) {
      throw reader.refuse("secure sum", String(phase), "keys, shares or unmask; view with a roster");
    }
    this.demand(reader, name);
    if (phase === "view") {
      this.own = seen(this.own, reader, reader.unmask(record));
      return new Map([["view", unhex(this.own.view)]]);
    }
    if (phase === "unmask") return this.unmask(reader, reader.unmask(record));
    this.demandClosed(reader, name);
    const shared = sharing(this.own, { reader, record, least: this.least, entropy: this.entropy, roster: this.roster });
    this.own = shared.own;
    return byClient(shared.sealed);
  }

  /**
   * Take in the shares that neighbours sealed; from now on these are whom it masks with.
   *
   * @throws MessageRefused if neighbours are too few, or others than before, or a share is not its sender's.
   */
  accept(plan: Plan): void {
    const { own } = this, reader = new Reader(this.client, plan.name.round), there = sorted(plan.sealed.keys());
    this.demand(reader, plan.name);
    this.demandClosed(reader, plan.name);
    if (!Object.keys(own.sealed).length) throw reader.refuse("secure sum", "a plan", "a question for shares before it");
    const strangers = there.filter((other) => !(other in own.keys));
    if (strangers.length) throw reader.refuse("secure sum: shares", `those of ${strangers.join(", ")}`, Object.keys(own.keys).join(", "));
    demandPeople(reader, there.length + 1, this.least);
    // One vector under several sets of masks would tell of it.
    if (own.masked.length && own.masked.join() !== there.join()) {
      throw reader.refuse("secure sum: neighbours", there.join(", "), own.masked.join(", "));
    }
    if (own.masked.length && own.plan !== plan.told) throw reader.refuse("secure sum: plan", "another than before", "the same");
    const shares: Record<string, readonly [string, string]> = { ...own.shares };
    for (const [other, sealed] of plan.sealed) {
      const about = aboutShares(own, other, this.client, this.roster);
      try {
        const both = unseal(agreed(unhex(own.seal), keysOf(own, other).seal, about), sealed, about);
        shares[other] = [hex(both.subarray(0, SHARE_BYTES)), hex(both.subarray(SHARE_BYTES))];
      } catch {
        throw reader.refuse(`secure sum: shares of '${other}'`, "a message that it did not seal", "its own");
      }
    }
    if (own.group.length && there.length < Object.keys(own.keys).length) {
      throw reader.refuse("secure sum: groups", `a plan of ${there.join(", ")}`, "the whole group");
    }
    this.own = { ...own, shares, masked: there, plan: plan.told, smallest: plan.smallest };
    this.head = plan.head;
  }

  /**
   * Its vector under its own mask and those that it shares with neighbours.
   *
   * @throws MessageRefused if it is another vector than before, or was made of something else; if it has been in
   *   an opened sum of other people; or if somebody's key is none.
   */
  masked(vector: Words, name: Name, origin: Origin): Words {
    const reader = new Reader(this.client, name.round), hashed = hashOf(wordBytes(vector));
    const { own } = this;
    this.demand(reader, name);
    this.demandClosed(reader, name);
    if (own.vector && own.vector !== hashed) throw reader.refuse("secure sum: vector", "another than before", "the same");
    if (own.group.length && hashed !== own.regroupable.vector) {
      throw reader.refuse("secure sum: vector", "another vector", "the one of the sum that is made anew");
    }
    const once = this.onceOf(reader, origin, hashed);
    const about = { made_of: origin.madeOf, people: own.listed, plan: own.plan };
    const told = digest(own.group.length ? { ...about, group: own.asked } : about);
    if (own.transcript && own.transcript !== told) {
      throw reader.refuse("secure sum: told", "something else than before", "the same");
    }
    const total = vector.slice();
    mask(total, unhex(own.seed), 1);
    for (const other of own.masked) {
      const [first, second] = sorted([this.client, other]);
      try {
        const purpose = `fedsub mask ${own.session} ${first} ${second} ${told}`;
        mask(total, agreed(unhex(own.mask), keysOf(own, other).mask, purpose), first === this.client ? 1 : -1);
      } catch {
        throw reader.refuse(`secure sum: keys of '${other}'`, "no key that a secret leads to", "a key");
      }
    }
    this.own = { ...own, once: own.once || once, vector: hashed, transcript: told };
    this.receipt = {
      session: own.session, round: own.round, head: this.head, plan: own.plan, people: own.listed, transcript: told,
      leaf: leafOf(this.client, shownBy(own)), vector: hashOf(wordBytes(total)), numbers: total.length, once, least: this.least,
    };
    return total;
  }

  private showKeys(reader: Reader, record: Values, name: Name): Values {
    this.demandClosed(reader, name);
    const group = record.has("anew")
      ? groupIn(reader, record, name, this.own.regroupable, this.least)
      : { people: [], asked: "" };
    if (hex(name.session) !== this.own.session) {
      this.own = { ...nextSum(this.own, name, this.entropy), group: group.people, asked: group.asked };
    } else if (group.asked !== this.own.asked) {
      throw reader.refuse("secure sum: groups", "another question than before", "the same");
    }
    return new Map([["keys", shownBy(this.own)]]);
  }

  private unmask(reader: Reader, asked: Unmask): Values {
    const { own } = this, sent = sorted(asked.sent), silent = sorted(asked.silent);
    const got = `sent ${sent.join(", ")}, silent ${silent.join(", ")}`;
    // What lacks in a group's sum follows from the others.
    if (own.group.length && silent.length) throw reader.refuse("secure sum: unmask", got, "a whole group");
    if (own.answered === own.session) {
      if (sent.join() !== own.sent.join() || silent.join() !== own.silent.join()) {
        throw reader.refuse("secure sum: unmask", "a second question with other people", "the first again");
      }
      return this.opens();
    }
    const everybody = sorted([this.client, ...own.masked]);
    if (!own.masked.length || sorted([...sent, ...silent]).join() !== everybody.join() || !sent.includes(this.client)) {
      throw reader.refuse("secure sum: unmask", got, `${everybody.join(", ")}, each once, it among sent`);
    }
    demandPeople(reader, sent.length, this.least);
    if (this.roster) demandOneView(this.roster, reader, asked, own);
    // Of what is told once it is remembered with whom, of others by the round.
    if (own.round < 1 && !own.once) throw reader.refuse("secure sum: unmask", `round ${own.round}`, "1 or more");
    const opened = this.sumOf(own.once, own.vector, this.roster ? own.seen : sent, silent);
    let next = own;
    if (!own.group.length || opened.whole) {
      if (!own.once) next = forward(own, reader, opened);
      else this.remember(reader, opened);
    } // else of people whom it knows in part it cannot count how many groups differ by
    this.own = opening(next, sent, silent);
    this.receipt = { session: own.session, opened: true };
    return this.opens();
  }

  private remember(reader: Reader, opened: OpenedSum): void {
    const fault = this.opened.fault(opened);
    if (fault) throw reader.refuse(`secure sum: ${opened.what} again`, ...fault);
    this.opened.add(opened);
  }

  /** The answer that opens a sum: others' shares, and this person's transcript. */
  private opens(): Values {
    const shares = new Map(Object.entries(this.own.answer).map(([client, share]) => [client, unhex(share)]));
    return new Map([...byClient(shares), ["told", unhex(this.own.transcript)]]);
  }

  /** The name of a vector that stays the same; refused if it was in sums from which the planned one differs by few. */
  private onceOf(reader: Reader, { once }: Origin, hashed: string): string {
    const { own } = this;
    // Whoever is in a group was in the sum that is made anew.
    if (own.group.length) return own.regroupable.once;
    if (!once) return once;
    if (own.run === own.lost) {
      throw reader.refuse(`secure sum: ${once} again`, `a plan of round ${own.round}`, "none of this run: with whom it was opened is lost");
    }
    // Who showed keys, and shared no secrets, is not in it.
    const there = this.roster ? own.named : [this.client, ...own.masked];
    const planned = sorted(there.filter((one) => one === this.client || own.masked.includes(one) || !(one in own.keys)));
    const fault = this.opened.fault(this.sumOf(once, hashed, planned, []), true);
    if (fault) throw reader.refuse(`secure sum: ${once} again`, ...fault);
    return once;
  }

  /** The sum that it takes part in, of people who sent a vector or did not. */
  private sumOf(once: string, vector: string, sent: readonly string[], silent: readonly string[]): OpenedSum {
    const { own, least } = this, neighbours = Object.keys(own.keys), whole = this.roster !== undefined || own.people === neighbours.length + 1;
    const unshared = neighbours.filter((other) => !own.masked.includes(other));
    const out = whole ? [] : sorted(new Set([...silent, ...unshared]));
    return { what: once || "models", run: own.run, round: own.round, vector, sent, silent: out, whole, least, date: "" };
  }

  private demand(reader: Reader, name: Name): void {
    const { run, round, session } = this.own;
    if (name.run !== run || name.round !== round || hex(name.session) !== session) {
      throw reader.refuse("secure sum", `another sum of round ${name.round}`, `the one whose keys it showed last, round ${round}`);
    }
  }

  private demandClosed(reader: Reader, name: Name): void {
    if (hex(name.session) === this.own.answered) throw reader.refuse("secure sum", "a sum that it opened", "one that is not open");
  }
}

/** Refuse sums of few people. */
export function demandPeople(reader: Reader, people: number, least: number): void {
  if (people < least) throw reader.refuse("secure sum: people", `${people}`, `${least} at least`);
}

/** What a message with shares is about. */
export function aboutShares(own: Secrets, sender: string, receiver: string, roster?: Roster): string {
  const about = `fedsub shares ${own.session} ${own.round} ${sender} ${receiver}`;
  // By a roster only who was shown the same list can read them: quorums are of one number.
  return roster ? `${about} ${own.listed}` : about;
}
