/** What the server tells a device beside its download: the record `turn`. */
import type { Shared } from "../data/seen.js";
import type { Scaling } from "../data/standardise.js";
import { MessageRefused } from "../errors.js";
import type { Turn } from "../methods/method.js";
import type { Content, PlainRecord, Value } from "../values.js";
import { floatsOfBytes } from "../wire/numbers.js";

/** A round's instructions. */
export interface Instructions {
  readonly turn: Turn;
  readonly method: string;
  /** The run's name; may be empty. */
  readonly run: string;
  /** Whether to evaluate the model after training it. */
  readonly alsoEvaluate: boolean;
  readonly shared: Shared;
}

/** A record of a message, of a kind; throws MessageRefused where there is none. */
export function recordOf<K extends PlainRecord["kind"]>(content: Content, name: string, kind: K, client: string, round = 0): Extract<PlainRecord, { kind: K }> {
  const record = content.get(name);
  if (record?.kind !== kind) {
    throw new MessageRefused(client, round, `record ${name}`, record ? `one of ${record.kind}` : `records ${[...content.keys()].join(", ") || "none"}`, kind);
  }
  return record as Extract<PlainRecord, { kind: K }>;
}

/**
 * The instructions in a message.
 *
 * @throws MessageRefused where something lacks, or is of another kind.
 */
export function instructionsOf(content: Content, client: string): Instructions {
  const { values } = recordOf(content, "turn", "config", client);
  const refused = (key: string, expected: string) =>
    new MessageRefused(client, 0, `turn: ${key}`, values.has(key) ? String(values.get(key)).slice(0, 100) : "none", expected);
  const typed = <T extends Value>(key: string, is: (value: Value | undefined) => value is T, expected: string): T => {
    const value = values.get(key);
    if (!is(value)) throw refused(key, expected);
    return value;
  };
  const whole = (key: string) => typed(key, (value): value is bigint => typeof value === "bigint" && value >= 0n, "a whole number");
  const text = (key: string) => typed(key, (value) => typeof value === "string", "a text");
  const floats = (key: string) => {
    const bytes = typed(key, (value) => value instanceof Uint8Array, "float32 numbers");
    if (bytes.length % 4 || !floatsOfBytes(bytes).every(Number.isFinite)) throw refused(key, "finite float32 numbers");
    return floatsOfBytes(bytes);
  };
  const scaling = (prefix: string): Scaling | undefined => {
    if (!values.has(`${prefix}mean`)) return undefined;
    const found = { mean: floats(`${prefix}mean`), std: floats(`${prefix}std`) };
    if (found.mean.length !== found.std.length || !found.std.every((one) => one > 0)) throw refused(`${prefix}std`, `${found.mean.length} deviations above 0`);
    return found;
  };
  return {
    turn: { round: Number(whole("round")), rounds: Number(whole("rounds")), seed: whole("seed") },
    method: text("method"),
    run: values.has("run") ? text("run") : "",
    alsoEvaluate: values.get("evaluate") === true,
    shared: { samples: scaling(""), features: scaling("feature_") },
  };
}
