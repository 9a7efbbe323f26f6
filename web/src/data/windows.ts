/** How a person's windows lie in time: their length, overlap and moments, and gaps between parts. */
import { firstCopies, type Person } from "./person.js";

/** Windows that only touch must not count as overlapping because of a rounding error. */
const TOUCHING = 1e-6;
/** In lengths of a window: no choice of a person's windows leaves half of them so far apart. */
const SURELY_APART = 100;

/** By what a person's windows are put in order of time. */
export type TimeKnown = "seconds from t" | "order of t" | "order of the file" | "unknown";

/** Seconds of one window; undefined where neither card nor samples say. */
export function windowSeconds({ card, x }: Person): number | undefined {
  if (card.windowLength !== undefined) return card.windowLength;
  return x.shape.length === 3 && card.samplingRate !== undefined ? x.shape[2] / card.samplingRate : undefined;
}

/** Numbers in ascending order. */
export function ascending(values: Iterable<number>): number[] {
  return [...values].sort((a, b) => a - b);
}

function steps(t: Float64Array): number[] {
  const sorted = ascending(t);
  return sorted.slice(1).map((next, i) => next - sorted[i]);
}

/** Whether a window overlaps its successor in time, as `t` shows. */
export function overlapSeen(person: Person): boolean {
  const length = windowSeconds(person);
  if (!person.t || length === undefined) return false;
  return steps(person.t).some((step) => 1 - step / length > TOUCHING);
}

/** Whether windows by `t` start a hundred lengths apart: perhaps in milliseconds. */
export function farApart(person: Person): boolean {
  const length = windowSeconds(person);
  if (!person.t || length === undefined || person.t.length < 2) return false;
  const sorted = ascending(steps(person.t));
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2 >= SURELY_APART * length;
}

/** By what the person's windows are put in order of time. */
export function timeKnown(person: Person): TimeKnown {
  if (!person.t) return person.card.timeOrdered ? "order of the file" : "unknown";
  if (windowSeconds(person) === undefined || (person.card.overlap && farApart(person))) return "order of t";
  return "seconds from t";
}

/** Of each sample the first alike: equal ones, and windows that begin at one time; one side of every split. */
export function firstAlike(person: Person): readonly number[] {
  const first = firstCopies(person.x);
  const { t } = person;
  if (!t || timeKnown(person) !== "seconds from t" || new Set(t).size === 1) return first;
  const earliest = new Map<number, number>();
  const moments = Array.from(t, (time, i) => {
    const at = earliest.get(time) ?? i;
    earliest.set(time, at);
    return at;
  });
  // A copy may be of another moment, which has copies itself: until nothing gets an earlier one.
  let found = [...first];
  for (let before: number[] = []; !same(found, before); ) {
    before = found;
    for (const groups of [moments, first]) {
      const least = new Map<number, number>();
      groups.forEach((group, i) => least.set(group, Math.min(least.get(group) ?? i, found[i])));
      found = groups.map((group) => least.get(group) ?? group);
    }
  }
  return found;
}

function same(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i]);
}

/** Number of successors that share signal with a window; 0 also where unknown. */
export function gapWindows(person: Person): number {
  const overlap = person.card.overlap ?? 0;
  return Math.ceil(overlap / (1 - overlap) - 1e-9);
}

/** How many windows start within a window's length, by the card or by `t`: they hold much the same. */
export function together(person: Person): number {
  const { t, y, card } = person, length = windowSeconds(person);
  const said = Math.round(1 / Math.max(1 - (card.overlap ?? 0), 1 / y.length));
  if (!t || length === undefined) return Math.max(said, 1);
  const sorted = ascending(t), end = length * (1 - TOUCHING);
  const below = (limit: number) => sorted.filter((one) => one < limit).length;
  const seen = ascending(sorted.map((start) => below(start + end) - below(start)));
  const middle = (seen.length - 1) / 2;
  return Math.max(said, Math.round((seen[Math.floor(middle)] + seen[Math.ceil(middle)]) / 2));
}

/** Each window's place in time, and the distance below which two windows overlap. */
export function windowPlaces(person: Person): { readonly when: Float64Array; readonly width: number } {
  const { t, y, card } = person;
  const length = windowSeconds(person);
  const gap = gapWindows(person);
  if (t && length !== undefined && timeKnown(person) === "seconds from t") return { when: t, width: length * (1 - TOUCHING) };
  const n = y.length;
  const when = Float64Array.from({ length: n }, (_, i) => i);
  if (t) {
    orderOf(t).forEach((row, place) => (when[row] = place));
  } else if (!card.timeOrdered) {
    // Neighbours in the file need not be neighbours in time: keep the classes far apart.
    const counts = new Map<number, number>();
    y.forEach((label, row) => {
      const before = counts.get(label) ?? 0;
      when[row] = label * (n + gap + 1) + before;
      counts.set(label, before + 1);
    });
  }
  return { when, width: gap + 0.5 };
}

/** Indices that sort `values`, stable. */
export function orderOf(values: Float64Array): number[] {
  return Array.from(values.keys()).sort((a, b) => values[a] - values[b] || a - b);
}

/** Of some times, which lie `width` or more from every one of `others`. */
export function clearOf(times: readonly number[], others: readonly number[], width: number): boolean[] {
  if (others.length === 0) return times.map(() => true);
  const fence = Float64Array.from([-Infinity, ...ascending(others), Infinity]);
  return times.map((time) => {
    let [low, high] = [0, fence.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (fence[middle] < time) low = middle + 1;
      else high = middle;
    }
    return Math.min(fence[low] - time, time - fence[low - 1]) >= width;
  });
}
