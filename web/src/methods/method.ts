/** The device half of a method: pure functions of a person's state, data and what the server sends. */
import type { Numbers, Tensor } from "../tensors.js";
import type { Bundle, Declaration } from "../wire/bundles.js";

/** What a device keeps of a method between rounds, by name. */
export type State = Readonly<Record<string, Tensor<Numbers>>>;

/** What a round of local work gives. */
export interface Fitted {
  readonly state: State;
  readonly upload: Bundle;
  /** Numbers beside the upload, by name. */
  readonly report: Readonly<Record<string, number>>;
}

export type { Bundle, Declaration };
