// How much each of a person's candidates counts, and how sure they are together.

import { Matrix, greatest } from "../linear/matrix.js";
import { summed } from "./candidates.js";
import { TEMPERATURES } from "./grids.js";
import { type Heads, NOBODYS, type Prior, admitted, believed, defaultWeights } from "./prior.js";
import { type Equations, combined, logLosses, mixingWeights, normalEquations } from "./stacking.js";

/**
 * Of temperatures whose loss is so many nats a sample above the least, or less, the smallest is taken. Of
 * so few samples half as much is tolerated.
 */
const TOLERATED = 0.02, FEW = 30;

/** A person's samples, of which candidates said what they are without having seen them. */
export interface LeftOut {
  readonly y: Int32Array;
  /** Of candidates, `[n, classes]`. */
  readonly targets: Matrix;
  /** The samples of classes with another sample: no others count here. */
  readonly known: readonly number[];
  /** Of how much each sample counts; undefined: all once. */
  readonly root: Float64Array | undefined;
}

export interface Mixture {
  /** Of each candidate, `[K]`. */
  readonly weights: Float64Array;
  readonly temperature: number;
  /** The samples' own. */
  readonly equations: Equations;
}

/**
 * How a person's candidates are mixed.
 *
 * @param said what candidates say, each `[n, classes]`.
 * @param closed what is added to scores, `[classes]`.
 */
export function mixture(of: LeftOut, said: readonly Matrix[], heads: Heads, prior: Prior, closed: Float64Array): Mixture {
  const samples = of.root?.reduce((sum, root) => sum + root ** 2, 0) ?? of.y.length;
  const some = said.map((one) => one.take(of.known));
  const { gram, target } = normalEquations(some, of.targets.take(of.known));
  const mine: Equations = { samples, gram, target, losses: new Float64Array(TEMPERATURES.length) };
  const whole = normalEquations(said, of.targets).gram.map((value) => value / Math.max(samples, 1));
  const mixed = (by: Prior) => {
    const before = believed(by, whole, heads), weights = weightsOf(combined(mine, 1, before, 1), heads, by);
    const losses = lossesOf(of, summed(some, weights), closed);
    return { weights, before, equations: { ...mine, losses } };
  };
  const { weights, before, equations } = mixed(prior);
  const losses = equations.losses.map((loss, t) => (loss + before.losses[t]) / (samples + before.samples));
  const tolerated = -greatest(losses.map((loss) => -loss)) + (TOLERATED * samples) / (samples + FEW);
  const temperature = TEMPERATURES[losses.findIndex((loss) => loss <= tolerated)];
  // What is pooled follows from samples alone: of who is forgotten nothing stays in it.
  return { weights, temperature, equations: prior.pooled === undefined ? equations : mixed(NOBODYS).equations };
}

/** The weight of each candidate: the default where none is of any good. */
function weightsOf(of: Equations, heads: Heads, prior: Prior): Float64Array {
  const candidates = of.target.length, some = admitted(candidates, heads), found = new Float64Array(candidates);
  const gram = Matrix.of(some.length, some.length, (i, j) => of.gram.at(some[i], some[j]));
  mixingWeights(gram, Float64Array.from(some, (k) => of.target[k])).forEach((weight, i) => (found[some[i]] = weight));
  return found.some((weight) => weight !== 0) ? found : defaultWeights(prior, candidates, heads);
}

function lossesOf(of: LeftOut, said: Matrix, closed: Float64Array): Float64Array {
  const y = Int32Array.from(of.known, (i) => of.y[i]), { root } = of;
  if (root === undefined) return logLosses(said, y, closed);
  const roots = Float64Array.from(of.known, (i) => root[i]);
  return logLosses(said.map((value, i) => value / roots[i]), y, closed, roots.map((one) => one ** 2));
}
