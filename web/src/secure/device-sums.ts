// A device in a run's secure sums, from message to message: it answers questions about them, and masks what it
// sends. What is kept of sums stands in blocks of the device's state.

import type { Kept, Saved } from "../device/kept.js";
import type { Settings } from "../device/settings.js";
import type { Instructions } from "../device/turn.js";
import { MessageRefused, RunError } from "../errors.js";
import type { Learner } from "../methods/method.js";
import type { Values } from "../values.js";
import { type Bundle, declared } from "../wire/bundles.js";
import { type Address, encodeUpload } from "../wire/encode.js";
import { EXACT } from "../wire/encoding.js";
import { BUNDLE } from "../wire/message.js";
import { read } from "../wire/protobuf.js";
import { digest } from "./digest.js";
import { wordsOf } from "./exact.js";
import { noSecrets, readSecrets } from "./kept-secrets.js";
import { wordBytes } from "./keys.js";
import type { Name } from "./messages.js";
import { OpenedSums } from "./opened-sums.js";
import { Participant } from "./participant.js";
import { type Levels, type Words, eachOf, vectorAgain } from "./quantise.js";
import { Reader, alike } from "./reader.js";
import { type OwnersWish, addsUp, sumSettings } from "./settings.js";
import { hasRoster, signerOf } from "./device-roster.js";
import type { Signer } from "./roster.js";
import { withSignature } from "./signed.js";
import { type Origin, originOf, summed } from "./vectors.js";

/** Of a turn, what differs from person to person. */
const OWN_OF_TURN = new Set(["evaluate", "salt"]);
const OPENED = "opened sums";
const text = (block: Uint8Array | undefined) => block && new TextDecoder().decode(block);

/** A person, and the plan of a sum that it accepted. */
export interface Part {
  readonly person: Participant;
  readonly levels: Levels;
  /** Hash of what it was told beside its download. */
  readonly toldHash: string;
  readonly name: Name;
}

/** A person's part in the sums of a run. */
export class DeviceSums {
  constructor(
    private readonly client: string,
    private readonly settings: Settings,
    private readonly wish: OwnersWish,
    private readonly log: (line: string) => void,
  ) {}

  /** The person as it takes part in a run's sums, with what it kept. */
  participant(kept: Kept, run: string): Participant {
    const { least } = sumSettings(this.settings, this.wish);
    const [secrets, opened] = [`sums ${run}`, OPENED].map((name) => text(kept.blocks.get(name)));
    const today = new Date().toISOString().slice(0, 10);
    const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes));
    let own = noSecrets();
    try {
      if (secrets !== undefined) own = readSecrets(secrets);
    } catch (error) {
      // Of its run nobody knows any more which sums were opened.
      this.log(`what it kept of its sums is damaged (${String(error)}); it begins anew`);
      own = noSecrets(run);
    }
    return new Participant(this.client, least, own, openedOf(opened, today), random, this.signer(kept)?.roster);
  }

  private signer(kept: Kept): Signer | undefined {
    const { roster } = this.wish;
    return hasRoster(roster, kept) ? signerOf(roster, this.client, kept).signer : undefined;
  }

  /** An answer, signed by who goes by a roster. */
  async signed(answer: Values, record: Values, kept: Kept): Promise<Values> {
    const signer = this.signer(kept), reader = new Reader(this.client, Number(record.get("round")));
    return signer ? withSignature(signer, this.client, reader.name(record), answer) : answer;
  }

  /**
   * The answer to a question about a sum.
   *
   * @param moments of the person's samples or features, if the run standardises these by everybody's.
   * @param vector that of the round before it was masked, if there is one.
   * @throws MessageRefused if the person does not answer it.
   */
  answer(person: Participant, record: Values, moments: (of: string) => Float64Array | undefined, vector: () => Words | undefined): Values {
    if (!addsUp(this.settings)) throw new RunError(`client ${this.client}: asked for a part in a sum, in a run of none`);
    const phase = record.get("phase"), of = record.get("of"), config = digest({ config: this.settings.values });
    const round = record.get("round"), reader = new Reader(this.client, typeof round === "bigint" ? Number(round) : 0);
    if (phase === "moments" || (phase === "again" && of !== undefined)) {
      const found = new Reader(this.client, 0), plan = found.plan(record), own = moments(String(of));
      if (own === undefined) {
        throw found.refuse("secure sum: moments", `a question for those of '${String(of)}'`, "what the run standardises by everybody's");
      }
      person.accept(plan);
      return masked(person.masked(wordsOf(own), plan.name, { once: `moments of ${String(of)}`, madeOf: config }));
    }
    if (phase !== "again") return person.answer(record, reader.round);
    const plan = reader.plan(record), kept = vector();
    if (kept === undefined) throw reader.refuse("secure sum: vector", "a question for it once more", "none: it is no longer kept");
    person.accept(plan);
    return masked(person.masked(kept, plan.name, { once: "", madeOf: config }));
  }

  /**
   * A person's part in a sum, once it accepts the plan that came with a download.
   *
   * @throws MessageRefused if it cannot go by it, or it is of another run than the download; if people weigh
   *   differently where what one adds is to be bounded; or if numbers are rounded by other levels than they can bear.
   */
  accepted(person: Participant, record: Values, turn: Values, told: Instructions): Part {
    const reader = new Reader(this.client, told.turn.round), plan = reader.plan(record);
    if (!addsUp(this.settings)) throw new RunError(`client ${this.client}: asked for a part in a sum, in a run of none`);
    if (plan.name.run !== told.run || plan.name.method !== told.method) {
      const got = `'${plan.name.method}' of run '${plan.name.run}'`;
      throw reader.refuse("secure sum", got, `'${told.method}' of run '${told.run}'`);
    }
    const { range, longest } = sumSettings(this.settings, this.wish);
    if (longest < Infinity && plan.weight !== 1) throw reader.refuse("secure sum: weight", `${plan.weight}`, "1, of everybody, with dp-noise");
    person.accept(plan);
    const { people } = person.own, each = eachOf(people, plan.weight);
    if (plan.each !== each || !each) throw reader.refuse("secure sum: each", `${plan.each}`, `${each} among ${people} people of weight ${plan.weight}`);
    const levels = { range, longest, weight: plan.weight, each };
    const toldHash = digest({ config: this.settings.values, turn: alike(turn, OWN_OF_TURN) });
    return { person, levels, toldHash, name: plan.name };
  }

  /**
   * Refuse to answer a download without a plan where nothing may leave that tells of this person alone.
   *
   * @param sends whether the answer holds more than its header.
   */
  demandPlan(kept: Kept, told: Instructions, sends: boolean): void {
    const alone = addsUp(this.settings) ? sends : this.wish.sumsAlone || this.participant(kept, told.run).tookPart(told.run);
    if (!alone) return;
    const got = "a question for the upload itself";
    throw new MessageRefused(this.client, told.turn.round, "secure sum", got, "a plan of a sum beside it");
  }

  /** Keep what the person's last answer is, to check the server's transcript by. */
  async note({ receipt }: Participant, run: string, method: string): Promise<void> {
    if (receipt === undefined) return;
    const named = [`${method}.noise`, ...(this.settings.number("dp-noise", 0) ? ["dp-noise", "dp-clip"] : [])];
    const noise = named.map((key) => [key, this.settings.number(key, 0)] as const).filter(([, value]) => value !== 0);
    const facts = "vector" in receipt ? { client: this.client, run, noise: Object.fromEntries(noise), ...receipt } : receipt;
    await this.wish.receipt?.(run, JSON.stringify(facts));
  }

  /** What is kept with a person's secrets and the sums that it opened. */
  after(kept: Kept, run: string, person: Participant): Kept {
    const bytes = (value: string) => new TextEncoder().encode(value), blocks = new Map(kept.blocks);
    blocks.set(`sums ${run}`, bytes(JSON.stringify(person.own)));
    const { roster } = this.wish;
    for (const [name, block] of hasRoster(roster, kept) ? signerOf(roster, this.client, kept).kept.blocks : []) if (name.startsWith("roster")) blocks.set(name, block);
    if (!person.opened.lost && person.opened.sums.length) blocks.set(OPENED, bytes(person.opened.written()));
    return { ...kept, blocks };
  }
}

/** What is kept of a round with a part in a sum: the vector before it is masked, and what it was made of. */
export function vectorOfRound(part: Part, learner: Learner, upload: Bundle, received: Bundle, address: Address) {
  const of = summed(learner), vector = of.vector(upload, received, part.levels), { levels } = part;
  const { once, madeOf } = madeWith(part, originOf(of, received));
  const beside = { levels: [levels.weight, levels.each], once, made_of: madeOf };
  return { reply: vectorBytes(vector, address.client, address.round), reference: undefined, beside };
}

/** The bytes of a round's vector under masks. */
export function maskedBytes({ person, name }: Part, saved: Saved): Uint8Array {
  const vector = vectorIn(saved.reply)!, { once, made_of } = saved.beside as { readonly once: string; readonly made_of: string };
  const under = person.masked(vector, name, { once, madeOf: made_of });
  return vectorBytes(under, person.client, saved.round);
}

/**
 * The bytes of a saved round's vector by the levels of this session's sum, under masks.
 *
 * @throws MessageRefused if what was saved is no vector.
 */
export function maskedAgain(part: Part, saved: Saved, examples: number): Uint8Array {
  const { client } = part.person, vector = vectorIn(saved.reply), { levels } = saved.beside;
  if (!Array.isArray(levels) || vector === undefined) {
    const got = "a round that was answered with an upload itself";
    throw new MessageRefused(client, saved.round, "secure sum", got, "one answered in sums");
  }
  const [weight, each] = levels.map(Number), before = { ...part.levels, weight, each };
  const again = vectorAgain(vector, before, part.levels, examples);
  return maskedBytes(part, { ...saved, reply: vectorBytes(again, client, saved.round) });
}

/** A vector's origin, made of the download and of what came beside it. */
function madeWith({ toldHash }: Part, { once, madeOf }: Origin): Origin {
  return { once, madeOf: digest([toldHash, madeOf]) };
}

/** The bytes of an upload that carries a vector, under masks or not: who sent it has 1 sample, for all to see. */
export function vectorBytes(vector: Words, client: string, round: number): Uint8Array {
  const halves = Int16Array.from({ length: 2 * vector.length }, (_, i) => vector[i >> 1] >>> (16 * (i & 1)));
  const bundle: Bundle = { examples: 1, version: 0n, tensors: new Map([["vector", { kind: "whole", values: halves }]]), reference: 0 };
  return encodeUpload(bundle, { client, round }, new Map([["vector", declared("Whole", [vector.length, 2])]]), EXACT, undefined).bytes;
}

/** The vector in such bytes of this device's own; undefined: there is none. */
export function vectorIn(bytes: Uint8Array): Words | undefined {
  const values = read(BUNDLE, bytes).tensors.find(({ name }) => name === "vector")?.values;
  if (values === undefined) return undefined;
  const words = new DataView(values.buffer, values.byteOffset, values.byteLength);
  return Uint32Array.from({ length: values.length / 4 }, (_, i) => words.getUint32(4 * i, true));
}

function openedOf(kept: string | undefined, today: string): OpenedSums {
  try {
    return kept === undefined ? new OpenedSums([], today) : OpenedSums.read(kept, today);
  } catch {
    return new OpenedSums([], today, "what was kept of it is damaged");
  }
}

function masked(vector: Words): Values {
  return new Map([["vector", wordBytes(vector)]]);
}
