// An encoder of its text.

import { RunError } from "../errors.js";
import type { Encoder } from "./encoder.js";
import { parseEncoder } from "./names.js";
import { RanksEncoder, ReluEncoder } from "./relu-encoder.js";
import { type WindowKernels, WindowsEncoder } from "./windows-encoder.js";
import { rint } from "../linear/rounding.js";

/** What an encoder needs to know of samples and of the device. */
export interface EncoderContext {
  readonly seed: bigint;
  /** Of one sample: `[features]` or `[channels, time]`. */
  readonly shape: readonly number[];
  /** Of each sensor its channels. */
  readonly sensors: readonly (readonly number[])[];
  /** Share of the kernels or units that the device computes. */
  readonly capacity: number;
  readonly kernels: WindowKernels;
}

/**
 * The encoder that a text, never `auto`, names; undefined for `none`.
 *
 * @throws RunError if there is none of that name, or it cannot take such samples.
 */
export function buildEncoder(text: string, context: EncoderContext): Encoder | undefined {
  if (text === "none") return undefined;
  const { kind, size, groups } = parseEncoder(text), { seed, shape } = context;
  const expected = kind === "kernels" ? 2 : 1;
  if (shape.length !== expected) {
    const samples = expected === 2 ? "windows [channels, time]" : "vectors [features]";
    throw new RunError(`encoder ${text}: got samples of shape [${shape.join(", ")}], expected ${samples}`);
  }
  const own = rint(context.capacity * size);
  if (kind === "relu") return new ReluEncoder(own, seed, shape[0]);
  if (kind === "ranks") return new RanksEncoder(own, seed, shape[0]);
  const windows = [shape[0], shape[1]] as const;
  return new WindowsEncoder(Math.max(1, own), seed, windows, groups, context.sensors, context.kernels);
}
