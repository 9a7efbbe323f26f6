// Names of encoders: what the option `encoder` may say, and what `auto` means.

import { RunError } from "../errors.js";

/** Groups of statistics of windows beside the kernels, in their order, and the name of all of them. */
export const GROUPS = ["shape", "autocorrelation", "spectrum", "correlations"] as const;
export type Group = (typeof GROUPS)[number];
const WHOLE_GROUPS = "statistics";
const OF_WINDOWS = "kernels:100+statistics", OF_VECTORS = "ranks:450";
/** Of more channels `auto` is kernels alone. */
const MOST_CHANNELS = 64;
/** Features of one kernel, and of a sample at most. */
export const PER_KERNEL = 5, LARGEST = 2 ** 16;

export interface Parsed {
  readonly kind: "kernels" | "relu" | "ranks";
  readonly size: number;
  readonly groups: readonly Group[];
}

/**
 * The parts of `kernels:N`, `kernels:N+statistics`, `relu:N` or `ranks:N`.
 *
 * @throws RunError for another text, or too many features.
 */
export function parseEncoder(text: string): Parsed {
  const found = /^(kernels|relu|ranks):(0|[1-9][0-9]*)((?:\+[a-z]+)*)$/.exec(text);
  const kind = found?.[1] as Parsed["kind"] | undefined;
  const size = Number(found?.[2]), named = (found?.[3] ?? "").split("+").slice(1);
  const groups = named.join() === WHOLE_GROUPS ? [...GROUPS] : GROUPS.filter((one) => named.includes(one));
  const right = groups.length === GROUPS.length ? WHOLE_GROUPS : groups.join();
  if (kind === undefined || right !== named.join() || (kind === "kernels" ? !size : named.length)) {
    throw new RunError(
      `encoder: got '${text}', expected kernels:N, kernels:N+statistics (or some of ` +
        `${GROUPS.join(", ")}, in this order), relu:N or ranks:N: modules in Python are for devices ` +
        "with Python alone",
    );
  }
  const made = size * (kind === "kernels" ? PER_KERNEL : 1);
  if (made > LARGEST) {
    throw new RunError(`encoder: got '${text}', of ${made} features, expected ${LARGEST} at most`);
  }
  return { kind, size, groups };
}

/**
 * The encoder that is meant, never `auto`.
 *
 * @param encodes whether the method wants an encoder where the configuration says `auto`.
 * @param shape of one sample.
 */
export function resolveEncoder(text: string, encodes: boolean, shape: readonly number[]): string {
  if (text !== "auto") return text;
  if (!encodes) return "none";
  if (shape.length === 1) return OF_VECTORS;
  return shape[0] > MOST_CHANNELS ? "kernels:100" : OF_WINDOWS;
}
