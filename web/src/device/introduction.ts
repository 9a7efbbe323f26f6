/** What a device says of itself before the first round: the record `handshake`. */
import { rowsOf } from "../data/person.js";
import { featureMoments } from "../data/seen.js";
import { momentsOf } from "../data/standardise.js";
import type { Value, Values } from "../values.js";
import { SCHEMA, VERSION } from "./abilities.js";
import type { Half } from "./half.js";

/** Version of secure sums in which this release takes part. */
const SUMS = 2n;
/** Characters of a text at most. */
const LONGEST = 200;

/** The introduction of a person's device to a run, of whose methods `half` is the one that shows most. */
export function introduction(half: Half): Values {
  const { person, split, sight } = half;
  const { card } = person;
  const x = rowsOf(person.x, split.train);
  const moments = momentsOf(x);
  const found = new Map<string, Value>([
    ["client", person.client],
    ["version", VERSION],
    ["schema", SCHEMA],
    ["sums", SUMS],
    ["classes", [...card.classes]],
    ["shape", x.shape.slice(1).map(BigInt)],
    ["examples", BigInt(split.train.length)],
    ["capacity", 1],
    ["count", BigInt(moments.count)],
    ["sum", [...moments.sum]],
    ["sumsq", [...moments.sumsq]],
    ["joined", 1n],
  ]);
  if (card.sensors && x.shape.length === 3) {
    const { sensors } = card;
    found.set("sensor_of", Array.from({ length: x.shape[1] }, (_, channel) => BigInt(sensors.findIndex((axes) => axes.includes(channel)))));
  }
  if (sight.encoder && sight.trains && half.shares) {
    const features = featureMoments(sight.encoder, x);
    found.set("feature_sum", [...features.sum]);
    found.set("feature_sumsq", [...features.sumsq]);
  }
  return found.set("split", split.words.slice(0, LONGEST)).set("parts", split.parts.map(BigInt));
}
