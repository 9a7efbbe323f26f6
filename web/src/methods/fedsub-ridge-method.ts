// FedSub in closed form, as a method of the table.

import type { Heads } from "../closed-form/prior.js";
import { RunError } from "../errors.js";
import { size } from "../tensors.js";
import { FedSubRidge } from "./fedsub-ridge.js";
import { SummedRidge } from "./fedsub-ridge-sums.js";
import { MOST_FEATURES, type RidgeHyperparameters } from "./fedsub-ridge-tensors.js";
import type { Method, Run } from "./method.js";

const NAME = "fedsub-ridge";
const HEADS: readonly Heads[] = ["mixed", "own", "everybody"];
const GROUPS = ["none", "clusters", "class", "nearest"] as const;
const OPEN = ["on", "off"] as const;

/** FedSub in closed form: heads solved from sums. */
export const fedsubRidge: Method = {
  name: NAME,
  trains: false,
  encodes: true,
  defaults: {
    heads: "mixed", groups: "none", "cluster-count": 3, near: 8, prior: 300, stretches: 3, "open-classes": "on",
    forgetting: 1, noise: 0, "noise-delta": 1e-5, tested: "trained",
  },
  learner(run) {
    const shape = { classes: run.classes, features: size(run.shape) }, hyper = hyperparameters(run);
    if (shape.features > MOST_FEATURES) {
      throw new RunError(`${NAME}: got ${shape.features} features, expected ${MOST_FEATURES} at most`);
    }
    const summed = run.settings.flag("secure-aggregation", false);
    return summed ? new SummedRidge(shape, hyper) : new FedSubRidge(shape, hyper);
  },
};

function hyperparameters({ settings }: Run): RidgeHyperparameters {
  const number = (key: string, byDefault: number) => settings.number(`${NAME}.${key}`, byDefault);
  const one = <T extends string>(key: string, of: readonly T[]): T => {
    const text = settings.text(`${NAME}.${key}`, of[0]), found = of.find((name) => name === text);
    if (found === undefined) throw new RunError(`${NAME}.${key}: got ${text}, expected one of ${of.join(", ")}`);
    return found;
  };
  return {
    heads: one("heads", HEADS),
    groups: one("groups", GROUPS),
    prior: number("prior", 300),
    stretches: number("stretches", 3),
    openClasses: one("open-classes", OPEN),
    forgetting: number("forgetting", 1),
    noise: number("noise", 0),
  };
}
