/** The page of somebody who has not joined: what it is, a name, a code, and consent. */
import type { Database } from "../browser/database.js";
import { type Card, classInWords } from "../data/person.js";
import { join, type Joined, JoinRefused, plainCode } from "../fleet/join.js";
import { newKeyPair } from "../fleet/keys.js";
import { button, element, field, said, section, show, ticked } from "./elements.js";
import { KEYS } from "../thread/names.js";
import type { Texts } from "./texts.js";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** The section by which a person joins; `joined` is awaited after. */
export function joiningView(database: Database, card: Card, texts: Texts, joined: (as: Joined) => Promise<void>): HTMLElement {
  const name = element("input", { id: "name", autocomplete: "username", required: true, spellcheck: false });
  const code = element("input", { id: "code", autocomplete: "off", required: true, spellcheck: false, value: decodeURIComponent(location.hash.slice(1)) });
  const agree = element("input", { id: "agree", type: "checkbox" });
  const line = said("join-says");
  const press = button(texts.say("join"), async () => {
    const plain = plainCode(code.value);
    const fault = !NAME.test(name.value) ? "badName" : !plain ? "badCode" : !agree.checked ? "notAgreed" : undefined;
    show(line, texts.say(fault ?? "wait"));
    if (fault) return;
    press.disabled = true;
    try {
      // The same key again, where the answer to a join was lost.
      const pair = (await database.get<CryptoKeyPair>(KEYS)) ?? (await newKeyPair());
      await database.put(KEYS, pair);
      const as = await join(plain, name.value, pair);
      await joined(as);
      // The code is of no use any more, and must not stay in the browser's history.
      history.replaceState(null, "", location.pathname);
    } catch (error) {
      show(line, error instanceof JoinRefused ? texts.say("joinFailed", { why: error.detail }) : texts.say("unreachable"));
    } finally {
      press.disabled = false;
    }
  });
  press.id = "join-press";
  const texted = (["joinLeaves", "joinAsked", "joinTrust"] as const).map((key) => element("p", { textContent: texts.say(key) }));
  return section(
    "join",
    texts.say("joinTitle"),
    element("p", { textContent: texts.say("joinWhat") }),
    element("p", { textContent: texts.say("classes", { classes: card.classes.map((_, i) => classInWords(card, i)).join(", ") }) }),
    ...texted,
    field(texts.say("name"), name, texts.say("nameHint")),
    field(texts.say("code"), code),
    ticked(agree, texts.say("agree")),
    press,
    line,
  );
}
