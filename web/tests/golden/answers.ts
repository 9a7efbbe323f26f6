/** A device's answers, held against those of a golden file: whole numbers to the bit, others up to rounding. */
import assert from "node:assert/strict";
import { Device } from "../../src/device/device.js";
import { keptBytes, keptOf, nothingKept, type Saved, withSaved, withSettings } from "../../src/device/kept.js";
import type { Store } from "../../src/device/kept.js";
import type { Numbers } from "../../src/tensors.js";
import type { Exports } from "../../src/training/memory.js";
import type { Content, Value } from "../../src/values.js";
import { blocksIn, type Case, type Exchange, savedIn } from "./case.js";

/** How far numbers may lie apart that are not whole, by their size or 1. */
export const NEAR = 1e-6;
/** Flower's number of every case's run. */
export const RUN = "1";

/** A store in memory. */
export class MemoryStore implements Store {
  constructor(public block?: Uint8Array) {}

  load(): Promise<Uint8Array | undefined> {
    return Promise.resolve(this.block);
  }

  save(block: Uint8Array): Promise<void> {
    this.block = block;
    return Promise.resolve();
  }
}

/** What a device answered, and what it then kept of the run. */
export interface Answered {
  readonly out: Content;
  readonly after: Saved | undefined;
  /** What it kept of secure sums, by name. */
  readonly blocks: ReadonlyMap<string, Uint8Array>;
}

/** The block of a device that kept what a golden file says before a message. */
export function storeBefore(one: Case, exchange: Exchange): Uint8Array {
  const before = savedIn(exchange.before, "golden");
  const told = withSettings(nothingKept(one.person.client), RUN, one.settings);
  const saved = before ? withSaved(told, before) : told;
  return keptBytes({ ...saved, blocks: blocksIn(exchange.before, one.name) });
}

/** The answer of a device that kept what a golden file says. */
export async function answered(one: Case, exchange: Exchange, kernels: Exports): Promise<Answered> {
  const { client } = one.person;
  const store = new MemoryStore(storeBefore(one, exchange));
  const device = await Device.open(one.person, store, kernels, () => undefined);
  const out = await device.answer({ run: RUN, type: exchange.type, content: exchange.in });
  const kept = store.block && keptOf(store.block, client);
  return { out, after: kept?.runs.at(-1), blocks: kept?.blocks ?? new Map<string, Uint8Array>() };
}

/** Assert that two states are the same up to rounding; what else a file has is not looked at. */
export function assertKept(got: Saved | undefined, expected: Saved | undefined): void {
  assert.deepEqual([got?.round, got?.run, got?.method], [expected?.round, expected?.run, expected?.method]);
  if (!got || !expected) return;
  const tensors = (saved: Saved) => new Map<string, Numbers>([
    ...Object.entries(saved.state).map(([name, { values }]) => [name, values] as const),
    ...[...(saved.reference?.tensors ?? [])].map(([name, { values }]) => [`wire.${name}`, values] as const),
  ]);
  assert.equal(got.reference?.round, expected.reference?.round);
  const [mine, theirs] = [tensors(got), tensors(expected)];
  assert.deepEqual([...mine.keys()].sort(), [...theirs.keys()].sort());
  for (const [name, values] of theirs) assertNear(name, mine.get(name)!, values);
}

/** Assert that numbers are near each other. */
export function assertNear(what: string, got: ArrayLike<number | bigint>, expected: ArrayLike<number | bigint>): void {
  assert.equal(got.length, expected.length, what);
  for (let i = 0; i < expected.length; i++) {
    const [one, other] = [Number(got[i]), Number(expected[i])];
    assert.ok(Object.is(one, other) || Math.abs(one - other) <= NEAR * Math.max(1, Math.abs(other)), `${what}[${i}]: got ${one}, expected ${other}`);
  }
}

/** Assert that records of plain values are the same up to rounding, but for some keys. */
export function assertValues(got: ReadonlyMap<string, Value>, expected: ReadonlyMap<string, Value>, without: readonly string[] = []): void {
  const left = [...expected.keys()].filter((key) => !without.includes(key));
  assert.deepEqual([...got.keys()].filter((key) => !without.includes(key)).sort(), left.sort());
  for (const key of left) {
    const [mine, theirs] = [got.get(key)!, expected.get(key)!];
    if (typeof theirs === "number") assertNear(key, [mine as number], [theirs]);
    else if (Array.isArray(theirs) && typeof theirs[0] === "number") assertNear(key, mine as number[], theirs as number[]);
    else assert.deepEqual(mine, theirs, key);
  }
}
