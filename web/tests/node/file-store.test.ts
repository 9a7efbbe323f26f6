import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { test, type TestContext } from "node:test";
import { packed } from "../../src/device/container.js";
import { RunError } from "../../src/errors.js";
import { FileStore } from "../../src/node/file-store.js";

const [FIRST, SECOND, THIRD] = [1, 2, 3].map((generation) => packed({ generation, values: Float32Array.of(generation) }));
const quiet = () => undefined;

function folder(t: TestContext): string {
  const made = mkdtempSync(join(tmpdir(), "fedsub-"));
  t.after(() => {
    rmSync(made, { recursive: true });
  });
  return made;
}

async function opened(t: TestContext, at: string): Promise<FileStore> {
  const store = await FileStore.open(at, quiet);
  t.after(() => {
    store.close();
  });
  return store;
}

async function filled(t: TestContext): Promise<{ at: string; store: FileStore }> {
  const at = folder(t);
  const store = await opened(t, at);
  for (const block of [FIRST, SECOND, THIRD]) await store.save(block);
  return { at, store };
}

test("what was saved last is loaded", async (t) => {
  const { store } = await filled(t);
  assert.deepEqual(await store.load(), THIRD);
});

test("a folder without a state has none", async (t) => {
  assert.equal(await (await opened(t, folder(t))).load(), undefined);
});

test("of a file cut off at any place the state before it is used", async (t) => {
  const { at, store } = await filled(t);
  for (let length = 0; length < THIRD.length; length++) {
    writeFileSync(join(at, "state.bin"), THIRD.subarray(0, length));
    assert.deepEqual(await store.load(), SECOND, `cut after ${length} bytes`);
  }
});

test("a damaged file does not take the place of the whole one before it", async (t) => {
  const { at, store } = await filled(t);
  truncateSync(join(at, "state.bin"), 40);
  assert.deepEqual(await store.load(), SECOND);
  await store.save(FIRST);
  truncateSync(join(at, "state.bin"), 40);
  assert.deepEqual(await store.load(), SECOND);
});

test("a byte that changed anywhere is noticed", async (t) => {
  const { at, store } = await filled(t);
  for (let i = 0; i < THIRD.length; i++) {
    const broken = THIRD.slice();
    broken[i] ^= 4;
    writeFileSync(join(at, "state.bin"), broken);
    assert.deepEqual(await store.load(), SECOND, `byte ${i}`);
  }
});

test("two damaged files are refused by name, and stay", async (t) => {
  const { at, store } = await filled(t);
  for (const name of ["state.bin", "state-before.bin"]) truncateSync(join(at, name), 40);
  await assert.rejects(store.load(), (error: Error) => error instanceof RunError && error.message.includes("state-before.bin"));
  assert.equal(readFileSync(join(at, "state.bin")).length, 40);
});

test("a draft that was left behind changes nothing", async (t) => {
  const { at, store } = await filled(t);
  writeFileSync(join(at, "state.draft"), FIRST.subarray(0, 30));
  assert.deepEqual(await store.load(), THIRD);
  await store.save(FIRST);
  assert.deepEqual(await store.load(), FIRST);
});

test("a second store on one folder is refused by name, and one after its end is not", async (t) => {
  const { at, store } = await filled(t);
  await assert.rejects(FileStore.open(at, quiet), (error: Error) => error instanceof RunError && error.message.includes(at));
  store.close();
  assert.deepEqual(await (await opened(t, at)).load(), THIRD);
});

test("a folder with a long name is locked and freed as others are", { skip: process.platform !== "linux" && "no short names of sockets" }, async (t) => {
  const at = join(folder(t), "deep".repeat(40));
  const store = await opened(t, at);
  await assert.rejects(FileStore.open(at, quiet), RunError);
  assert.deepEqual(readdirSync(at), ["lock"]);
  store.close();
  assert.deepEqual(readdirSync(at), []);
});

test("a process that was killed leaves no lock behind", async (t) => {
  const at = folder(t);
  const code = `require("net").createServer().listen(${JSON.stringify(join(at, "lock"))}, () => process.kill(process.pid, "SIGKILL"))`;
  assert.equal(spawnSync(process.execPath, ["-e", code]).signal, "SIGKILL");
  assert.equal(await (await opened(t, at)).load(), undefined);
});

test("a file that somebody else wrote meanwhile is not overwritten", async (t) => {
  const { at, store } = await filled(t);
  writeFileSync(join(at, "state.bin"), FIRST);
  await assert.rejects(store.save(SECOND), RunError);
  assert.deepEqual(new Uint8Array(readFileSync(join(at, "state.bin"))), FIRST);
});
