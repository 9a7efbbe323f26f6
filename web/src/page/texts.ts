/** The table of texts: by language, and what each method sends. */
import { german } from "./texts-de.js";
import { english } from "./texts-en.js";

/** A text's name. */
export type Key = keyof typeof english;

/** Languages by their tags, each with its own name. */
export const LANGUAGES: readonly (readonly [tag: string, name: string, texts: typeof english])[] = [
  ["en", "English", english],
  ["de", "Deutsch", german],
];

/** The text that says what leaves a device by a method, after its card. */
export const SENDS: Readonly<Record<string, Key>> = {
  fedavg: "sendsModel",
  fedprox: "sendsModel",
  fedper: "sendsBody",
  fedrep: "sendsBody",
  ditto: "sendsCopy",
  fedsub: "sendsClasses",
  "fedsub-ridge": "sendsSums",
  local: "sendsNothing",
};

/** Texts of one language. */
export class Texts {
  private readonly table: typeof english;

  constructor(readonly tag: string) {
    this.table = LANGUAGES.find(([one]) => one === tag)?.[2] ?? english;
  }

  /** The language that a browser's owner likes best, of those there are. */
  static liked(tags: readonly string[]): Texts {
    const known = tags.map((tag) => tag.slice(0, 2).toLowerCase()).find((tag) => LANGUAGES.some(([one]) => one === tag));
    return new Texts(known ?? "en");
  }

  /** A text with what is in braces filled in. */
  say(key: Key, filled: Readonly<Record<string, string | number>> = {}): string {
    return this.table[key].replace(/\{(\w+)\}/g, (braces, name: string) => String(filled[name] ?? braces));
  }

  /** A number as the language writes it. */
  number(value: number, digits = 1): string {
    return value.toLocaleString(this.tag, { maximumFractionDigits: digits });
  }

  /** A moment in seconds since 1970 as the language writes it. */
  moment(seconds: number): string {
    return new Date(1000 * seconds).toLocaleString(this.tag, { dateStyle: "short", timeStyle: "short" });
  }
}
