/** Records of plain values as Flower's protobuf, and back. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Scalar, Value, Values } from "../values.js";
import { ConfigRecordSchema, type ConfigRecordValue } from "./generated/fleet_pb.js";

type Written = ConfigRecordValue["value"];

/** The bytes of a record of plain values or of numbers: both are written alike. */
export function recordBytes(values: Values): Uint8Array {
  const record = create(ConfigRecordSchema);
  for (const [key, value] of values) {
    record.items.push({ $typeName: "flwr.proto.ConfigRecord.Item", key, value: { $typeName: "flwr.proto.ConfigRecordValue", value: written(value) } });
  }
  return toBinary(ConfigRecordSchema, record);
}

/**
 * Inverse of {@link recordBytes}.
 *
 * @throws Error where the bytes are no record, or a key has no value.
 */
export function recordValues(bytes: Uint8Array): Values {
  const record = fromBinary(ConfigRecordSchema, bytes);
  return new Map(record.items.map(({ key, value }) => [key, read(key, value?.value)]));
}

function written(value: Value): Written {
  if (typeof value === "bigint") return { case: "sint64", value };
  if (typeof value === "number") return { case: "double", value };
  if (typeof value === "boolean") return { case: "bool", value };
  if (typeof value === "string") return { case: "string", value };
  if (value instanceof Uint8Array) return { case: "bytes", value };
  return writtenList(value);
}

function writtenList(list: readonly Scalar[]): Written {
  const whole = list.filter((one) => typeof one === "bigint");
  if (whole.length === list.length) return { case: "sintList", value: { $typeName: "flwr.proto.SintList", vals: whole } };
  const numbers = list.filter((one) => typeof one === "number");
  if (numbers.length === list.length) return { case: "doubleList", value: { $typeName: "flwr.proto.DoubleList", vals: numbers } };
  const texts = list.filter((one) => typeof one === "string");
  if (texts.length === list.length) return { case: "stringList", value: { $typeName: "flwr.proto.StringList", vals: texts } };
  const bytes = list.filter((one) => one instanceof Uint8Array);
  if (bytes.length === list.length) return { case: "bytesList", value: { $typeName: "flwr.proto.BytesList", vals: bytes } };
  throw new TypeError("a list: got values of several kinds or booleans, expected one kind");
}

function read(key: string, value: Written | undefined): Value {
  if (value?.case === undefined) throw new TypeError(`key ${key}: got no value, expected one`);
  switch (value.case) {
    case "doubleList":
    case "sintList":
    case "uintList":
    case "boolList":
    case "stringList":
    case "bytesList":
      return value.value.vals;
    default:
      return value.value;
  }
}
