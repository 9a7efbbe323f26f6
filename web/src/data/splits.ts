/**
 * Training and test part of a person's samples, as Python's devices divide them.
 *
 * `stratified` draws random windows of every class; `blocked` cuts every class in time and drops the
 * windows that would reach across; `grouped` tests whole groups.
 */
import { DataError } from "../errors.js";
import { Pcg64 } from "../random/pcg.js";
import { deriveSeed } from "../random/seeds.js";
import { groupedTests, severalGroups } from "./groups.js";
import { firstCopies, type Person } from "./person.js";
import { clearOf, farApart, firstAlike, gapWindows, orderOf, overlapSeen, timeKnown, windowPlaces, windowSeconds } from "./windows.js";

type Kind = "stratified" | "blocked" | "grouped";

/** A person's samples, divided. */
export interface Split {
  /** Rows of the training part and of the test part, each ascending. */
  readonly train: readonly number[];
  readonly test: readonly number[];
  /** In words, for readers of the results. */
  readonly words: string;
  /** Samples for training, for testing, for neither; how many repeat an earlier one; how many are held back. */
  readonly parts: readonly number[];
}

/**
 * The split of a person's samples.
 *
 * @param wanted the run's `split`.
 * @param share of each class that is tested, in (0, 1).
 * @param seed of the run.
 * @throws DataError where either part would be empty.
 */
export function split(person: Person, wanted: string, share: number, seed: bigint): Split {
  const kind = splitKind(wanted, person);
  const masks = kind === "stratified" ? stratified(person, share, seed) : kind === "grouped" && severalGroups(person) ? grouped(person, share) : blocked(person, share);
  const train = rows(masks.train);
  const test = rows(masks.test);
  const n = person.y.length;
  if (!train.length || !test.length) {
    throw new DataError(
      `client ${person.client}: a ${kind} split of its ${n} samples: got ${train.length} for training and ${test.length} for testing, expected one of each at least`,
    );
  }
  const repeats = firstCopies(person.x).filter((first, i) => first !== i).length;
  const words = inWords(person, kind) + sides(person, kind, train, test);
  return { train, test, words, parts: [train.length, test.length, n - train.length - test.length, repeats, 0] };
}

function splitKind(wanted: string, person: Person): Kind {
  if (wanted === "stratified" || wanted === "blocked") return wanted;
  if (person.group) return "grouped";
  const { card } = person;
  let inTime = card.timeOrdered || Boolean(card.overlap);
  if (!person.t) inTime ||= card.overlap === undefined;
  else if (!inTime) inTime = windowSeconds(person) === undefined || farApart(person) || overlapSeen(person);
  return inTime ? "blocked" : "stratified";
}

interface Masks {
  readonly train: readonly boolean[];
  readonly test: readonly boolean[];
}

function rows(mask: readonly boolean[]): number[] {
  return [...mask.keys()].filter((row) => mask[row]);
}

/** Mask of what is chosen and of its copies. */
function sameAs(first: readonly number[], chosen: readonly boolean[]): boolean[] {
  const groups = new Set(rows(chosen).map((row) => first[row]));
  return first.map((group) => groups.has(group));
}

function labelsOf(y: Int32Array): number[] {
  return [...new Set(y)].sort((a, b) => a - b);
}

/** Number of `n` that are tested: nearest to the share, one left on each side. */
function testedCount(n: number, share: number): number {
  return Math.min(Math.max(Math.floor(n * share + 0.5), 1), n - 1);
}

function stratified(person: Person, share: number, seed: bigint): Masks {
  const stream = new Pcg64(deriveSeed(seed, person.client, 0, "split"));
  const first = firstAlike(person);
  const chosen = new Array<boolean>(first.length).fill(false);
  const own = rows(first.map((group, i) => group === i));
  for (const label of labelsOf(Int32Array.from(own, (row) => person.y[row]))) {
    const drawn = stream.permutation(own.filter((row) => person.y[row] === label));
    for (const row of drawn.slice(0, Math.max(testedCount(drawn.length, share), 0))) chosen[row] = true;
  }
  const test = sameAs(first, chosen);
  return { train: test.map((is) => !is), test };
}

function blocked(person: Person, share: number): Masks {
  const { when, width } = windowPlaces(person);
  const order = orderOf(when);
  const first = firstCopies(person.x);
  const test = new Array<boolean>(first.length).fill(false);
  for (const label of labelsOf(person.y)) {
    const own = order.filter((row) => person.y[row] === label);
    const cut = own.length - testedCount(own.length, share);
    const [head, tail] = [own.slice(0, cut), own.slice(cut)];
    const copied = new Set(tail.map((row) => first[row]));
    const apart = clearOf(timesOf(when, head), timesOf(when, tail), width).some((is, i) => is && !copied.has(first[head[i]]));
    // Where the gap would eat all of a short class, the class is trained and not tested.
    if (apart) for (const row of tail) test[row] = true;
  }
  return trainedClear(first, test, when, width);
}

function grouped(person: Person, share: number): Masks {
  const { when, width } = windowPlaces(person);
  const test = Array.from(groupedTests(person, share), Boolean);
  return trainedClear(firstCopies(person.x), test, when, timeKnown(person) === "seconds from t" ? width : 0);
}

function trainedClear(first: readonly number[], test: readonly boolean[], when: Float64Array, width: number): Masks {
  const copies = sameAs(first, test);
  const clear = clearOf([...when], timesOf(when, rows(test)), width);
  return { train: test.map((is, i) => !is && !copies[i] && clear[i]), test };
}

function timesOf(when: Float64Array, some: readonly number[]): number[] {
  return some.map((row) => when[row]);
}

function inWords(person: Person, kind: Kind): string {
  const { card } = person;
  if (kind === "grouped") {
    const group = card.groups ?? "group";
    return severalGroups(person) ? `by whole ${group}s` : `all of one ${group}: ${inWords(person, "blocked")}`;
  }
  if (kind === "stratified") return "at random in each class";
  const known = timeKnown(person);
  const length = windowSeconds(person);
  if (known === "seconds from t" && length !== undefined) return `in time by t, gap ${Number(length.toPrecision(6))} s`;
  const order = known === "order of t" ? "by the order of t" : known === "order of the file" ? "by the order of the file" : "by the order of the file in each class";
  const unknown = card.overlap === undefined || (length === undefined && card.overlap === 0);
  return `in time ${order}, ${unknown ? "gap not known" : `gap ${gapWindows(person)} windows`}`;
}

/** Words on the classes that one part of whole groups lacks. */
function sides(person: Person, kind: Kind, train: readonly number[], test: readonly number[]): string {
  if (kind !== "grouped" || !severalGroups(person)) return "";
  const labels = (some: readonly number[]) => new Set(some.map((row) => person.y[row]));
  const alone = (mine: Set<number>, others: Set<number>) => [...mine].filter((label) => !others.has(label)).sort((a, b) => a - b);
  const named = (words: string, of: number[]) => (of.length ? `; ${words}: ${of.map((label) => person.card.classes[label]).join(", ")}` : "");
  const [trained, tested] = [labels(train), labels(test)];
  return named("trained without a test", alone(trained, tested)) + named("tested without training", alone(tested, trained));
}
