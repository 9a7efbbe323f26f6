/** Prototypes: the mean features of each class (FedSub eq. 1), and the name of the data behind them. */
import { blake2b } from "@noble/hashes/blake2.js";
import type { Chain } from "../models/chain.js";
import { size, type Tensor, type Tensors } from "../tensors.js";
import type { Kernels, Samples } from "../training/kernels.js";
import type { Floats } from "../wire/bundles.js";

/** How many samples of labels `y` each class has, `[classes]`. */
export function countsOf(y: Int32Array, classes: number): Int32Array {
  const counts = new Int32Array(classes);
  for (const label of y) counts[label] += 1;
  return counts;
}

/** What the last layer sees of samples `x [n, *features]`: `[n, d]`. */
export function embeddingOf(kernels: Kernels, chain: Chain, params: Tensors, x: Tensor): Tensor {
  const body = chain.layers.slice(0, -1);
  if (!body.length) return x;
  return kernels.forward({ ...chain, layers: body, classes: chain.layers[body.length].channels }, params, x);
}

/** The mean features of each class that has samples, as rows of `[classes, features]`; `counts [classes]` of `y`. */
export function prototypes(features: Tensor, y: Int32Array, counts: Int32Array): Floats {
  const width = size(features.shape.slice(1));
  const rows = Int32Array.from([...counts.keys()].filter((label) => counts[label]));
  // Summed in float32 and in this order, as Python's devices do.
  const sums = new Float32Array(counts.length * width);
  y.forEach((label, i) => {
    for (let k = 0; k < width; k++) sums[label * width + k] += features.values[i * width + k];
  });
  const values = new Float32Array(rows.length * width);
  rows.forEach((label, i) => {
    for (let k = 0; k < width; k++) values[i * width + k] = sums[label * width + k] / counts[label];
  });
  return { kind: "floats", values, rows };
}

/** The name of some samples, never 0: equal for equal samples and labels in equal order, and Python's. */
export function contentHash({ x, y }: Samples): bigint {
  const bytes = ({ buffer, byteOffset, byteLength }: Float32Array | BigInt64Array) => new Uint8Array(buffer, byteOffset, byteLength);
  const digest = blake2b.create({ dkLen: 8 }).update(new TextEncoder().encode(`(${x.shape.join(", ")})`));
  const hash = digest.update(bytes(x.values)).update(bytes(BigInt64Array.from(y, BigInt))).digest();
  return (new DataView(hash.buffer, hash.byteOffset).getBigUint64(0, true) & (2n ** 63n - 1n)) || 1n;
}
