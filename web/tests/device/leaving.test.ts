import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { leaveOf, leftOf } from "../../src/device/leaving.js";
import { MessageRefused } from "../../src/errors.js";
import { farewell, hasLeft, leave } from "../../src/node/leaving.js";
import { config, type Content, type Value } from "../../src/values.js";

const left = (deleted: Value, remains: Value = ["others' models"]): Content => new Map([["left", config(new Map([["deleted", deleted], ["remains", remains]]))]]);
const sentences = (count: number, length = 5) => Array.from({ length: count }, () => "x".repeat(length));

test("who left answers anything with a leave, as Python's device does", () => {
  assert.deepEqual(leaveOf("anna"), new Map([["leave", config(new Map([["client", "anna"]]))]]));
  assert.equal(leftOf(new Map([["turn", config(new Map())]]), "anna"), undefined);
  assert.deepEqual(leftOf(left(sentences(50, 1000)), "anna"), { deleted: sentences(50, 1000), remains: ["others' models"] });
});

for (const [what, lie] of Object.entries({ "no list": "all", "51 sentences": sentences(51), "a long one": sentences(1, 1001), "numbers": [1n], "a line's end": ["a\nb"], "a turned line": ["a\u202eb"] })) {
  test(`a server's record with ${what} is refused`, () => {
    for (const content of [left(lie), left(["all"], lie)]) assert.throws(() => leftOf(content, "anna"), MessageRefused);
  });
}

test("in Node a leave deletes the device's own files, lasts, and keeps what the server says", () => {
  const folder = mkdtempSync(join(tmpdir(), "leaving-")), own = ["state.bin", "state-before.bin", "state.draft", "receipts-1.jsonl"];
  const others = ["anna.npz", "device.key", "lock", "state.bin.txt"], record = () => readFileSync(join(folder, "what-was-deleted.txt"), "utf8");
  for (const name of [...own, ...others]) writeFileSync(join(folder, name), "x");
  assert.equal(hasLeft(folder), false);
  for (const again of [1, 2]) leave(folder, `anna${again}`);
  assert.deepEqual(readdirSync(folder).sort(), [...others, "leaving.json", "what-was-deleted.txt"].sort());
  assert.equal((JSON.parse(readFileSync(join(folder, "leaving.json"), "utf8")) as { client: string }).client, "anna1");
  assert.ok(!record().includes("nothing was kept"));
  assert.deepEqual(farewell(folder, "anna", left(["your sums"])), leaveOf("anna"));
  for (const line of [...own.map((name) => `${name} was deleted`), "On the server", "- your sums", "- others' models"]) assert.ok(record().includes(line), line);
});

test("in Node who leaves before anything was kept has a record of it, once", () => {
  const folder = mkdtempSync(join(tmpdir(), "leaving-"));
  for (const client of ["anna", "anna"]) leave(folder, client);
  assert.equal(readFileSync(join(folder, "what-was-deleted.txt"), "utf8").split("nothing was kept").length, 2);
});
