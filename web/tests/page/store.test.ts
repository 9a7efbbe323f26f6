import assert from "node:assert/strict";
import { test } from "node:test";
import "fake-indexeddb/auto";
import { Database } from "../../src/browser/database.js";
import { BrowserStore } from "../../src/browser/store.js";
import { packed } from "../../src/device/container.js";
import { RunError } from "../../src/errors.js";

const rows = (label: number) => ({ t: Float64Array.of(0, 1), x: Float32Array.of(1, 2), y: Int32Array.of(label, label), measured: true });

const all = async (database: Database) => Promise.all((await database.recordingIds()).map((id) => database.recording(id)));

test("the store gives back the last block, and refuses a damaged one", async () => {
  const database = await Database.open("store"), store = new BrowserStore(database);
  assert.equal(await store.load(), undefined);
  for (const round of [1, 2]) await store.save(packed({ round }));
  assert.deepEqual(await store.load(), packed({ round: 2 }));
  const damaged = packed({ round: 3 });
  damaged[damaged.length - 1] ^= 1;
  await database.put("state", damaged);
  await assert.rejects(store.load(), RunError);
});

test("recordings keep their order and numbers, grow in place, and go alone", async () => {
  const database = await Database.open("recordings");
  const first = await database.record(rows(0));
  await database.record(rows(1));
  assert.equal(await database.record({ ...rows(2), id: first }), first);
  assert.deepEqual((await all(database)).map((one) => one?.y[0]), [2, 1]);
  await database.discard(first);
  assert.deepEqual((await all(database)).map((one) => one?.y[0]), [1]);
});

test("new recordings are kept together or not at all, and the oldest go together", async () => {
  const database = await Database.open("together"), wrong = { ...rows(1), id: null as unknown as number };
  await database.recordAll([rows(0), rows(1), rows(2)]);
  await assert.rejects(database.recordAll([rows(3), wrong]));
  assert.deepEqual((await all(database)).map((one) => one?.y[0]), [0, 1, 2]);
  const [, second] = await database.recordingIds();
  await database.discardUpTo(second);
  assert.deepEqual((await all(database)).map((one) => one?.y[0]), [2]);
});

test("whole numbers and bytes are kept as they are", async () => {
  const database = await Database.open("values");
  const values = new Map<string, unknown>([["whole", 3n], ["bytes", Uint8Array.of(1)]]);
  await database.put("model", { values });
  assert.deepEqual(await database.get("model"), { values });
});

test("what is forgotten is gone, also for a tab that had it open", async () => {
  const database = await Database.open("forgotten"), other = await Database.open("forgotten");
  await database.record(rows(0));
  await database.put("keys", 1);
  await database.forget();
  await assert.rejects(other.recordingIds());
  const anew = await Database.open("forgotten");
  assert.deepEqual([await anew.recordingIds(), await anew.get("keys")], [[], undefined]);
});

test("what is kept of somebody who leaves is there with the leave, and no other tab keeps anything after", async () => {
  const database = await Database.open("leaving");
  let lost = 0;
  const other = await Database.open("leaving", () => lost++);
  await database.record(rows(0));
  for (const name of ["keys", "state"]) await database.put(name, name);
  const late = other.put("state", "of a round that goes on");
  await database.keepOnly(["keys"], "leaving", true);
  await late;
  assert.equal(lost, 1);
  await assert.rejects(other.put("state", "of the next round"));
  const anew = await Database.open("leaving");
  assert.deepEqual([await anew.recordingIds(), await anew.get("keys"), await anew.get("state"), await anew.get("leaving")], [[], "keys", undefined, true]);
  await anew.forget();
  assert.deepEqual(await (await Database.open("leaving")).get("keys"), undefined);
});
