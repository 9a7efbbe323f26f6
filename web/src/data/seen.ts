/** What a method's model sees of a person's samples: standardised, encoded and, where it is trained, standardised again. */
import { type Encoder, quantised, scaled } from "../encoders/encoder.js";
import type { Tensor } from "../tensors.js";
import type { Samples } from "../training/kernels.js";
import { type Person, rowsOf } from "./person.js";
import type { Split } from "./splits.js";
import { featureScalingOf, momentsOf, type Moments, type Scaling, scalingOf, standardised } from "./standardise.js";

/** The federation's standardisation, as a turn brings it; undefined: it shares none. */
export interface Shared {
  readonly samples: Scaling | undefined;
  readonly features: Scaling | undefined;
}

/** How samples become a model's inputs. */
export interface Sight {
  /** Whose moments standardise: `client`, `none`, or the federation's. */
  readonly standardise: string;
  /** What makes features; undefined: the model sees samples. */
  readonly encoder: Encoder | undefined;
  /** Whether the method trains its model: its features are then standardised, too. */
  readonly trains: boolean;
}

/** A person's training and test part, as a model sees them. */
export interface SeenParts {
  readonly train: Samples;
  readonly test: Samples;
}

/** Both parts in a round. */
export function seenParts(person: Person, split: Split, sight: Sight, shared: Shared): SeenParts {
  const labels = (rows: readonly number[]) => Int32Array.from(rows, (row) => person.y[row]);
  const see = seeing(person, split, sight, shared);
  const part = (rows: readonly number[]) => ({ x: see(rowsOf(person.x, rows)), y: labels(rows) });
  return { train: part(split.train), test: part(split.test) };
}

/** What makes a model's inputs of samples in their units, new ones also. */
export function seeing(person: Person, split: Split, sight: Sight, shared: Shared): (x: Tensor) => Tensor {
  const trainX = rowsOf(person.x, split.train);
  const scaling = sight.standardise === "client" ? scalingOf(momentsOf(trainX)) : shared.samples;
  const plain = (x: Tensor) => (scaling ? standardised(scaling, x) : x);
  if (!sight.encoder) return plain;
  const own = sight.encoder.ofPerson(quantised(plain(trainX).values));
  const encode = (x: Tensor) => encoded(own, plain(x));
  const features = sight.trains ? (sight.standardise === "client" ? featureScalingOf(featureMoments(sight.encoder, trainX)) : shared.features) : undefined;
  return (x) => (features ? standardised(features, encode(x)) : encode(x));
}

/** Features `[n, D]` in [-1, 1) of standardised samples. */
export function encoded(encoder: Encoder, x: Tensor): Tensor {
  return { shape: [x.shape[0], encoder.features], values: scaled(encoder.levels(quantised(x.values))) };
}

/** The moments of features of samples in their units, standardised by their own. */
export function featureMoments(encoder: Encoder, x: Tensor): Moments {
  const own = standardised(scalingOf(momentsOf(x)), x);
  return momentsOf(encoded(encoder.ofPerson(quantised(own.values)), own));
}
