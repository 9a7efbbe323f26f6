/**
 * A download from bytes. It trusts nothing: versions, names, shapes, masks and numbers are checked
 * against what the method declares before anything is handed on.
 */
import { MessageRefused } from "../errors.js";
import { sameShape, size, type Tensor } from "../tensors.js";
import { type Bundle, type Declaration, type Declared, encoded, mostBytes, type Part, taken, within } from "./bundles.js";
import { type Address, linesOf, WIRE } from "./encode.js";
import { BUNDLE, type BundleMessage as Message, type TensorMessage } from "./message.js";
import { type Format, FORMATS, unpack, unpackBits, unpackDifferences, WIDTH } from "./numbers.js";
import { read } from "./protobuf.js";
import type { Reference } from "./references.js";

/** What a receiver knows before it opens a message, and checks the message against. */
export interface Envelope extends Address {
  readonly declared: Declaration;
  /** The device's end of differences; undefined: the run's uploads are none. */
  readonly reference: Reference | undefined;
  /** Most bytes of a message; 0 derives it from the tensors. */
  readonly limit: number;
  /** Greatest size of a number. */
  readonly largest: number;
}

const ZSTD = [0x28, 0xb5, 0x2f, 0xfd];
/** A refusal quotes at most this much of a message, which may be hostile and ends up in a log. */
const QUOTED = 200;

/** The error for a part of a message. */
export function refusal(address: Address, what: string, got: string | number | bigint, expected: string | number): MessageRefused {
  const text = String(got);
  const quoted = text.length > QUOTED ? `${text.slice(0, QUOTED)}... (${text.length} characters)` : text;
  return new MessageRefused(address.client, address.round, what, quoted, String(expected));
}

/**
 * The download in `bytes`.
 *
 * Differences from a reference that the device has not are left out, if the method can do without.
 *
 * @throws MessageRefused where anything in it does not fit the envelope.
 */
export function decodeDownload(bytes: Uint8Array, envelope: Envelope): Bundle {
  const message = opened(bytes, envelope);
  if (message.differences && message.reference === 0) {
    throw refusal(envelope, "reference", "differences from none", "the round of an upload");
  }
  if (message.tensors.some((tensor) => tensor.sent.length)) {
    throw refusal(envelope, "sent entries", "a choice of them", "all, in a download");
  }
  const held = envelope.reference?.round ?? 0;
  let tensors = new Map<string, Part>();
  if (!message.differences || message.reference === held) {
    tensors = decodeTensors(message, envelope);
    const missing = [...envelope.declared].filter(([name, one]) => !one.optional && !tensors.has(name));
    if (tensors.size && missing.length) {
      throw refusal(envelope, "tensors", [...tensors.keys()].join(), `also ${missing.map(([name]) => name).join(", ")}`);
    }
  } else if (![...envelope.declared.values()].every((one) => one.optional)) {
    // The server forgets its reference of a device that refuses, and sends all anew.
    throw refusal(envelope, "reference", `round ${message.reference}`, `round ${held}`);
  }
  const { examples, version, reference } = message;
  return { examples: Number(below(48, examples, "examples", envelope)), version: below(63, version, "version", envelope), tensors, reference };
}

function below(bits: number, value: bigint, what: string, envelope: Envelope): bigint {
  if (value >> BigInt(bits)) throw refusal(envelope, what, value, `a number below 2^${bits}`);
  return value;
}

function opened(bytes: Uint8Array, envelope: Envelope): Message {
  const limit = envelope.limit || mostBytes(envelope.declared);
  if (bytes.length > limit) throw refusal(envelope, "size", `${bytes.length} bytes`, `${limit} bytes at most`);
  if (ZSTD.every((byte, i) => bytes[i] === byte)) {
    throw refusal(envelope, "message", "a zstd frame", "one that is not compressed: this device cannot open it");
  }
  let message: Message;
  try {
    message = read(BUNDLE, bytes);
  } catch (error) {
    throw refusal(envelope, "message", `${bytes.length} bytes (${String(error)})`, "a message of schema fedsub.v2");
  }
  if (message.schemaVersion !== WIRE) throw refusal(envelope, "schema version", message.schemaVersion, WIRE);
  if (message.clientId !== envelope.client) throw refusal(envelope, "client id", message.clientId, envelope.client);
  if (message.round !== envelope.round) throw refusal(envelope, "round", message.round, envelope.round);
  return message;
}

function decodeTensors(message: Message, envelope: Envelope): Map<string, Part> {
  const format = FORMATS[message.numbers] as Format | undefined;
  if (!format) throw refusal(envelope, "number format", message.numbers, `0 to ${FORMATS.length - 1}`);
  const { declared } = envelope;
  if (message.tensors.length > declared.size) throw refusal(envelope, "tensors", message.tensors.length, `${declared.size} at most`);
  const found = new Map<string, Part>();
  for (const tensor of message.tensors) {
    const one = declared.get(tensor.name);
    if (!one || found.has(tensor.name)) {
      throw refusal(envelope, "tensor", tensor.name, `one each of ${[...declared.keys()].join(", ") || "none"}`);
    }
    const kept = message.differences && encoded(one) ? envelope.reference?.tensors.get(tensor.name) : undefined;
    found.set(tensor.name, decodeTensor(tensor, one, one.exact ? "float32" : format, kept, envelope));
  }
  return found;
}

function decodeTensor(tensor: TensorMessage, one: Declared, format: Format, kept: Tensor | undefined, envelope: Envelope): Part {
  const { name, values, scales } = tensor;
  const check = (what: string, got: number, expected: number) => {
    if (got !== expected) throw refusal(envelope, `${what} of ${name}`, `${got} bytes`, `${expected} bytes`);
  };
  if (!sameShape(tensor.shape, one.shape)) {
    throw refusal(envelope, `shape of ${name}`, `[${tensor.shape.join()}]`, `[${one.shape.join()}]`);
  }
  if ((tensor.units.length && one.kind !== "Rows") || tensor.elements.length) {
    throw refusal(envelope, `mask of ${name}`, "a mask", `none: it is ${one.kind}`);
  }
  if (one.kind === "Bits" || one.kind === "Whole") {
    check("scales", scales.length, 0);
    if (one.kind === "Bits") return { kind: "bits", values: mask(values, size(one.shape), name, envelope) };
    check("values", values.length, 2 * size(one.shape));
    return { kind: "whole", values: new Int16Array(values.slice().buffer) };
  }
  const all = one.shape[0];
  const units = one.kind === "Rows" ? mask(tensor.units, all, `units of ${name}`, envelope) : undefined;
  const rows = units && Int32Array.from(units.keys()).filter((row) => units[row]);
  const entries = rows?.length ?? all;
  const lines = linesOf(one.shape, entries);
  check("values", values.length, entries * size(one.shape.slice(1)) * WIDTH[format]);
  check("scales", scales.length, format === "int8" ? 8 * lines : 0);
  let numbers: Float32Array;
  if (kept === undefined) numbers = unpack({ values, scales }, lines, format);
  else {
    const held = taken(kept.values, rows, all);
    if (format === "float32") numbers = unpackDifferences(values, held);
    else {
      const change = unpack({ values, scales }, lines, format);
      numbers = held.map((value, i) => value + change[i]);
    }
  }
  if (!within(numbers, envelope.largest)) {
    throw refusal(envelope, name, "NaN, infinite or huge numbers", `finite numbers up to ${envelope.largest}`);
  }
  return { kind: "floats", values: numbers, ...(rows && { rows }) };
}

function mask(bytes: Uint8Array, length: number, what: string, envelope: Envelope): Uint8Array {
  const found = unpackBits(bytes, length);
  if (!found) throw refusal(envelope, what, `${bytes.length} bytes`, `${Math.ceil(length / 8)} bytes for ${length} bits`);
  return found;
}
