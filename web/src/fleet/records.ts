/** Records of plain values as Flower's protobuf, and back. */
import type { Scalar, Value, Values } from "../values.js";
import { type InitOf, read, written } from "../wire/protobuf.js";
import { RECORD, RECORD_VALUE } from "./messages.js";

type Written = InitOf<typeof RECORD_VALUE>;

/** The bytes of a record of plain values or of numbers: both are written alike. */
export function recordBytes(values: Values): Uint8Array {
  return written(RECORD, { items: [...values].map(([key, value]) => ({ key, value: valueWritten(value) })) });
}

/**
 * Inverse of {@link recordBytes}.
 *
 * @throws Error where the bytes are no record, or a key has no value.
 */
export function recordValues(bytes: Uint8Array): Values {
  return new Map(read(RECORD, bytes).items.map(({ key, value }) => [key, valueIn(key, value)]));
}

function valueWritten(value: Value): Written {
  if (typeof value === "bigint") return { sint64: value };
  if (typeof value === "number") return { double: value };
  if (typeof value === "boolean") return { bool: value };
  if (typeof value === "string") return { string: value };
  if (value instanceof Uint8Array) return { bytes: value };
  return listWritten(value);
}

function listWritten(list: readonly Scalar[]): Written {
  const whole = list.filter((one) => typeof one === "bigint");
  if (whole.length === list.length) return { sintList: { vals: whole } };
  const numbers = list.filter((one) => typeof one === "number");
  if (numbers.length === list.length) return { doubleList: { vals: numbers } };
  const texts = list.filter((one) => typeof one === "string");
  if (texts.length === list.length) return { stringList: { vals: texts } };
  const bytes = list.filter((one) => one instanceof Uint8Array);
  if (bytes.length === list.length) return { bytesList: { vals: bytes } };
  throw new TypeError("a list: got values of several kinds or booleans, expected one kind");
}

function valueIn(key: string, value: Readonly<Record<string, Value | { readonly vals: readonly Scalar[] } | undefined>> | undefined): Value {
  const found = Object.values(value ?? {}).find((one) => one !== undefined);
  if (found === undefined) throw new TypeError(`key ${key}: got no value, expected one`);
  return typeof found === "object" && "vals" in found ? found.vals : found;
}
