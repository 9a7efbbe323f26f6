import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import "fake-indexeddb/auto";
import { Database } from "../../src/browser/database.js";
import { leaveOf } from "../../src/device/leaving.js";
import { newKeyPair } from "../../src/fleet/keys.js";
import { KEYS, type Leaving, LEAVING, OWNER } from "../../src/thread/names.js";
import { type Doing, TakingPart } from "../../src/thread/taking-part.js";
import { Consent } from "../../src/thread/terms.js";
import { config, type Content } from "../../src/values.js";
import { SuperLink } from "../fleet/superlink.js";
import { testKernels } from "../golden/kernels.js";

const LEFT = { deleted: ["your sums"], remains: ["others' models"] };
const record = (deleted: readonly string[] | string): Content => new Map([["left", config(new Map([["deleted", deleted as string[]], ["remains", LEFT.remains]]))]]);
const asked: Content = new Map([["turn", config(new Map())]]);
const kernels = await testKernels(), real = globalThis.fetch;

/** A page of this database's person, and what it has done; it goes by a server, which has this answer to a request for the owner's key. */
async function begun(t: TestContext, database: Database, link: SuperLink, owner: () => Response = () => new Response("", { status: 404 })) {
  const address = await link.start(), done: Doing[] = [];
  const locks = { request: (_name: string, _how: unknown, act: (lock: unknown) => unknown) => act({}) };
  Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true });
  globalThis.fetch = async (path, init) => ((path as string).endsWith(".pub") ? owner() : real(`http://${address}${path as string}`, init));
  const taking = new TakingPart("anna", database, kernels, new Consent(Promise.resolve(database), () => undefined), () => done.push(taking.doing));
  t.after(async () => {
    await taking.end();
    link.stop();
  });
  taking.begin();
  const until = async (kind: Doing["kind"]) => {
    while (taking.doing.kind !== kind) await new Promise((resolve) => setTimeout(resolve, 5));
    return taking.doing;
  };
  return { taking, done, until };
}

async function leaver(name: string): Promise<Database> {
  const database = await Database.open(name);
  await database.put(KEYS, await newKeyPair());
  await database.put(LEAVING, { node: undefined, said: false });
  return database;
}

test("what the server says once is kept, though the reply to it fails and the page is closed", { timeout: 20_000 }, async (t) => {
  const database = await leaver("reply fails"), link = new SuperLink();
  link.ask("train", "2", record(LEFT.deleted));
  link.failures.set("push-messages", { status: 400, times: 1 });
  const { taking, until } = await begun(t, database, link);
  await until("offline");
  await taking.end();
  assert.deepEqual(link.pushed, []);
  const anew = await begun(t, database, new SuperLink());
  assert.deepEqual(await anew.until("left"), { kind: "left", ...LEFT });
});

test("what the server says is shown once it has the answer", { timeout: 20_000 }, async (t) => {
  const link = new SuperLink();
  link.ask("train", "1", asked);
  link.ask("train", "2", record(LEFT.deleted));
  const { done, until } = await begun(t, await leaver("told"), link);
  assert.deepEqual(await until("left"), { kind: "left", ...LEFT });
  assert.deepEqual(link.pushed, [leaveOf("anna"), leaveOf("anna")]);
  assert.ok(done.some((one) => one.kind === "leaving" && one.said));
});

test("a leave ends once each run that goes on has said what it deleted, and says all of it", { timeout: 20_000 }, async (t) => {
  const database = await leaver("several runs"), link = new SuperLink();
  await database.put(LEAVING, { node: undefined, said: false, runs: ["7", "8", "9"] });
  link.over.add(9n);
  link.ask("train", "1", record(LEFT.deleted));
  const { taking, until } = await begun(t, database, link);
  await until("leaving");
  while ((await database.get<Leaving>(LEAVING))?.runs?.join() !== "8") await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(taking.doing.kind, "leaving");
  link.ask("query", "0", record(["your name"]), undefined, 8n);
  assert.deepEqual(await until("left"), { kind: "left", deleted: ["your sums", "your name"], remains: LEFT.remains });
});

test("a run of which nobody can say whether it is over is waited for", { timeout: 20_000 }, async (t) => {
  const database = await leaver("unsure"), link = new SuperLink();
  await database.put(LEAVING, { node: undefined, said: false, runs: ["8"] });
  link.failures.set("get-run", { status: 403, times: 1 });
  link.ask("train", "1", record(LEFT.deleted));
  const { until } = await begun(t, database, link);
  const doing = async () => { while (!link.pushed.length) await new Promise((resolve) => setTimeout(resolve, 5)); return until("leaving"); };
  await doing();
  assert.deepEqual((await database.get<Leaving>(LEAVING))?.runs, ["8"]);
});

for (const [what, ask] of Object.entries({
  "that is no list": (link: SuperLink) => { link.ask("train", "1", record("all")); },
  "that is broken": (link: SuperLink) => { link.ask("train", "1", record(LEFT.deleted), (objects) => { for (const [id, bytes] of objects) objects.set(id, bytes.map((byte, i) => (i === bytes.length - 1 ? byte ^ 1 : byte))); }); },
})) {
  test(`a record ${what} is answered by an error, and tells the server nothing`, { timeout: 20_000 }, async (t) => {
    const database = await leaver(what), link = new SuperLink();
    ask(link);
    const { taking, done } = await begun(t, database, link);
    while (!link.pushed.length) await new Promise((resolve) => setTimeout(resolve, 5));
    await new Promise((resolve) => setTimeout(resolve, 100));
    await taking.end();
    assert.equal(typeof link.pushed[0], "string");
    assert.ok(done.every((one) => one.kind !== "left" && !(one.kind === "leaving" && one.said)));
    assert.equal((await database.get<{ said: boolean }>(LEAVING))?.said, false);
  });
}

for (const [what, status, text, why] of [
  ["away", 503, "", /503/],
  ["a stranger's", 200, "<html>log in</html>", /P-384/],
  ["none", 404, "", /no samples/],
] as const) {
  test(`where the owner's key is ${what}, nobody takes part unsigned by mistake, and nothing wrong is kept`, { timeout: 20_000 }, async (t) => {
    const database = await Database.open(what), link = new SuperLink();
    await database.put(KEYS, await newKeyPair());
    const { until } = await begun(t, database, link, () => new Response(text, { status }));
    const doing = await until("offline");
    assert.match("why" in doing ? doing.why : "", why);
    assert.equal(await database.get(OWNER), undefined);
  });
}
