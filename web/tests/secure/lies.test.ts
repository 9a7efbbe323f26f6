// Lies of a server, each of which a device refuses; and nothing that it keeps changes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MessageRefused } from "../../src/errors.js";
import type { Participant } from "../../src/secure/participant.js";
import { Reader, leafOf } from "../../src/secure/reader.js";
import type { Value } from "../../src/values.js";
import { MODELS, named, people, question, Sum } from "./people.js";

const VECTOR = Uint32Array.of(1, 2, 3, 4);
const bytes = (count: number, value = 1) => new Uint8Array(count).fill(value);

/** Assert that a question is refused, by its part, and changes nothing. */
function refused(one: Participant, what: RegExp, ask: () => unknown): void {
  const before = JSON.stringify([one.own, one.opened.sums]);
  assert.throws(ask, (error) => error instanceof MessageRefused && error.client === one.client && what.test(error.what));
  assert.ok(JSON.stringify([one.own, one.opened.sums]) === before, "what is kept changed");
}

function shared(count = 4): { sum: Sum; one: Participant } {
  const sum = new Sum(people(count), named(1)).show().share();
  return { sum, one: sum.people.get("p0")! };
}

function sent(count = 4, origin = MODELS): { sum: Sum; one: Participant } {
  const { sum, one } = shared(count);
  for (const id of sum.people.keys()) sum.send(id, VECTOR, origin);
  return { sum, one };
}

const NAMES: readonly [string, Readonly<Record<string, Value>>][] = [
  ["another version", { version: 1n }],
  ["a float as round", { round: 1 }],
  ["another round", { round: 2n }],
  ["a short session", { session: bytes(15) }],
  ["a text as session", { session: "x".repeat(16) }],
  ["a number as run", { run: 3n }],
];
for (const [name, more] of NAMES) {
  test(`a question for keys with ${name} is refused`, () => {
    const one = people(1).get("p0")!;
    refused(one, /secure sum/, () => one.answer(question(named(1), "keys", more), 1));
  });
}

test("an unknown phase, and any before keys were shown, is refused", () => {
  const one = people(1).get("p0")!;
  for (const phase of ["shares", "unmask", "view", "sum", ""]) refused(one, /secure sum/, () => one.answer(question(named(1), phase), 1));
});

const SHARES: readonly [string, (sum: Sum) => Readonly<Record<string, Value>>][] = [
  ["too few people", (sum) => ({ clients: ["p1"], values: [sum.keys.get("p1")!] })],
  ["itself", (sum) => ({ clients: ["p0", "p1"], values: [sum.keys.get("p0")!, sum.keys.get("p1")!] })],
  ["somebody twice", (sum) => ({ clients: ["p1", "p1"], values: [sum.keys.get("p1")!, sum.keys.get("p2")!] })],
  ["one key twice", (sum) => ({ clients: ["p1", "p2"], values: [sum.keys.get("p1")!, sum.keys.get("p1")!] })],
  ["its own key as another's", (sum) => ({ clients: ["p1", "p2"], values: [sum.keys.get("p0")!, sum.keys.get("p2")!] })],
  ["short keys", (sum) => ({ clients: ["p1", "p2"], values: [bytes(95), sum.keys.get("p2")!] })],
  ["keys that no secret leads to", (sum) => ({ clients: ["p1", "p2"], values: [bytes(96, 0), sum.keys.get("p2")!] })],
  ["fewer values than names", (sum) => ({ clients: ["p1", "p2"], values: [sum.keys.get("p1")!] })],
  ["no id as a name", (sum) => ({ clients: ["p1", "../p2"], values: [sum.keys.get("p1")!, sum.keys.get("p2")!] })],
  ["a list of people without it", (sum) => ({ people: Buffer.from(leafOf("p1", sum.keys.get("p1")!), "hex") })],
  ["a list that makes few neighbours look like a part of many", (sum) => {
    const leaves = [...sum.keys].map(([id, keys]) => leafOf(id, keys));
    const invented = Array.from({ length: 200 }, (_, i) => leafOf(`x${i}`, bytes(96)));
    return { people: new Uint8Array(Buffer.from([...leaves, ...invented].sort().join(""), "hex")) };
  }],
  ["a list out of order", (sum) => {
    const leaves = [...sum.keys].map(([id, keys]) => leafOf(id, keys)).sort().reverse();
    return { people: new Uint8Array(Buffer.from(leaves.join(""), "hex")) };
  }],
];
for (const [name, more] of SHARES) {
  test(`a question for shares with ${name} is refused`, () => {
    const sum = new Sum(people(4), named(1)).show(), one = sum.people.get("p0")!;
    refused(one, /secure sum/, () => one.answer(new Map([...sum.forShares("p0"), ...Object.entries(more(sum))]), 1));
  });
}

test("shares are the same when asked again, and refused for other keys", () => {
  const { sum, one } = shared();
  assert.deepEqual(one.answer(sum.forShares("p0"), 1).get("values"), [...sum.sealed.get("p0")!.values()]);
  const others = new Sum(people(4), named(1)).show();
  refused(one, /keys/, () => one.answer(others.forShares("p0"), 1));
});

test("a plan with a stranger, with too few people or with shares that were changed is refused", () => {
  const { sum, one } = shared(), plan = (more: Readonly<Record<string, Value>>) => new Reader("p0", 1).plan(sum.plan("p0", more));
  const values = sum.plan("p0").get("values") as Uint8Array[], broken = values[0].slice();
  broken[5] ^= 1;
  refused(one, /shares/, () => { one.accept(plan({ clients: ["p1", "p2", "x"] })); });
  refused(one, /people/, () => { one.accept(plan({ clients: ["p1"], values: values.slice(0, 1) })); });
  refused(one, /shares of 'p1'/, () => { one.accept(plan({ values: [broken, ...values.slice(1)] })); });
  refused(one, /shares of 'p1'/, () => { one.accept(plan({ values: [values[1], values[0], values[2]] })); });
  for (const wrong of [{ weight: 0n }, { each: 2n ** 31n }, { weight: 1 }, { smallest: -1n }, { head: bytes(31) }]) {
    refused(one, /secure sum/, () => plan(wrong));
  }
});

test("one vector, one plan and one set of neighbours a session", () => {
  const { sum, one } = shared();
  const first = sum.send("p0", VECTOR);
  assert.deepEqual(sum.send("p0", VECTOR), first);
  refused(one, /vector/, () => sum.send("p0", Uint32Array.of(1, 2, 3, 5)));
  refused(one, /told/, () => sum.send("p0", VECTOR, { once: "", madeOf: "01" }));
  refused(one, /plan/, () => sum.send("p0", VECTOR, MODELS, { weight: 2n }));
  refused(one, /plan/, () => sum.send("p0", VECTOR, MODELS, { later: "key" }));
  const values = sum.plan("p0").get("values") as Uint8Array[];
  refused(one, /neighbours/, () => sum.send("p0", VECTOR, MODELS, { clients: ["p1", "p2"], values: values.slice(0, 2) }));
});

test("who was told something else has masks that cancel with nobody's", () => {
  const sums = [{ once: "", madeOf: "01" }, MODELS].map((origin) => {
    const sum = new Sum(people(3), named(1)).show().share();
    sum.send("p0", VECTOR, origin);
    sum.send("p1", VECTOR);
    sum.send("p2", VECTOR);
    return ["p0", "p1"].map((id) => Buffer.from(sum.opens(id).get("told") as Uint8Array).toString("hex"));
  });
  assert.notEqual(sums[0][0], sums[0][1]);
  assert.equal(sums[1][0], sums[1][1]);
});

const UNMASK: readonly [string, readonly string[], readonly string[]][] = [
  ["somebody in both lists", ["p0", "p1", "p2", "p3"], ["p3"]],
  ["somebody in neither", ["p0", "p1", "p2"], []],
  ["itself silent", ["p1", "p2", "p3"], ["p0"]],
  ["a stranger", ["p0", "p1", "p2", "x"], ["p3"]],
  ["fewer than three who sent", ["p0", "p1"], ["p2", "p3"]],
];
for (const [name, there, silent] of UNMASK) {
  test(`a sum with ${name} is not opened`, () => {
    const { sum, one } = sent();
    refused(one, /unmask|people/, () => one.answer(question(sum.name, "unmask", { sent: [...there], silent: [...silent] }), 1));
  });
}

test("one share of each person a session, and the same answer again", () => {
  const { sum, one } = sent(), answer = sum.opens("p0");
  assert.deepEqual(sum.opens("p0"), answer);
  refused(one, /unmask/, () => sum.opens("p0", ["p3"]));
  refused(one, /sum/, () => sum.send("p0", VECTOR));
  refused(one, /sum/, () => one.answer(sum.forShares("p0"), 1));
  refused(one, /sum/, () => one.answer(question(sum.name, "keys"), 1));
  // Of what would open more nothing is left.
  assert.deepEqual([one.own.seed, one.own.mask, one.own.shares], ["", "", {}]);
});

/** The people of a sum, who make another one. */
function again(from: Sum, session: number, round: number, ids: readonly string[], vector = VECTOR, origin = MODELS): Sum {
  const some = new Map(ids.map((id) => [id, from.people.get(id)!]));
  const sum = new Sum(some, named(session, round)).show().share();
  for (const id of ids) sum.send(id, vector, origin);
  return sum;
}

test("a round is not opened again without one of its people, and none before the last one of others", () => {
  const { sum, one } = sent(5), all = [...sum.people.keys()];
  for (const id of all) sum.opens(id);
  const fewer = again(sum, 2, 1, all.slice(0, 4));
  refused(one, /round 1 again/, () => fewer.opens("p0"));
  again(sum, 3, 1, all).opens("p0");
  again(sum, 4, 2, all.slice(0, 4)).opens("p0");
  again(sum, 5, 1, all).opens("p0");
  const changed = again(sum, 6, 1, all, Uint32Array.of(9, 9, 9, 9));
  refused(one, /rounds/, () => changed.opens("p0"));
});

test("statistics are in one sum alone: not with one person more or less, nor changed", () => {
  const origin = { once: "statistics", madeOf: "00" }, { sum, one } = sent(5, origin), all = [...sum.people.keys()];
  for (const id of all) sum.opens(id);
  const some = new Map(all.slice(0, 4).map((id) => [id, sum.people.get(id)!]));
  const fewer = new Sum(some, named(2, 2)).show().share();
  refusedPlan(one, () => fewer.send("p0", VECTOR, origin));
  const changed = new Sum(sum.people, named(3, 2)).show().share();
  refusedPlan(one, () => changed.send("p0", Uint32Array.of(1, 2, 3, 5), origin));
  again(sum, 4, 2, all, VECTOR, origin).opens("p0");
});

/** Assert that a vector is refused after its plan was taken in. */
function refusedPlan(one: Participant, send: () => unknown): void {
  const before = JSON.stringify(one.opened.sums);
  assert.throws(send, (error) => error instanceof MessageRefused && /again/.test(error.what));
  assert.equal(JSON.stringify(one.opened.sums), before);
  assert.equal(one.own.vector, "");
}

test("of models nothing is opened before the first round", () => {
  const sum = new Sum(people(4), named(1, 0)).show().share(), one = sum.people.get("p0")!;
  for (const id of sum.people.keys()) sum.send(id, VECTOR);
  refused(one, /unmask/, () => sum.opens("p0"));
});

test("a group is of a sum that was opened last, as large as its plan said, and opened whole", () => {
  const sum = new Sum(people(6), named(1)).show().share(), all = [...sum.people.keys()], one = sum.people.get("p0")!;
  for (const id of all) sum.send(id, VECTOR, MODELS, { smallest: 3n });
  for (const id of all) sum.opens(id);
  const anew = (more: Readonly<Record<string, Value>>, round = 1) => () => one.answer(question(named(2, round), "keys", { anew: bytes(16), sent: all, ...more }), round);
  refused(one, /groups/, anew({ anew: bytes(16, 9) }));
  refused(one, /groups/, anew({ sent: all.slice(0, 5) }));
  refused(one, /groups/, anew({ sent: [...all.slice(0, 5), "x"] }));
  refused(one, /anew/, anew({ anew: bytes(15) }));
  refused(one, /groups/, anew({}, 2));
  anew({})();
  assert.equal(one.own.group.length, 3);
  assert.ok(one.own.group.includes("p0"));
});

test("a sum whose plan spoke of no groups is not made anew", () => {
  const { sum, one } = sent(6);
  sum.opens("p0");
  refused(one, /groups/, () => one.answer(question(named(2), "keys", { anew: bytes(16), sent: [...sum.people.keys()] }), 1));
});
