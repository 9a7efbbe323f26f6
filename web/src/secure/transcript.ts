// The transcript of a sum: a hash of what a person was told, on which its pairs' masks depend. Two masks cancel
// only if both people were told the same.

import type { Bundle, Part } from "../wire/bundles.js";
import { packBits } from "../wire/numbers.js";
import { type Plain, digest, hashOf } from "./digest.js";

/** A hash of a download. */
export function hashOfBundle({ examples, tensors, version }: Bundle): string {
  const parts = Object.fromEntries([...tensors].map(([name, part]): [string, Plain] => [name, hashesOf(part)]));
  return digest({ examples: BigInt(examples), tensors: parts, version });
}

/** Hashes of a tensor's numbers and of their places, each as it travels. */
function hashesOf(part: Part): Plain {
  if (part.kind === "bits") return { values: hashOf(packBits(part.values)) };
  const values = hashOf(littleEndian(part.values));
  if (part.kind === "whole" || part.rows === undefined) return { values };
  return { values, rows: hashOf(littleEndian(BigInt64Array.from(part.rows, BigInt))) };
}

function littleEndian(values: Float32Array | Int16Array | BigInt64Array): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(values.byteLength)), width = values.BYTES_PER_ELEMENT;
  values.forEach((value, i) => {
    if (typeof value === "bigint") bytes.setBigInt64(width * i, value, true);
    else if (values instanceof Int16Array) bytes.setInt16(width * i, value, true);
    else bytes.setFloat32(width * i, value, true);
  });
  return new Uint8Array(bytes.buffer);
}
