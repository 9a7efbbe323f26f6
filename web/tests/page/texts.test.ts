import assert from "node:assert/strict";
import { test } from "node:test";
import { METHOD_NAMES } from "../../src/methods/table.js";
import { type Key, LANGUAGES, SENDS, Texts } from "../../src/page/texts.js";

const ENGLISH = LANGUAGES[0][2];
const braces = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort();

for (const [tag, , texts] of LANGUAGES) {
  test(`the texts of ${tag} are those of English, with the same words to fill in`, () => {
    assert.deepEqual(Object.keys(texts), Object.keys(ENGLISH));
    for (const key of Object.keys(ENGLISH) as Key[]) {
      assert.ok(texts[key].trim());
      assert.deepEqual(braces(texts[key]), braces(ENGLISH[key]), key);
    }
  });
}

test("of each method that a device knows there is a text on what it sends, and of no other", () => {
  assert.deepEqual(Object.keys(SENDS).sort(), [...METHOD_NAMES].sort());
});

test("a browser's language is found, and English stands in for others", () => {
  assert.equal(Texts.liked(["fr-FR", "de-CH", "en"]).tag, "de");
  assert.equal(Texts.liked(["fr"]).tag, "en");
  assert.equal(new Texts("de").say("working", { round: 3 }), "Arbeitet an Runde 3.");
  assert.equal(new Texts("en").say("working", { "$&": 3 }), "Works on round {round}.");
});
