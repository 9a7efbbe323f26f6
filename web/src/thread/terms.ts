/** What a person agrees to: runs by their methods and protections. */
import type { Database } from "../browser/database.js";
import type { Settings } from "../device/settings.js";
import { RunError } from "../errors.js";
import { addsUp } from "../secure/settings.js";

/** What a run sends, as far as a person is asked about it. */
export interface Terms {
  readonly methods: readonly string[];
  /** People in a sum at least; 0: the server sees single people's messages. */
  readonly least: number;
  readonly noise: boolean;
}

const AGREED = "agreed";
/** As the server has it where a run does not say. */
const LEAST = 3;

/** A run to which the person said no. */
export class Declined extends RunError {}

/** The terms of a run. */
export function termsOf(settings: Settings): Terms {
  const sums = addsUp(settings);
  return { methods: settings.methods, least: sums ? settings.number("secure-least", LEAST) : 0, noise: settings.number("dp-noise", 0) > 0 };
}

/** Whether a person who agreed to some terms need not be asked about others: no more is sent, and no less protected. */
export function covers(agreed: Terms, asked: Terms): boolean {
  return asked.methods.every((name) => agreed.methods.includes(name)) && asked.least >= agreed.least && (asked.noise || !agreed.noise);
}

/** Whether a person has agreed to terms, or to others that cover them. */
export async function hasAgreed(database: Database, terms: Terms): Promise<boolean> {
  return (await agreedIn(database)).some((one) => covers(one, terms));
}

async function agreedIn(database: Database): Promise<Terms[]> {
  return (await database.get<Terms[]>(AGREED)) ?? [];
}

/** Asks once for each kind of terms, and remembers what was agreed to. */
export class Consent {
  private asking: { readonly terms: Terms; readonly answer: (yes: boolean) => void } | undefined;

  constructor(
    private readonly database: Promise<Database>,
    /** Called when a question comes or is answered. */
    private readonly changed: () => void,
  ) {}

  /** The terms that wait for an answer. */
  get waiting(): Terms | undefined {
    return this.asking?.terms;
  }

  /** Answer the question about these terms, if it still waits. */
  answer(terms: Terms, yes: boolean): void {
    if (JSON.stringify(this.asking?.terms) === JSON.stringify(terms)) this.asking?.answer(yes);
  }

  /** Ends when the person agrees; throws a {@link Declined} where not. */
  async demand(settings: Settings, signal: AbortSignal): Promise<void> {
    const database = await this.database, terms = termsOf(settings);
    if (await hasAgreed(database, terms)) return;
    try {
      const yes = await new Promise<boolean>((resolve, reject) => {
        signal.throwIfAborted();
        signal.addEventListener("abort", () => {
          reject(new RunError("the page was paused or closed before its owner answered"));
        }, { once: true });
        this.asking = { terms, answer: resolve };
        this.changed();
      });
      if (!yes) throw new Declined("its owner does not agree to what this run sends");
      await database.put(AGREED, [...(await agreedIn(database)), terms]);
    } finally {
      this.asking = undefined;
      this.changed();
    }
  }
}
