/** What a device keeps of a federation between two messages. */
import { RunError } from "../errors.js";
import type { State } from "../methods/method.js";
import type { Tensor } from "../tensors.js";
import type { Values } from "../values.js";
import type { Reference } from "../wire/references.js";
import { packed, type Plain, unpacked } from "./container.js";

/** Where one block of bytes lasts; a device's alone while it is open. */
export interface Store {
  /** The last block that was saved whole; undefined: there is none. */
  load(): Promise<Uint8Array | undefined>;
  /** Keep a block in place of the last: all of it or nothing, and before this ends. */
  save(block: Uint8Array): Promise<void>;
}

/** A device's state after its last round of a run's method. */
export interface Saved {
  readonly run: string;
  readonly method: string;
  /** The last round trained. */
  readonly round: number;
  /** Names the person's samples that the state is of. */
  readonly samples: string;
  readonly state: State;
  /** The last round's upload as it was sent; asked again, the device sends it again. */
  readonly reply: Uint8Array;
  readonly report: Readonly<Record<string, number>>;
  readonly reference: Reference | undefined;
  /** What else a method's protocol keeps, such as how a vector was rounded. */
  readonly beside: { readonly [key: string]: Plain };
}

/** All that a device keeps. */
export interface Kept {
  readonly client: string;
  /** The node's id when it was active last. */
  readonly node: bigint | undefined;
  /** Settings by the SuperLink's number of their run, the newest last. */
  readonly settings: ReadonlyMap<string, Values>;
  /** States, the newest last. */
  readonly runs: readonly Saved[];
  /** Blocks of other rooms, such as secrets of secure sums, by name. */
  readonly blocks: ReadonlyMap<string, Uint8Array>;
}

/** Settings, and states of runs, that are kept at most. */
const MOST_RUNS = 16;

/** What a device keeps that has seen no message. */
export function nothingKept(client: string): Kept {
  return { client, node: undefined, settings: new Map(), runs: [], blocks: new Map() };
}

/** The state of a run's method; undefined: the run is new here. */
export function savedOf(kept: Kept, run: string, method: string): Saved | undefined {
  return kept.runs.find((saved) => saved.run === run && saved.method === method);
}

/** What is kept with a state in place of the one before. */
export function withSaved(kept: Kept, saved: Saved): Kept {
  const others = kept.runs.filter((one) => one.run !== saved.run || one.method !== saved.method);
  return { ...kept, runs: [...others, saved].slice(-MOST_RUNS) };
}

/** What is kept with a run's settings. */
export function withSettings(kept: Kept, run: string, values: Values): Kept {
  const others = [...kept.settings].filter(([other]) => other !== run);
  return { ...kept, settings: new Map([...others, [run, values] as const].slice(-MOST_RUNS)) };
}

/** All of it as one block. */
export function keptBytes(kept: Kept): Uint8Array {
  const runs = kept.runs.map((saved) => ({ ...saved, reference: plainReference(saved.reference) }));
  return packed({
    client: kept.client,
    node: kept.node ?? null,
    settings: [...kept.settings].map(([run, values]) => [run, [...values]]),
    runs: runs as unknown as Plain,
    blocks: [...kept.blocks],
  });
}

/**
 * Inverse of {@link keptBytes}.
 *
 * @throws RunError where the block is damaged or another person's.
 */
export function keptOf(block: Uint8Array, client: string): Kept {
  let plain: Record<string, Plain>;
  try {
    plain = unpacked(block) as Record<string, Plain>;
  } catch (error) {
    throw new RunError(`state of client ${client}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (plain.client !== client) throw new RunError(`state: got another client's, expected ${client}'s: each person has a folder of its own`);
  const settings = plain.settings as unknown as [string, [string, never][]][];
  const runs = plain.runs as unknown as (Omit<Saved, "reference"> & { reference: PlainReference | null })[];
  return {
    client,
    node: (plain.node ?? undefined) as bigint | undefined,
    settings: new Map(settings.map(([run, values]) => [run, new Map(values)])),
    runs: runs.map((saved) => ({ ...saved, reference: saved.reference ? { round: saved.reference.round, tensors: new Map(saved.reference.tensors) } : undefined })),
    blocks: new Map(plain.blocks as unknown as [string, Uint8Array][]),
  };
}

interface PlainReference {
  readonly round: number;
  readonly tensors: readonly [string, Tensor][];
}

function plainReference(reference: Reference | undefined): PlainReference | null {
  return reference ? { round: reference.round, tensors: [...reference.tensors] } : null;
}
