// Tensors and hyperparameters of `fedsub-ridge`.

import { ALONE, ON_EACH, TEMPERATURES, packed } from "../closed-form/grids.js";
import type { Heads } from "../closed-form/prior.js";
import { type Declaration, type Declared, declared } from "../wire/bundles.js";

export interface RidgeHyperparameters {
  readonly heads: Heads;
  /** Whose sums are a further candidate: of no group, one, or one a class. */
  readonly groups: "none" | "clusters" | "class" | "nearest";
  readonly prior: number;
  readonly stretches: number;
  readonly openClasses: "on" | "off";
  readonly forgetting: number;
  readonly noise: number;
}

/** What heads are of: classes, and features of the encoder. */
export interface RidgeShape {
  readonly classes: number;
  readonly features: number;
}

/** Of so many features sums take half a GiB to solve. */
export const MOST_FEATURES = 2 ** 13;

/** The heads that a person mixes. */
export function candidatesOf(hyper: RidgeHyperparameters): number {
  return ALONE + ON_EACH * (hyper.groups === "none" ? 1 : 2);
}

/** The numbers of a person's equations. */
export function equationsOf(hyper: RidgeHyperparameters): number {
  const count = candidatesOf(hyper);
  return packed(count - 1) + count + TEMPERATURES.length;
}

/** Names of the sums of a person's groups: none, one, or one a class. */
export function groupsOf(hyper: RidgeHyperparameters, classes: number): string[] {
  const count = hyper.groups === "none" ? 0 : hyper.groups === "class" ? classes : 1;
  return Array.from({ length: count }, (_, i) => `group${i}`);
}

/** The tensors that a device sends. */
export function ridgeSends({ classes, features }: RidgeShape, hyper: RidgeHyperparameters): Declaration {
  return new Map([
    ["gram", declared("Whole", [packed(features)], { optional: true })],
    ["cross", declared("Whole", [classes, features + 1], { optional: true })],
    ["shifts", exact([features + 2])],
    ["equations", exact([equationsOf(hyper)])],
  ]);
}

/** The tensors that it is sent. */
export function ridgeReceives({ classes, features }: RidgeShape, hyper: RidgeHyperparameters): Declaration {
  const sums = ["everybody", ...groupsOf(hyper, classes)].flatMap((name): [string, Declared][] => [
    [`${name}.gram`, exact([packed(features)])],
    [`${name}.cross`, exact([classes, features + 1])],
    [`${name}.exponent`, exact([1])],
  ]);
  return new Map([
    ["held", exact([3])],
    ["asked", exact([1])],
    ["asked.classes", exact([classes])],
    ["inside", exact([classes])],
    ...sums,
    ["holders", exact([classes + 1])],
    ["pooled", exact([equationsOf(hyper)])],
  ]);
}

function exact(shape: readonly number[]): Declared {
  return declared("Dense", shape, { optional: true, exact: true });
}
