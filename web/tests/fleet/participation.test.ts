import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { CallRefused, FleetCalls, PATIENCE } from "../../src/fleet/calls.js";
import type { Metadata } from "../../src/fleet/messages.js";
import { deviceKey, newKeyPair } from "../../src/fleet/keys.js";
import { takePart, Unanswered } from "../../src/fleet/participation.js";
import { nodeTransport } from "../../src/node/transport.js";
import { config, type Content, metrics, type PlainRecord } from "../../src/values.js";
import { NODE, SuperLink } from "./superlink.js";

/** Longer than a chunk, so that a payload has several. */
const PAYLOAD = Uint8Array.from({ length: 6_000_000 }, (_, i) => i % 251);
const CONTENT: Content = new Map<string, PlainRecord>([
  ["turn", config(new Map<string, bigint | string | number | boolean | bigint[]>([["round", 1n], ["lr", 1], ["name", "Zoë"], ["on", true], ["shape", [3n, -4n]]]))],
  ["payload", { kind: "payload", bytes: PAYLOAD }],
]);

interface Asked {
  readonly metadata: Metadata;
  readonly content: Content;
}

/** Take part until so many answers were pushed; what was asked. */
async function played(t: TestContext, link: SuperLink, answers: number, answer: (asked: Asked) => Content, stays = () => true): Promise<Asked[]> {
  const address = await link.start();
  const ended = new AbortController();
  t.after(() => {
    ended.abort();
    link.stop();
  });
  const patience = { ...PATIENCE, first: 0.01, tries: 4 };
  const calls = new FleetCalls(nodeTransport(address, undefined, true), await deviceKey(await newKeyPair()), patience, ended.signal);
  const asked: Asked[] = [];
  const how = { register: false, look: 0.01, before: 3n, active: () => Promise.resolve(), stays: () => Promise.resolve(stays()), log: () => undefined };
  await takePart(
    calls,
    (metadata, content) => {
      const question = { metadata, content };
      asked.push(question);
      const waits = setInterval(() => {
        if (link.pushed.length < answers && !ended.signal.aborted) return;
        clearInterval(waits);
        ended.abort();
      }, 5);
      return Promise.resolve().then(() => answer(question));
    },
    how,
  );
  return asked;
}

test("a message's records arrive whole, and so do an answer's", async (t) => {
  const link = new SuperLink();
  link.ask("train", "1", CONTENT);
  const answer: Content = new Map([["payload", { kind: "payload", bytes: PAYLOAD }], ["report", metrics(new Map([["loss", 0.5]]))]]);
  const [question] = await played(t, link, 1, () => answer);
  assert.deepEqual(question.content, CONTENT);
  assert.deepEqual(link.pushed, [answer]);
  assert.equal(question.metadata.dstNodeId, NODE);
});

test("who died is first taken leave of, then activated, and takes leave at the end", async (t) => {
  const link = new SuperLink();
  link.ask("query", "0", CONTENT);
  await played(t, link, 1, () => CONTENT);
  assert.deepEqual(link.calls.slice(0, 2), ["deactivate-node", "activate-node"]);
  assert.ok(link.calls.includes("confirm-message-received"));
  assert.equal(link.calls.at(-1), "deactivate-node");
});

test("a message of one record is answered in ten requests at most, with the look that finds it", async (t) => {
  const link = new SuperLink();
  const joined: Content = new Map([["joined", config(new Map<string, string | Uint8Array>([["turn.method", "fedavg"], ["payload", PAYLOAD.subarray(0, 100_000)]]))]]);
  link.ask("train", "1", joined);
  await played(t, link, 1, () => joined);
  // A look that finds nothing belongs to no exchange.
  const count = (name: string) => link.calls.filter((one) => one === name).length;
  const looks = count("pull-messages") > 0 ? 1 : 0;
  const others = ["pull-object", "confirm-message-received", "push-messages", "push-object"].map(count);
  assert.ok(others.every((one) => one > 0));
  assert.ok(looks + others.reduce((sum, one) => sum + one, 0) <= 10, `${looks} ${others.join(" ")}`);
});

for (const hours of [-30, 5]) {
  test(`a device whose clock is ${-hours} hours wrong goes by the server's`, async (t) => {
    const link = new SuperLink();
    link.ahead = hours * 3_600_000;
    link.ask("query", "0", CONTENT);
    await played(t, link, 1, () => CONTENT);
    assert.deepEqual(link.pushed, [CONTENT]);
    assert.deepEqual(link.calls.slice(0, 3), ["deactivate-node", "deactivate-node", "activate-node"]);
  });
}

test("an answer that fails is an error that says why, and the next message is answered", async (t) => {
  const link = new SuperLink();
  link.ask("train", "1", CONTENT);
  link.ask("train", "2", CONTENT);
  const answer: Content = new Map([["metrics", metrics(new Map([["loss", 0.5]]))]]);
  await played(t, link, 2, ({ metadata }) => {
    if (metadata.groupId === "1") throw new RangeError("no such round");
    return answer;
  });
  assert.deepEqual(link.pushed, ["RangeError: no such round", answer]);
});

test("who cannot answer now takes leave, and leaves the message to who can", async (t) => {
  const link = new SuperLink();
  link.ask("query", "0", CONTENT);
  link.ask("train", "1", CONTENT);
  const asked = await played(t, link, 1, () => {
    throw new Unanswered("not agreed");
  });
  assert.deepEqual([asked.length, link.pushed, link.calls.at(-1)], [1, [], "deactivate-node"]);
});

test("who stays no longer answers what it has taken, takes no more, and takes leave", async (t) => {
  const link = new SuperLink();
  link.ask("train", "1", CONTENT);
  link.ask("train", "2", CONTENT);
  await played(t, link, 9, () => CONTENT, () => !link.pushed.length);
  assert.deepEqual([link.pushed, link.calls.at(-1)], [[CONTENT], "deactivate-node"]);
});

test("a server that is away for a while is asked again, each call alone", async (t) => {
  const link = new SuperLink();
  for (const call of ["activate-node", "pull-messages", "pull-object", "push-messages", "push-object"]) link.failures.set(call, { status: 503, times: 2 });
  link.ask("query", "0", CONTENT);
  await played(t, link, 1, () => CONTENT);
  assert.deepEqual(link.pushed, [CONTENT]);
});

for (const call of ["pull-object", "confirm-message-received", "push-messages", "push-object"]) {
  test(`a message whose run has ended at ${call} is passed over, and the next one is answered`, async (t) => {
    const link = new SuperLink();
    link.failures.set(call, { status: 403, times: 1, body: '{"code":2007}' });
    link.ask("train", "1", CONTENT);
    link.ask("train", "2", CONTENT);
    await played(t, link, 1, () => CONTENT);
    assert.deepEqual(link.pushed, [CONTENT]);
  });
}

test("a server that refuses a message for another reason ends it", async (t) => {
  const link = new SuperLink();
  link.failures.set("push-messages", { status: 403, times: 1 });
  link.ask("train", "1", CONTENT);
  await assert.rejects(played(t, link, 1, () => CONTENT), (error: Error) => error instanceof CallRefused && error.status === 403);
});

test("a server that refuses the key is not asked again", async (t) => {
  const link = new SuperLink();
  link.failures.set("activate-node", { status: 401, times: 9 });
  await assert.rejects(played(t, link, 1, () => CONTENT), (error: Error) => error instanceof CallRefused && error.status === 401);
  assert.equal(link.calls.filter((call) => call === "activate-node").length, 1);
});

test("objects that are not what their ids say are answered by an error, and the next message is read", async (t) => {
  const link = new SuperLink();
  link.ask("query", "0", CONTENT, (objects) => {
    const [id, bytes] = [...objects][0];
    objects.set(id, bytes.map((byte, i) => (i === bytes.length - 1 ? byte ^ 1 : byte)));
  });
  const answer: Content = new Map([["metrics", metrics(new Map([["loss", 0.5]]))]]);
  link.ask("query", "1", answer);
  const asked = await played(t, link, 2, () => answer);
  assert.deepEqual(asked.map(({ metadata }) => metadata.groupId), ["1"]);
  assert.ok(typeof link.pushed[0] === "string" && link.pushed[0].includes("SHA-256"));
  assert.deepEqual(link.pushed[1], answer);
});
