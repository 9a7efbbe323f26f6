/** What a person agrees to: runs by their methods and protections. */
import type { Database } from "../browser/database.js";
import type { Settings } from "../device/settings.js";
import { RunError } from "../errors.js";
import { addsUp } from "../secure/settings.js";
import { element } from "./elements.js";
import { SENDS, type Texts } from "./texts.js";

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

/** The terms of a run. */
export function termsOf(settings: Settings): Terms {
  const sums = addsUp(settings);
  return { methods: settings.methods, least: sums ? settings.number("secure-least", LEAST) : 0, noise: settings.number("dp-noise", 0) > 0 };
}

/** Whether a person who agreed to some terms need not be asked about others: no more is sent, and no less protected. */
export function covers(agreed: Terms, asked: Terms): boolean {
  return asked.methods.every((name) => agreed.methods.includes(name)) && asked.least >= agreed.least && (asked.noise || !agreed.noise);
}

/** Terms in words, a paragraph each. */
export function wordsOf(terms: Terms, texts: Texts): string[] {
  const methods = terms.methods.map((name) => texts.say("consentMethod", { method: name }));
  const sends = [...new Set(terms.methods.map((name) => SENDS[name]))];
  return [
    ...methods,
    texts.say(terms.least ? "consentAlwaysSums" : "consentAlways"),
    ...(terms.least ? [texts.say("consentSums", { least: terms.least })] : []),
    ...sends.map((key) => texts.say(key)),
    ...(terms.noise ? [texts.say("consentNoise")] : []),
    texts.say("consentStays"),
  ];
}

/** Asks once for each kind of terms, and remembers what was agreed to. */
export class Consent {
  private asking: { readonly terms: Terms; readonly answer: (yes: boolean) => void } | undefined;

  constructor(
    private readonly database: Database,
    /** Called when a question comes or is answered. */
    private readonly changed: () => void,
  ) {}

  /** The terms that wait for an answer. */
  get waiting(): Terms | undefined {
    return this.asking?.terms;
  }

  /** Ends when the person agrees; throws a RunError where not. */
  async demand(settings: Settings, signal: AbortSignal): Promise<void> {
    const terms = termsOf(settings);
    const agreed = (await this.database.get<Terms[]>(AGREED)) ?? [];
    if (agreed.some((one) => covers(one, terms))) return;
    const yes = await new Promise<boolean>((resolve) => {
      this.asking = { terms, answer: resolve };
      signal.addEventListener("abort", () => {
        resolve(false);
      });
      this.changed();
    });
    this.asking = undefined;
    if (yes) await this.database.put(AGREED, [...agreed, terms]);
    this.changed();
    if (!yes) throw new RunError("its owner does not agree to what this run sends");
  }

  /** The question with its two buttons. */
  view(texts: Texts): HTMLElement {
    const { asking } = this;
    const box = element("div", { className: "consent" });
    if (!asking) return box;
    const press = (yes: boolean) => () => {
      asking.answer(yes);
    };
    box.append(
      element("h2", { textContent: texts.say("consentTitle") }),
      ...wordsOf(asking.terms, texts).map((text) => element("p", { textContent: text })),
      element("button", { type: "button", id: "consent-yes", textContent: texts.say("yes"), onclick: press(true) }),
      element("button", { type: "button", id: "consent-no", textContent: texts.say("no"), className: "second", onclick: press(false) }),
    );
    return box;
  }
}
