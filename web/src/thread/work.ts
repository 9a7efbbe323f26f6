/** What the page's other thread does: reads and writes recordings, takes part, and predicts. */
import type { Database } from "../browser/database.js";
import { BrowserStore } from "../browser/store.js";
import { cardOf } from "../data/card.js";
import { csvHead, csvRows, recordingsOf } from "../data/csv.js";
import type { Card } from "../data/person.js";
import { keptOf } from "../device/kept.js";
import type { OwnModel } from "../device/owner.js";
import { DataError } from "../errors.js";
import { receiptsFile } from "../secure/receipts.js";
import type { Exports } from "../training/memory.js";
import { type About, isReady, type OwnData, ownData } from "./own-data.js";
import { Predictor } from "./predictor.js";
import type { Measured } from "../data/measured.js";
import { CARD, MODEL, type Receipts, RECEIPTS } from "./names.js";
import { type Doing, TakingPart } from "./taking-part.js";
import { Consent, type Terms } from "./terms.js";

/** Bytes of a file that is imported at most: it is read as a whole. */
const MOST_BYTES = 2 ** 28;

/** What the page hears unasked: what the device does, the question that waits, and that there is a new model. */
export interface News {
  readonly doing: Doing;
  readonly asks: Terms | undefined;
  readonly newModel: boolean;
}

/** What the page shows of a person's data. */
export interface Summary {
  /** Windows of each class, of those that are learned from. */
  readonly counts: readonly number[];
  readonly unlabelled: number;
  /** The recordings that are learned from, the oldest first. */
  readonly recordings: readonly About[];
  /** Recordings that are kept beside: there are too many to learn from all. */
  readonly older: number;
}

/** Somebody who has joined. */
interface Joined {
  readonly client: string;
  readonly card: Card;
  readonly taking: TakingPart;
}

/** The page's functions here. */
export type WorkTasks = ReturnType<Work["tasks"]>;

/** One person's work. */
export class Work {
  private readonly consent: Consent;
  private taking: TakingPart | undefined;
  /** Settles `joined` for who asked for work before. */
  private start!: (joined: Promise<Joined>) => void;
  private joined = new Promise<Joined>((resolve) => {
    this.start = resolve;
  });
  private data: OwnData | undefined;
  private wanted = false;
  private predicting: { readonly model: OwnModel; readonly predictor: Predictor } | undefined;

  constructor(
    private readonly database: Promise<Database>,
    private readonly kernels: Promise<Exports>,
    private readonly say: (news: News) => void,
  ) {
    this.consent = new Consent(database, () => {
      this.tell();
    });
  }

  /** The functions that the page calls. */
  tasks() {
    return {
      /** Begin as somebody who has joined. */
      begin: (client: string) => this.begin(client),
      /** Read recordings anew, and take part with them where that is wanted. */
      read: () => this.read(),
      /** Take part from now on, or no more; when that is so. */
      takePart: (on: boolean) => this.takePart(on),
      /** The SuperLink's numbers of the runs that this device knows. */
      runs: () => this.runs(),
      /** Answer the question about these terms. */
      agree: (terms: Terms, yes: boolean) => {
        this.consent.answer(terms, yes);
      },
      /** Keep a file's recordings; how many these are. */
      importFile: (file: Blob) => this.importFile(file),
      /** All recordings as a file. */
      exported: () => this.exported(),
      /** Receipts of secure sums, a file for each run by its name. */
      receipts: () => this.receipts(),
      /** Delete the recordings that are not learned from. */
      discardOlder: () => this.discardOlder(),
      /** The class of the last window of rows, by the model of this round; undefined: they are too few. */
      predict: (rows: readonly Measured[]) => this.predict(rows),
    };
  }

  private async begin(client: string): Promise<void> {
    const joined = this.join(client);
    this.joined.catch(() => undefined); // the page hears it from this call, whoever waits or not
    this.start(joined);
    this.joined = joined;
    await joined;
  }

  private async join(client: string): Promise<Joined> {
    const database = await this.database;
    const card = cardOf((await database.get<string>(CARD)) ?? "");
    this.taking = new TakingPart(client, database, await this.kernels, this.consent, (newModel) => {
      if (newModel) this.predicting = undefined;
      this.tell(newModel);
    });
    return { client, card, taking: this.taking };
  }

  private tell(newModel = false): void {
    this.say({ doing: this.taking?.doing ?? { kind: "idle" }, asks: this.consent.waiting, newModel });
  }

  private async read(): Promise<Summary> {
    const { client, card } = await this.joined;
    this.data = await ownData(client, card, await this.database);
    this.predicting = undefined;
    await this.goOn();
    const { counts, unlabelled, recordings, older } = this.data;
    return { counts, unlabelled, recordings, older: older.length };
  }

  private async takePart(on: boolean): Promise<void> {
    this.wanted = on;
    await this.goOn();
  }

  private async runs(): Promise<string[]> {
    const { client } = await this.joined, block = await new BrowserStore(await this.database).load();
    return block ? [...keptOf(block, client).settings.keys()] : [];
  }

  private async goOn(): Promise<void> {
    const { taking } = await this.joined, data = this.data ?? { person: undefined, counts: [] };
    if (this.wanted && (await isReady(await this.database, data))) taking.begin(data.person);
    else await taking.end();
  }

  private async importFile(file: Blob): Promise<number> {
    if (file.size > MOST_BYTES) throw new DataError(`file: got ${file.size} bytes, expected ${MOST_BYTES} at most: divide it`);
    const found = recordingsOf(await file.text(), (await this.joined).card);
    await (await this.database).recordAll(found.map((recording) => ({ ...recording, measured: false })));
    return found.length;
  }

  /** One recording after another is read, and becomes a part of the file, which browsers keep on the disk where it is large. */
  private async exported(): Promise<Blob> {
    const { card } = await this.joined, database = await this.database;
    const parts = [new Blob([csvHead(card)])];
    for (const id of await database.recordingIds()) {
      const recording = await database.recording(id);
      if (recording) parts.push(new Blob([csvRows(recording, parts.length - 1, card)]));
    }
    return new Blob(parts, { type: "text/csv" });
  }

  private async receipts(): Promise<[name: string, file: Blob][]> {
    const kept = (await (await this.database).get<Receipts>(RECEIPTS)) ?? [];
    return [...kept].map(([run, lines]) => [receiptsFile(run), new Blob(lines.map((line) => `${line}\n`), { type: "application/jsonl" })]);
  }

  private async discardOlder(): Promise<void> {
    const last = this.data?.older.at(-1);
    if (last !== undefined) await (await this.database).discardUpTo(last);
  }

  private async predict(rows: readonly Measured[]): Promise<number | undefined> {
    const kernels = await this.kernels, model = await (await this.database).get<OwnModel>(MODEL), person = this.data?.person;
    if (!model || !person) return undefined;
    const turn = ({ method, turn }: OwnModel) => `${method} ${turn.round} ${String(turn.seed)}`;
    if (!this.predicting || turn(this.predicting.model) !== turn(model)) {
      this.predicting = { model, predictor: new Predictor(model, person, kernels) };
    }
    return this.predicting.predictor.ofLast(rows);
  }
}
