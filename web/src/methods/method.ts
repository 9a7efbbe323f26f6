/** The device half of a method: pure functions of a person's state, samples and what the server sends. */
import type { Settings } from "../device/settings.js";
import type { Numbers, Tensor } from "../tensors.js";
import type { Kernels, Samples } from "../training/kernels.js";
import type { Bundle, Declaration } from "../wire/bundles.js";

/** What a device keeps of a method between rounds, by name. */
export type State = Readonly<Record<string, Tensor<Numbers>>>;

/** Which round of how many, from 1, and the run's seed. */
export interface Turn {
  readonly round: number;
  readonly rounds: number;
  readonly seed: bigint;
}

/** What a method's half knows of its run and its person. */
export interface Run {
  readonly settings: Settings;
  readonly client: string;
  readonly classes: number;
  /** Of one sample, as the model sees it. */
  readonly shape: readonly number[];
  readonly seed: bigint;
  readonly kernels: Kernels;
}

/** What a round of local work gives. */
export interface Fitted {
  readonly state: State;
  readonly upload: Bundle;
  /** Numbers beside the upload, by name. */
  readonly report: Readonly<Record<string, number>>;
}

/** A method's half in a run. */
export interface Learner {
  /** The tensors that a device sends, and those that it receives. */
  readonly sends: Declaration;
  readonly receives: Declaration;
  /** The state before the first round. */
  first(): State;
  /** One round of local work: take in what was received, train, say what to upload. */
  fit(state: State, received: Bundle, train: Samples, turn: Turn): Fitted;
  /** The state in which the person's model is tested; nothing of it is kept. */
  tested(state: State, received: Bundle, train: Samples, turn: Turn): State;
  /** Logits `[n, classes]` of samples `x [n, *features]` by the person's own model. */
  predict(state: State, x: Tensor): Tensor;
  /** The same by the model that the person has without others, where the method keeps one. */
  predictAlone?(state: State, x: Tensor): Tensor;
}

/** A method by its name. */
export interface Method {
  readonly name: string;
  /** Whether it trains a model in steps; then its features are standardised, too. */
  readonly trains: boolean;
  /** Whether `encoder = auto` puts an encoder in front of its model. */
  readonly encodes: boolean;
  /** Its hyperparameters, by which a device goes or may, with their defaults. */
  readonly defaults: Readonly<Record<string, number | boolean | string>>;
  /** Its half in a run; throws a RunError where settings do not fit. */
  learner(run: Run): Learner;
}
