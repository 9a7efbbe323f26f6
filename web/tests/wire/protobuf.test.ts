import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type DescField, type DescMessage, fromBinary, ScalarType, toBinary } from "@bufbuild/protobuf";
import * as fleet from "../generated/fleet/fleet_pb.js";
import { BundleSchema, TensorSchema } from "../generated/wire/exchange_pb.js";
import { CALLS, MESSAGE, OBJECT_TREE, RECORD, RECORD_VALUE } from "../../src/fleet/messages.js";
import { BUNDLE, TENSOR } from "../../src/wire/message.js";
import { read, type Schema, written } from "../../src/wire/protobuf.js";

type AnySchema = Schema<unknown, Readonly<Record<string, unknown>>>;

const named = (name: string) => name.split("-").map((word) => word[0].toUpperCase() + word.slice(1)).join("");
const descriptor = (name: string) => (fleet as unknown as Record<string, DescMessage>)[`${name}Schema`];
const registered = (name: string) => (name === "register-node" ? "RegisterNodeFleet" : named(name));

/** Of each of our messages the one of the other implementation. */
const PAIRS: readonly (readonly [AnySchema, DescMessage])[] = [
  [BUNDLE, BundleSchema],
  [TENSOR, TensorSchema],
  [MESSAGE, fleet.MessageSchema],
  [OBJECT_TREE as unknown as AnySchema, fleet.ObjectTreeSchema],
  [RECORD, fleet.ConfigRecordSchema],
  [RECORD_VALUE, fleet.ConfigRecordValueSchema],
  ...Object.entries(CALLS).flatMap(([name, [input, output]]) => [
    [input as AnySchema, descriptor(`${registered(name)}Request`)] as const,
    [output as AnySchema, descriptor(`${registered(name)}Response`)] as const,
  ]),
];
/** Values at the ends of each type's range, and one between. */
const SAMPLES: Readonly<Record<number, readonly unknown[]>> = {
  [ScalarType.DOUBLE]: [0, -0, 1.5, NaN, -Infinity, 5e-324],
  [ScalarType.UINT64]: [0n, 1n, 127n, 128n, 2n ** 64n - 1n],
  [ScalarType.SINT64]: [0n, -1n, 63n, -(2n ** 63n), 2n ** 63n - 1n],
  [ScalarType.FIXED64]: [0n, 1n, 2n ** 64n - 1n],
  [ScalarType.UINT32]: [0, 1, 300, 2 ** 32 - 1],
  [ScalarType.BOOL]: [false, true],
  [ScalarType.STRING]: ["", "Zo\u00eb \u{1f4f1}", "x".repeat(200)],
  [ScalarType.BYTES]: [new Uint8Array(0), Uint8Array.of(0, 255), new Uint8Array(20_000).fill(7)],
};

/** Values of a field, for both implementations; undefined: a map, which a device does not read. */
function valuesOf(field: DescField, deep: number): readonly unknown[] | undefined {
  if (field.fieldKind === "scalar") return SAMPLES[field.scalar];
  if (field.fieldKind === "enum") return [0, 1, 2];
  if (field.fieldKind === "message") return deep ? messagesOf(field.message, deep - 1) : [{}];
  if (field.fieldKind === "list") {
    const one = field.listKind === "scalar" ? SAMPLES[field.scalar] : field.listKind === "message" ? (deep ? messagesOf(field.message, deep - 1) : [{}]) : [];
    return [[], one.slice(0, 1), [...one]];
  }
  return undefined;
}

/** Messages with one field each, and one with all that go together. */
function messagesOf(desc: DescMessage, deep: number): Record<string, unknown>[] {
  const fields = desc.fields.flatMap((field) => {
    const values = valuesOf(field, deep);
    return values ? [{ field, values }] : [];
  });
  const each = fields.flatMap(({ field, values }) => values.map((value) => ({ [field.localName]: value })));
  const all = Object.fromEntries(fields.filter(({ field }) => !field.oneof).map(({ field, values }) => [field.localName, values.at(-1)]));
  return [{}, ...each, all];
}

/** A message as protobuf-es has it: a value of a group is under the group's name. */
function theirs(desc: DescMessage, value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      const field = desc.field[name], inner = field.message;
      const nested = !inner ? one : Array.isArray(one) ? one.map((each: Record<string, unknown>) => theirs(inner, each)) : theirs(inner, one as Record<string, unknown>);
      return field.oneof ? [field.oneof.localName, { case: name, value: nested }] : [name, nested];
    }),
  );
}

for (const [schema, desc] of PAIRS) {
  test(`${desc.typeName} is written and read as another implementation does`, () => {
    const known = desc.fields.filter(({ fieldKind }) => fieldKind !== "map");
    assert.deepEqual(Object.entries(schema.fields).map(([name, { number }]) => [name, number]), known.map(({ localName, number }) => [localName, number]));
    for (const value of messagesOf(desc, 2)) {
      const bytes = toBinary(desc, create(desc, theirs(desc, value)));
      assert.deepEqual(written(schema, value), bytes);
      assert.deepEqual(written(schema, read(schema, bytes) as Record<string, unknown>), bytes);
      assert.deepEqual(toBinary(desc, fromBinary(desc, bytes)), bytes);
    }
  });
}

test("what is no message is refused, and fields that nobody knows are passed over", () => {
  const bytes = toBinary(TensorSchema, create(TensorSchema, { name: "w", shape: [2, 300], values: Uint8Array.of(1, 2) }));
  for (let end = 1; end < bytes.length; end++) {
    const cut = bytes.subarray(0, end);
    const outcome = (act: () => unknown) => {
      try {
        act();
        return "read";
      } catch {
        return "refused";
      }
    };
    assert.equal(outcome(() => read(TENSOR, cut)), outcome(() => fromBinary(TensorSchema, cut)), String(end));
  }
  assert.throws(() => read(TENSOR, Uint8Array.of(0x0a, 1, 0xff)), TypeError);
  assert.throws(() => read(TENSOR, Uint8Array.of(0x0b)), RangeError);
  assert.throws(() => read(TENSOR, new Uint8Array(11).fill(0x80)), RangeError);
  const unknown = Uint8Array.of(0x78, 5, 0x79, 0, 0, 0, 0, 0, 0, 0, 0, 0x7a, 1, 0, 0x7d, 0, 0, 0, 0);
  assert.deepEqual(read(TENSOR, Uint8Array.from([...unknown, ...bytes])), read(TENSOR, bytes));
  // Numbers in one block, and one by one.
  assert.deepEqual(read(TENSOR, Uint8Array.of(0x10, 3, 0x12, 2, 4, 5, 0x10, 6)).shape, [3, 4, 5, 6]);
});

test("a tree of ids that has no end is refused", () => {
  let bytes = new Uint8Array(0);
  for (let i = 0; i < 200; i++) bytes = Uint8Array.from([0x12, ...lengthOf(bytes.length), ...bytes]);
  assert.throws(() => read(OBJECT_TREE, bytes), /within each other/);
});

function lengthOf(length: number): number[] {
  return length < 128 ? [length] : [(length & 127) | 128, length >> 7];
}
