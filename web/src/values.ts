/** Plain values that travel beside payloads, and records of them. */

/** A plain value: whole numbers are `bigint`, other numbers `number`. */
export type Scalar = bigint | number | boolean | string | Uint8Array;
/** A value of a record; lists are of one kind. */
export type Value = Scalar | readonly Scalar[];
/** Values by key, in the order in which they came. */
export type Values = ReadonlyMap<string, Value>;

/** A record of a message: plain values of any kind, numbers alone, or one payload. */
export type PlainRecord =
  | { readonly kind: "config"; readonly values: Values }
  | { readonly kind: "metrics"; readonly values: Values }
  | { readonly kind: "payload"; readonly bytes: Uint8Array };

/** The records of a message by name. */
export type Content = ReadonlyMap<string, PlainRecord>;

/** A record of plain values. */
export function config(values: Values): PlainRecord {
  return { kind: "config", values };
}

/** A record of numbers. */
export function metrics(values: Values): PlainRecord {
  return { kind: "metrics", values };
}
