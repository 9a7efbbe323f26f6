import assert from "node:assert/strict";
import { test } from "node:test";
import { MessageChannel } from "node:worker_threads";
import { Caller, type Port, serve, ThreadError } from "../../src/thread/calls.js";

const TASKS = {
  late: (text: string) => new Promise<string>((resolve) => setTimeout(() => { resolve(text); }, 20)),
  sum: (a: number, b: number) => a + b,
  wrong: () => {
    throw new RangeError("no such row");
  },
};

test("calls get their own answers, errors with their kind, and news is heard beside", async (t) => {
  const { port1, port2 } = new MessageChannel(), news: string[] = [];
  t.after(() => { port1.close(); });
  serve(port1 as unknown as Port, TASKS);
  const thread = new Caller<typeof TASKS, string>(port2 as unknown as Port, (one) => news.push(one));
  port1.postMessage({ news: "asked" });
  assert.deepEqual(await Promise.all([thread.call("late", "a"), thread.call("sum", 1, 2), thread.call("late", "b")]), ["a", 3, "b"]);
  await assert.rejects(thread.call("wrong"), (error) => error instanceof ThreadError && error.name === "RangeError" && /no such row/.test(error.message));
  assert.deepEqual(news, ["asked"]);
});
