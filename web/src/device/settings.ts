/** A run's settings, as the server tells them: flat keys such as `batch-size`, hyperparameters as `METHOD.KEY`. */
import { RunError } from "../errors.js";
import type { Value, Values } from "../values.js";

/** A setting's default, which has its type: whole numbers are `bigint`. */
export type Default = bigint | number | boolean | string;

/** The settings of one run. */
export class Settings {
  /** Of the key `set`, which come before all others. */
  private readonly set: ReadonlyMap<string, string>;

  constructor(readonly values: Values) {
    const text = values.get("set");
    const pairs = typeof text === "string" ? text.split(/\s+/).filter(Boolean) : [];
    this.set = new Map(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
  }

  /**
   * A number.
   *
   * @throws RunError where it is none, or neither said nor has a default.
   */
  number(key: string, byDefault?: number): number {
    const value = this.set.get(key) ?? this.values.get(key) ?? byDefault;
    const found = typeof value === "boolean" || value === "" ? NaN : Number(value);
    if (value === undefined || Number.isNaN(found)) throw this.refused(key, value, "a number");
    return found;
  }

  /** A text; throws as {@link number}. */
  text(key: string, byDefault?: string): string {
    const value = this.set.get(key) ?? this.values.get(key) ?? byDefault;
    if (typeof value !== "string") throw this.refused(key, value, "a text");
    return value;
  }

  /** Yes or no; throws as {@link number}. */
  flag(key: string, byDefault?: boolean): boolean {
    const value = this.set.get(key) ?? this.values.get(key) ?? byDefault;
    if (value === true || value === "true") return true;
    if (value === false || value === "false") return false;
    throw this.refused(key, value, "true or false");
  }

  /** The run's methods, its main one first. */
  get methods(): string[] {
    return [this.text("method"), ...this.text("beside", "").split(/[\s,]+/)].filter(Boolean);
  }

  /** The seed of all its random numbers. */
  get seed(): bigint {
    const value = this.set.get("seed") ?? this.values.get("seed");
    if (typeof value === "bigint") return value;
    if (typeof value === "string" && /^\d+$/.test(value)) return BigInt(value);
    throw this.refused("seed", value, "a whole number");
  }

  /** All keys that have a value. */
  get keys(): string[] {
    return [...new Set([...this.values.keys(), ...this.set.keys()])];
  }

  private refused(key: string, value: Value | undefined, expected: string): RunError {
    return new RunError(`setting ${key}: got ${value === undefined ? "none" : String(value)}, expected ${expected}`);
  }
}
