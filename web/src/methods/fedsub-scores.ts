/** How much a person's subnetworks count in the fusion: omega of FedSub. */
import { strongest } from "../device/evaluation.js";
import type { Tensor } from "../tensors.js";
import { countsOf } from "./fedsub-prototypes.js";

/** Kinds: 1, the class's samples, the share of them that the person's model recognises, or how many those are. */
export const SCORES = ["one", "samples", "accuracy", "accuracy-samples"] as const;

/**
 * Scores float32 `[classes]`, 0 for a class that the person lacks.
 *
 * @param logits `[n, classes]` of the samples that are judged.
 * @param judged their labels `[n]`.
 * @param counts of all samples of each class.
 */
export function classScores(kind: (typeof SCORES)[number], logits: Tensor, judged: Int32Array, counts: Int32Array): Float32Array {
  const classes = counts.length;
  if (kind === "one") return Float32Array.from(counts, (count) => Number(count > 0));
  if (kind === "samples") return Float32Array.from(counts);
  const right = judged.filter((label, i) => strongest(logits.values.subarray(i * classes, (i + 1) * classes)) === label);
  const recognised = countsOf(right, classes), seen = countsOf(judged, classes);
  return Float32Array.from(counts, (count, label) => {
    const of = Math.max(seen[label], 1);
    // Where all are judged the quotient is 1, and the number of recognised ones exact.
    return kind === "accuracy-samples" ? recognised[label] * Math.fround(count / of) : recognised[label] / of;
  });
}
