/** Uploads as numbers, to be compared: without knowing what a method declares. */
import { fromBinary } from "@bufbuild/protobuf";
import { size } from "../../src/tensors.js";
import { linesOf } from "../../src/wire/encode.js";
import { BundleSchema } from "../generated/wire/exchange_pb.js";
import { bytesOf, floatsOfBytes, FORMATS, unpack } from "../../src/wire/numbers.js";

/** An upload's header as plain values, and of each tensor its masks and the numbers that were sent. */
export interface Upload {
  readonly header: Readonly<Record<string, unknown>>;
  readonly tensors: ReadonlyMap<string, Float32Array | Uint8Array>;
}

/** The upload in some bytes; tensors that are not float32 by their bytes are as they are. */
export function uploadIn(bytes: Uint8Array): Upload {
  const { tensors, $typeName, ...header } = fromBinary(BundleSchema, bytes);
  const found = new Map<string, Float32Array | Uint8Array>();
  const masks: Record<string, unknown> = {};
  for (const { name, shape, units, elements, sent, values, scales } of tensors) {
    masks[name] = { shape, units, elements, sent };
    const rows = units.length ? ones(units) : (shape[0] ?? 1);
    const entries = sent.length ? ones(sent) : rows;
    const numbers = entries * size(shape.slice(1));
    const format = FORMATS[header.numbers];
    // Bits and whole numbers have other lengths than floats of any format.
    if (values.length === 4 * numbers && !header.differences) found.set(name, floatsOfBytes(values));
    else if (scales.length || format === "bfloat16") found.set(name, unpack({ values, scales }, linesOf(shape, entries), format));
    else found.set(name, bytesOf(values));
  }
  return { header: { ...header, $typeName, masks }, tensors: found };
}

function ones(mask: Uint8Array): number {
  return mask.reduce((count, byte) => count + byte.toString(2).replaceAll("0", "").length, 0);
}
