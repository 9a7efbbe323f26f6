/**
 * Recordings cut into windows, the same as `fedsub data import` cuts them.
 *
 * No window spans a gap. Rows that come with the wanted rate are taken as they are; others are
 * interpolated linearly, after an average where there are many more of them.
 */
import { DataError } from "../errors.js";
import type { Tensor } from "../tensors.js";
import type { Card } from "./person.js";
import { ascending } from "./windows.js";

/** Rows of one recording, in the order of their time. */
export interface Rows {
  /** Seconds, `[n]`, rising. */
  readonly t: Float64Array;
  /** Values `[n, F]`, finite, in the card's units. */
  readonly x: Float32Array;
  /** Labels `[n]`; -1: no label. */
  readonly y: Int32Array;
}

/** How recordings are cut. */
export interface Cut {
  /** Samples a second. */
  readonly rate: number;
  /** Samples of a window, and from one window to the next. */
  readonly length: number;
  readonly step: number;
  /** Share of a window's samples that must have its label. */
  readonly purity: number;
}

/** Windows of recordings. */
export interface Windows {
  /** `[n, F, time]`. */
  readonly x: Tensor;
  /** Labels `[n]`; -1: no label. */
  readonly y: Int32Array;
  /** Seconds at which each begins, `[n]`. */
  readonly t: Float64Array;
}

/** A longer step than so many usual ones is a gap: phones are late by a few. */
const GAP_STEPS = 10;
/** How far a row may lie from its place among the rows around, in samples, to be taken as it is. */
const JITTER = 0.33;
/** Rows on either side by which a row's place is known: clocks drift. */
const AROUND = 64;
/** Steps so near to one sample need no such look. */
const EVEN = 0.1;
/** A rate so near to another, relatively, is the same. */
const DRIFT = 0.02;
/** A recording with so many times the rate is averaged first: faster waves would fold over. */
const AVERAGED = 1.5;
/** So many samples may be made of one row. */
const MADE_UP = 2;
/** As an import has it where nobody says another. */
const PURITY = 0.5;

/**
 * How a federation's recordings are cut.
 *
 * @throws DataError where its samples are no windows of a known rate.
 */
export function cutOf({ samplingRate, windowLength, overlap }: Card): Cut {
  if (samplingRate === undefined || windowLength === undefined || overlap === undefined) {
    throw new DataError(`card: got sampling_rate_hz ${samplingRate ?? "none"}, window_s ${windowLength ?? "none"}, overlap ${overlap ?? "unknown"}, expected all three: recordings cannot be cut without`);
  }
  const length = even(samplingRate * windowLength);
  return { rate: samplingRate, length, step: Math.max(even(length * (1 - overlap)), 1), purity: PURITY };
}

/** Seconds of a step that is a gap in a recording of two rows or more. */
export function gapOf(t: Float64Array): number {
  const steps = ascending(t.subarray(1).map((time, i) => time - t[i]));
  const middle = (steps.length - 1) / 2;
  return (GAP_STEPS * (steps[Math.floor(middle)] + steps[Math.ceil(middle)])) / 2;
}

/**
 * The windows of one recording of `features` values a row.
 *
 * @throws DataError where most samples would be made up.
 */
export function windowsOf(rows: Rows, features: number, cut: Cut): Windows {
  const found: { x: Float32Array; y: number; t: number }[] = [];
  const stretches = stretchesOf(rows, features);
  checkRate(stretches, cut);
  for (const stretch of stretches) {
    const { t, x, y } = atRate(stretch, features, cut.rate);
    for (let at = 0; at + cut.length <= t.length; at += cut.step) {
      const { label, share } = majority(y.subarray(at, at + cut.length));
      if (label >= 0 && share < cut.purity) continue;
      found.push({ x: turned(x.subarray(at * features, (at + cut.length) * features), features), y: label, t: t[at] });
    }
  }
  const values = new Float32Array(found.length * features * cut.length);
  found.forEach((window, i) => {
    values.set(window.x, i * features * cut.length);
  });
  return {
    x: { shape: [found.length, features, cut.length], values },
    y: Int32Array.from(found, ({ y }) => y),
    t: Float64Array.from(found, ({ t }) => t),
  };
}

/** Rows with `rate` a second; a sample's label is its nearest row's. */
export function atRate(rows: Rows, features: number, rate: number): Rows {
  const { t, y } = rows;
  const n = t.length;
  if (n < 2 || steady(t, rate)) return rows;
  const span = t[n - 1] - t[0];
  const ratio = (n - 1) / (span * rate);
  const column = (feature: number) => Float32Array.from({ length: n }, (_, i) => rows.x[i * features + feature]);
  const width = ratio < AVERAGED ? 1 : 2 * Math.floor(even(ratio) / 2) + 1;
  // The last sample must not be lost to a rounding error, nor to a clock that trembles.
  const grid = Float64Array.from({ length: Math.floor(span * rate + JITTER) + 1 }, (_, i) => t[0] + i / rate);
  const after = placesIn(t, grid);
  const x = new Float32Array(grid.length * features);
  for (let feature = 0; feature < features; feature++) {
    const own = width > 1 ? Float32Array.from(averaged(column(feature), width)) : column(feature);
    grid.forEach((time, i) => {
      x[i * features + feature] = between(t, own, time, after[i]);
    });
  }
  const labels = Int32Array.from(grid, (time, i) => {
    const next = Math.min(Math.max(after[i], 1), n - 1);
    return y[next - (time - t[next - 1] < t[next] - time ? 1 : 0)];
  });
  return { t: grid, x, y: labels };
}

/** A recording's rows between its gaps. */
function stretchesOf(rows: Rows, features: number): Rows[] {
  const { t, x, y } = rows;
  if (t.length < 2) return [rows];
  const gap = gapOf(t);
  const breaks = [...t.keys()].filter((i) => i > 0 && t[i] - t[i - 1] > gap);
  const ends = [...breaks, t.length];
  return [0, ...breaks].map((begin, i) => {
    const end = ends[i];
    return { t: t.subarray(begin, end), x: x.subarray(begin * features, end * features), y: y.subarray(begin, end) };
  });
}

function checkRate(stretches: readonly Rows[], { rate, length }: Cut): void {
  const long = stretches.map(({ t }) => ({ steps: t.length - 1, span: t[t.length - 1] - t[0] })).filter(({ span }) => even(span * rate) + 1 >= length);
  const seconds = long.reduce((sum, { span }) => sum + span, 0);
  const own = seconds ? long.reduce((sum, { steps }) => sum + steps, 0) / seconds : 0;
  if (own && own * MADE_UP < rate * (1 - DRIFT)) throw new DataError(`recording: got ${own.toPrecision(3)} samples a second, expected half of ${rate} at least: most of a window would be made up`);
}

/** Whether rows lie where samples of the rate do, but for a clock that trembles. */
function steady(t: Float64Array, rate: number): boolean {
  const steps = t.length - 1;
  const samples = (t[steps] - t[0]) * rate;
  if (Math.abs(samples - steps) > Math.max(DRIFT * steps, 2 * JITTER)) return false;
  if (t.every((time, i) => i === 0 || Math.abs((time - t[i - 1]) * rate - 1) <= EVEN)) return true;
  const late = t.map((time, i) => (time - t[0]) * rate - i);
  const usual = Float32Array.from(averaged(late, 2 * AROUND));
  return late.every((one, i) => Math.abs(one - usual[i]) <= JITTER);
}

/** The mean of about `width` values around each, of fewer at the ends: as many on either side. */
function averaged(x: Float32Array | Float64Array, width: number): Float64Array {
  const sums = new Float64Array(x.length + 1);
  x.forEach((value, i) => {
    sums[i + 1] = sums[i] + value;
  });
  return Float64Array.from(x, (_, i) => {
    const side = Math.min(i, x.length - 1 - i, Math.floor(width / 2));
    return (sums[i + side + 1] - sums[i - side]) / (2 * side + 1);
  });
}

/** Of each time of an ascending grid the first row that is not before it. */
function placesIn(t: Float64Array, grid: Float64Array): Int32Array {
  let at = 0;
  return Int32Array.from(grid, (time) => {
    while (at < t.length && t[at] < time) at++;
    return at;
  });
}

/** The value at a time on the line through its neighbours; `after` is the first row not before it. */
function between(t: Float64Array, x: Float32Array, time: number, after: number): number {
  if (after >= t.length) return x[t.length - 1];
  if (t[after] === time || after === 0) return x[after];
  const slope = (x[after] - x[after - 1]) / (t[after] - t[after - 1]);
  return slope * (time - t[after - 1]) + x[after - 1];
}

/** The most frequent label and its share; no label counts as one, of equal ones the least, which is a label. */
function majority(y: Int32Array): { readonly label: number; readonly share: number } {
  const counts = new Map<number, number>();
  for (const label of y) counts.set(label, (counts.get(label) ?? 0) + 1);
  const rank = (label: number) => (label < 0 ? Infinity : label);
  const [label, most] = [...counts].reduce((a, b) => (b[1] > a[1] || (b[1] === a[1] && rank(b[0]) < rank(a[0])) ? b : a));
  return { label, share: most / y.length };
}

/** A window's rows `[time, F]` as `[F, time]`. */
function turned(rows: Float32Array, features: number): Float32Array {
  const time = rows.length / features;
  return Float32Array.from({ length: rows.length }, (_, i) => rows[(i % time) * features + Math.floor(i / time)]);
}

/** The nearest whole number, of two equally near ones the even one, as Python's `round`. */
function even(value: number): number {
  const down = Math.floor(value);
  return value - down === 0.5 ? down + (down % 2) : Math.round(value);
}
