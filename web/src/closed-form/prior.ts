// What is believed of a person's candidates before its own samples speak: everybody's equations, and a
// default mixture of heads on everybody's sums in which own samples weigh much.

import { Matrix } from "../linear/matrix.js";
import { ALONE, ON_EACH, OWN_WEIGHTS, PENALTIES, TEMPERATURES, WITH_OTHERS } from "./grids.js";
import { type Equations, combined } from "./stacking.js";

/** Which heads are mixed. */
export type Heads = "mixed" | "own" | "everybody";
/** The default's penalties, half each, and the weight of own samples. */
const PENALTIES_THERE = [30, 300] as const, OWN_WEIGHT = 100;
/** As how many samples the default counts: among everybody's, and before these are known. */
const AMONG_ALL = 30, BEFORE = 3;
/** The default's temperature, and nats a sample for each half step from it, squared. */
const TEMPERATURE = 4, PER_STEP = 0.05;
/** As how many samples in which candidates on noisy sums were right of nothing. */
const DOUBTED = 30;
const TEMPERED = Float64Array.from(TEMPERATURES, (one) => PER_STEP * (2 * Math.log2(one / TEMPERATURE)) ** 2);

export interface Prior {
  /** As how many samples everybody's equations and the default count together. */
  readonly prior: number;
  /** Everybody's equations, one sample's worth; undefined: the default stands alone. */
  readonly pooled: Equations | undefined;
  /** Of how many samples the sums are that everybody's equations are of. */
  readonly samples: number;
  /** Whether noise is on the sums. */
  readonly noisy: boolean;
}

/** A default alone. */
export const NOBODYS: Prior = { prior: 0, pooled: undefined, samples: 0, noisy: false };

/**
 * The equations that are added to a person's own.
 *
 * @param gram `[K, K]` of what its candidates say, a sample's worth: no label is in it.
 */
export function believed(prior: Prior, gram: Matrix, heads: Heads): Equations {
  const weights = defaultWeights(prior, gram.rows, heads);
  const target = gram.times(new Matrix(gram.rows, 1, weights)).values;
  const one: Equations = { samples: 1, gram, target, losses: TEMPERED };
  if (prior.pooled === undefined) {
    const before = combined(one, BEFORE, one, 0), doubt = prior.noisy && heads === "mixed" ? DOUBTED : 0;
    const doubted = (i: number, j: number) => (i === j && i >= PENALTIES.length ? doubt * gram.at(i, i) : 0);
    return { ...before, gram: before.gram.map((value, i, j) => value + doubted(i, j)) };
  }
  const share = AMONG_ALL / (AMONG_ALL + prior.samples);
  return combined(prior.pooled, prior.prior * (1 - share), one, prior.prior * share);
}

/** The default's weight of each candidate, `[K]`; they add up to 1. */
export function defaultWeights(prior: Prior, candidates: number, heads: Heads): Float64Array {
  const weights = new Float64Array(candidates);
  const alone = heads === "own" || (prior.noisy && heads === "mixed") || candidates <= ALONE;
  for (const penalty of PENALTIES_THERE) {
    const own = heads === "everybody" ? 0 : OWN_WEIGHTS.indexOf(OWN_WEIGHT);
    const there = ALONE + WITH_OTHERS.indexOf(penalty) * OWN_WEIGHTS.length + own;
    weights[alone ? PENALTIES.indexOf(penalty) : there] = 1 / PENALTIES_THERE.length;
  }
  return weights;
}

/** The candidates that may be mixed, by number. */
export function admitted(candidates: number, heads: Heads): number[] {
  const all = Array.from({ length: candidates }, (_, k) => k);
  if (heads === "own") return all.slice(0, ALONE);
  if (heads !== "everybody" || candidates <= ALONE) return all;
  return all.slice(ALONE, ALONE + ON_EACH).filter((k) => (k - ALONE) % OWN_WEIGHTS.length === 0);
}
