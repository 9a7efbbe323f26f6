/** Ditto (Li et al. 2021, algorithm 1): a personal model beside FedAvg's, pulled to it as it was received. */
import { layerNames } from "../models/chain.js";
import { modelOf } from "../models/of-run.js";
import { train } from "../training/train.js";
import type { Bundle } from "../wire/bundles.js";
import { SHARED } from "./fedavg.js";
import type { Method, State } from "./method.js";
import { adopted, asState, firstState, modelIn, uploadOf, wholeLayers } from "./models.js";

/** Ditto: trains the global model and sends it, and its own on the same batches. */
export const ditto: Method = {
  name: "ditto",
  trains: true,
  encodes: false,
  defaults: { ...SHARED, lam: 1, "personal-epochs": 0 },
  learner(run) {
    const chain = modelOf(run);
    const travels = wholeLayers(chain, layerNames(chain));
    const weight = run.settings.number("ditto.lam", 1);
    const epochs = run.settings.number("ditto.personal-epochs", 0);
    // Whoever joins late starts from the server's model.
    const receive = (state: State, received: Bundle): State => {
      const own = state.met.values[0] ? state : adopted(state, chain, "personal", received);
      return { ...adopted(own, chain, "global", received), met: { shape: [], values: Float32Array.of(1) } };
    };
    return {
      sends: travels,
      receives: travels,
      first: () => ({ ...firstState(chain, run.seed, ["global", "personal"]), met: { shape: [], values: Float32Array.of(0) } }),
      fit(state, received, samples, turn) {
        const start = receive(state, received);
        const anchor = modelIn(start, chain, "global");
        const shared = train(run, chain, anchor, samples, turn);
        const own = train(run, chain, modelIn(start, chain, "personal"), samples, turn, { pull: { anchor, weight }, ...(epochs && { epochs }) });
        const after = { ...start, ...asState(shared.params, "global"), ...asState(own.params, "personal") };
        return { state: after, upload: uploadOf(shared.params, travels, samples.y.length), report: { training_loss: own.loss } };
      },
      tested: receive,
      predict: (state, x) => run.kernels.forward(chain, modelIn(state, chain, "personal"), x),
    };
  },
};
