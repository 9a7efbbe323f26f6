/**
 * Messages of protobuf (proto3), written and read by tables of their fields.
 *
 * Fields are written in the order of their numbers; fields that a table does not know are passed over.
 */

import { Input, type Kind, Output } from "./protobuf-kinds.js";

export { bool, bytes, double, fixed64, sint64, string, uint32, uint64 } from "./protobuf-kinds.js";

/** A field: exactly one value, perhaps one, or several. */
interface Field<T, Init = T> {
  readonly number: number;
  readonly kind: Kind<unknown>;
  readonly many: "one" | "perhaps" | "several";
  /** For the compiler alone: the type of what is read, and of what may be written. */
  readonly types?: readonly [T, Init];
}

type Fields = Readonly<Record<string, Field<unknown>>>;
type Read<F extends Fields> = { -readonly [K in keyof F]: NonNullable<F[K]["types"]>[0] };
type Written<F extends Fields> = { readonly [K in keyof F]?: NonNullable<F[K]["types"]>[1] | undefined };

/** A message's type. */
export interface Schema<M, Init = M> {
  readonly fields: Fields;
  readonly types?: readonly [M, Init];
}

/** What is read of a schema. */
export type MessageOf<S> = S extends Schema<infer M, unknown> ? M : never;
/** What can be written by a schema; fields that are not there are empty. */
export type InitOf<S> = S extends Schema<unknown, infer Init> ? Init : never;

/** Messages within messages at most. */
const DEEPEST = 100;

/** A message within a message; a function, as a message may be within itself. */
function inner<M, Init>(schema: () => Schema<M, Init>): Kind<unknown> {
  return {
    wire: 2,
    empty: undefined,
    put: (out, value) => {
      out.block(written(schema(), value as Init));
    },
    take: (input, depth) => readFrom(schema(), input.block(), depth + 1),
  };
}

const field = (number: number, kind: unknown, many: Field<unknown>["many"]) => ({ number, kind: kind as Kind<unknown>, many });

/** A value, which is `empty` where none was sent. */
export const one = <T>(number: number, kind: Kind<T>): Field<T> => field(number, kind, "one");
/** A value, undefined where none was sent. */
export const perhaps = <T>(number: number, kind: Kind<T>): Field<T | undefined> => field(number, kind, "perhaps");
/** Values in their order. */
export const several = <T>(number: number, kind: Kind<T>): Field<T[], readonly T[]> => field(number, kind, "several");
/** A message, undefined where none was sent. */
export const message = <M, Init>(number: number, schema: () => Schema<M, Init>): Field<M | undefined, Init | undefined> => field(number, inner(schema), "perhaps");
/** Messages in their order. */
export const messages = <M, Init>(number: number, schema: () => Schema<M, Init>): Field<M[], readonly Init[]> => field(number, inner(schema), "several");

/** A message with these fields, in the order of their numbers. */
export function schema<F extends Fields>(fields: F): Schema<Read<F>, Written<F>> {
  return { fields };
}

/** The bytes of a message. */
export function written<M, Init>({ fields }: Schema<M, Init>, message: Init): Uint8Array {
  const out = new Output();
  for (const [name, { number, kind, many }] of Object.entries(fields)) {
    const value = (message as Readonly<Record<string, unknown>>)[name];
    if (value === undefined) continue;
    const tag = (wire: number) => {
      out.varint(BigInt((number << 3) | wire));
    };
    if (many !== "several") {
      if (many === "one" && isEmpty(value)) continue;
      tag(kind.wire);
      kind.put(out, value);
    } else if (kind.wire === 2) {
      for (const each of value as readonly unknown[]) {
        tag(2);
        kind.put(out, each);
      }
    } else if ((value as readonly unknown[]).length) {
      const packed = new Output();
      for (const each of value as readonly unknown[]) kind.put(packed, each);
      tag(2);
      out.block(packed.whole());
    }
  }
  return out.whole();
}

/** Whether a value is what a field has that was not sent; -0 is none. */
function isEmpty(value: unknown): boolean {
  return value instanceof Uint8Array ? value.length === 0 : Object.is(value, 0) || value === 0n || value === false || value === "";
}

/**
 * The message in some bytes.
 *
 * @throws RangeError where they are cut off, or no message of protobuf; TypeError where a text is none.
 */
export function read<M, Init>(schema: Schema<M, Init>, bytes: Uint8Array): M {
  return readFrom(schema, bytes, 0);
}

function readFrom<M, Init>({ fields }: Schema<M, Init>, bytes: Uint8Array, depth: number): M {
  if (depth > DEEPEST) throw new RangeError(`protobuf: got more than ${DEEPEST} messages within each other, expected fewer`);
  const input = new Input(bytes), found: Record<string, unknown> = {};
  for (const [name, { kind, many }] of Object.entries(fields)) found[name] = many === "several" ? [] : many === "one" ? kind.empty : undefined;
  const byNumber = new Map(Object.entries(fields).map(([name, field]) => [field.number, { name, ...field }]));
  while (input.at < bytes.length) {
    const tag = Number(input.varint()), wire = tag & 7, field = byNumber.get(Math.floor(tag / 8));
    if (tag < 8 || tag > 0xffffffff) throw new RangeError(`protobuf: got the tag ${tag}, expected that of a field`);
    const packed = field?.many === "several" && wire === 2 && field.kind.wire !== 2;
    if (packed) {
      const values = new Input(input.block());
      while (values.at < values.bytes.length) (found[field.name] as unknown[]).push(field.kind.take(values, depth));
    } else if (field?.kind.wire !== wire) passOver(input, wire);
    else if (field.many === "several") (found[field.name] as unknown[]).push(field.kind.take(input, depth));
    else found[field.name] = field.kind.take(input, depth);
  }
  return found as M;
}

function passOver(input: Input, wire: number): void {
  if (wire === 0) input.varint();
  else if (wire === 1) input.some(8);
  else if (wire === 2) input.block();
  else if (wire === 5) input.some(4);
  else throw new RangeError(`protobuf: got the wire type ${wire}, expected 0, 1, 2 or 5`);
}
