/** A recording that goes on: kept every few seconds, its rate measured and its gaps seen, with the screen awake. */
import type { Database } from "../browser/database.js";
import { gapOf, type Rows } from "../data/cut.js";
import type { Measured } from "../data/measured.js";
import { measure } from "./sensors.js";

/** How a recording goes. */
export interface Progress {
  readonly seconds: number;
  /** Rows a second, in the middle of all steps. */
  readonly rate: number;
  readonly gaps: number;
  /** Whether the browser keeps the screen on. */
  readonly awake: boolean;
  /** Why the last rows could not be kept; "" where they were. */
  readonly unkept: string;
}

/** Milliseconds from one time to the next that it is kept: so much is lost at most with the tab. */
const KEPT_EVERY = 5000;
/** Rows by which the rate is known. */
const FEWEST = 20;

/** A recording of one label, -1 for none. */
export class Recorder {
  private readonly rows: Measured[] = [];
  private readonly stops: (() => void)[] = [];
  private id: number | undefined;
  private lock: WakeLockSentinel | undefined;
  private saving = Promise.resolve();
  private unkept = "";
  /** Whether it measures no more. */
  ended = false;

  private constructor(
    private readonly database: Database,
    readonly label: number,
  ) {}

  /** A recording that begins. */
  static begin(database: Database, channels: Parameters<typeof measure>[0], label: number): Recorder {
    const recorder = new Recorder(database, label);
    const stop = measure(channels, (row) => recorder.rows.push(row));
    const timer = setInterval(() => {
      recorder.keep();
    }, KEPT_EVERY);
    const seen = () => {
      if (document.visibilityState === "visible") void recorder.awaken();
    };
    document.addEventListener("visibilitychange", seen);
    recorder.stops.push(stop, () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", seen);
    });
    void recorder.awaken();
    return recorder;
  }

  get progress(): Progress {
    const { t } = this.asRows, { awake, unkept } = this;
    const n = t.length;
    if (n < FEWEST) return { seconds: n ? t[n - 1] - t[0] : 0, rate: 0, gaps: 0, awake, unkept };
    const gap = gapOf(t);
    const gaps = t.filter((time, i) => i > 0 && time - t[i - 1] > gap).length;
    return { seconds: t[n - 1] - t[0], rate: 10 / gap, gaps, awake, unkept };
  }

  /** End it; whether there is something of it. Throws a RunError where it could not be kept; it can then be ended again. */
  async end(): Promise<boolean> {
    this.ended = true;
    for (const stop of this.stops.splice(0)) stop();
    await this.lock?.release();
    this.keep();
    await this.saving;
    return this.rows.length > 0;
  }

  private get awake(): boolean {
    return this.lock !== undefined && !this.lock.released;
  }

  private get asRows(): Rows {
    const { rows, label } = this;
    return { t: Float64Array.from(rows, ({ t }) => t), x: Float32Array.from(rows.flatMap(({ x }) => x)), y: new Int32Array(rows.length).fill(label) };
  }

  private keep(): void {
    if (!this.rows.length) return;
    // What could not be kept a moment ago is kept now, where there is space again.
    this.saving = this.saving.catch(() => undefined).then(async () => {
      this.id = await this.database.record({ ...this.asRows, measured: true, ...(this.id !== undefined && { id: this.id }) });
      this.unkept = "";
    });
    this.saving.catch((error: unknown) => {
      this.unkept = error instanceof Error ? error.message : String(error);
    });
  }

  /** Browsers let go of the screen whenever the page is hidden. */
  private async awaken(): Promise<void> {
    this.lock = "wakeLock" in navigator ? await navigator.wakeLock.request("screen").catch(() => undefined) : undefined;
  }
}
