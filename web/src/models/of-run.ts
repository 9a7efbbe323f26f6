/** The model of a run, as its settings name it. */
import type { Run } from "../methods/method.js";
import { buildModel, type Chain } from "./chain.js";

/** The model of a run; throws a RunError where this device has no such model. */
export function modelOf({ settings, shape, classes }: Run): Chain {
  return buildModel(settings.text("model"), shape, classes, settings.text("hidden", "128,512"));
}
