/** Local training as Python's devices do it: the same batches, the same steps. */
import type { Run, Turn } from "../methods/method.js";
import { type Chain, layerNames } from "../models/chain.js";
import { deriveSeed } from "../random/seeds.js";
import { Twister } from "../random/twister.js";
import type { Tensors } from "../tensors.js";
import type { Pull, Samples } from "./kernels.js";

/** What differs from the run's settings. */
export interface Work {
  /** Names the streams of a phase that has batches of its own. */
  readonly phase?: string;
  /** Instead of the run's epochs or steps. */
  readonly epochs?: number;
  /** Multiplies the learning rate. */
  readonly rate?: number;
  /** Layers that are trained; left out: all. */
  readonly only?: readonly string[];
  readonly pull?: Pull;
}

/** Parameters after local training, and the mean cross-entropy of its steps; NaN without any. */
export interface Trained {
  readonly params: Tensors;
  readonly loss: number;
}

/** The parameters after some epochs on a person's samples; those given stay as they are. */
export function train(run: Run, chain: Chain, params: Tensors, samples: Samples, turn: Turn, work: Work = {}): Trained {
  const { settings } = run;
  const steps = work.epochs === undefined ? settings.number("steps", 0) : 0;
  const epochs = steps ? 1 : (work.epochs ?? settings.number("epochs"));
  const begin = work.phase ? `${work.phase}: ` : "";
  const orders = Array.from({ length: epochs }, (_, epoch) => {
    const seed = deriveSeed(turn.seed, run.client, turn.round, `${begin}batches of epoch ${epoch}`);
    return new Twister(seed).permutation(samples.y.length);
  });
  const rate = settings.number("lr") * (work.rate ?? 1) * settings.number("lr-decay", 1) ** (turn.round - 1);
  return run.kernels.descend(chain, params, samples, work.only ?? layerNames(chain), orders, {
    batch: settings.number("batch-size"),
    steps,
    momentum: settings.number("momentum"),
    rate,
    decay: settings.number("weight-decay", 0),
    pull: work.pull?.weight ? work.pull : undefined,
  });
}
