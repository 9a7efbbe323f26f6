/**
 * FedAvg (McMahan et al. 2017) and what differs from it by what travels alone: FedPer (Arivazhagan et
 * al. 2019) keeps the head at home, training alone sends nothing. FedProx (Li et al. 2020, eq. 2)
 * adds a pull to the model that training starts from.
 */
import { type Chain, headAndBody, layerNames } from "../models/chain.js";
import { modelOf } from "../models/of-run.js";
import { train, type Work } from "../training/train.js";
import type { Bundle, Declaration } from "../wire/bundles.js";
import type { Learner, Method, Run, State } from "./method.js";
import { adopted, asState, firstState, modelIn, uploadOf, wholeLayers } from "./models.js";

/** Hyperparameters of all methods, which a device tells no difference by at these defaults. */
export const SHARED = { smooth: 0, tested: "" } as const;

/** The learner of one model, which trains, and of which some layers travel. */
export function oneModel(run: Run, chain: Chain, travels: Declaration, work: (start: State) => Work): Learner {
  const receive = (state: State, received: Bundle) => adopted(state, chain, "model", received);
  return {
    sends: travels,
    receives: travels,
    first: () => firstState(chain, run.seed, ["model"]),
    fit(state, received, samples, turn) {
      const start = receive(state, received);
      const { params, loss } = train(run, chain, modelIn(start, chain, "model"), samples, turn, work(start));
      const upload = uploadOf(params, travels, samples.y.length);
      return { state: { ...start, ...asState(params, "model") }, upload, report: { training_loss: loss } };
    },
    tested: receive,
    predict: (state, x) => run.kernels.forward(chain, modelIn(state, chain, "model"), x),
  };
}

/** FedAvg: one model for all, the mean of everybody's. */
export const fedavg: Method = {
  name: "fedavg",
  trains: true,
  encodes: false,
  defaults: SHARED,
  learner(run) {
    const chain = modelOf(run);
    return oneModel(run, chain, wholeLayers(chain, layerNames(chain)), () => ({}));
  },
};

/** FedProx: FedAvg, with local training pulled to the global model. */
export const fedprox: Method = {
  name: "fedprox",
  trains: true,
  encodes: false,
  defaults: { ...SHARED, mu: 0.01 },
  learner(run) {
    const chain = modelOf(run);
    const weight = run.settings.number("fedprox.mu", 0.01);
    const work = (start: State) => ({ pull: { anchor: modelIn(start, chain, "model"), weight } });
    return oneModel(run, chain, wholeLayers(chain, layerNames(chain)), work);
  },
};

/** FedPer: a common body, everybody's own head, trained together. */
export const fedper: Method = {
  name: "fedper",
  trains: true,
  encodes: false,
  defaults: { ...SHARED, "head-layers": 1 },
  learner(run) {
    const chain = modelOf(run);
    const { body } = headAndBody(chain, run.settings.number("fedper.head-layers", 1));
    return oneModel(run, chain, wholeLayers(chain, body), () => ({}));
  },
};

/** Training alone, without a federation. */
export const local: Method = {
  name: "local",
  trains: true,
  encodes: false,
  defaults: SHARED,
  learner: (run) => oneModel(run, modelOf(run), new Map(), () => ({})),
};
