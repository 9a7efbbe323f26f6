/** What a device says of itself before the first round: the record `handshake`. */
import { rowsOf } from "../data/person.js";
import { featureMoments } from "../data/seen.js";
import { momentsOf, momentsVector } from "../data/standardise.js";
import type { Value, Values } from "../values.js";
import { addsUp } from "../secure/settings.js";
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
  // In sums the server learns no single person's.
  const summed = addsUp(half.settings), shown = (sums: Float64Array) => Array.from(sums, (one) => (summed ? 0 : one));
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
    ["sum", shown(moments.sum)],
    ["sumsq", shown(moments.sumsq)],
    ["joined", 1n],
  ]);
  if (card.sensors && x.shape.length === 3) {
    const { sensors } = card;
    found.set("sensor_of", Array.from({ length: x.shape[1] }, (_, channel) => BigInt(sensors.findIndex((axes) => axes.includes(channel)))));
  }
  if (sight.encoder && sight.trains && half.shares) {
    const features = featureMoments(sight.encoder, x);
    found.set("feature_sum", shown(features.sum));
    found.set("feature_sumsq", shown(features.sumsq));
  }
  return found.set("split", split.words.slice(0, LONGEST)).set("parts", split.parts.map(BigInt));
}

/** The sums that all people's standardisation is of, `samples` or `features`, in a row; undefined: the run shares none. */
export function sharedMoments(halves: readonly Half[], of: string): Float64Array | undefined {
  const fullest = halves.find(({ sight }) => sight.encoder && sight.trains);
  const [{ person, split, shares }] = halves, x = rowsOf(person.x, split.train);
  if (of === "samples" && shares) return momentsVector(momentsOf(x));
  const encoder = fullest?.sight.encoder;
  return of === "features" && encoder && shares ? momentsVector(featureMoments(encoder, x)) : undefined;
}
