// Hashes of plain values: SHA-256 of their JSON text as Python writes it, with sorted keys, without blanks,
// in ASCII, bytes as hexadecimal digits.

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/** Plain values: whole numbers are `bigint`, other numbers `number`. */
export type Plain =
  | string | boolean | bigint | number | null | Uint8Array
  | readonly Plain[] | ReadonlyMap<string, Plain> | { readonly [key: string]: Plain };

/** The hash of plain values, in hexadecimal. */
export function digest(values: Plain): string {
  return hashOf(utf8ToBytes(json(values)));
}

/** SHA-256 of bytes, in hexadecimal. */
export function hashOf(bytes: Uint8Array): string {
  return bytesToHex(sha256(bytes));
}

/** The JSON text of plain values, as Python writes it. */
export function json(values: Plain): string {
  if (typeof values === "string") return text(values);
  if (typeof values === "number") return float(values);
  if (values === null || typeof values !== "object") return String(values);
  if (values instanceof Uint8Array) return `"${bytesToHex(values)}"`;
  if (Array.isArray(values)) return `[${values.map(json).join(",")}]`;
  const entries = values instanceof Map ? [...(values as ReadonlyMap<string, Plain>)] : Object.entries(values);
  const parts = entries.sort(([a], [b]) => byCodePoint(a, b)).map(([key, value]) => `${text(key)}:${json(value as Plain)}`);
  return `{${parts.join(",")}}`;
}

function text(value: string): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, escaped);
}

/** A float with the fewest digits that tell it: exponents below -4 and from 16 on are written. */
function float(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  if (Object.is(value, -0)) return "-0.0";
  const [digits, power] = value.toExponential().split("e"), exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${digits}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  const plain = String(value);
  return plain.includes(".") ? plain : `${plain}.0`;
}

/** Compare texts as Python sorts them. */
export function byCodePoint(one: string, other: string): number {
  const a = Array.from(one), b = Array.from(other);
  const at = a.findIndex((point, i) => point !== b[i]);
  if (at < 0) return a.length - b.length;
  return at < b.length ? a[at].codePointAt(0)! - b[at].codePointAt(0)! : 1;
}

/** Texts in Python's order. */
export function sorted(texts: Iterable<string>): string[] {
  return [...texts].sort(byCodePoint);
}
