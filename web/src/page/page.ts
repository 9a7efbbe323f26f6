/** The page of a person who has joined: what its parts share, and how it is brought up to date. */
import type { Database } from "../browser/database.js";
import { IN_PAGE, presentHere, unknownHere } from "../browser/present.js";
import { wakeOnce } from "../browser/waking.js";
import type { Card } from "../data/person.js";
import type { OwnModel } from "../device/owner.js";
import { ALWAYS, checkPolicy, type Policy, unmet } from "../device/policy.js";
import type { Joined } from "../fleet/join.js";
import { BACKGROUND, MODEL, PAUSED, POLICY } from "../thread/names.js";
import type { News, Summary } from "../thread/work.js";
import { dataView } from "./data-view.js";
import { leavingView, updateLeaving } from "./forgetting.js";
import { modelView } from "./model-view.js";
import { nowView, updateNow } from "./now-view.js";
import type { Recorder } from "./recorder.js";
import { recordingView } from "./recording-view.js";
import { whenView } from "./when-view.js";
import type { Texts } from "./texts.js";
import { newThread, type Thread } from "./thread.js";

/** Seconds from one look whether the person's policy holds to the next. */
const LOOK_ROUND = 10;

/** What the page of one person shows. */
export class Page {
  readonly thread: Thread;
  paused = false;
  policy = ALWAYS;
  /** The condition of the person's policy that does not hold now. */
  unmet: keyof Policy | undefined;
  /** Of what the browser says nothing. */
  unknown: readonly (keyof Policy)[] = [];
  /** Whether the service worker takes part while no page does. */
  background = false;
  /** The recording that goes on, or that could not be kept yet. */
  recorder: Recorder | undefined;
  data: Summary = { counts: [], unlabelled: 0, recordings: [], older: 0 };
  news: News = { doing: { kind: "idle" }, asks: undefined, newModel: false };
  model: OwnModel | undefined;
  private views: { readonly now: HTMLElement; data: HTMLElement; model: HTMLElement; when: HTMLElement } | undefined;
  /** What is shown to somebody who leaves. */
  private leaving: HTMLElement | undefined;

  constructor(
    readonly database: Database,
    readonly card: Card,
    readonly joined: Joined,
    public texts: Texts,
    private readonly leaves: boolean,
  ) {
    const heard = (news: News) => {
      this.news = news;
      void this.update(news.newModel ? ["model"] : []);
    };
    this.thread = newThread(heard, () => {
      heard({ ...this.news, doing: { kind: "outdated", why: "worker" } });
    });
  }

  /** Read what is kept, and begin. */
  async begin(): Promise<void> {
    this.paused = (await this.database.get<boolean>(PAUSED)) ?? false;
    this.background = (await this.database.get<boolean>(BACKGROUND)) ?? false;
    document.addEventListener("visibilitychange", () => {
      if (document.hidden && this.background) void wakeOnce();
    });
    await this.thread.call("begin", this.joined.client);
    this.policy = (await this.database.get<Policy>(POLICY)) ?? ALWAYS;
    this.unknown = await unknownHere();
    await this.update(["when"]);
    this.unmet = unmet(this.policy, await presentHere(IN_PAGE));
    await this.takePart();
    setInterval(() => void this.goByPolicy(), 1000 * LOOK_ROUND);
    await this.readModel();
    await this.recordingsChanged();
  }

  /** Read recordings anew, and take part with them; why the last one gives no windows, "" where it does. */
  readonly recordingsChanged = async (): Promise<string> => {
    this.data = await this.thread.call("read");
    await this.update(["data", "model"]);
    return this.data.recordings.at(-1)?.refused ?? "";
  };

  /** Pause, or go on. */
  async pauseOrGoOn(): Promise<void> {
    this.paused = !this.paused;
    await this.database.put(PAUSED, this.paused);
    await this.takePart();
  }

  /** Take part at other times from now on; throws a RunError where that is never. */
  async goBy(policy: Policy): Promise<void> {
    checkPolicy(policy);
    const before = this.policy;
    // At once: the next condition that is chosen is one more.
    this.policy = policy;
    try {
      await this.database.put(POLICY, policy);
    } catch (error) {
      this.policy = before;
      throw error;
    }
    await this.goByPolicy();
    await this.update();
  }

  private async goByPolicy(): Promise<void> {
    const before = this.unmet;
    this.unmet = unmet(this.policy, await presentHere(IN_PAGE));
    if (this.unmet !== before) await this.takePart();
  }

  private async takePart(): Promise<void> {
    await this.update();
    await this.thread.call("takePart", !this.paused && this.unmet === undefined);
  }

  /** All sections, anew. */
  show(): HTMLElement[] {
    if (this.leaves) return [(this.leaving = leavingView(this))];
    this.views = { now: nowView(this), data: dataView(this), model: modelView(this), when: whenView(this) };
    return [this.views.now, recordingView(this), this.views.model, this.views.data, this.views.when];
  }

  private async readModel(): Promise<void> {
    this.model = await this.database.get<OwnModel>(MODEL).catch(() => this.model);
  }

  /** Bring the first section up to date, and others where they have changed. */
  private async update(others: readonly ("data" | "model" | "when")[] = []): Promise<void> {
    if (others.includes("model")) await this.readModel();
    const { leaving, views } = this;
    if (leaving) updateLeaving(this, leaving);
    if (!views) return;
    updateNow(this, views.now);
    for (const name of others) {
      const made = { data: dataView, model: modelView, when: whenView }[name](this);
      views[name].replaceWith(made);
      views[name] = made;
    }
  }
}
