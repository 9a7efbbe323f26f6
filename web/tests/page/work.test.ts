import assert from "node:assert/strict";
import { test } from "node:test";
import "fake-indexeddb/auto";
import { Database } from "../../src/browser/database.js";
import { CARD } from "../../src/thread/names.js";
import { Work } from "../../src/thread/work.js";
import { testKernels } from "../golden/kernels.js";

const TEXT = 'classes = ["sit", "walk"]\nfeatures = ["x", "y"]\nsample = "window"\nsampling_rate_hz = 10\nwindow_s = 1\n';
const FILE = new Blob([`t,label,x,y\n${Array.from({ length: 20 }, (_, i) => `${i / 10},walk,1,2`).join("\n")}\n`]);

test("work that is asked for while the thread begins waits, and is done", async () => {
  const database = await Database.open("work");
  await database.put(CARD, TEXT);
  const tasks = new Work(Promise.resolve(database), testKernels(), () => undefined).tasks();
  const imported = tasks.importFile(FILE);
  const read = tasks.begin("p1").then(() => tasks.read());
  assert.equal(await imported, 1);
  await read;
  assert.deepEqual((await tasks.read()).counts, [0, 2]);
});

test("who cannot begin can do nothing, and is told why", async () => {
  const database = await Database.open("work of nobody");
  const tasks = new Work(Promise.resolve(database), testKernels(), () => undefined).tasks();
  const imported = assert.rejects(tasks.importFile(FILE), /classes/);
  await assert.rejects(tasks.begin("p1"), /classes/);
  await imported;
});
