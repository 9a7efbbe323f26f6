/** An upload to bytes: masks, number formats, differences, top-k. */
import { sameShape, size, type Tensor } from "../tensors.js";
import { type Bundle, type Declaration, type Declared, encoded, type Floats, put, taken } from "./bundles.js";
import { type Encoding, feedsBack } from "./encoding.js";
import { BUNDLE, type TensorParts as Message } from "./message.js";
import { bytesOf, FORMATS, pack, packBits, packDifferences, unpack } from "./numbers.js";
import { written } from "./protobuf.js";
import type { Reference } from "./references.js";

/** Version of the wire and of its schema. */
export const WIRE = 2;

/** Whom a message is from or to, and its round. */
export interface Address {
  readonly client: string;
  readonly round: number;
}

/** The bytes of an upload, and what the server will remember of it; undefined: nothing. */
export interface Encoded {
  readonly bytes: Uint8Array;
  readonly reference: Reference | undefined;
}

/**
 * The upload as the run's encoding wants it.
 *
 * @throws TypeError where the bundle is not as declared: a fault of the method.
 */
export function encodeUpload(
  bundle: Bundle,
  address: Address,
  sends: Declaration,
  encoding: Encoding,
  reference: Reference | undefined,
): Encoded {
  const differences = encoding.delta && reference !== undefined;
  const kept = new Map(reference?.tensors);
  const tensors = [...bundle.tensors].map(([name, part]): Message => {
    const one = sends.get(name);
    if (!one) throw new TypeError(`tensor ${name}: got one that is not declared, expected ${[...sends.keys()].join(", ")}`);
    const shape = [...one.shape];
    if (part.kind === "bits") return { name, shape, values: packBits(part.values) };
    if (part.kind === "whole") return { name, shape, values: bytesOf(part.values) };
    const made = encodeFloats(name, part, one, encoding, kept.get(name));
    if (made.after) kept.set(name, made.after);
    return made.message;
  });
  const bytes = written(BUNDLE, {
    schemaVersion: WIRE,
    clientId: address.client,
    round: address.round,
    examples: BigInt(bundle.examples),
    version: bundle.version,
    numbers: FORMATS.indexOf(encoding.numbers),
    differences,
    reference: differences ? reference.round : 0,
    tensors,
  });
  const after = reference && { round: address.round, tensors: kept };
  return { bytes, reference: after };
}

/** Entries of the leading axis that follow, and lines that share a scale under int8. */
export function linesOf(shape: readonly number[], entries: number): number {
  return shape.length > 1 ? entries : Math.min(entries, 1);
}

interface EncodedFloats {
  readonly message: Message;
  /** What is remembered of the whole tensor afterwards. */
  readonly after: Tensor | undefined;
}

function encodeFloats(name: string, part: Floats, one: Declared, encoding: Encoding, kept: Tensor | undefined): EncodedFloats {
  const rows = one.shape[0];
  const entries = part.rows?.length ?? rows;
  if (part.values.length * rows !== size(one.shape) * entries) {
    throw new TypeError(`tensor ${name}: got ${part.values.length} numbers in ${entries} entries, expected those of [${one.shape.join()}]`);
  }
  const message: Message = { name, shape: one.shape };
  if (one.kind === "Rows") {
    const mask = new Uint8Array(rows);
    part.rows?.forEach((row) => (mask[row] = 1));
    message.units = packBits(part.rows ? mask : mask.fill(1));
  }
  const lines = linesOf(one.shape, entries);
  const plain = !encoded(one) || kept === undefined || !feedsBack(encoding);
  if (plain) {
    Object.assign(message, pack(part.values, lines, encoded(one) ? encoding.numbers : "float32"));
    return { message, after: undefined };
  }
  if (!sameShape(kept.shape, one.shape)) throw new TypeError(`reference of ${name}: got [${kept.shape.join()}], expected [${one.shape.join()}]`);
  const held = taken(kept.values, part.rows, rows);
  const left = encoding.delta
    ? encodeDifferences(message, part.values, held, entries, encoding, one.shape)
    : encodeOwed(message, part.values, held, lines, encoding);
  const after = { shape: kept.shape, values: kept.values.slice() };
  put(after.values, part, left, rows);
  return { message, after };
}

/** Fill the message with numbers and what was cut off before; what is cut off now. */
function encodeOwed(message: Message, values: Float32Array, owed: Float32Array, lines: number, encoding: Encoding): Float32Array {
  const wanted = values.map((value, i) => value + owed[i]);
  const packed = pack(wanted, lines, encoding.numbers);
  Object.assign(message, packed);
  const sent = unpack(packed, lines, encoding.numbers);
  // One diverged round, which the receiver refuses, must not spoil all that follow.
  return wanted.map((value, i) => (Number.isFinite(value - sent[i]) ? value - sent[i] : 0));
}

/** Fill the message; what the receiver will have of these numbers. */
function encodeDifferences(
  message: Message,
  values: Float32Array,
  held: Float32Array,
  entries: number,
  encoding: Encoding,
  shape: readonly number[],
): Float32Array {
  let sent: Int32Array | undefined;
  if (encoding.topK < 1) {
    const mask = changedMost(values, held, entries, encoding.topK);
    message.sent = packBits(mask);
    sent = Int32Array.from(mask.keys()).filter((entry) => mask[entry]);
  }
  const [own, old] = [taken(values, sent, entries), taken(held, sent, entries)];
  const lines = linesOf(shape, sent?.length ?? entries);
  const at: Floats = { kind: "floats", values: own, ...(sent && { rows: sent }) };
  const after = held.slice();
  if (encoding.numbers === "float32") {
    message.values = packDifferences(own, old);
    put(after, at, own, entries);
    return after;
  }
  const packed = pack(own.map((value, i) => value - old[i]), lines, encoding.numbers);
  Object.assign(message, packed);
  const change = unpack(packed, lines, encoding.numbers);
  put(after, at, old.map((value, i) => value + change[i]), entries);
  return after;
}

/** Mask over entries: those that the receiver lacks, and of the others the share that changed most. */
function changedMost(values: Float32Array, held: Float32Array, entries: number, share: number): Uint8Array {
  const width = values.length / Math.max(entries, 1);
  const known = new Uint8Array(entries);
  const changed = new Float64Array(entries);
  values.forEach((value, i) => {
    const entry = Math.floor(i / width);
    if (held[i] !== 0) known[entry] = 1;
    changed[entry] += Math.fround(value - held[i]) ** 2;
  });
  const order = Array.from({ length: entries }, (_, entry) => entry);
  const moved = (entry: number) => (known[entry] ? changed[entry] : 0);
  order.sort((a, b) => moved(b) - moved(a) || a - b);
  const mask = known.map((is) => (is ? 0 : 1));
  const count = Math.ceil(share * known.reduce((a, b) => a + b, 0));
  for (const entry of order.slice(0, count)) mask[entry] = 1;
  return mask;
}
