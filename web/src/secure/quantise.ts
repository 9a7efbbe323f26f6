// What is summed: changes of numbers, weighted and rounded to whole numbers modulo 2^32. Behind the
// numbers stand two more: the weight, and whether something was shortened.

import { rint } from "../linear/rounding.js";

/** Numbers modulo 2^32. */
export type Words = Uint32Array<ArrayBuffer>;
/** Slots behind the numbers. */
export const BESIDE = 2;
/** A sum stands for a number of either sign below this. */
const HALF = 2 ** 31;

/** How numbers become whole ones. */
export interface Levels {
  /** Greatest change of a number. */
  readonly range: number;
  /** Most that one person may weigh, in samples. */
  readonly weight: number;
  /** Levels of the range for each sample that a person weighs: a power of two. */
  readonly each: number;
  /** Greatest L2 norm of a person's change, after it was rounded; Infinity: any. */
  readonly longest: number;
}

/** As many levels a sample as sums over so many people can bear; 0: they cannot. */
export function eachOf(people: number, weight: number): number {
  const most = Math.floor((HALF - 1) / (people * weight));
  return most < 1 ? 0 : 2 ** (31 - Math.clz32(most));
}

/** A person's vector `[n + 2]` of its change `[n]`. One with NaN or infinite numbers is none, without weight. */
export function vectorOf(change: Float64Array, examples: number, levels: Levels): Words {
  const usable = change.every(Number.isFinite), weight = usable ? Math.min(examples, levels.weight) : 0;
  const moved = usable ? noLonger(change, longestOf(change.length, levels)) : change.map(() => 0);
  const short = moved.map((value) => Math.min(Math.max(value, -levels.range), levels.range));
  const times = (weight * levels.each) / levels.range;
  const shortened = !usable || short.some((value, i) => value !== moved[i]);
  return words(short.map((value) => rint(value * times)), weight, shortened ? 1 : 0);
}

/** A person's vector of other levels, `before`, as one of these. */
export function vectorAgain(vector: Words, before: Levels, levels: Levels, examples: number): Words {
  const [old, shortened] = vector.subarray(-BESIDE);
  if (old === 0) return vector;
  // Who weighed less than it might have has no more samples, or is counted once as a person.
  const weight = Math.min(old < before.weight ? old : examples, levels.weight);
  const by = (weight * levels.each) / (old * before.each);
  const moved = Float64Array.from(vector.subarray(0, -BESIDE), (word) => (word | 0) * by);
  const longest = (longestOf(moved.length, levels) * weight * levels.each) / levels.range;
  return words(noLonger(moved, longest).map(rint), weight, shortened);
}

/** The greatest norm of a change of so many numbers: less than that what rounding may add, of who weighs 1. */
function longestOf(numbers: number, levels: Levels): number {
  return levels.longest - ((Math.sqrt(numbers) / 2) * levels.range) / levels.each;
}

function noLonger(change: Float64Array, longest: number): Float64Array {
  const most = Math.max(longest, 0), norm = Math.sqrt(change.reduce((sum, one) => sum + one * one, 0));
  return norm <= most ? change : change.map((value) => value * (most / norm));
}

function words(whole: Float64Array, weight: number, shortened: number): Words {
  // What is written into a Uint32Array is taken modulo 2^32.
  return Uint32Array.from([...whole, weight, shortened]);
}
