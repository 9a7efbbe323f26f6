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

test("in Node a leave deletes the folder's state, lasts, and keeps what the server says", () => {
  const folder = mkdtempSync(join(tmpdir(), "leaving-"));
  for (const name of ["lock", "state.bin", "receipts-1.jsonl"]) writeFileSync(join(folder, name), "x");
  assert.equal(hasLeft(folder), false);
  for (const again of [1, 2]) leave(folder, `anna${again}`);
  assert.deepEqual(readdirSync(folder).sort(), ["leaving.json", "lock", "what-was-deleted.txt"]);
  assert.equal((JSON.parse(readFileSync(join(folder, "leaving.json"), "utf8")) as { client: string }).client, "anna1");
  assert.deepEqual(farewell(folder, "anna", left(["your sums"])), leaveOf("anna"));
  const said = readFileSync(join(folder, "what-was-deleted.txt"), "utf8");
  for (const line of ["state.bin was deleted", "receipts-1.jsonl was deleted", "On the server", "- your sums", "- others' models"]) assert.ok(said.includes(line), line);
});
