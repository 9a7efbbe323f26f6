/** Splits by whole groups, such as a person's recordings, days or sessions. */
import type { Person } from "./person.js";

/** Whether a person's samples are of two groups at least. */
export function severalGroups({ group }: Person): boolean {
  return group?.some((one) => one !== group[0]) ?? false;
}

/**
 * Mask of the samples that are tested, `[n]`: those of whole groups.
 *
 * Later groups come first. A group is tested if each of its classes is still trained without it, and
 * if the tested samples of each class come nearer to `share`, summed over classes. Where no group
 * could be tested so, the one that comes nearest is.
 */
export function groupedTests(person: Person, share: number): Uint8Array {
  const { y, group } = person;
  if (!group) throw new TypeError("a split by groups: got no groups, expected some");
  const classes = Math.max(...y) + 1;
  const total = counted(y, () => true, classes);
  const wanted = total.map((count) => share * count);
  const away = (taken: readonly number[]) => taken.reduce((sum, count, label) => sum + Math.abs(count - wanted[label]), 0);
  const plus = (a: readonly number[], b: readonly number[], sign: number) => a.map((count, label) => count + sign * b[label]);
  const counts = new Map([...new Set(group)].map((g) => [g, counted(y, (i) => group[i] === g, classes)]));
  let tested = total.map(() => 0);
  let rest = total;
  const trainedWithout = (own: readonly number[]) => own.every((count, label) => !count || rest[label] - count !== 0);
  const chosen = new Set<number>();
  const latest = latestFirst(person);
  for (const g of latest) {
    const own = counts.get(g) ?? [];
    if (trainedWithout(own) && away(plus(tested, own, 1)) < away(tested)) {
      chosen.add(g);
      tested = plus(tested, own, 1);
      rest = plus(rest, own, -1);
    }
  }
  if (tested.every((count) => count === 0) && latest.length > 1) {
    const cost = (g: number): readonly [number, number] => [trainedWithout(counts.get(g) ?? []) ? 0 : 1, away(counts.get(g) ?? [])];
    const best = latest.reduce((a, b) => {
      const [costA, costB] = [cost(a), cost(b)];
      return costB[0] < costA[0] || (costB[0] === costA[0] && costB[1] < costA[1]) ? b : a;
    });
    chosen.add(best);
  }
  return Uint8Array.from(group, (g) => Number(chosen.has(g)));
}

function counted(y: Int32Array, takes: (i: number) => boolean, classes: number): number[] {
  const counts = new Array<number>(classes).fill(0);
  y.forEach((label, i) => {
    if (takes(i)) counts[label] += 1;
  });
  return counts;
}

function latestFirst({ group, t }: Person): number[] {
  const first = new Map<number, number>();
  group?.forEach((g, i) => first.set(g, Math.min(first.get(g) ?? Infinity, t ? t[i] : i)));
  return [...first].sort(([g, a], [h, b]) => b - a || g - h).map(([g]) => g);
}
