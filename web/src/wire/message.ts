/** A message's layout: `proto/fedsub/v2/exchange.proto`. */
import { bool, bytes, fixed64, type InitOf, type MessageOf, messages, one, schema, several, string, uint32, uint64 } from "./protobuf.js";

export const TENSOR = schema({
  name: one(1, string),
  shape: several(2, uint32),
  units: one(3, bytes),
  elements: one(4, bytes),
  values: one(5, bytes),
  scales: one(6, bytes),
  sent: one(7, bytes),
});

export const BUNDLE = schema({
  schemaVersion: one(1, uint32),
  clientId: one(2, string),
  round: one(3, uint32),
  examples: one(4, uint64),
  version: one(5, fixed64),
  /** Place of the format in `FORMATS`. */
  numbers: one(6, uint32),
  differences: one(7, bool),
  reference: one(8, uint32),
  tensors: messages(9, () => TENSOR),
  salt: one(10, bytes),
});

export type TensorMessage = MessageOf<typeof TENSOR>;
/** A tensor that is being written. */
export type TensorParts = { -readonly [K in keyof InitOf<typeof TENSOR>]: InitOf<typeof TENSOR>[K] };
export type BundleMessage = MessageOf<typeof BUNDLE>;
