/**
 * What travels, in both directions: a bundle of named tensors, of which parts may be left out.
 *
 * A method declares the tensors that a device sends and receives; the codec checks every bundle
 * against that and knows nothing else of methods. Kinds of the papers' methods, Sliced and
 * Elements, are not here.
 */
import { size } from "../tensors.js";

/** How a tensor travels, by its name in docs/wire-format.md. */
export type Kind = "Dense" | "Rows" | "Bits" | "Whole";

/** Numbers of a tensor, float32: all of them, or those of some `rows` of the leading axis, ascending. */
export interface Floats {
  readonly kind: "floats";
  readonly values: Float32Array;
  readonly rows?: Int32Array;
}

/** Yes and no, a byte each, `[*shape]`. */
export interface Bits {
  readonly kind: "bits";
  readonly values: Uint8Array;
}

/** A whole tensor of whole numbers, `[*shape]`. */
export interface Whole {
  readonly kind: "whole";
  readonly values: Int16Array;
}

/** A tensor of a bundle, or a part of one. */
export type Part = Floats | Bits | Whole;

/** What a method says of one tensor: how it travels, its whole shape, whether it may lack or is exact. */
export interface Declared {
  readonly kind: Kind;
  readonly shape: readonly number[];
  readonly optional: boolean;
  /** Always float32 as it is, whatever the run's encoding. */
  readonly exact: boolean;
}

/** The tensors of a bundle by name, in the order in which they travel. */
export type Declaration = ReadonlyMap<string, Declared>;

/** What one device sends the server, or the server one device, in one message. */
export interface Bundle {
  /** Training samples that the device has; 0 from the server. */
  readonly examples: number;
  /** Names some content that either side has, as the method says; 0: none. */
  readonly version: bigint;
  readonly tensors: ReadonlyMap<string, Part>;
  /** Round of the upload that differences are from; down: that the server holds; 0: none. */
  readonly reference: number;
}

/** A bundle of nothing. */
export const NOTHING: Bundle = { examples: 0, version: 0n, tensors: new Map(), reference: 0 };

type Options = Partial<Pick<Declared, "optional" | "exact">>;

/** A tensor of a kind and whole shape; neither optional nor exact unless said. */
export function declared(kind: Kind, shape: readonly number[], options: Options = {}): Declared {
  return { kind, shape, optional: false, exact: false, ...options };
}

/** Whether a tensor is of float32 in the run's encoding, and so may be a difference. */
export function encoded(one: Declared): boolean {
  return (one.kind === "Dense" || one.kind === "Rows") && !one.exact;
}

/** Numbers of a part, float32; throws where it is of another kind: a fault of the method. */
export function floatsOf(bundle: Bundle, name: string): Floats {
  const part = bundle.tensors.get(name);
  if (part?.kind !== "floats") throw new TypeError(`tensor ${name}: got ${part?.kind ?? "none"}, expected numbers`);
  return part;
}

/** Write a part into a whole tensor `[rows, width]`, which is changed. */
export function put(whole: Float32Array, part: Floats, values: Float32Array, rows: number): void {
  if (part.rows === undefined) {
    whole.set(values);
    return;
  }
  const width = whole.length / rows;
  part.rows.forEach((row, i) => {
    whole.set(values.subarray(i * width, (i + 1) * width), row * width);
  });
}

/** The numbers of a whole tensor `[rows, width]` at some `rows`; a copy. */
export function taken(whole: Float32Array, some: Int32Array | undefined, rows: number): Float32Array {
  if (some === undefined) return whole.slice();
  const width = whole.length / rows;
  const found = new Float32Array(some.length * width);
  some.forEach((row, i) => {
    found.set(whole.subarray(row * width, (row + 1) * width), i * width);
  });
  return found;
}

/** Whether every number is finite and of a size of at most `largest`. */
export function within(values: Float32Array, largest: number): boolean {
  return values.every((value) => Math.abs(value) <= largest);
}

/** Most bytes of a message with these tensors, in float32 and with every mask. */
export function mostBytes(declaration: Declaration): number {
  let bytes = 65536;
  for (const [name, one] of declaration) {
    const each = one.kind === "Bits" ? 1 : 5;
    bytes += name.length + 64 + each * size(one.shape) + 9 * one.shape[0];
  }
  return bytes;
}
