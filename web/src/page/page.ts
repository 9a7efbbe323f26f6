/** The page of a person who has joined: what its parts share, and how it is brought up to date. */
import type { Database, Recording } from "../browser/database.js";
import type { Card } from "../data/person.js";
import type { OwnModel } from "../device/owner.js";
import type { Joined } from "../fleet/join.js";
import type { Exports } from "../training/memory.js";
import { Consent } from "./consent.js";
import { dataView } from "./data-view.js";
import { modelView } from "./model-view.js";
import { nowView, updateNow } from "./now-view.js";
import { type OwnData, ownData } from "./own-data.js";
import type { Recorder } from "./recorder.js";
import { recordingView } from "./recording-view.js";
import { MODEL, TakingPart } from "./taking-part.js";
import type { Texts } from "./texts.js";

const PAUSED = "paused";
/** Activities that a device needs to take part. */
const FEWEST = 2;

/** What the page of one person shows. */
export class Page {
  readonly consent: Consent;
  readonly takingPart: TakingPart;
  paused = false;
  /** The recording that goes on. */
  recorder: Recorder | undefined;
  recordings: readonly Recording[] = [];
  data: OwnData;
  model: OwnModel | undefined;
  private views: { readonly now: HTMLElement; data: HTMLElement; model: HTMLElement } | undefined;

  constructor(
    readonly database: Database,
    readonly card: Card,
    readonly joined: Joined,
    readonly exports: Exports,
    public texts: Texts,
  ) {
    const changed = () => void this.update();
    this.consent = new Consent(database, changed);
    this.takingPart = new TakingPart(database, exports, this.consent, changed);
    this.data = ownData(joined.client, card, []);
  }

  /** Read what is kept, and begin. */
  async begin(): Promise<void> {
    this.paused = (await this.database.get<boolean>(PAUSED)) ?? false;
    await this.recordingsChanged();
  }

  /** Read recordings anew, and take part with them; why the last one gives no windows, "" where it does. */
  readonly recordingsChanged = async (): Promise<string> => {
    this.recordings = await this.database.recordings();
    this.data = ownData(this.joined.client, this.card, this.recordings);
    this.takePart();
    await this.update(true);
    return this.data.refused.get(this.recordings.at(-1)?.id ?? -1) ?? "";
  };

  /** Pause, or go on. */
  async pauseOrGoOn(): Promise<void> {
    this.paused = !this.paused;
    await this.database.put(PAUSED, this.paused);
    this.takePart();
    await this.update();
  }

  private takePart(): void {
    const { person, counts } = this.data;
    if (this.paused || !person || counts.filter((count) => count > 0).length < FEWEST) void this.takingPart.end();
    else this.takingPart.begin(person);
  }

  /** All sections, anew. */
  show(): HTMLElement[] {
    this.views = { now: nowView(this), data: dataView(this), model: modelView(this) };
    return [this.views.now, recordingView(this), this.views.model, this.views.data];
  }

  private async update(dataToo = false): Promise<void> {
    const before = this.model;
    this.model = await this.database.get<OwnModel>(MODEL).catch(() => before);
    if (!this.views) return;
    updateNow(this, this.views.now);
    const of = (model: OwnModel | undefined) => model && `${model.method} ${model.turn.round} ${String(model.metrics.get("macro_f1"))} ${String(model.turn.seed)}`;
    if (dataToo || of(before) !== of(this.model)) {
      const model = modelView(this);
      this.views.model.replaceWith(model);
      this.views.model = model;
    }
    if (!dataToo) return;
    const data = dataView(this);
    this.views.data.replaceWith(data);
    this.views.data = data;
  }
}
