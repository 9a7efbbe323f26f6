// By how much one model is better than another on the same samples, as far as these can tell.

import type { Pcg64 } from "../random/pcg.js";

/** Draws of samples, and blocks that a person's samples are cut into at least: fewer tell of no spread. */
const RESAMPLES = 300, BLOCKS = 5;
/** From where on a normal distribution's share is 2.5 %. */
const NORMAL = 1.959964;

/** A difference of macro F1, and its 95 % interval; each in [-1, 1]. */
export interface Gain {
  readonly mean: number;
  readonly low: number;
  readonly high: number;
}

/** Labels `[n]`, and what two models say. */
export interface Predicted {
  readonly y: ArrayLike<number>;
  readonly ours: ArrayLike<number>;
  readonly theirs: ArrayLike<number>;
}

/**
 * Macro F1 of `ours` less that of `theirs`, with a percentile bootstrap over samples (Efron and Tibshirani 1993).
 * Windows that overlap are drawn in blocks, which go round (Politis and Romano 1992); what blocks miss of the
 * spread, as they tear windows apart and are few, is added.
 *
 * @param of in the order of time where samples hang together.
 * @param together so many windows later one has nothing in common with this one; 1: none overlap.
 */
export function pairedGain(of: Predicted, random: Pcg64, together: number): Gain {
  const n = of.y.length, wide = Math.min(2 * together, Math.floor(n / BLOCKS)), block = together > 1 && wide > 1 ? wide : 1;
  const mean = difference(of, Array.from({ length: n }, (_, i) => i));
  if (n < BLOCKS) return { mean, low: -1, high: 1 };
  const drawn = Array.from({ length: RESAMPLES }, () => {
    const starts = Array.from({ length: Math.ceil(n / block) }, () => random.below(n));
    return difference(of, starts.flatMap((start) => Array.from({ length: block }, (_, i) => (start + i) % n)));
  }).sort((a, b) => a - b);
  const wider = student(n / block - 1) / NORMAL / Math.sqrt(kept(block, together));
  const low = mean + wider * Math.min(percentile(drawn, 0.025) - mean, 0);
  const high = mean + wider * Math.max(percentile(drawn, 0.975) - mean, 0);
  return { mean, low: Math.max(low, -1), high: Math.min(high, 1) };
}

/** Macro F1 of some samples by one model less that by the other. */
function difference({ y, ours, theirs }: Predicted, samples: readonly number[]): number {
  return macroF1(y, ours, samples) - macroF1(y, theirs, samples);
}

function macroF1(y: ArrayLike<number>, said: ArrayLike<number>, samples: readonly number[]): number {
  const hits = new Map<number, number>(), total = new Map<number, number>();
  for (const i of samples) {
    total.set(y[i], (total.get(y[i]) ?? 0) + 1);
    total.set(said[i], (total.get(said[i]) ?? 0) + 1);
    if (y[i] === said[i]) hits.set(y[i], (hits.get(y[i]) ?? 0) + 1);
  }
  const scores = [...total].map(([label, count]) => (2 * (hits.get(label) ?? 0)) / count);
  return scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

/** The number below which a share of ascending numbers is, between neighbours in proportion. */
function percentile(ascending: readonly number[], share: number): number {
  const place = share * (ascending.length - 1), low = Math.floor(place), high = Math.ceil(place);
  return ascending[low] + (place - low) * (ascending[high] - ascending[low]);
}

/**
 * The share of a mean's variance that is left when blocks are drawn, of windows of which `together` overlap, so
 * that what two have in common falls evenly with the distance between them (Kuensch 1989).
 */
function kept(block: number, together: number): number {
  let whole = 1, left = 1;
  for (let near = 1; near < together; near++) {
    const common = 1 - near / together;
    whole += 2 * common;
    left += 2 * common * Math.max(1 - near / block, 0);
  }
  return left / whole;
}

/** From where on Student's distribution has 2.5 %: its expansion (Abramowitz and Stegun 1964, 26.7.5). */
function student(freedom: number): number {
  const z = NORMAL, f = freedom;
  const first = (z ** 3 + z) / (4 * f), second = (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * f ** 2);
  return z + first + second + (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * f ** 3);
}
