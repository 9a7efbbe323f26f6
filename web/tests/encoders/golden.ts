// Samples that golden files go by: tests/golden_parts/encoders.py.

import { readFileSync } from "node:fs";

/** A golden file of JSON. */
export function golden(name: string): unknown {
  return JSON.parse(readFileSync(`../proto/golden/parts/${name}.json`, "utf8"));
}

/** The steps of samples of so many numbers each: loud ones and quiet ones. */
export function stepsOf(seed: number, each: number, samples: number): Int16Array {
  let state = seed;
  return Int16Array.from({ length: samples * each }, (_, i) => {
    state = (48271 * state) % (2 ** 31 - 1);
    return Math.floor(((state % 4096) - 2048) / 8 ** Math.floor(i / each));
  });
}
