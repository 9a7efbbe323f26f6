/** How good a person's model is on its test part. */
import type { Tensor } from "../tensors.js";
import type { Value } from "../values.js";

/** Classes of the largest confusion matrix that is counted. */
const MOST_CONFUSED = 50;

/** What is measured, by the names of the record `metrics`. */
export type Metrics = Map<string, Value>;

/**
 * The metrics of logits `[n, classes]` of samples of classes `y [n]`.
 *
 * @param trained classes of which there is a training sample.
 * @param counts whether samples are counted by true and predicted class.
 */
export function evaluated(logits: Tensor, y: Int32Array, trained: ReadonlySet<number>, counts: boolean): Metrics {
  const [n, classes] = logits.shape;
  const confusion = new Float64Array(classes * classes);
  let loss = 0;
  for (let i = 0; i < n; i++) {
    const row = logits.values.subarray(i * classes, (i + 1) * classes);
    confusion[y[i] * classes + strongest(row)] += 1;
    loss += crossEntropy(row, y[i]);
  }
  const f1 = f1OfClasses(confusion, classes);
  const scores = [...f1.values()];
  const support = (label: number) => confusion.subarray(label * classes, (label + 1) * classes).reduce((a, b) => a + b, 0);
  const hits = Array.from({ length: classes }, (_, label) => confusion[label * classes + label]).reduce((a, b) => a + b, 0);
  const found: Metrics = new Map<string, Value>([
    ["macro_f1", mean(scores)],
    ["weighted_f1", Math.min(1, [...f1].reduce((sum, [label, score]) => sum + score * support(label), 0) / n)],
    ["accuracy", hits / n],
    ["loss", loss / n],
    ["examples", n],
  ]);
  const tested = [...new Set(y)];
  const lacking = tested.filter((label) => !trained.has(label));
  if (lacking.length) {
    found.set("f1_unlabelled", mean(lacking.map((label) => f1.get(label) ?? 0)));
    const labelled = tested.filter((label) => trained.has(label));
    if (labelled.length) found.set("f1_labelled", mean(labelled.map((label) => f1.get(label) ?? 0)));
  }
  if (counts && classes <= MOST_CONFUSED) {
    const cells = [...confusion.keys()].filter((cell) => confusion[cell]);
    found.set("confusion", cells.flatMap((cell) => [Math.floor(cell / classes), cell % classes, confusion[cell]].map(BigInt)));
  }
  for (const [label, score] of f1) found.set(`f1.${label}`, score);
  return found;
}

/** Place of the largest number, or of the first NaN where there is one. */
export function strongest(row: Float32Array): number {
  const broken = row.findIndex(Number.isNaN);
  return broken >= 0 ? broken : row.indexOf(Math.max(...row));
}

function mean(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

/** Of each class that is present or predicted its F1, 2 TP / (2 TP + FP + FN). */
function f1OfClasses(confusion: Float64Array, classes: number): Map<number, number> {
  const found = new Map<number, number>();
  for (let label = 0; label < classes; label++) {
    let both = 0;
    for (let other = 0; other < classes; other++) both += confusion[label * classes + other] + confusion[other * classes + label];
    if (both) found.set(label, (2 * confusion[label * classes + label]) / both);
  }
  return found;
}

/** Natural logarithms. */
function crossEntropy(row: Float32Array, label: number): number {
  const most = Math.max(...row);
  const sum = row.reduce((total, logit) => total + Math.exp(logit - most), 0);
  return Math.log(sum) - (row[label] - most);
}
