/** Relevance of every unit for every class (FedSub eq. 2, 4, 5), by the kernels. */
import { AFFINE, type Chain } from "../models/chain.js";
import type { Tensor, Tensors } from "../tensors.js";
import type { Kernels, Samples } from "../training/kernels.js";
import type { Word } from "../training/memory.js";
import { countsOf } from "./fedsub-prototypes.js";

/** Mean activation, and layer-wise relevance propagation by the rule alpha-beta. */
export const RELEVANCE_RULES = ["naive", "lrp-a1b0", "lrp-a2b1"] as const;
/** Outputs from which relevance starts: the ReLU of all logits, or the true class alone. */
export const LRP_STARTS = ["logits", "target"] as const;

const ALPHA_BETA = { naive: [0, 0], "lrp-a1b0": [1, 0], "lrp-a2b1": [2, 1] } as const;
const ABSENT: readonly Word[] = [0, 0, 0];

/** What a pass for relevance finds. */
export interface Relevance {
  /** By the names of layers with units: float32 `[classes, units]`, the mean over a class's samples; 0 without any. */
  readonly relevance: ReadonlyMap<string, Float32Array>;
  /** Logits `[n, classes]`. */
  readonly logits: Tensor;
}

/** The relevance of a model's units for some samples, of which there is at least one. */
export function unitRelevance(
  kernels: Kernels,
  chain: Chain,
  params: Tensors,
  { x, y }: Samples,
  rule: (typeof RELEVANCE_RULES)[number],
  start: (typeof LRP_STARTS)[number],
): Relevance {
  const n = y.length, { classes } = chain;
  return kernels.within((memory) => {
    const { at } = kernels.chain(memory, chain, params);
    const counts = memory.place(BigInt64Array.of(BigInt(n)));
    const labels = memory.place(BigInt64Array.from(y, BigInt));
    const samples = memory.structure([1, n, 0, counts, 1, 0, memory.place(x.values), x.values.length, 0, labels, n, 0, ...ABSENT, ...ABSENT]);
    const sums = chain.layers.map(({ kind, name, units }) => ({ name, units, at: kind === AFFINE ? memory.room(4 * classes * units) : 0 }));
    const written = memory.structure(sums.flatMap(({ at, units }): readonly Word[] => (at ? [at, classes * units, 0] : ABSENT)));
    const logits = memory.room(4 * n * classes);
    const how = memory.structure([Number(rule !== "naive"), ALPHA_BETA[rule], Number(start === "target"), written, logits, n * classes, 0]);
    memory.check(kernels.exports.fedsub_relate(at, samples, how));
    const of = countsOf(y, classes);
    const means = sums.filter(({ at }) => at).map(({ name, units, at }) => {
      const mean = memory.floats(at, classes * units).map((sum, i) => sum / Math.max(of[Math.floor(i / units)], 1));
      return [name, mean] as const;
    });
    return { relevance: new Map(means), logits: { shape: [n, classes], values: memory.floats(logits, n * classes) } };
  });
}

/**
 * At most `most` samples of each class, evenly spread over it in the order of the file; 0: all.
 *
 * @param counts of the samples of each class.
 */
export function representatives({ x, y }: Samples, counts: Int32Array, most: number): Samples {
  if (!most || Math.max(...counts) <= most) return { x, y };
  const passed = new Int32Array(counts.length);
  // Those at which the share of the few that has been passed reaches a whole number.
  const chosen = [...y.keys()].filter((i) => {
    const count = counts[y[i]], few = Math.min(count, most), place = passed[y[i]]++;
    return Math.floor(((place + 1) * few) / count) > Math.floor((place * few) / count);
  });
  const width = x.values.length / y.length, values = new Float32Array(chosen.length * width);
  chosen.forEach((i, to) => {
    values.set(x.values.subarray(i * width, (i + 1) * width), to * width);
  });
  return { x: { shape: [chosen.length, ...x.shape.slice(1)], values }, y: Int32Array.from(chosen, (i) => y[i]) };
}
