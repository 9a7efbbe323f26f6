/** A device that takes part, in one tab or service worker at a time. */
import { type Database, StorageFull } from "../browser/database.js";
import { alone, BrowserStore } from "../browser/store.js";
import type { Person } from "../data/person.js";
import { type Asked, Device } from "../device/device.js";
import type { Left } from "../device/leaving.js";
import type { OwnModel } from "../device/owner.js";
import { ALWAYS, dailyHours, type Policy } from "../device/policy.js";
import type { Settings } from "../device/settings.js";
import { MessageRefused } from "../errors.js";
import { CallRefused, FleetCalls, fetchTransport, pause } from "../fleet/calls.js";
import { deviceKey } from "../fleet/keys.js";
import { type Participation, takePart } from "../fleet/participation.js";
import { rosterFiles, type RosterFiles } from "../secure/device-roster.js";
import { publicLine } from "../secure/roster.js";
import { NO_WISH } from "../secure/settings.js";
import type { Exports } from "../training/memory.js";
import type { Content } from "../values.js";
import { leaver, leftBy } from "./leaver.js";
import { KEYS, OWNER, type Leaving, LEAVING, MODEL, POLICY, type Receipts, RECEIPTS } from "./names.js";
import { type Consent, Declined } from "./terms.js";

/** What a device does now. */
export type Doing =
  | { readonly kind: "idle" | "waiting" | "elsewhere" | "declined" }
  | { readonly kind: "working"; readonly round: string }
  | { readonly kind: "leaving"; readonly said: boolean }
  | ({ readonly kind: "left" } & Left)
  | { readonly kind: "offline" | "refused" | "full" | "outdated" | "unlisted" | "rosterRefused"; readonly why: string };

/** Seconds from one look for messages to the next, and from a failure to the next try. */
export const LOOK = 3;
const AGAIN = 10;
/** Calls fail sooner than on devices that nobody looks at: the page tries again, and says so. */
const PATIENCE = { timeout: 30, tries: 3, first: 0.5, longest: 5 };
const FORBIDDEN = [401, 403];
/** What a server of another release says that this page does not know. */
const OUTDATED = ["wires", "run config"];
/** The key of the roster's owner, where the page's folder has it; what errors on a roster say, and that on one without this phone. */
const OWNERS_KEY = "/roster-owner.pub";
const ROSTER = /^client \S+: roster: /;
const UNLISTED = /: roster: got (no|another) key of \S+, expected that of this device$/;

/** Samples came while the owner was asked. */
class OtherSamples extends Error {}

/** Who answers: somebody who takes part, or who leaves. */
export type Member = Required<Pick<Participation, "before" | "active" | "answered" | "stays">> & { readonly answer: (asked: Asked) => Promise<Content>; readonly waits: () => Doing };

/** Takes part with a person's samples until it is ended. */
export class TakingPart {
  doing: Doing = { kind: "idle" };
  private person: Person | undefined;
  private ended: AbortController | undefined;
  private running: Promise<void> = Promise.resolve();

  constructor(
    private readonly client: string,
    private readonly database: Database,
    private readonly exports: Exports,
    private readonly consent: Pick<Consent, "demand">,
    /** Called when what it does has changed, or the model. */
    private readonly changed: (newModel: boolean) => void,
  ) {}

  /** Take part with these samples, from the next message on; what is asked or worked on now goes on. Who leaves has none. */
  begin(person?: Person): void {
    this.person = person;
    if (this.ended && !this.ended.signal.aborted) return;
    const ended = new AbortController();
    this.ended = ended;
    this.running = this.running.then(() => this.keepOn(ended.signal));
  }

  /** Take part as long as `stays` says so, and begin no more: who calls it sees that no tab takes part. */
  async awhile(person: Person | undefined, stays: () => Promise<boolean>): Promise<void> {
    this.person = person;
    await this.once(new AbortController().signal, stays);
  }

  /** End it; when it has ended. */
  async end(): Promise<void> {
    this.ended?.abort(new Error("ended by the page"));
    await this.running;
  }

  private does(doing: Doing): void {
    this.doing = doing;
    this.changed(false);
  }

  private async keepOn(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const done = await alone(() => this.once(signal).then(() => true));
        if (!done) this.does({ kind: "elsewhere" });
      } catch (error) {
        const why = wordsOf(error);
        if (error instanceof StorageFull) this.does({ kind: "full", why });
        else this.does({ kind: error instanceof CallRefused && FORBIDDEN.includes(error.status) ? "refused" : "offline", why });
      }
      await pause(AGAIN, signal).catch(() => undefined);
    }
    this.does({ kind: "idle" });
  }

  private async once(signal: AbortSignal, stays?: () => Promise<boolean>): Promise<void> {
    const pair = await this.database.get<CryptoKeyPair>(KEYS);
    if (!pair) throw new Error("this phone has no key");
    const leaving = await this.database.get<Leaving>(LEAVING);
    // The server has nothing more to say, whether it got the answer or not.
    const before = leaving && leftBy(leaving);
    if (before) {
      this.does(before);
      return;
    }
    const calls = new FleetCalls(fetchTransport(""), await deviceKey(pair), PATIENCE, signal);
    const member = leaving ? leaver(this.client, this.database, leaving, calls, (doing) => { this.does(doing); }) : await this.member(signal, await this.roster(pair));
    await takePart(
      calls,
      async (metadata, content) => {
        if (!leaving) this.does({ kind: "working", round: metadata.groupId });
        try {
          const made = await member.answer({ run: String(metadata.runId), type: metadata.messageType, content });
          this.does(member.waits());
          return made;
        } catch (error) {
          this.does(leaving ? member.waits() : afterFault(error));
          throw error;
        }
      },
      {
        register: false,
        look: LOOK,
        before: member.before,
        active: async (node) => {
          await member.active(node);
          this.does(member.waits());
        },
        answered: member.answered,
        stays: async () => (await member.stays()) && ((await stays?.()) ?? true),
        log,
      },
    );
  }

  /** By whose roster this phone goes in secure sums, once the page's server has said it; throws where it says neither that nor that there is none. */
  private async roster(pair: CryptoKeyPair): Promise<RosterFiles | undefined> {
    const known = await this.database.get<string>(OWNER);
    if (known !== undefined) return rosterFiles(pair, known);
    const answer = await fetch(OWNERS_KEY);
    if (answer.status === 404) return undefined;
    if (!answer.ok) throw new Error(`${OWNERS_KEY}: got HTTP ${answer.status}, expected 200, or 404 without a roster`);
    const owner = publicLine(await answer.text());
    await this.database.put(OWNER, owner);
    return rosterFiles(pair, owner);
  }

  private async member(signal: AbortSignal, roster: RosterFiles | undefined): Promise<Member> {
    let device = await this.device(signal, roster);
    const answer = async (asked: Asked): Promise<Content> => {
      try {
        if (device.person !== this.person) device = await this.device(signal, roster);
        return await device.answer(asked);
      } catch (error) {
        if (error instanceof OtherSamples) return answer(asked);
        throw error;
      }
    };
    return { before: device.node, active: (node) => device.active(node), answer, answered: () => Promise.resolve(), stays: () => Promise.resolve(true), waits: () => ({ kind: "waiting" }) };
  }

  private async device(signal: AbortSignal, roster: RosterFiles | undefined): Promise<Device> {
    const { person } = this;
    if (!person) throw new Error("this phone has no samples");
    const owner = {
      agrees: async (settings: Settings) => {
        await this.consent.demand(settings, signal);
        if (this.person !== person) throw new OtherSamples();
      },
      hours: async () => dailyHours((await this.database.get<Policy>(POLICY)) ?? ALWAYS, new Date()),
      tested: async (model: OwnModel) => {
        await this.database.put(MODEL, model);
        this.changed(true);
      },
    };
    const receipt = async (run: string, line: string) => {
      const kept = (await this.database.get<Receipts>(RECEIPTS)) ?? new Map<string, string[]>();
      await this.database.put(RECEIPTS, new Map(kept).set(run, [...(kept.get(run) ?? []), line]));
    };
    return Device.open(person, new BrowserStore(this.database), this.exports, log, { ...NO_WISH, roster, receipt }, owner);
  }
}

/** What a device does that could not answer a message; the server hears why. */
export function afterFault(error: unknown): Doing {
  const why = wordsOf(error);
  if (error instanceof Declined) return { kind: "declined" };
  if (error instanceof StorageFull) return { kind: "full", why };
  if (error instanceof MessageRefused && OUTDATED.includes(error.what)) return { kind: "outdated", why };
  if (UNLISTED.test(why)) return { kind: "unlisted", why };
  return ROSTER.test(why) ? { kind: "rosterRefused", why } : { kind: "waiting" };
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function log(line: string): void {
  console.info(line);
}
