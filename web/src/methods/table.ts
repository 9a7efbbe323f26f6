/** The methods that this device knows: one line each. */
import { ditto } from "./ditto.js";
import { fedavg, fedper, fedprox, local } from "./fedavg.js";
import { fedrep } from "./fedrep.js";
import { fedsub } from "./fedsub.js";
import { fedsubRidge } from "./fedsub-ridge-method.js";
import type { Method } from "./method.js";

const METHODS: readonly Method[] = [
  fedavg,
  fedprox,
  fedper,
  fedrep,
  ditto,
  fedsub,
  fedsubRidge,
  local,
];

/** The method of a name; undefined: this device does not know it. */
export function methodNamed(name: string): Method | undefined {
  return METHODS.find((method) => method.name === name);
}

/** Names of all methods. */
export const METHOD_NAMES: readonly string[] = METHODS.map((method) => method.name);
