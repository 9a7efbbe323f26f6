// A person's memory of sums that it opened: to which others it adds the same numbers no more. Two sums of the
// same numbers, whose people differ in one person, tell that person's numbers. So sums of the same numbers are
// opened only if every group of people whom these sums tell apart is of `least` people or more.

import { digest, sorted } from "./digest.js";

/** What came, and what was expected. */
export type Fault = readonly [got: string, expected: string];

/** A sum that a person opened, or is asked to open; keys as devices in Python keep them. */
export interface OpenedSum {
  /** Name of the numbers, such as "statistics". */
  readonly what: string;
  readonly run: string;
  readonly round: number;
  /** Hash of the person's own numbers; "": they may be others in a repeated round. */
  readonly vector: string;
  /** People whose numbers are in it, and people whose are not, as far as is known. */
  readonly sent: readonly string[];
  readonly silent: readonly string[];
  /** Whether all people who are in it are known. */
  readonly whole: boolean;
  /** People at least in what any two sums of these numbers differ by. */
  readonly least: number;
  /** Of the day, by the device's clock, which nothing else depends on. */
  readonly date: string;
}

/** The memory as it is kept: the same people stand in it once. */
interface Kept {
  readonly people: readonly (readonly string[])[];
  readonly sums: readonly (Omit<OpenedSum, "sent" | "silent"> & { readonly sent: number; readonly silent: number })[];
}

/** Hash of the vector and of the people. */
export function peopleOf({ vector, sent, whole }: OpenedSum): string {
  return digest([vector, sorted(sent), whole]).slice(0, 16);
}

/** Sums that a person opened, of all runs and methods. */
export class OpenedSums {
  /**
   * @param today the date of those that are opened now.
   * @param lost why it is not known which were opened; "": it is.
   */
  constructor(public sums: readonly OpenedSum[] = [], readonly today = "", readonly lost = "") {}

  /**
   * Inverse of `written`.
   *
   * @throws Error if it is damaged or of another release.
   */
  static read(kept: string, today: string): OpenedSums {
    const { people, sums } = JSON.parse(kept) as Kept;
    const named = (place: number) => {
      const found = people.at(place);
      if (found === undefined) throw new RangeError("opened sums: got people that are not there");
      return found;
    };
    const read = (one: Kept["sums"][number]): OpenedSum => {
      if (KEYS.some((key) => !(key in one))) throw new RangeError(`opened sums: got ${Object.keys(one).join(", ")}`);
      return { ...one, sent: named(one.sent), silent: named(one.silent) };
    };
    return new OpenedSums(sums.map(read), today);
  }

  /** The memory as a text. */
  written(): string {
    const people: (readonly string[])[] = [];
    const place = (names: readonly string[]) => {
      const found = people.findIndex((known) => known.join() === names.join());
      return found >= 0 ? found : people.push(names) - 1;
    };
    const sums = this.sums.map((one) => ({ ...one, sent: place(one.sent), silent: place(one.silent) }));
    return JSON.stringify({ people, sums } satisfies Kept);
  }

  /** Whether a sum of a run was opened. */
  ofRun(run: string): boolean {
    return this.sums.some((one) => one.run === run);
  }

  /** Remember a sum that is opened now. */
  add(opened: OpenedSum): void {
    const same = (one: OpenedSum) => JSON.stringify({ ...one, date: "" }, KEYS) === JSON.stringify(opened, KEYS);
    if (!this.sums.some(same)) this.sums = [...this.sums, { ...opened, date: this.today }];
  }

  /**
   * The fault of a sum beside those opened; undefined without one.
   *
   * @param planned whether people of it may still go silent: what is a fault then stays one.
   */
  fault(asked: OpenedSum, planned = false): Fault | undefined {
    if (this.lost) return [`round ${asked.round}`, `none: which sums it opened is lost (${this.lost})`];
    const known = this.sums.filter((one) => one.what === asked.what || (asked.vector !== "" && one.vector === asked.vector));
    for (const one of known) {
      const fault = apart(one, asked, planned);
      if (fault) return fault;
    }
    return asked.whole ? joint([...known.filter((one) => one.whole), asked], planned) : undefined;
  }
}

const KEYS = ["what", "run", "round", "vector", "sent", "silent", "whole", "least", "date"];

/** The fault of two sums of the same numbers. */
function apart(one: OpenedSum, asked: OpenedSum, planned: boolean): Fault | undefined {
  const again = one.run === asked.run && one.what === asked.what;
  if (again && asked.vector && one.vector !== asked.vector) {
    return ["another vector", `that in ${named(one)}: weight, each and samples of then`];
  }
  const least = Math.max(one.least, asked.least), known = !again || (one.whole && asked.whole);
  // Of people whom it knows in part it cannot count how many differ: in a run none may.
  const limit = known ? least : Infinity;
  const without = (a: OpenedSum, b: OpenedSum) => (known ? missing(a, b) : a.sent.filter((other) => !b.sent.includes(other)));
  const gone = without(one, asked), more = without(asked, one);
  if (gone.length > 0 && gone.length < limit) return [`a sum without ${sorted(gone).join(", ")}`, `everybody of ${named(one)}`];
  if (more.length > 0 && more.length < limit && !planned) {
    return [`a sum with ${sorted(more).join(", ")}`, `nobody but those of ${named(one)}`];
  }
  return undefined;
}

/** The people of a sum who are known not to be in another one. */
function missing(one: OpenedSum, other: OpenedSum): string[] {
  const gone = one.sent.filter((client) => !other.sent.includes(client));
  return other.whole ? gone : gone.filter((client) => other.silent.includes(client));
}

/** The fault of sums of the same numbers that together tell few people apart. */
function joint(sums: readonly OpenedSum[], planned: boolean): Fault | undefined {
  const inside = [...new Map(sums.map(({ sent }) => [sorted(sent).join(), new Set(sent)])).values()];
  if (inside.length === 1) return undefined;
  const alike = new Map<string, string[]>();
  for (const client of sorted(new Set(sums.flatMap((one) => one.sent)))) {
    const where = inside.map((people) => (people.has(client) ? "1" : "0")).join("");
    alike.set(where, [...(alike.get(where) ?? []), client]);
  }
  // Of the others it is not known yet; the person itself is in all of them.
  const groups = planned ? [alike.get("1".repeat(inside.length)) ?? []] : [...alike.values()];
  const least = Math.max(...sums.map((one) => one.least));
  const fewest = groups.reduce((few, group) => (group.length < few.length ? group : few));
  if (fewest.length >= least) return undefined;
  return [`a sum that tells ${fewest.join(", ")} apart from all others`, `${least} people at least in whatever sums tell apart`];
}

function named({ round, run, date }: OpenedSum): string {
  return `the sum of round ${round} of run '${run}'${date ? `, opened on ${date}` : ""}`;
}
