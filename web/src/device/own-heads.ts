// The head that is solved of a person's own samples alone, and its scores: what a method is held against.

import { headAlone } from "../closed-form/personal.js";
import type { Person } from "../data/person.js";
import { type SeenParts, type Shared, seenParts } from "../data/seen.js";
import type { Split } from "../data/splits.js";
import { type EncoderContext, buildEncoder } from "../encoders/build.js";
import type { Encoder } from "../encoders/encoder.js";
import { resolveEncoder } from "../encoders/names.js";
import { RunError } from "../errors.js";
import { matrixOf, scores } from "../methods/fedsub-ridge.js";
import { MOST_FEATURES } from "../methods/fedsub-ridge-tensors.js";
import type { Value } from "../values.js";
import { evaluated } from "./evaluation.js";

/** Training samples of whom a head is solved, at most. */
const MOST_SAMPLES = 2 ** 12;
const NAMES = ["macro_f1", "weighted_f1", "loss"];

/** The encoder of own heads; undefined for samples that no encoder takes. A head needs features: `none` is of methods. */
export function ownEncoder(text: string, context: EncoderContext): Encoder | undefined {
  try {
    const encoder = buildEncoder(resolveEncoder(text === "none" ? "auto" : text, true, context.shape), context);
    return encoder && encoder.features <= MOST_FEATURES ? encoder : undefined;
  } catch (error) {
    if (error instanceof RunError) return undefined;
    throw error;
  }
}

/** A person's own head, solved once for each standardisation. */
export class OwnHead {
  private known: { readonly parts: SeenParts; readonly scores: ReadonlyMap<string, Value> } | undefined;

  constructor(
    private readonly person: Person,
    private readonly split: Split,
    private readonly standardise: string,
    private readonly encoder: Encoder | undefined,
  ) {}

  /**
   * Its scores on the test part, by the names of the record `metrics`; none where there is no such head.
   *
   * @param parts of the method, with the same standardisation: a name of it.
   */
  scores(shared: Shared, parts: SeenParts): ReadonlyMap<string, Value> {
    if (this.known?.parts !== parts) this.known = { parts, scores: this.solved({ ...shared, features: undefined }) };
    return this.known.scores;
  }

  private solved(shared: Shared): ReadonlyMap<string, Value> {
    const { person, split, standardise, encoder } = this;
    if (encoder === undefined || split.train.length > MOST_SAMPLES || !split.test.length) return new Map();
    const { train, test } = seenParts(person, split, { standardise, encoder, trains: false }, shared);
    const head = headAlone({ x: matrixOf(train.x), y: train.y }, person.card.classes.length);
    const found = evaluated(scores(head, test.x), test.y, new Set(train.y), false);
    return new Map(NAMES.map((name) => [`own_heads_${name}`, found.get(name)!]));
  }
}
