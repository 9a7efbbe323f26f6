/** Messages whose records are joined to one, which costs a server fewer requests. */
import { type Content, type PlainRecord, type Value } from "../values.js";

const JOINED = "joined";
const PAYLOAD = "payload";
/** Records of numbers; all others are of plain values. */
const NUMBERS = ["report", "metrics"];
/** Bytes of a payload that is joined at most. */
const MOST = 2 ** 19;

/** Whether a message came joined. */
export function isJoined(content: Content): boolean {
  return content.has(JOINED);
}

/** The records of a message, whether they came joined or not. */
export function separated(content: Content): Content {
  const record = content.get(JOINED);
  if (record?.kind !== "config") return content;
  const found = new Map<string, PlainRecord>();
  const records = new Map<string, Map<string, Value>>();
  for (const [key, value] of record.values) {
    const dot = key.indexOf(".");
    if (key === PAYLOAD && value instanceof Uint8Array) found.set(PAYLOAD, { kind: "payload", bytes: value });
    if (dot < 0) continue;
    const name = key.slice(0, dot);
    const values = records.get(name) ?? new Map<string, Value>();
    records.set(name, values.set(key.slice(dot + 1), value));
  }
  for (const [name, values] of records) found.set(name, { kind: NUMBERS.includes(name) ? "metrics" : "config", values });
  return found;
}

/** An answer's records as one; as they are, where its payload is too large for that. */
export function joined(content: Content): Content {
  const values = new Map<string, Value>();
  for (const [name, record] of content) {
    if (record.kind === "payload") {
      if (record.bytes.length > MOST) return content;
      values.set(PAYLOAD, record.bytes);
    } else for (const [key, value] of record.values) values.set(`${name}.${key}`, value);
  }
  return new Map([[JOINED, { kind: "config", values }]]);
}
