// Lies of a server about a run of secure sums, which a whole device refuses; it keeps what it kept.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Device } from "../../src/device/device.js";
import { MessageRefused, RunError } from "../../src/errors.js";
import { NO_WISH } from "../../src/secure/settings.js";
import { type Content, config, type Value } from "../../src/values.js";
import { MemoryStore, RUN, storeBefore } from "./answers.js";
import { type Case, golden } from "./case.js";
import { testKernels } from "./kernels.js";

const kernels = await testKernels();

/** A device that kept what it had before a message. */
async function before(one: Case, i: number, settings: Readonly<Record<string, Value>> = {}): Promise<{ device: Device; store: MemoryStore }> {
  const told = { ...one, settings: new Map([...one.settings, ...Object.entries(settings)]) };
  const store = new MemoryStore(storeBefore(told, one.exchanges[i]));
  return { device: await Device.open(one.person, store, kernels, () => undefined), store };
}

/** A message with some values of a record changed; undefined: without the record. */
function changed(content: Content, name: string, values: Readonly<Record<string, Value>> | undefined): Content {
  const record = content.get(name), found = new Map(content);
  if (values === undefined) found.delete(name);
  else if (record?.kind === "config") found.set(name, config(new Map([...record.values, ...Object.entries(values)])));
  return found;
}

async function refused(one: Case, i: number, content: Content, what: RegExp, settings: Readonly<Record<string, Value>> = {}): Promise<void> {
  const { device, store } = await before(one, i, settings), block = store.block;
  await assert.rejects(device.answer({ run: RUN, type: one.exchanges[i].type, content }), (error) => {
    return (error instanceof MessageRefused && what.test(error.what)) || (error instanceof RunError && what.test(error.message));
  });
  assert.equal(store.block, block);
}

const ridge = golden("fedsub-ridge-sums"), noise = golden("fedavg-sums-noise");
/** The first message of a case with a phase, or of training. */
function place(one: Case, phase: string): number {
  return one.exchanges.findIndex((exchange) => {
    const record = exchange.in.get("secure");
    return record?.kind === "config" && record.values.get("phase") === phase;
  });
}

test("an upload by itself is not sent in a run of sums, nor anything after it", async () => {
  const i = place(ridge, "sum"), { device, store } = await before(ridge, i), block = store.block;
  const alone = changed(ridge.exchanges[i].in, "secure", undefined);
  await assert.rejects(device.answer({ run: RUN, type: "train", content: alone }), MessageRefused);
  assert.equal(store.block, block);
});

test("a round that was answered with a vector is not answered with an upload", async () => {
  const i = place(ridge, "sum") + 1, one = { ...ridge, exchanges: [...ridge.exchanges] };
  one.exchanges[i] = { ...one.exchanges[i], type: "train" };
  await refused(one, i, changed(ridge.exchanges[i - 1].in, "secure", undefined), /secure sum/);
});

test("a run that becomes one of single uploads gets none of who sent a vector in it", async () => {
  const i = place(ridge, "sum") + 1, one = { ...ridge, exchanges: [...ridge.exchanges] };
  one.exchanges[i] = { ...one.exchanges[i], type: "train" };
  await refused(one, i, changed(ridge.exchanges[i - 1].in, "secure", undefined), /secure sum/, { "secure-aggregation": false });
});

const PLANS: readonly [string, Readonly<Record<string, Value>>][] = [
  ["coarser levels", { each: 2n }],
  ["finer levels", { each: 2n ** 24n }],
  ["a weight that its levels cannot bear", { weight: 2n ** 30n }],
  ["another run", { run: "another" }],
  ["another method", { method: "fedavg" }],
  ["an earlier version", { version: 1n }],
];
for (const [name, values] of PLANS) {
  test(`a plan with ${name} is refused`, async () => {
    const i = place(ridge, "sum");
    await refused(ridge, i, changed(ridge.exchanges[i].in, "secure", values), /secure sum/);
  });
}

test("with noise everybody weighs 1", async () => {
  const i = place(noise, "sum");
  await refused(noise, i, changed(noise.exchanges[i].in, "secure", { weight: 2n, each: 2n ** 27n }), /weight/);
});

const RUNS: readonly [string, Readonly<Record<string, Value>>, RegExp][] = [
  ["sums of two people", { "secure-least": 2n }, /secure-least/],
  ["medians of single people's numbers", { standardise: "federation-median" }, /standardise/],
  ["groups of single people's sums", { "fedsub-ridge.groups": "clusters" }, /groups/],
  ["rounded uploads", { "upload-encoding": "int8" }, /upload-encoding/],
  ["no range", { "secure-range": 0 }, /secure-range/],
  ["no clip", { "dp-clip": -1 }, /dp-clip/],
];
for (const [name, settings, what] of RUNS) {
  test(`a run of ${name} is refused in the handshake`, async () => {
    const content = changed(ridge.exchanges[0].in, "settings", settings);
    assert.ok(content.has("settings"));
    await refused(ridge, 0, content, what);
  });
}

test("a device that keeps receipts has one of each sum, and a note of its opening", async () => {
  const i = place(ridge, "sum"), noted: [string, Record<string, unknown>][] = [];
  const receipt = (run: string, line: string) => noted.push([run, JSON.parse(line) as Record<string, unknown>]);
  const store = new MemoryStore(storeBefore(ridge, ridge.exchanges[i]));
  const device = await Device.open(ridge.person, store, kernels, () => undefined, { ...NO_WISH, receipt });
  for (const exchange of ridge.exchanges.slice(i, i + 2)) await device.answer({ run: RUN, type: exchange.type, content: exchange.in });
  const keys = "client head leaf least noise numbers once people plan round run session transcript vector";
  assert.deepEqual(noted.map(([run]) => run), ["golden fedsub-ridge-sums", "golden fedsub-ridge-sums"]);
  assert.equal(Object.keys(noted[0][1]).sort().join(" "), keys);
  assert.deepEqual(noted[1][1], { session: noted[0][1].session, opened: true });
});

test("questions about sums are refused in a run of none", async () => {
  const i = place(ridge, "keys");
  await refused(ridge, i, ridge.exchanges[i].in, /in a run of none/, { "secure-aggregation": false });
});

test("moments of what the run does not standardise are refused", async () => {
  const i = place(ridge, "moments");
  await refused(ridge, i, changed(ridge.exchanges[i].in, "secure", { of: "features" }), /moments/);
  await refused(ridge, i, ridge.exchanges[i].in, /moments/, { standardise: "client" });
});
