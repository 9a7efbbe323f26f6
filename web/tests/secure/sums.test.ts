import assert from "node:assert/strict";
import { test } from "node:test";
import { digest, json, sorted } from "../../src/secure/digest.js";
import { wordsOf } from "../../src/secure/exact.js";
import { enough, neighbours } from "../../src/secure/graph.js";
import { agreed, keysIn, mask } from "../../src/secure/keys.js";
import { eachOf, vectorAgain, vectorOf } from "../../src/secure/quantise.js";
import { PRIME, split } from "../../src/secure/shamir.js";
import { named, people, Sum } from "./people.js";

const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes));
const number = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes).toString("hex")}`);

/** The secret of which these are shares, by their places from 1 on (Lagrange). */
function secretOf(shares: ReadonlyMap<number, Uint8Array>): Uint8Array {
  const power = (base: bigint, exponent: bigint): bigint => {
    let found = 1n;
    for (let bits = exponent, square = base; bits; bits >>= 1n, square = (square * square) % PRIME) if (bits & 1n) found = (found * square) % PRIME;
    return found;
  };
  let total = 0n;
  for (const [place, share] of shares) {
    let above = 1n, below = 1n;
    for (const other of shares.keys()) {
      if (other === place) continue;
      above = (above * BigInt(other)) % PRIME;
      below = (below * BigInt(other - place)) % PRIME;
    }
    const inverse = power(((below % PRIME) + PRIME) % PRIME, PRIME - 2n);
    total = (total + number(share) * above * inverse) % PRIME;
  }
  return new Uint8Array(Buffer.from(total.toString(16).padStart(64, "0"), "hex"));
}

/** The total of a sum once its masks are taken away, by shares as a server gets them. */
function opened(sum: Sum, silent: readonly string[]): number[] {
  const answers = new Map([...sum.people.keys()].filter((id) => !silent.includes(id)).map((id) => [id, sum.opens(id, silent)]));
  const sharesOf = (owner: string) => {
    const holders = sorted([owner, ...sum.near(owner)]), found = new Map<number, Uint8Array>();
    for (const [id, answer] of answers) {
      const at = (answer.get("clients") as string[]).indexOf(owner);
      if (at >= 0) found.set(holders.indexOf(id) + 1, (answer.get("values") as Uint8Array[])[at]);
    }
    return found;
  };
  const told = Buffer.from([...answers.values()][0].get("told") as Uint8Array).toString("hex");
  for (const id of sum.people.keys()) {
    if (!silent.includes(id)) {
      mask(sum.total, secretOf(sharesOf(id)), -1);
      continue;
    }
    const own = secretOf(sharesOf(id));
    for (const other of sum.near(id).filter((one) => !silent.includes(one))) {
      const [first, second] = sorted([id, other]);
      const purpose = `fedsub mask ${Buffer.from(sum.name.session).toString("hex")} ${first} ${second} ${told}`;
      const pair = agreed(own, keysIn(sum.keys.get(other)!).mask, purpose);
      mask(sum.total, pair, other === first ? -1 : 1);
    }
  }
  return [...sum.total].map((word) => word | 0);
}

test("shares give their secret back, as many as the threshold", () => {
  const secret = random(32), shares = split(secret, 3, 5, random);
  const some = [0, 2, 4].map((i) => [i + 1, shares[i]] as const);
  assert.deepEqual(secretOf(new Map(some)), secret);
  assert.notDeepEqual(secretOf(new Map(some.slice(1))), secret);
});

for (const [count, silent] of [[3, []], [5, ["p1"]], [7, ["p0", "p6"]]] as const) {
  test(`a sum of ${count} people without ${silent.join(", ") || "nobody"} is that of the vectors that were sent`, () => {
    const sum = new Sum(people(count), named(count)).show().share(), there = [...sum.people.keys()].filter((id) => !(silent as readonly string[]).includes(id));
    there.forEach((id, i) => sum.send(id, Uint32Array.of(i, 10 * i, 2 ** 32 - i, 1)));
    const total = there.reduce((all, _, i) => all + i, 0);
    assert.deepEqual(opened(sum, silent), [total, 10 * total, -total, there.length]);
  });
}

test("hashes are of Python's JSON text", () => {
  const values = { b: [1n, 1, 0.1, 1e-5, 1e16, 123456789, -0, 1e22, 5e-324], a: "ä\u{1f600}\n\"", "\u{1f600}": true, "\uffff": null, c: Uint8Array.of(1, 255) };
  const text = String.raw`{"a":"\u00e4\ud83d\ude00\n\"","b":[1,1.0,0.1,1e-05,1e+16,123456789.0,-0.0,1e+22,5e-324],"c":"01ff","\uffff":null,"\ud83d\ude00":true}`;
  assert.equal(json(values), text);
  assert.equal(digest([]), "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945");
});

test("many people have as many neighbours as in Python", () => {
  assert.deepEqual([3, 10, 50, 100, 300, 1000, 10000].map(enough), [2, 9, 49, 72, 112, 166, 222]);
  const all = Array.from({ length: 300 }, (_, i) => `p${i}`), session = new Uint8Array(16).fill(7);
  const near = neighbours(all, session, "p5");
  assert.equal(near.length, 112);
  for (const other of near) assert.ok(neighbours(all, session, other).includes("p5"));
});

test("numbers of any size become the whole words that they are", () => {
  const value = (words: Uint32Array) => BigInt.asIntN(480, [...words].reduceRight((sum, word) => (sum << 16n) | BigInt(word), 0n));
  assert.equal(value(wordsOf(Float64Array.of(1.5))), 3n << 319n);
  assert.equal(value(wordsOf(Float64Array.of(-(2 ** 141)))), -(1n << 461n));
  // Halves of the last bit go to the even number.
  assert.deepEqual([2 ** -321, 3 * 2 ** -321, 5 * 2 ** -322].map((one) => value(wordsOf(Float64Array.of(one)))), [0n, 2n, 1n]);
  for (const wrong of [NaN, Infinity, 2 ** 142]) assert.throws(() => wordsOf(Float64Array.of(wrong)), RangeError);
});

test("levels shorten what is beyond the range or the norm, and drop what is no number", () => {
  const levels = { range: 8, weight: 4, each: 16, longest: Infinity };
  assert.deepEqual([...vectorOf(Float64Array.of(1, -9, 0.0625), 3, levels)].map((word) => word | 0), [6, -48, 0, 3, 1]);
  assert.deepEqual([...vectorOf(Float64Array.of(1, NaN), 3, levels)], [0, 0, 0, 1]);
  const short = vectorOf(Float64Array.of(3, 4), 9, { ...levels, weight: 1, each: 2 ** 20, longest: 1 });
  const [x, y] = [...short].map((word) => ((word | 0) * 8) / 2 ** 20);
  assert.ok(Math.hypot(x, y) <= 1 && Math.hypot(x, y) > 0.9999);
  assert.deepEqual([...vectorAgain(Uint32Array.of(48, 2 ** 32 - 6, 3, 0), levels, { ...levels, weight: 2, each: 32 }, 3)], [64, 2 ** 32 - 8, 2, 0]);
  assert.deepEqual([eachOf(4, 54), eachOf(4, 1), eachOf(2 ** 20, 2 ** 12)], [2 ** 23, 2 ** 28, 0]);
});
