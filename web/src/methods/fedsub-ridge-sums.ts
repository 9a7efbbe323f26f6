// FedSub in closed form where the server learns sums alone, the device half. A round asks for one thing at
// most: which classes a person has, its statistics of some classes, or what its candidates said.

import { TEMPERATURES, packed } from "../closed-form/grids.js";
import { type Rounded, counted } from "../closed-form/sending.js";
import { greatest } from "../linear/matrix.js";
import { type Levels, type Words, vectorOf } from "../secure/quantise.js";
import { hashOfBundle } from "../secure/transcript.js";
import type { Summed } from "../secure/vectors.js";
import type { Samples as Encoded } from "../training/kernels.js";
import { type Bundle, type Part, floatsOf } from "../wire/bundles.js";
import { FedSubRidge, addSums, hasSums, isSolved } from "./fedsub-ridge.js";
import type { OwnSamples, There } from "./fedsub-ridge-own.js";
import { candidatesOf } from "./fedsub-ridge-tensors.js";
import type { Fitted, State, Turn } from "./method.js";

/** What a round adds up; 0: nothing. */
const CLASSES = 1, STATISTICS = 2, EQUATIONS = 3;
/** Greatest number of statistics for each sample: a product of levels, and as much again for rounding. */
const RANGE = 2 * 128 ** 2;
/** By how much a temperature's loss counts as worse than the best one's at most, nats a sample. */
const MOST_LOSS = 3;

/** State beside the other half's: `sent` `[3]`, in which round statistics were sent, of how many samples, and their name. */
export class SummedRidge extends FedSubRidge implements Summed {
  override first(): State {
    return { ...super.first(), sent: { shape: [3], values: new BigInt64Array(3) } };
  }

  override fit(before: State, received: Bundle, train: Encoded, turn: Turn): Fitted {
    const own = this.own(train), solved = this.solved(before, received, own), kind = asked(received);
    const tensors = new Map<string, Part>();
    let { state } = solved;
    if (kind === CLASSES) {
      tensors.set("classes", { kind: "floats", values: Float32Array.from(own.held, Number) });
    } else if (kind === STATISTICS) {
      addSums(tensors, own.statistics(ones(received, "asked.classes")));
      const sent = BigInt64Array.of(BigInt(turn.round), BigInt(own.counted), own.version);
      state = { ...state, sent: { shape: [3], values: sent } };
    } else if (kind === EQUATIONS && solved.head) {
      tensors.set("equations", this.equations(solved.head));
    }
    // Whoever lost its state says that it has none of the sums that it is thought to have.
    const version = isSolved(before) || hasSums(received) ? received.version : 0n;
    const report = { left_out_loss: state.left_out_loss.values[0] as number };
    return { state, upload: { examples: own.counted, version, tensors, reference: 0 }, report };
  }

  /** As the download says; a device that lost its memory goes by the samples that it has. */
  protected override there(state: State, own: OwnSamples, received: Bundle): There {
    const [round, weight] = floatsOf(received, "held").values;
    if (!round) return { version: 0n, samples: 0, counted: 0, classes: undefined };
    const kept = state.sent.values as BigInt64Array, known = kept[0] === BigInt(round);
    const samples = known ? Number(kept[1]) : own.counted, version = known ? kept[2] : own.version;
    return { version, samples, counted: Math.min(samples, weight), classes: ones(received, "inside") };
  }

  /** The name of a vector that stays the same from round to round; "": it changes. */
  once(received: Bundle): string {
    const kind = asked(received);
    // Equations are named by the download that they are of, whatever its number.
    if (kind === EQUATIONS) return `equations of sums ${hashOfBundle({ ...this.toldAlike(received), version: 0n }).slice(0, 16)}`;
    return kind === STATISTICS ? "statistics" : "";
  }

  /** The part of a download on which a vector depends, without what is of each person alone. */
  toldAlike(received: Bundle): Bundle {
    const equations = asked(received) === EQUATIONS;
    const kept = (name: string) => (equations ? !["held", "inside"].includes(name) : ["asked", "asked.classes"].includes(name));
    return { ...received, tensors: new Map([...received.tensors].filter(([name]) => kept(name))) };
  }

  /**
   * The vector of what was asked for.
   *
   * @throws RangeError if nothing was.
   */
  vector(upload: Bundle, _received: Bundle, levels: Levels): Words {
    const sent = upload.tensors, { classes } = this.shape;
    if (sent.has("classes")) {
      return vectorOf(Float64Array.from(floatsOf(upload, "classes").values), 1, { ...levels, range: 1 });
    }
    if (sent.has("gram")) return statisticsVector(upload, levels);
    if (!sent.has("equations")) throw new RangeError("asked: got nothing beside a plan of a sum, expected what is added up");
    const row = Float64Array.from(floatsOf(upload, "equations").values);
    return equationsVector(row, candidatesOf(this.hyper), Math.max(4 * classes, MOST_LOSS), upload.examples, levels);
  }
}

/** The vector of statistics: whole numbers; of who has more samples than may count, less by as much. */
function statisticsVector(upload: Bundle, levels: Levels): Words {
  const whole = (name: string) => {
    const part = upload.tensors.get(name);
    return part?.kind === "whole" ? part.values : new Int16Array();
  };
  const shifts = Int32Array.from(floatsOf(upload, "shifts").values), countsAs = Math.min(upload.examples, levels.weight);
  const sums: Rounded = { gram: whole("gram"), cross: whole("cross"), shifts };
  const { gram, cross } = counted(sums, upload.examples, countsAs);
  const both = new Float64Array(gram.length + cross.values.length);
  both.set(gram);
  both.set(cross.values, gram.length);
  return vectorOf(both.map((value) => value / countsAs), countsAs, { ...levels, range: RANGE });
}

/** The vector of equations: those of candidates that say huge numbers are shortened as a whole. */
function equationsVector(row: Float64Array, candidates: number, range: number, examples: number, levels: Levels): Words {
  const losses = row.length - TEMPERATURES.length, least = -greatest(row.subarray(losses).map((loss) => -loss));
  const largest = greatest(Array.from({ length: candidates }, (_, k) => row[packed(k) - 1]));
  const times = largest > range ? range / largest : 1;
  const own = row.map((value, i) => (i < losses ? value * times : Math.min(value - least, MOST_LOSS)));
  const vector = vectorOf(own, examples, { ...levels, range });
  if (times < 1) vector[vector.length - 1] = 1;
  return vector;
}

/** What a download asks for. */
function asked(received: Bundle): number {
  return received.tensors.has("asked") ? Math.trunc(floatsOf(received, "asked").values[0]) : 0;
}

/** Of which classes a download says 1. */
function ones(received: Bundle, name: string): boolean[] {
  return Array.from(floatsOf(received, name).values, (value) => value > 0);
}
