/** One person's samples, and what all people of a federation share of theirs. */
import { blake2b } from "@noble/hashes/blake2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { DataError } from "../errors.js";
import { size, type Tensor } from "../tensors.js";

/** What the federation says of everybody's samples: `federation.toml`. */
export interface Card {
  /** Names of label 0, 1, ... */
  readonly classes: readonly string[];
  /** Columns of `x [n, F]`, or channels of `x [n, F, time]`. */
  readonly features: readonly string[];
  /** Hz, inside a window. */
  readonly samplingRate?: number;
  /** Seconds of one window. */
  readonly windowLength?: number;
  /** Share of a window that the next one repeats; undefined: nobody knows. */
  readonly overlap: number | undefined;
  /** Whether samples lie in the order of time. */
  readonly timeOrdered: boolean;
  /** Of each sensor its channels. */
  readonly sensors?: readonly (readonly number[])[];
  /** What `group` numbers: recording, day or session. */
  readonly groups?: string;
  /** What the classes' names stand for, in words. */
  readonly meanings?: readonly string[];
  /** Of the features, in words. */
  readonly units?: string;
}

/** A class in words: its name, with what it stands for where the card says that. */
export function classInWords({ classes, meanings }: Card, label: number): string {
  const meaning = meanings?.[label];
  return meaning === undefined || meaning === classes[label] ? classes[label] : `${meaning} (${classes[label]})`;
}

/** A person's samples. */
export interface Person {
  readonly client: string;
  readonly card: Card;
  /** float32 `[n, F]`, or windows `[n, F, time]`, in the card's units. */
  readonly x: Tensor;
  /** Labels `[n]`, indices into the card's classes. */
  readonly y: Int32Array;
  /** Seconds at which each window begins, `[n]`. */
  readonly t?: Float64Array;
  /** Of each sample the recording, day or session `[n]`. */
  readonly group?: Float64Array;
}

const CLIENT_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
/** The largest size of a value that sums of squares are taken of. */
const LARGEST = 1e15;

/**
 * The person, whose samples fit the card.
 *
 * @throws DataError that names what does not fit, and the first sample that does not.
 */
export function checkedPerson(person: Person): Person {
  const { client, card, x, y, t, group } = person;
  const refuse = (what: string, got: string, expected: string): never => {
    throw new DataError(`client ${client}: ${what}: got ${got}, expected ${expected}`);
  };
  if (!CLIENT_ID.test(client)) refuse("client id", client, String(CLIENT_ID));
  const [n, channels] = x.shape;
  if (x.shape.length < 2 || x.shape.length > 3 || channels !== card.features.length || size(x.shape) === 0) {
    refuse("x", `shape [${x.shape.join()}]`, `[n, ${card.features.length}] or [n, ${card.features.length}, time], and a sample at least`);
  }
  if (y.length !== n) refuse("y", `${y.length} labels`, `${n} as in x`);
  const label = y.findIndex((one) => one < 0 || one >= card.classes.length);
  if (label >= 0) refuse(`y, row ${label}`, `label ${y[label]}`, `0 to ${card.classes.length - 1}`);
  const wrong = x.values.findIndex((value) => !(Math.abs(value) <= LARGEST));
  if (wrong >= 0) refuse(`x, row ${Math.floor((wrong * n) / x.values.length)}`, String(x.values[wrong]), `finite numbers of ${LARGEST} at most`);
  for (const [name, one] of [["t", t], ["group", group]] as const) {
    if (one && (one.length !== n || !one.every(Number.isFinite))) refuse(name, `${one.length} numbers`, `${n} finite ones as in x`);
  }
  return person;
}

/** The samples at `rows` of a tensor `[n, ...]`; a copy. */
export function rowsOf(x: Tensor, rows: readonly number[]): Tensor {
  const width = size(x.shape.slice(1));
  const values = new Float32Array(rows.length * width);
  rows.forEach((row, i) => {
    values.set(x.values.subarray(row * width, (row + 1) * width), i * width);
  });
  return { shape: [rows.length, ...x.shape.slice(1)], values };
}

/** Of each sample the first that has the same bytes, `[n]`. */
export function firstCopies(x: Tensor): readonly number[] {
  const width = 4 * size(x.shape.slice(1));
  const bytes = new Uint8Array(x.values.buffer, x.values.byteOffset, x.values.byteLength);
  const seen = new Map<string, number>();
  return Array.from({ length: x.shape[0] }, (_, i) => {
    const key = bytesToHex(blake2b(bytes.subarray(i * width, (i + 1) * width), { dkLen: 16 }));
    const first = seen.get(key) ?? i;
    seen.set(key, first);
    return first;
  });
}
