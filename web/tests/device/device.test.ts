import assert from "node:assert/strict";
import { test } from "node:test";
import { Device } from "../../src/device/device.js";
import { RunError } from "../../src/errors.js";
import type { Value } from "../../src/values.js";
import { MemoryStore, RUN, storeBefore } from "../golden/answers.js";
import { type Case, golden } from "../golden/case.js";
import { testKernels } from "../golden/kernels.js";

const kernels = await testKernels();
const quiet = () => undefined;
const fedavg = golden("fedavg");
const [handshake, firstRound, , secondRound] = fedavg.exchanges;

function opened(store: MemoryStore, one: Case = fedavg): Promise<Device> {
  return Device.open(one.person, store, kernels, quiet);
}

function asked({ type, in: content }: Case["exchanges"][number]) {
  return { run: RUN, type, content };
}

/** The handshake with another value of a setting. */
function saying(key: string, value: Value) {
  const record = handshake.in.get("settings");
  assert.ok(record?.kind === "config");
  const values = new Map(record.values).set(key, value);
  return { run: RUN, type: "query", content: new Map(handshake.in).set("settings", { kind: "config" as const, values }) };
}

test("a device that died after any message goes on, and answers as one that did not", async () => {
  const [store, other] = [new MemoryStore(), new MemoryStore()];
  const living = await opened(other);
  for (const exchange of fedavg.exchanges) {
    const answer = await (await opened(store)).answer(asked(exchange));
    assert.deepEqual(answer, await living.answer(asked(exchange)));
    assert.deepEqual(store.block, other.block);
  }
});

test("a round that is asked for again has the same answer, and is not trained again", async () => {
  const store = new MemoryStore(storeBefore(fedavg, secondRound));
  const first = await (await opened(store)).answer(asked(secondRound));
  const kept = store.block;
  const again = await (await opened(store)).answer(asked(secondRound));
  assert.deepEqual(again, first);
  assert.deepEqual(store.block, kept);
});

test("what could not be kept is not said, and is answered alike once it can", async () => {
  const store = new MemoryStore(storeBefore(fedavg, firstRound));
  const device = await opened(store);
  const save = store.save.bind(store);
  store.save = () => Promise.reject(new RunError("a full disk"));
  await assert.rejects(device.answer(asked(firstRound)), RunError);
  store.save = save;
  const other = new MemoryStore(storeBefore(fedavg, firstRound));
  assert.deepEqual(await device.answer(asked(firstRound)), await (await opened(other)).answer(asked(firstRound)));
  assert.deepEqual(store.block, other.block);
});

test("a run whose settings were never told is refused", async () => {
  await assert.rejects((await opened(new MemoryStore())).answer(asked(firstRound)), RunError);
});

test("another person's state is refused", async () => {
  const store = new MemoryStore(storeBefore(fedavg, secondRound));
  await assert.rejects(Device.open({ ...fedavg.person, client: "p2" }, store, kernels, quiet), RunError);
});

test("a download of another model than the run's is refused, and what was kept stays", async () => {
  const store = new MemoryStore(storeBefore(fedavg, secondRound));
  const device = await opened(store);
  await device.answer(saying("hidden", "5"));
  const kept = store.block;
  await assert.rejects(device.answer(asked(secondRound)), /shape of linear1/);
  assert.deepEqual(store.block, kept);
});

for (const [key, value] of [
  ["optimiser", "adam"],
  ["clip-norm", 1],
  ["best-by", "validation"],
  ["method", "fedfomo"],
  ["beside", "scaffold"],
  ["set", "fedavg.smooth=0.9"],
  ["upload-encoding", "zstd"],
  ["model", "cnn2d"],
  ["encoder", "file.py:builder"],
  ["hidden", "many"],
] as const) {
  test(`a run with ${key} = ${value} is refused by name in the handshake`, async () => {
    const store = new MemoryStore();
    await assert.rejects((await opened(store)).answer(saying(key, value)), (error: Error) => error instanceof RunError && error.message.includes(String(value).split("=")[0]));
    assert.equal(store.block, undefined);
  });
}
