/** Plain values and arrays as one block of bytes that notices damage. */
import { sha256 } from "@noble/hashes/sha2.js";
import type { Numbers } from "../tensors.js";

/** What can be kept: JSON's values, whole numbers of any size, and arrays of numbers. */
export type Plain = null | boolean | number | bigint | string | Numbers | readonly Plain[] | { readonly [key: string]: Plain };

/** First bytes of a block, with the layout's number, which rises where an older release could not read it. */
const MAGIC = new TextEncoder().encode("fedsub state 1\n\n");
const DIGEST = 32;

const KINDS = { Float32Array, Float64Array, Int32Array, BigInt64Array, Uint8Array, Int8Array, Int16Array };

/** The block: a mark, SHA-256 of what follows, the length of a JSON text, that, and the arrays' bytes. */
export function packed(value: Plain): Uint8Array {
  const arrays: Uint8Array[] = [];
  let at = 0;
  const text = JSON.stringify(tagged(value, (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    arrays.push(bytes);
    at += bytes.length;
    return { $array: array.constructor.name, at: at - bytes.length, bytes: bytes.length };
  }));
  const header = new TextEncoder().encode(text);
  const block = new Uint8Array(MAGIC.length + DIGEST + 4 + header.length + at);
  const body = block.subarray(MAGIC.length + DIGEST);
  new DataView(body.buffer, body.byteOffset).setUint32(0, header.length, true);
  body.set(header, 4);
  let place = 4 + header.length;
  for (const bytes of arrays) {
    body.set(bytes, place);
    place += bytes.length;
  }
  block.set(MAGIC);
  block.set(sha256(body), MAGIC.length);
  return block;
}

/**
 * Inverse of {@link packed}.
 *
 * @throws Error where the bytes are damaged, cut off, or of another layout.
 */
export function unpacked(block: Uint8Array): Plain {
  if (!MAGIC.every((byte, i) => block[i] === byte)) throw new Error("got other first bytes, expected those of a state of this release");
  const body = block.subarray(MAGIC.length + DIGEST);
  const digest = sha256(body);
  if (!digest.every((byte, i) => block[MAGIC.length + i] === byte)) throw new Error("got another checksum than its bytes have, expected a whole state");
  const length = new DataView(body.buffer, body.byteOffset).getUint32(0, true);
  const value = JSON.parse(new TextDecoder().decode(body.subarray(4, 4 + length))) as Plain;
  const data = body.subarray(4 + length);
  return untagged(value, (kind, at, bytes) => new KINDS[kind](data.slice(at, at + bytes).buffer));
}

type Kind = keyof typeof KINDS;
type Note = (array: Numbers) => Plain;
type Look = (kind: Kind, at: number, bytes: number) => Numbers;

function tagged(value: Plain, note: Note): Plain {
  if (typeof value === "bigint") return { $whole: String(value) };
  if (typeof value === "number") return Number.isFinite(value) ? value : { $number: String(value) };
  if (ArrayBuffer.isView(value)) return note(value);
  if (Array.isArray(value)) return value.map((one: Plain) => tagged(one, note));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value as Record<string, Plain>).map(([key, one]) => [key, tagged(one, note)]));
}

function untagged(value: Plain, look: Look): Plain {
  if (Array.isArray(value)) return value.map((one: Plain) => untagged(one, look));
  if (typeof value !== "object" || value === null) return value;
  const record = value as Record<string, Plain>;
  if ("$whole" in record) return BigInt(record.$whole as string);
  if ("$number" in record) return Number(record.$number);
  if ("$array" in record) return look(record.$array as Kind, record.at as number, record.bytes as number);
  return Object.fromEntries(Object.entries(record).map(([key, one]) => [key, untagged(one, look)]));
}
