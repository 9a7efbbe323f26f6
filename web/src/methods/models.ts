/** What methods of models are made of: models in a state, downloads in their place, uploads of them. */
import { type Chain, firstModel, parametersOf } from "../models/chain.js";
import type { Tensor, Tensors } from "../tensors.js";
import { type Bundle, declared, type Declaration, floatsOf, put } from "../wire/bundles.js";
import type { State } from "./method.js";

/** The parameters of one of the models in a state. */
export function modelIn(state: State, chain: Chain, model: string): Tensors {
  return Object.fromEntries([...chain.shapes.keys()].map((name) => [name, state[`${model}.${name}`] as Tensor]));
}

/** A model's parameters as a part of a state. */
export function asState(params: Tensors, model: string): State {
  return Object.fromEntries(Object.entries(params).map(([name, tensor]) => [`${model}.${name}`, tensor]));
}

/** The state with the run's first model under each of some names. */
export function firstState(chain: Chain, seed: bigint, models: readonly string[]): State {
  const first = firstModel(chain, seed);
  return Object.assign({}, ...models.map((model) => asState(first, model))) as State;
}

/** The state in which a download's numbers are in the place of a model's own. */
export function adopted(state: State, chain: Chain, model: string, received: Bundle): State {
  const params = { ...modelIn(state, chain, model) };
  for (const [name, tensor] of Object.entries(params)) {
    if (!received.tensors.has(name)) continue;
    const part = floatsOf(received, name);
    const values = tensor.values.slice();
    put(values, part, part.values, tensor.shape[0]);
    params[name] = { shape: tensor.shape, values };
  }
  return { ...state, ...asState(params, model) };
}

/** The declaration of the parameters of some layers, whole. */
export function wholeLayers(chain: Chain, layers: readonly string[]): Declaration {
  return new Map(parametersOf(chain, layers).map((name) => [name, declared("Dense", chain.shapes.get(name) ?? [])]));
}

/** The upload of declared parameters, whole. */
export function uploadOf(params: Tensors, sends: Declaration, examples: number): Bundle {
  const tensors = new Map([...sends.keys()].map((name) => [name, { kind: "floats" as const, values: params[name].values }]));
  return { examples, version: 0n, tensors, reference: 0 };
}
