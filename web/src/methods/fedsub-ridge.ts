// FedSub in closed form, the device half: sums once, and a head whenever there is news.

import { type SolvedSets, personalHead, type Others, type PersonalHead } from "../closed-form/personal.js";
import { Shared } from "../closed-form/candidates.js";
import { greatest, Matrix } from "../linear/matrix.js";
import { packed } from "../closed-form/grids.js";
import { holdersIn, soundHolders } from "../closed-form/lending.js";
import { soundSums } from "../closed-form/possible.js";
import type { LinearHead } from "../closed-form/scale.js";
import { flat, portable, rounded, unflat } from "../closed-form/sending.js";
import { type Samples, type Statistics, plus } from "../closed-form/statistics.js";
import { type Tensor, size } from "../tensors.js";
import type { Samples as Encoded } from "../training/kernels.js";
import { type Bundle, type Part, floatsOf } from "../wire/bundles.js";
import { OwnSamples, type There, namedIn } from "./fedsub-ridge-own.js";
import {
  type RidgeHyperparameters, type RidgeShape, candidatesOf, groupsOf, ridgeReceives, ridgeSends,
} from "./fedsub-ridge-tensors.js";
import type { Fitted, Learner, State, Turn } from "./method.js";

/** Deviations of noise from which on everybody's count of a class is one. */
const CLEAR = 2;
const MODEL = "model.linear1", WITHOUT_OTHERS = "alone.linear1";
/** Without which a download brings no sums. */
const SUMS = "everybody.gram";

/** State: the head and the one of own samples alone, whether it was solved, the loss of samples left out. */
export class FedSubRidge implements Learner {
  readonly sends;
  readonly receives;
  /** The sums that came last, with the candidates on them: new equations come for the same sums. */
  private last: { readonly sums: Statistics; readonly shared: Shared; readonly own: bigint; readonly solved: SolvedSets } | undefined;

  constructor(protected readonly shape: RidgeShape, protected readonly hyper: RidgeHyperparameters) {
    this.sends = ridgeSends(shape, hyper);
    this.receives = ridgeReceives(shape, hyper);
  }

  /** A model that nobody has solved. */
  first(): State {
    const { classes, features } = this.shape;
    const nothing = { weight: new Matrix(classes, features), bias: new Float64Array(classes) };
    return { ...tensorsOf(MODEL, nothing), ...tensorsOf(WITHOUT_OTHERS, nothing), left_out_loss: number(0), solved: number(0) };
  }

  /** Solve a head of what is new; send sums if the server has others, equations if asked. */
  fit(state: State, received: Bundle, train: Encoded, turn: Turn): Fitted;
  fit(state: State, received: Bundle, train: Encoded): Fitted {
    const own = this.own(train), solved = this.solved(state, received, own);
    const tensors = new Map<string, Part>(), sums = received.tensors.has(SUMS);
    // Whoever lost its state, and is thought to have all sums, asks for them by its own.
    const lost = !isSolved(state) && !sums;
    if (lost || received.version !== own.version) addSums(tensors, own.statistics());
    if (solved.head && sums && !own.answered(received)) tensors.set("equations", this.equations(solved.head));
    const upload: Bundle = { examples: own.counted, version: own.version, tensors, reference: 0 };
    return { state: solved.state, upload, report: { left_out_loss: solved.state.left_out_loss.values[0] as number } };
  }

  /** The state with a head of what is new, without sending anything. */
  tested(state: State, received: Bundle, train: Encoded): State {
    return this.solved(state, received, this.own(train)).state;
  }

  predict(state: State, x: Tensor): Tensor {
    return scores(headIn(state, MODEL), x);
  }

  /** Logits of the head of own samples alone, against which the other is held. */
  predictAlone(state: State, x: Tensor): Tensor {
    return scores(headIn(state, WITHOUT_OTHERS), x);
  }

  protected own({ x, y }: Encoded): OwnSamples {
    const samples: Samples = { x: matrixOf(x), y };
    return new OwnSamples(samples, this.shape.classes, this.hyper.forgetting);
  }

  /** The samples of the person that the sums in a download hold. */
  protected there(_state: State, _own: OwnSamples, received: Bundle): There {
    return namedIn(received);
  }

  /** The state with a new head, and that; undefined where nothing is new. */
  protected solved(state: State, received: Bundle, own: OwnSamples): { state: State; head: PersonalHead | undefined } {
    if (!received.tensors.has(SUMS) && isSolved(state)) return { state, head: undefined };
    const head = this.head(state, received, own), { samples, losses } = head.equations;
    const loss = -greatest(losses.map((one) => -one)) / Math.max(samples, 1);
    const solved = { left_out_loss: number(loss), solved: number(1) };
    return { head, state: { ...state, ...tensorsOf(MODEL, head), ...tensorsOf(WITHOUT_OTHERS, head.alone), ...solved } };
  }

  /** A head's equations as they travel: a sample's worth. Of candidates on sums that are not solved they say nothing. */
  protected equations({ equations }: PersonalHead): Part {
    const count = candidatesOf(this.hyper), known = equations.target.length;
    const gram = Matrix.of(count, count, (i, j) => (i < known && j < known ? equations.gram.at(i, j) : 0));
    const target = Float64Array.from({ length: count }, (_, k) => (k < known ? equations.target[k] : 0));
    const row = flat({ ...equations, gram, target });
    return { kind: "floats", values: Float32Array.from(row, (value) => value / equations.samples) };
  }

  private head(state: State, received: Bundle, own: OwnSamples): PersonalHead {
    const { hyper } = this, { samples, weights } = own;
    const holders = received.tensors.has("holders") ? holdersIn(floatsOf(received, "holders").values) : undefined;
    const came = received.tensors.has(SUMS) ? this.others(state, received, own) : undefined;
    const sound = hyper.noise > 0 || (came?.sound && (holders === undefined || soundHolders(holders)));
    const others = sound ? came?.others : undefined; // no samples have them: own ones remain
    const deviation = hyper.noise * Math.sqrt(packed(this.shape.features) + this.shape.features + 1);
    const how = {
      prior: hyper.prior,
      // Without a label there is nothing of one's own to mix.
      heads: samples.y.length ? hyper.heads : "everybody",
      lentFrom: CLEAR * deviation,
      noisy: hyper.noise > 0,
      lends: hyper.openClasses === "on",
      holders,
      stretches: hyper.stretches,
    } as const;
    return personalHead({ samples, classes: own.classes, weights }, others, how, came?.solved ?? new Map<Shared | "alone", never>());
  }

  /** Others' sums in a download; undefined where they are beyond all that can be added up. */
  private others(state: State, received: Bundle, own: OwnSamples): { others: Others; sound: boolean; solved: SolvedSets } | undefined {
    const lacks = own.lacks(this.there(state, own, received));
    const sums = (name: string) => {
      const [gram, cross, exponent] = ["gram", "cross", "exponent"].map((part) => floatsOf(received, `${name}.${part}`).values);
      const sent = portable(gram, cross, exponent[0], own.classes);
      return lacks === undefined ? sent : plus(sent, lacks);
    };
    const whole = sums("everybody"), kept = this.last;
    const ofGroups = groupsOf(this.hyper, own.classes).map((name) => (received.tensors.has(`${name}.gram`) ? sums(name) : whole));
    if (![whole, ...ofGroups].every(({ gram, cross }) => isExact(gram) && isExact(cross.values))) return undefined;
    const same = kept?.own === own.version && equal(kept.sums.gram, whole.gram) && equal(kept.sums.cross.values, whole.cross.values);
    const everybody = same ? kept.shared : new Shared(whole);
    const solved: SolvedSets = same ? kept.solved : new Map<Shared | "alone", never>();
    this.last = { sums: whole, shared: everybody, own: own.version, solved };
    const groups = ofGroups.map((one) => (one === whole ? everybody : new Shared(one)));
    const pooled = received.tensors.has("pooled") ? unflat(floatsOf(received, "pooled").values, candidatesOf(this.hyper)) : undefined;
    const group = groups.length > 1 ? groups : groups.at(0);
    return { others: { everybody, group, pooled }, sound: [everybody, ...groups].every((one) => soundSums(one.sums)), solved };
  }
}

/** Add statistics as they travel to an upload's tensors. */
export function addSums(tensors: Map<string, Part>, of: Statistics): void {
  const { gram, cross, shifts } = rounded(of);
  tensors.set("gram", { kind: "whole", values: gram });
  tensors.set("cross", { kind: "whole", values: cross });
  tensors.set("shifts", { kind: "floats", values: Float32Array.from(shifts) });
}

/** Whether sums came. */
export function hasSums(received: Bundle): boolean {
  return received.tensors.has(SUMS);
}

/** Whether a head was solved. */
export function isSolved(state: State): boolean {
  return state.solved.values[0] !== 0;
}

function tensorsOf(name: string, { weight, bias }: LinearHead): State {
  return {
    [`${name}.weight`]: { shape: [weight.rows, weight.columns], values: Float32Array.from(weight.values) },
    [`${name}.bias`]: { shape: [bias.length], values: Float32Array.from(bias) },
  };
}

function headIn(state: State, name: string): LinearHead {
  const weight = state[`${name}.weight`] as Tensor, bias = state[`${name}.bias`] as Tensor;
  const [classes, features] = weight.shape;
  return { weight: new Matrix(classes, features, Float64Array.from(weight.values)), bias: Float64Array.from(bias.values) };
}

/** Scores `[n, classes]` of features `[n, D]`. */
export function scores({ weight, bias }: LinearHead, x: Tensor): Tensor {
  const found = matrixOf(x).timesTransposed(weight).map((value, _, c) => value + bias[c]);
  return { shape: [found.rows, found.columns], values: Float32Array.from(found.values) };
}

/** A tensor `[n, ...]` as rows. */
export function matrixOf(x: Tensor): Matrix {
  return new Matrix(x.shape[0], size(x.shape.slice(1)), Float64Array.from(x.values));
}

function number(value: number): Tensor {
  return { shape: [], values: Float32Array.of(value) };
}

/** Whether all are whole numbers that float64 holds exactly. */
function isExact(values: Float64Array): boolean {
  return values.every(Number.isSafeInteger);
}

function equal(one: Float64Array, other: Float64Array): boolean {
  return one.length === other.length && one.every((value, i) => value === other[i]);
}
