// A person's head: candidates on own and others' sums, mixed and calibrated by leave-one-out.

import { Matrix, addTo } from "../linear/matrix.js";
import { Candidates, type Counted, type HeadSet, Shared, Span, alone, withOthers } from "./candidates.js";
import { ByClass, Lent } from "./columns.js";
import { STRETCHES } from "./grids.js";
import { blocksOf } from "./left-out.js";
import { CLOSED, type Holders, logOdds } from "./lending.js";
import { type LeftOut, mixture } from "./mixture.js";
import { type Heads, NOBODYS, type Prior } from "./prior.js";
import { type LinearHead, Scale } from "./scale.js";
import type { Equations } from "./stacking.js";
import { type Samples, counts } from "./statistics.js";

/** How a person's candidates are mixed. */
export interface Mixing {
  /** As how many samples everybody's equations count. */
  readonly prior: number;
  readonly heads: Heads;
  /** Of how many samples a class is everybody's to lend: what is not clear of noise is not. */
  readonly lentFrom: number;
  readonly noisy: boolean;
  /** Whether classes that the person has no sample of are everybody's; else they are not answered. */
  readonly lends: boolean;
  /** Undefined: whatever is lent is thought to be done. */
  readonly holders: Holders | undefined;
  /** Into how many each class's samples are cut that are left out at once; 0: singles are. */
  readonly stretches: number;
}

const ALONE: Mixing = {
  prior: 0, heads: "own", lentFrom: 0, noisy: false, lends: false, holders: undefined, stretches: STRETCHES,
};

/** Others' sums: everybody's; beside them one's group's, or for each class those of its group. */
export interface Others {
  readonly everybody: Shared;
  readonly group: Shared | readonly Shared[] | undefined;
  /** Everybody's equations, one sample's worth. */
  readonly pooled: Equations | undefined;
}

/** A person's samples, as heads are solved of them. */
export interface Person {
  readonly samples: Samples;
  readonly classes: number;
  /** How much each sample counts; undefined: all once. Sums hold them so, too. */
  readonly weights: Float64Array | undefined;
}

export interface PersonalHead extends LinearHead {
  /** Of the person's samples alone. */
  readonly equations: Equations;
  /** The head that the person has without others. */
  readonly alone: LinearHead;
}

/** Solved candidates of one person, by the sums that they are on; without sums: "alone". */
export type SolvedSets = Map<Shared | "alone", readonly Candidates[]>;

/**
 * The head of a person. A sample that is its class's only one tells nothing of candidates: where it is
 * left out, they do not know the class. It counts in heads alone.
 *
 * @param solved of these same samples; what is needed beside is added.
 */
export function personalHead(person: Person, others: Others | undefined, how: Mixing, solved: SolvedSets = new Map()): PersonalHead {
  const { x, y } = person.samples, { classes } = person, root = person.weights?.map(Math.sqrt);
  const samples: Counted = { x, root };
  const targets = Matrix.of(y.length, classes, (i, c) => (y[i] === c ? 1 : -1) * (root?.[i] ?? 1));
  const blocks = blocksOf(y, how.stretches || y.length);
  const sets = candidatesOf({ samples, targets, blocks, solved }, others), { on } = sets;
  const held = new Float64Array(classes);
  y.forEach((label) => held[label]++);
  const leftOut: LeftOut = { y, targets, known: [...y.keys()].filter((i) => held[y[i]] > 1), root };
  const { candidates, closed } = lending(sets, held, y.length, others, how);
  const summedUp = others?.pooled ? counts(others.everybody.sums).reduce((sum, one) => sum + one, 0) : 0;
  const prior: Prior = { prior: how.prior, pooled: others?.pooled, samples: summedUp, noisy: how.noisy };
  const said = candidates.flatMap((one) => one.said);
  const mixed = mixture(leftOut, said, how.heads, prior, closed);
  const head = mixedHead(candidates, mixed.weights.map((one) => mixed.temperature * one), samples);
  const bias = head.bias.map((one, c) => one + closed[c]);
  return { weight: head.weight, bias, equations: mixed.equations, alone: without(on[0], leftOut, samples) };
}

/** The head that a person has without others, where all samples count once. */
export function headAlone({ x, y }: Samples, classes: number): LinearHead {
  const person: Person = { samples: { x, y }, classes, weights: undefined };
  return personalHead(person, undefined, ALONE).alone;
}

/** The head of a person's own candidates, by its own samples. */
function without(own: HeadSet, leftOut: LeftOut, samples: Counted): LinearHead {
  const { weights, temperature } = mixture(leftOut, own.said, "own", NOBODYS, new Float64Array(leftOut.targets.columns));
  return mixedHead([own], weights.map((one) => temperature * one), samples);
}

/** Candidates with lent columns, and what is added to scores of classes that the person lacks. */
function lending({ on, everybodys }: Sets, held: Float64Array, samples: number, others: Others | undefined, how: Mixing) {
  const lacking = [...held.keys()].filter((c) => held[c] === 0);
  const closed = held.map((count) => (count === 0 && !how.lends ? -CLOSED : 0));
  if (others === undefined || everybodys === undefined || !lacking.length || !how.lends || how.heads === "own") return { candidates: on, closed };
  const there = counts(others.everybody.sums), lent = lacking.filter((c) => there[c] >= how.lentFrom);
  if (how.holders !== undefined) {
    const odds = logOdds(how.holders, there, samples);
    for (const c of lent) closed[c] = odds[c];
  }
  return { candidates: on.map((one) => new Lent(one, everybodys, lent)), closed };
}

interface Solving {
  readonly samples: Counted;
  readonly targets: Matrix;
  readonly blocks: readonly number[][];
  readonly solved: SolvedSets;
}

interface Sets {
  /** Candidates on own samples, in own units and everybody's, then on each of the sums. */
  readonly on: readonly HeadSet[];
  /** Those on everybody's sums. */
  readonly everybodys: Candidates | undefined;
}

function candidatesOf(of: Solving, others: Others | undefined): Sets {
  const { samples, targets, blocks, solved } = of;
  const known = (key: Shared | "alone", solve: () => readonly Candidates[]) => {
    const found = solved.get(key) ?? solve();
    solved.set(key, found);
    return found;
  };
  const own = known("alone", () => [alone(new Span(samples, Scale.centred(samples.x)), targets, blocks)]);
  if (others === undefined) return { on: own, everybodys: undefined };
  const both = (shared: Shared) =>
    known(shared, () => {
      const span = new Span(samples, shared.scale);
      return [alone(span, targets, blocks), withOthers(span, targets, shared, blocks)];
    });
  const { everybody, group } = others, found: HeadSet[] = [...own, ...both(everybody)];
  if (group instanceof Shared) found.push(both(group)[1]);
  else if (group !== undefined) found.push(new ByClass(group.map((one) => both(one)[1])));
  return { on: found, everybodys: both(everybody)[1] };
}

/** All candidates' sum, each `mixed` times. */
function mixedHead(candidates: readonly HeadSet[], mixed: Float64Array, samples: Counted): LinearHead {
  let at = 0;
  const heads = candidates.map((one) => one.head(mixed.slice(at, (at += one.said.length)), samples));
  const weight = heads[0].weight.copy(), bias = heads[0].bias.slice();
  for (const head of heads.slice(1)) {
    addTo(weight.values, head.weight.values, 1);
    addTo(bias, head.bias, 1);
  }
  return { weight, bias };
}
