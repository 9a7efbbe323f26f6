/** A federation's card, `federation.toml`: texts, numbers and lists by key, of TOML no more. */
import { DataError } from "../errors.js";
import type { Card } from "./person.js";

type Toml = string | number | boolean | readonly Toml[];

/**
 * The card in a text.
 *
 * @throws DataError where it is none, or samples are of a kind that this device does not take.
 */
export function cardOf(text: string): Card {
  const table = new Reader(text).table();
  const refused = (key: string, expected: string) => new DataError(`card: ${key}: got ${JSON.stringify(table.get(key) ?? null)}, expected ${expected}`);
  const names = (key: string) => {
    const value = table.get(key);
    if (!Array.isArray(value) || !value.length || !value.every((one) => typeof one === "string")) throw refused(key, "a list of names");
    return value as readonly string[];
  };
  const number = (key: string) => {
    const value = table.get(key);
    if (value !== undefined && !(typeof value === "number" && value > 0)) throw refused(key, "a number above 0");
    return value;
  };
  const sample = table.get("sample");
  if (sample !== undefined && sample !== "features" && sample !== "window") throw refused("sample", "features or window: this device takes no others");
  const overlap = table.get("overlap") ?? 0;
  if (overlap !== "unknown" && !(typeof overlap === "number" && overlap >= 0 && overlap < 1)) throw refused("overlap", "a share below 1, or unknown");
  const [rate, length, sensors, groups] = [number("sampling_rate_hz"), number("window_s"), table.get("sensors"), table.get("groups")];
  const units = table.get("units");
  return {
    classes: names("classes"),
    features: names("features"),
    overlap: overlap === "unknown" ? undefined : overlap,
    timeOrdered: table.get("time_ordered") === true,
    ...(rate !== undefined && { samplingRate: rate }),
    ...(length !== undefined && { windowLength: length }),
    ...(sensors !== undefined && { sensors: (sensors as readonly number[][]).map((axes) => [...axes].sort((a, b) => a - b)) }),
    ...(typeof groups === "string" && { groups }),
    ...(typeof units === "string" && { units }),
    ...(table.has("meanings") && { meanings: names("meanings") }),
  };
}

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  /** Values by key, up to the first table in brackets. */
  table(): Map<string, Toml> {
    const found = new Map<string, Toml>();
    this.skip();
    while (this.at < this.text.length && this.text[this.at] !== "[") {
      const key = this.take(/[A-Za-z0-9_-]+/y);
      this.skip();
      this.take(/=/y);
      this.skip();
      found.set(key, this.value());
      this.skip();
    }
    return found;
  }

  private value(): Toml {
    if (this.text[this.at] === "[") return this.list();
    if (this.text[this.at] === '"') return JSON.parse(this.take(/"(?:[^"\\\n]|\\.)*"/y)) as string;
    if (this.text[this.at] === "'") return this.take(/'[^'\n]*'/y).slice(1, -1);
    const word = this.take(/[A-Za-z0-9+._-]+/y);
    if (word === "true" || word === "false") return word === "true";
    const number = Number(word.replaceAll("_", ""));
    if (Number.isNaN(number)) throw new DataError(`card: got ${word}, expected a text, a number, a list, true or false`);
    return number;
  }

  private list(): Toml[] {
    const found: Toml[] = [];
    this.take(/\[/y);
    this.skip();
    while (this.text[this.at] !== "]") {
      found.push(this.value());
      this.skip();
      if (this.text[this.at] !== "]") this.take(/,/y);
      this.skip();
    }
    this.take(/\]/y);
    return found;
  }

  private skip(): void {
    this.take(/(?:\s|#[^\n]*)*/y);
  }

  private take(what: RegExp): string {
    what.lastIndex = this.at;
    const found = what.exec(this.text);
    if (!found) throw new DataError(`card: got ${JSON.stringify(this.text.slice(this.at, this.at + 20))}, expected ${String(what)}`);
    this.at += found[0].length;
    return found[0];
  }
}
