// What candidate heads differ in, and how many there are.

/** Ridge penalties that candidates are solved with: for features of deviation 1. */
export const PENALTIES = [0.3, 1, 3, 10, 30, 100, 300, 1000] as const;
/** Those of candidates on others' sums: what lies between two of them is a mixture. */
export const WITH_OTHERS = PENALTIES.filter((_, i) => i % 2 === 0);
/** How much a person's own samples weigh against others'. */
export const OWN_WEIGHTS = [1, 5, 20, 100] as const;
/** Into how many stretches each class's samples are cut; who has no more leaves one out at a time. */
export const STRETCHES = 3;
/** By which scores are multiplied before softmax, of which one is chosen. */
export const TEMPERATURES = Array.from({ length: 14 }, (_, k) => 2 ** ((k - 4) / 2));
/** Candidates on own sums alone, and on each set of sums that others are in. */
export const ALONE = 2 * PENALTIES.length, ON_EACH = WITH_OTHERS.length * OWN_WEIGHTS.length;

/** Numbers in the lower triangle of a constant and `features`. */
export function packed(features: number): number {
  return ((features + 1) * (features + 2)) / 2;
}
