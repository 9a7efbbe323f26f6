/**
 * One person's device: answers the server's messages, and keeps its state.
 *
 * A round is trained once: asked for it again, after any crash on either side, the device sends the
 * very reply that it saved.
 */
import { blake2b } from "@noble/hashes/blake2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import type { Person } from "../data/person.js";
import { MessageRefused, RunError } from "../errors.js";
import type { State } from "../methods/method.js";
import { Kernels } from "../training/kernels.js";
import type { Exports } from "../training/memory.js";
import { config, type Content, metrics, type PlainRecord } from "../values.js";
import { type Bundle, NOTHING } from "../wire/bundles.js";
import { decodeDownload, type Envelope } from "../wire/decode.js";
import { feedsBack } from "../wire/encoding.js";
import { emptyReference, type Reference } from "../wire/references.js";
import { withRoster } from "../secure/device-roster.js";
import { DeviceSums, maskedAgain, maskedBytes, vectorIn } from "../secure/device-sums.js";
import { type OwnersWish, NO_WISH, checkSums } from "../secure/settings.js";
import { checkGreeting, checkSettings } from "./abilities.js";
import { Half } from "./half.js";
import { introduction, sharedMoments } from "./introduction.js";
import { isJoined, joined, separated } from "./joined.js";
import { keptBytes, type Kept, keptOf, nothingKept, type Saved, savedOf, type Store, withSaved, withSettings } from "./kept.js";
import { afterRound } from "./round.js";
import { Settings } from "./settings.js";
import { inUseAfter, testedMetrics } from "./tested.js";
import { type Instructions, instructionsOf, recordOf } from "./turn.js";
import { type Owner, SILENT } from "./owner.js";

/** A message to a device, without Flower's envelope. */
export interface Asked {
  /** The SuperLink's number of the run. */
  readonly run: string;
  /** `query`, `train` or `evaluate`. */
  readonly type: string;
  readonly content: Content;
}

/** A person's device. */
export class Device {
  private readonly halves = new Map<string, Half>();
  /** Names the person's samples. */
  private readonly samples: string;
  private readonly kernels: Kernels;

  private constructor(
    readonly person: Person,
    private readonly store: Store,
    exports: Exports,
    private readonly log: (line: string) => void,
    private kept: Kept,
    private readonly wish: OwnersWish,
    private readonly owner: Owner,
  ) {
    this.kernels = new Kernels(exports);
    const digest = blake2b.create({ dkLen: 16 });
    for (const { buffer, byteOffset, byteLength } of [person.x.values, person.y]) digest.update(new Uint8Array(buffer, byteOffset, byteLength));
    this.samples = bytesToHex(digest.digest());
  }

  /**
   * The device of a person, with what its store kept.
   *
   * @throws RunError where that is damaged, or another person's.
   */
  static async open(person: Person, store: Store, exports: Exports, log: (line: string) => void, wish = NO_WISH, owner: Owner = SILENT): Promise<Device> {
    const block = await store.load();
    const kept = block ? keptOf(block, person.client) : nothingKept(person.client);
    return new Device(person, store, exports, log, kept, wish, owner);
  }

  /** The node's id when it was active last. */
  get node(): bigint | undefined {
    return this.kept.node;
  }

  /** Remember the node's id. */
  async active(node: bigint): Promise<void> {
    await this.keep({ ...this.kept, node });
  }

  /**
   * The answer to a message; what it changes is kept before anybody hears of it.
   *
   * @throws MessageRefused, RunError where there is none; then nothing is changed.
   */
  async answer(asked: Asked): Promise<Content> {
    const content = separated(asked.content, this.person.client);
    const answer = await this.answered(asked, content);
    return isJoined(asked.content) ? joined(answer) : answer;
  }

  private async answered(asked: Asked, content: Content): Promise<Content> {
    if (asked.type === "train") return this.train(asked, content);
    if (asked.type === "evaluate") return this.evaluate(asked, content);
    if (asked.type === "query" && content.has("secure")) return this.secure(asked, content);
    if (asked.type === "query" && content.has("handshake")) return this.handshake(asked, content);
    throw new MessageRefused(this.person.client, 0, asked.type, `records ${[...content.keys()].join(", ")}`, "handshake or secure: no other question has an answer here");
  }

  private async keep(kept: Kept): Promise<void> {
    await this.store.save(keptBytes(kept));
    this.kept = kept;
  }

  private async handshake(asked: Asked, content: Content): Promise<Content> {
    const { client } = this.person;
    const greeting = recordOf(content, "handshake", "config", client).values;
    checkGreeting(greeting, client);
    const { roster } = this.wish, longer = greeting.get("roster");
    const kept = roster && longer instanceof Uint8Array ? withRoster(roster, client, this.kept, longer) : this.kept;
    const values = new Map(recordOf(content, "settings", "config", client).values);
    values.delete("salt");
    const settings = new Settings(values);
    checkSettings(settings);
    checkSums(settings, this.wish);
    await this.owner.agrees(settings);
    // What a device says is for all methods: that of one that trains on an encoder's features says most.
    const halves = settings.methods.map((name) => new Half(settings, name, this.person, this.kernels));
    const said = introduction(halves.find(({ sight }) => sight.encoder && sight.trains) ?? halves[0]);
    const hours = await this.owner.hours?.();
    await this.keep(withSettings(kept, asked.run, values));
    for (const half of halves) this.halves.set(`${asked.run} ${half.method.name}`, half);
    return new Map([["handshake", config(hours ? new Map([...said, ["hours", hours]]) : said)]]);
  }

  private half(run: string, method: string): Half {
    const key = `${run} ${method}`;
    let half = this.halves.get(key);
    if (!half) {
      const values = this.kept.settings.get(run);
      if (!values) throw new RunError(`client ${this.person.client}: asked to work in a run whose settings it was not told, expected a handshake before`);
      half = new Half(new Settings(values), method, this.person, this.kernels);
      this.halves.set(key, half);
    }
    return half;
  }

  private sums(half: Half): DeviceSums {
    return new DeviceSums(this.person.client, half.settings, this.wish, this.log);
  }

  /** The answer to a question about a secure sum. */
  private async secure(asked: Asked, content: Content): Promise<Content> {
    const record = recordOf(content, "secure", "config", this.person.client).values;
    const [run, method] = ["run", "method"].map((key) => String(record.get(key) ?? ""));
    const half = this.half(asked.run, method), sums = this.sums(half), person = sums.participant(this.kept, run);
    const halves = half.settings.methods.map((name) => this.half(asked.run, name));
    const saved = savedOf(this.kept, run, method);
    const vector = () => (saved?.beside.levels ? vectorIn(saved.reply) : undefined);
    const values = await sums.signed(sums.answer(person, record, (of) => sharedMoments(halves, of), vector), record, this.kept);
    await this.keep(sums.after(this.kept, run, person));
    await sums.note(person, run, method);
    return new Map([["secure", config(values)]]);
  }

  private async train(asked: Asked, content: Content): Promise<Content> {
    const { client } = this.person;
    const told = instructionsOf(content, client);
    const half = this.half(asked.run, told.method);
    const { round } = told.turn;
    const saved = savedOf(this.kept, told.run, told.method);
    const sums = this.sums(half), person = sums.participant(this.kept, told.run);
    // Before all work: what cannot be sent need not be made.
    const part = content.has("secure")
      ? sums.accepted(person, recordOf(content, "secure", "config", client, round).values, recordOf(content, "turn", "config", client).values, told)
      : undefined;
    if (!part) sums.demandPlan(this.kept, told, saved?.round === round && Boolean(saved.beside.levels));
    if (saved?.round === round) {
      this.log(`round ${round} was done before; same answer`);
      const again = part && maskedAgain(part, saved, half.split.train.length);
      if (again) await this.keep(sums.after(this.kept, told.run, person));
      await sums.note(person, told.run, told.method);
      return this.reply(half, told, again ? { ...saved, reply: again } : saved);
    }
    if (saved && saved.round > round) this.log(`asked for round ${round} after ${saved.round}: the server went back; training on`);
    if (saved && saved.samples !== this.samples) this.log("its samples are others than in the last round; split anew, so what was trained on may be tested now");
    const reference = this.reference(half, saved);
    const received = this.received(content, told, half, reference);
    const state = this.state(half, saved);
    const fitted = half.learner.fit(state ?? half.learner.first(), received, half.parts(told.shared).train, told.turn);
    if (!part) sums.demandPlan(this.kept, told, fitted.upload.tensors.size > 0);
    const from = { before: state, reference, received };
    const kept = afterRound(half, told, fitted, from, part, this.samples);
    const sent = part ? { ...kept, reply: maskedBytes(part, kept) } : kept;
    const all = withSaved(this.kept, kept);
    await this.keep(part ? sums.after(all, told.run, person) : all);
    await sums.note(person, told.run, told.method);
    return this.reply(half, told, sent);
  }

  private async reply(half: Half, told: Instructions, saved: Saved): Promise<Content> {
    const content = new Map<string, PlainRecord>([["payload", { kind: "payload", bytes: saved.reply }]]);
    const report = Object.entries(saved.report);
    if (report.length) content.set("report", metrics(new Map(report)));
    if (told.alsoEvaluate) content.set("metrics", await this.tested(half, told, saved.state, NOTHING));
    return content;
  }

  private async evaluate(asked: Asked, content: Content): Promise<Content> {
    const told = instructionsOf(content, this.person.client);
    const half = this.half(asked.run, told.method);
    const saved = savedOf(this.kept, told.run, told.method);
    const received = this.received(content, told, half, this.reference(half, saved));
    const state = this.state(half, saved) ?? half.learner.first();
    return new Map([["metrics", await this.tested(half, told, state, received)]]);
  }

  private async tested(half: Half, told: Instructions, state: State, received: Bundle): Promise<PlainRecord> {
    const inUse = inUseAfter(half, told, state, received), found = testedMetrics(half, told, inUse);
    await this.owner.tested({ settings: half.settings.values, method: half.method.name, turn: told.turn, shared: told.shared, state: inUse, metrics: found });
    return metrics(found);
  }

  /** The state of a run's method that fits its half; undefined: there is none. */
  private state(half: Half, saved: Saved | undefined): State | undefined {
    if (!saved) return undefined;
    if (half.fits(saved.state)) return saved.state;
    this.log("its state is of another model; it begins anew");
    return undefined;
  }

  private reference(half: Half, saved: Saved | undefined): Reference | undefined {
    return feedsBack(half.encoding) ? (saved?.reference ?? emptyReference(half.learner.sends)) : undefined;
  }

  private received(content: Content, told: Instructions, half: Half, reference: Reference | undefined): Bundle {
    const { client } = this.person;
    const { round } = told.turn;
    const { settings } = half;
    const envelope: Envelope = {
      client,
      round,
      declared: half.learner.receives,
      reference: half.encoding.delta ? reference : undefined,
      limit: settings.number("message-limit", 0),
      largest: settings.number("largest-number", 1e6),
    };
    return decodeDownload(recordOf(content, "payload", "payload", client, round).bytes, envelope);
  }
}
