/** A device that takes part while the page is open, in one tab at a time. */
import type { Database } from "../browser/database.js";
import { alone, BrowserStore } from "../browser/store.js";
import type { Person } from "../data/person.js";
import { Device } from "../device/device.js";
import type { OwnModel } from "../device/owner.js";
import { CallRefused, FleetCalls, fetchTransport, pause } from "../fleet/calls.js";
import { deviceKey } from "../fleet/keys.js";
import { takePart } from "../fleet/participation.js";
import { NO_WISH } from "../secure/settings.js";
import type { Exports } from "../training/memory.js";
import type { Consent } from "./consent.js";

/** What a device does now. */
export type Doing =
  | { readonly kind: "idle" | "waiting" | "elsewhere" }
  | { readonly kind: "working"; readonly round: string }
  | { readonly kind: "offline" | "refused"; readonly why: string };

export const MODEL = "model";
export const KEYS = "keys";
/** Seconds from one look for messages to the next, and from a failure to the next try. */
const LOOK = 3;
const AGAIN = 10;
/** Calls fail sooner than on devices that nobody looks at: the page tries again, and says so. */
const PATIENCE = { timeout: 30, tries: 3, first: 0.5, longest: 5 };
const FORBIDDEN = [401, 403];

/** Takes part with a person's samples until it is ended. */
export class TakingPart {
  doing: Doing = { kind: "idle" };
  private ended: AbortController | undefined;
  private running: Promise<void> = Promise.resolve();

  constructor(
    private readonly database: Database,
    private readonly exports: Exports,
    private readonly consent: Consent,
    /** Called when what it does, or the model, has changed. */
    private readonly changed: () => void,
  ) {}

  /** Take part with these samples from now on, and no others. */
  begin(person: Person): void {
    void this.end();
    const ended = new AbortController();
    this.ended = ended;
    this.running = this.running.then(() => this.keepOn(person, ended.signal));
  }

  /** End it; when it has ended. */
  async end(): Promise<void> {
    this.ended?.abort(new Error("ended by the page"));
    await this.running;
  }

  private does(doing: Doing): void {
    this.doing = doing;
    this.changed();
  }

  private async keepOn(person: Person, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const done = await alone(() => this.once(person, signal).then(() => true));
        if (!done) this.does({ kind: "elsewhere" });
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        this.does({ kind: error instanceof CallRefused && FORBIDDEN.includes(error.status) ? "refused" : "offline", why });
      }
      await pause(AGAIN, signal).catch(() => undefined);
    }
    this.does({ kind: "idle" });
  }

  private async once(person: Person, signal: AbortSignal): Promise<void> {
    const pair = await this.database.get<CryptoKeyPair>(KEYS);
    if (!pair) throw new Error("this phone has no key");
    const owner = {
      agrees: (settings: Parameters<Consent["demand"]>[0]) => this.consent.demand(settings, signal),
      tested: async (model: OwnModel) => {
        await this.database.put(MODEL, model);
        this.changed();
      },
    };
    const log = (line: string) => {
      console.info(line);
    };
    const device = await Device.open(person, new BrowserStore(this.database), this.exports, log, NO_WISH, owner);
    const calls = new FleetCalls(fetchTransport(""), await deviceKey(pair), PATIENCE, signal);
    const waits = () => {
      this.does({ kind: "waiting" });
    };
    await takePart(
      calls,
      async (metadata, content) => {
        this.does({ kind: "working", round: metadata.groupId });
        // Let the page show it before the kernels keep its thread.
        await pause(0.02, signal);
        return device.answer({ run: String(metadata.runId), type: metadata.messageType, content }).finally(waits);
      },
      {
        register: false,
        look: LOOK,
        before: device.node,
        active: async (node) => {
          await device.active(node);
          waits();
        },
        log,
      },
    );
  }
}
