/** FedRep (Collins et al. 2021, algorithm 1): first the head, on the common body, then the body. */
import { headAndBody } from "../models/chain.js";
import { modelOf } from "../models/of-run.js";
import { train } from "../training/train.js";
import { oneModel, SHARED } from "./fedavg.js";
import type { Method } from "./method.js";
import { asState, modelIn, uploadOf, wholeLayers } from "./models.js";

/** FedRep: each device trains its own head on the common body, then the body under that head. */
export const fedrep: Method = {
  name: "fedrep",
  trains: true,
  encodes: false,
  defaults: { ...SHARED, "head-layers": 1, "head-epochs": 1, "head-lr-factor": 1, finetune: false },
  learner(run) {
    const chain = modelOf(run);
    const { settings } = run;
    const { head, body } = headAndBody(chain, settings.number("fedrep.head-layers", 1));
    const first = { phase: "head", epochs: settings.number("fedrep.head-epochs", 1), rate: settings.number("fedrep.head-lr-factor", 1), only: head };
    const finetune = settings.flag("fedrep.finetune", false);
    const sends = wholeLayers(chain, body);
    const learner = oneModel(run, chain, sends, () => ({}));
    return {
      ...learner,
      fit(state, received, samples, turn) {
        const start = learner.tested(state, received, samples, turn);
        let trained = train(run, chain, modelIn(start, chain, "model"), samples, turn, first);
        if (!(finetune && turn.round === turn.rounds)) trained = train(run, chain, trained.params, samples, turn, { only: body });
        const upload = uploadOf(trained.params, sends, samples.y.length);
        return { state: { ...start, ...asState(trained.params, "model") }, upload, report: { training_loss: trained.loss } };
      },
    };
  },
};
