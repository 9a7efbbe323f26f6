// How likely a person does a class that it has no labelled sample of, by what others do.

/** Chance that a person who does a class has labelled none of it. */
const FORGOT = 0.4;
/** By so much, nats, the score falls of a class that is not answered. */
export const CLOSED = 20;

/** Who has labelled samples of each class. */
export interface Holders {
  /** How many people do, `[classes]`. */
  readonly ofClass: Float64Array;
  readonly people: number;
}

/** The counts in a row as it travels, `[classes + 1]`: the people stand last. */
export function holdersIn(row: Float32Array): Holders {
  return { ofClass: Float64Array.from(row.subarray(0, -1)), people: row[row.length - 1] };
}

/** Whether people can have these classes. */
export function soundHolders({ ofClass, people }: Holders): boolean {
  return Number.isFinite(people) && ofClass.every((held) => held >= 0 && held <= people);
}

/**
 * The log odds of each class that a person lacks, 0 at most: with p the share of people who have a class,
 * q the class's share at these and n the person's samples, `p (u + (1 - u) (1 - q)^n) / (1 - p)`.
 *
 * @param counts everybody's samples of each class.
 */
export function logOdds(holders: Holders, counts: Float64Array, samples: number): Float64Array {
  const total = Math.max(counts.reduce((sum, count) => sum + count, 0), 1), least = Math.exp(-CLOSED);
  return counts.map((count, c) => {
    const p = holders.ofClass[c] / Math.max(holders.people, 1);
    const mean = p > 0 ? count / Math.max(p * total, 1e-9) : 0;
    const unseen = FORGOT + (1 - FORGOT) * (1 - Math.min(mean, 1)) ** samples;
    const odds = Math.max(p * unseen, least) / Math.max(1 - p, least);
    return Math.log(Math.min(Math.max(odds, least), 1));
  });
}
