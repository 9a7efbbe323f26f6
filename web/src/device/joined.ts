/** Messages whose records are joined to one, which costs a server fewer requests. */
import { MessageRefused } from "../errors.js";
import { type Content, type PlainRecord, type Value } from "../values.js";

const JOINED = "joined";
const PAYLOAD = "payload";
/** Records that may be joined. */
const RECORDS = ["turn", "model", "secure", "report", "metrics"];
/** Records of numbers; all others are of plain values. */
const NUMBERS = ["report", "metrics"];
/** Bytes of a payload that is joined at most. */
const MOST = 2 ** 19;

/** Whether a message came joined. */
export function isJoined(content: Content): boolean {
  return content.has(JOINED);
}

/**
 * The records of a message, whether they came joined or not.
 *
 * @throws MessageRefused where records are beside a joined one, or a key is of no record.
 */
export function separated(content: Content, client = ""): Content {
  const record = content.get(JOINED);
  if (!record) return content;
  if (record.kind !== "config" || content.size > 1) throw new MessageRefused(client, 0, JOINED, [...content.keys()].join(", "), "one ConfigRecord alone");
  const told = record.values.get("turn.round");
  const round = typeof told === "bigint" ? Number(told) : 0;
  const found = new Map<string, PlainRecord>();
  const records = new Map<string, Map<string, Value>>();
  for (const [key, value] of record.values) {
    const name = key.slice(0, Math.max(key.indexOf("."), 0));
    if (key === "salt") continue;
    if (key === PAYLOAD && value instanceof Uint8Array) {
      found.set(PAYLOAD, { kind: "payload", bytes: value });
      continue;
    }
    if (!RECORDS.includes(name)) throw new MessageRefused(client, round, JOINED, key, `payload of bytes, or keys of ${RECORDS.join(", ")}`);
    const values = records.get(name) ?? new Map<string, Value>();
    records.set(name, values.set(key.slice(name.length + 1), value));
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
