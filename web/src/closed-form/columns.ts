// Candidates whose columns of some classes come from elsewhere than a person's own samples.

import { Matrix } from "../linear/matrix.js";
import type { Candidates, Counted, HeadSet } from "./candidates.js";
import { OWN_WEIGHTS, WITH_OTHERS } from "./grids.js";
import type { LinearHead } from "./scale.js";

/** Of own samples in lent columns. */
const OWN_WEIGHT = 20;

/** Candidates of which each class's column is solved on the sums of that class's group. */
export class ByClass implements HeadSet {
  readonly said: readonly Matrix[];
  readonly penalties: readonly number[];

  constructor(private readonly columns: readonly Candidates[]) {
    const first = columns[0];
    this.said = first.said.map((one, k) => one.map((_, i, c) => columns[c].said[k].at(i, c)));
    this.penalties = first.penalties;
  }

  head(mixed: Float64Array, samples: Counted): LinearHead {
    const known = new Map([...new Set(this.columns)].map((one) => [one, one.head(mixed, samples)]));
    const heads = this.columns.map((one) => known.get(one)!);
    const weight = Matrix.of(heads.length, heads[0].weight.columns, (c, j) => heads[c].weight.at(c, j));
    return { weight, bias: Float64Array.from(heads, (head, c) => head.bias[c]) };
  }
}

/**
 * Candidates whose columns of classes that the person has no sample of are everybody's. Of such a class
 * own samples can say but that it is not right: in its column they weigh 20 times.
 */
export class Lent implements HeadSet {
  readonly said: readonly Matrix[];
  readonly penalties: readonly number[];

  constructor(
    private readonly of: HeadSet,
    private readonly everybody: Candidates,
    private readonly lacking: readonly number[],
  ) {
    this.penalties = of.penalties;
    this.said = of.said.map((one, k) => {
      const theirs = everybody.said[plain(of.penalties[k])];
      return one.map((value, i, c) => (lacking.includes(c) ? theirs.at(i, c) : value));
    });
  }

  head(mixed: Float64Array, samples: Counted): LinearHead {
    const own = this.of.head(mixed, samples), lent = new Float64Array(this.everybody.said.length);
    mixed.forEach((weight, k) => (lent[plain(this.penalties[k])] += weight));
    const theirs = this.everybody.head(lent, samples);
    for (const c of this.lacking) {
      own.weight.row(c).set(theirs.weight.row(c));
      own.bias[c] = theirs.bias[c];
    }
    return own;
  }
}

/** Everybody's candidate of a penalty or the next below. */
function plain(penalty: number): number {
  const place = WITH_OTHERS.filter((one) => one <= penalty).length - 1;
  return place * OWN_WEIGHTS.length + OWN_WEIGHTS.indexOf(OWN_WEIGHT);
}
