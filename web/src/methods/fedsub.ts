/**
 * FedSub (Campana and Delmastro, algorithm 1): integrate what the server sends, train, and upload each class's
 * prototype, and the units that matter for it.
 *
 * All classes of a person share one set of rows: a class's subnetwork is a mask over them, and the rows that any
 * class selects are sent once. A unit's row is its weights, flattened, then its bias.
 */
import { RunError } from "../errors.js";
import { type Chain, type Layer, layerNames } from "../models/chain.js";
import { modelOf } from "../models/of-run.js";
import { size, type Tensors } from "../tensors.js";
import type { Samples } from "../training/kernels.js";
import { train } from "../training/train.js";
import { type Bundle, declared, type Declaration, type Floats, floatsOf, type Part } from "../wire/bundles.js";
import { SHARED } from "./fedavg.js";
import { contentHash, countsOf, embeddingOf, prototypes } from "./fedsub-prototypes.js";
import { LRP_STARTS, RELEVANCE_RULES, representatives, unitRelevance } from "./fedsub-relevance.js";
import { classScores, SCORES } from "./fedsub-scores.js";
import type { Method, Run, State } from "./method.js";
import { asState, firstState, modelIn } from "./models.js";

const NAME = "fedsub";
const PROTOTYPE_FEATURES = ["input", "embedding"] as const;

/** What a device goes by. */
interface FedSubHyperparameters {
  readonly prototype: (typeof PROTOTYPE_FEATURES)[number];
  readonly relevance: (typeof RELEVANCE_RULES)[number];
  readonly relevanceSamples: number;
  readonly lrpStart: (typeof LRP_STARTS)[number];
  readonly score: (typeof SCORES)[number];
  readonly depth: number;
}

/** FedSub: a model of its own, of which the server replaces single units. */
export const fedsub: Method = {
  name: NAME,
  trains: true,
  encodes: false,
  defaults: {
    ...SHARED, prototype: "input", "prototype-noise": "none", "prototype-clip": 0, "prototype-sigma": 0, "prototype-delta": 1e-5,
    relevance: "lrp-a2b1", "relevance-samples": 4, "lrp-start": "logits", score: "one", "k-selection": "dbi", depth: 0,
    impute: false, "impute-neighbours": 5, fusion: "overlapping", "fusion-reading": "own",
  },
  learner(run) {
    const chain = modelOf(run), names = layerNames(chain), hyper = hyperparameters(run);
    if (!(hyper.depth >= 0 && hyper.depth <= names.length)) {
      throw new RunError(`${NAME}.depth: got ${hyper.depth}, expected at most ${names.length}, the model's layers with units; 0 means all`);
    }
    const layers = chain.layers.filter(({ name }) => names.slice(0, hyper.depth || undefined).includes(name));
    const receives: Declaration = new Map(layers.map((layer) => [layer.name, declared("Rows", rowsShape(chain, layer), { optional: true })]));
    const receive = (state: State, received: Bundle): State => ({ ...state, ...asState(integrated(layers, modelIn(state, chain, "model"), received), "model") });
    return {
      sends: sent(run, chain, layers, hyper),
      receives,
      first: () => firstState(chain, run.seed, ["model"]),
      fit(state, received, samples, turn) {
        const start = modelIn(receive(state, received), chain, "model");
        const { params, loss } = train(run, chain, start, samples, turn);
        const upload = uploadOf(run, chain, layers, hyper, params, received.version, samples);
        return { state: { ...state, ...asState(params, "model") }, upload, report: { training_loss: loss } };
      },
      tested: receive,
      predict: (state, x) => run.kernels.forward(chain, modelIn(state, chain, "model"), x),
    };
  },
};

function hyperparameters({ settings }: Run): FedSubHyperparameters {
  const one = <T extends string>(key: string, of: readonly T[], byDefault: T): T => {
    const text = settings.text(`${NAME}.${key}`, byDefault), found = of.find((name) => name === text);
    if (found === undefined) throw new RunError(`${NAME}.${key}: got ${text}, expected one of ${of.join(", ")}`);
    return found;
  };
  const whole = (key: string) => {
    const value = settings.number(`${NAME}.${key}`, 0);
    if (!Number.isInteger(value) || value < 0) throw new RunError(`${NAME}.${key}: got ${value}, expected a whole number from 0 on`);
    return value;
  };
  return {
    prototype: one("prototype", PROTOTYPE_FEATURES, "input"),
    relevance: one("relevance", RELEVANCE_RULES, "lrp-a2b1"),
    relevanceSamples: whole("relevance-samples"),
    lrpStart: one("lrp-start", LRP_STARTS, "logits"),
    score: one("score", SCORES, "one"),
    depth: whole("depth"),
  };
}

/** The shape of a layer's rows, `[units, fan_in + 1]`. */
function rowsShape(chain: Chain, { name, units }: Layer): [number, number] {
  return [units, size((chain.shapes.get(`${name}.weight`) ?? []).slice(1)) + 1];
}

function sent(run: Run, chain: Chain, layers: readonly Layer[], { prototype }: FedSubHyperparameters): Declaration {
  const { classes, shape } = run;
  const features = prototype === "input" ? size(shape) : chain.layers[chain.layers.length - 1].channels;
  return new Map([
    ["classes", declared("Bits", [classes])],
    ["scores", declared("Dense", [classes], { exact: true })],
    ["prototypes", declared("Rows", [classes, features], { optional: true })],
    ...layers.flatMap((layer) => [
      [layer.name, declared("Rows", rowsShape(chain, layer))] as const,
      [`${layer.name}.masks`, declared("Bits", [classes, layer.units])] as const,
    ]),
  ]);
}

/** The parameters with the rows that a download names. */
function integrated(layers: readonly Layer[], params: Tensors, received: Bundle): Tensors {
  const changed: Record<string, Tensors[string]> = {};
  for (const { name, units } of layers) {
    if (!received.tensors.has(name)) continue;
    const { rows, values } = floatsOf(received, name);
    const [weight, bias] = ["weight", "bias"].map((part) => ({ shape: params[`${name}.${part}`].shape, values: params[`${name}.${part}`].values.slice() }));
    const fan = weight.values.length / units;
    (rows ?? Int32Array.from({ length: units }, (_, unit) => unit)).forEach((unit, i) => {
      weight.values.set(values.subarray(i * (fan + 1), i * (fan + 1) + fan), unit * fan);
      bias.values[unit] = values[i * (fan + 1) + fan];
    });
    Object.assign(changed, { [`${name}.weight`]: weight, [`${name}.bias`]: bias });
  }
  return { ...params, ...changed };
}

/** The rows of those units that any class selects by its mask `[classes, units]`. */
function unionRows({ name, units }: Layer, params: Tensors, masks: Uint8Array): Floats {
  const weights = params[`${name}.weight`].values, biases = params[`${name}.bias`].values, fan = weights.length / units;
  const selected = new Uint8Array(units);
  masks.forEach((one, i) => (selected[i % units] |= one));
  const rows = Int32Array.from([...selected.keys()].filter((unit) => selected[unit]));
  const values = new Float32Array(rows.length * (fan + 1));
  rows.forEach((unit, i) => {
    values.set(weights.subarray(unit * fan, (unit + 1) * fan), i * (fan + 1));
    values[i * (fan + 1) + fan] = biases[unit];
  });
  return { kind: "floats", values, rows };
}

function uploadOf(run: Run, chain: Chain, layers: readonly Layer[], hyper: FedSubHyperparameters, params: Tensors, known: bigint, samples: Samples): Bundle {
  const { classes, kernels } = run;
  const counts = countsOf(samples.y, classes);
  const judged = representatives(samples, counts, hyper.relevanceSamples);
  const { relevance, logits } = unitRelevance(kernels, chain, params, judged, hyper.relevance, hyper.lrpStart);
  // A model is behind embeddings, too: nothing names them.
  const version = hyper.prototype === "input" ? contentHash(samples) : 0n;
  const tensors = new Map<string, Part>([
    ["classes", { kind: "bits", values: Uint8Array.from(counts, (count) => Number(count > 0)) }],
    ["scores", { kind: "floats", values: classScores(hyper.score, logits, judged.y, counts) }],
  ]);
  // The server says which version it holds, so a lost upload heals itself.
  if (version === 0n || version !== known) {
    const features = hyper.prototype === "input" ? samples.x : embeddingOf(kernels, chain, params, samples.x);
    tensors.set("prototypes", prototypes(features, samples.y, counts));
  }
  for (const layer of layers) {
    // Of classes without a sample the relevance is 0.
    const masks = Uint8Array.from(relevance.get(layer.name) ?? [], (one) => Number(one > 0));
    tensors.set(layer.name, unionRows(layer, params, masks));
    tensors.set(`${layer.name}.masks`, { kind: "bits", values: masks });
  }
  return { examples: samples.y.length, version, tensors, reference: 0 };
}
