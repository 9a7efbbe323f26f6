import assert from "node:assert/strict";
import { test } from "node:test";
import "fake-indexeddb/auto";
import { Database } from "../../src/browser/database.js";
import { forgetAll } from "../../src/page/forgetting.js";
import type { Thread } from "../../src/page/thread.js";

const LEFT = { deleted: ["your sums"], remains: [] };
const refused = () => Promise.reject(new DOMException("", "SecurityError"));

for (const [what, navigator, caches] of [
  ["that a browser has not", {}, undefined],
  ["that a browser refuses", { serviceWorker: { getRegistrations: refused } }, { keys: refused }],
] as const) {
  test(`everything is forgotten beside workers and caches ${what}, and a thread that throws; what the server said is kept first`, async () => {
    const database = await Database.open(what), kept = new Map<string, string>(), went: string[] = [];
    const place = { pathname: "/", replace: (to: string) => went.push(to) };
    const storage = { setItem: (name: string, value: string) => kept.set(name, value) };
    for (const [name, value] of Object.entries({ navigator, caches, location: place, sessionStorage: storage })) {
      if (value === undefined) Reflect.deleteProperty(globalThis, name);
      else Object.defineProperty(globalThis, name, { value, configurable: true });
    }
    await database.put("keys", 1);
    const seen: boolean[] = [];
    const watched = { forget: () => { seen.push(kept.size === 1); return database.forget(); } };
    const thread = { call: () => Promise.reject(new Error("no card")) };
    await forgetAll({ database: watched as unknown as Database, thread: thread as unknown as Thread }, LEFT);
    assert.deepEqual([seen, went], [[true], ["/?forgotten"]]);
    assert.deepEqual(JSON.parse(kept.get("forgotten")!), LEFT);
    assert.equal(await (await Database.open(what)).get("keys"), undefined);
  });
}
