// Who masks with whom: all with all, or among many a sparse graph (Bell et al. 2020, section 3.3). People
// stand on a circle in an order that follows from the sum's random name.

import { byCodePoint, hashOf, sorted } from "./digest.js";
import { bytes, joined } from "./keys.js";

/** The share of people who may go silent while a sum is made, and of those who may help the server. */
const DROPPED = 0.3, COLLUDING = 0.1;
/** Logarithms of how likely it may be, in one sum, that it cannot be opened, and that a vector is found out. */
const FAILS = -20, TELLS = -40;

/** Of how many shares a secret is made: more than half of those who hold one. */
export function threshold(holders: number): number {
  return Math.floor(holders / 2) + 1;
}

/** A person's neighbours among the people of a sum, ascending. */
export function neighbours(clients: readonly string[], session: Uint8Array, client: string): string[] {
  const others = sorted(clients.filter((one) => one !== client)), degree = enough(clients.length);
  if (degree >= others.length) return others;
  const place = (one: string) => hashOf(joined(session, bytes(one)));
  const circle = clients.map((one) => [place(one), one] as const).sort(([a], [b]) => byCodePoint(a, b));
  const own = circle.findIndex(([, one]) => one === client);
  const steps = Array.from({ length: degree }, (_, i) => i - degree / 2 + (i < degree / 2 ? 0 : 1));
  return sorted(steps.map((step) => circle[(own + step + circle.length) % circle.length][1]));
}

const known = new Map<number, number>();

/** How many neighbours each of so many people needs, even; all others where few. */
export function enough(people: number): number {
  const found = known.get(people) ?? leastDegree(people);
  known.set(people, found);
  return found;
}

function leastDegree(people: number): number {
  let least = 1, most = Math.floor(people / 2);
  while (least < most) {
    const half = Math.floor((least + most) / 2);
    if (serves(people, 2 * half)) most = half;
    else least = half + 1;
  }
  return Math.min(2 * least, people - 1);
}

function serves(people: number, degree: number): boolean {
  const others = people - 1, size = Math.log2(people), needed = threshold(degree + 1);
  // Everybody holds a share of its own, too.
  const silent = size + atLeast(others, Math.floor(DROPPED * people), degree, degree + 2 - needed);
  const told = size + atLeast(others, Math.floor(COLLUDING * people), degree, needed);
  const apart = size + (degree / 2) * Math.log2(DROPPED + COLLUDING);
  return silent <= FAILS && told <= TELLS && apart <= TELLS;
}

/** The logarithm of how likely it is to draw `least` or more of the marked others. */
function atLeast(others: number, marked: number, drawn: number, least: number): number {
  const rest = others - marked, first = Math.max(least, drawn - rest);
  let of = choose(marked, first), beside = choose(rest, drawn - first), ways = 0n;
  for (let i = first; i <= Math.min(marked, drawn); i++) {
    ways += of * beside;
    of = (of * BigInt(marked - i)) / BigInt(i + 1);
    beside = (beside * BigInt(drawn - i)) / BigInt(rest - drawn + i + 1);
  }
  return ways === 0n ? -1e9 : log2(ways) - log2(choose(others, drawn));
}

function choose(n: number, k: number): bigint {
  if (k > n) return 0n;
  let found = 1n;
  for (let i = 1; i <= Math.min(k, n - k); i++) found = (found * BigInt(n - i + 1)) / BigInt(i);
  return found;
}

function log2(whole: bigint): number {
  const beyond = Math.max(whole.toString(2).length - 64, 0);
  return Math.log2(Number(whole >> BigInt(beyond))) + beyond;
}
