/** The page's beginning: its language, the federation's card, and whether somebody has joined. */
import { Database } from "../browser/database.js";
import { cardOf } from "../data/card.js";
import type { Card } from "../data/person.js";
import type { Joined } from "../fleet/join.js";
import { CARD, JOINED, LANGUAGE, LEAVING } from "../thread/names.js";
import { element, said } from "./elements.js";
import { forgottenView } from "./forgetting.js";
import { joiningView } from "./joining.js";
import { Page } from "./page.js";
import { LANGUAGES, Texts } from "./texts.js";

/** The federation's card, from the server or, without a network, as it was last; undefined: there is none. */
async function federationsCard(database: Database): Promise<Card | undefined> {
  const answer = await fetch("/federation.toml").catch(() => undefined);
  if (answer?.ok) await database.put(CARD, await answer.text());
  const text = await database.get<string>(CARD);
  return text === undefined ? undefined : cardOf(text);
}

async function main(): Promise<void> {
  const main = document.querySelector("main")!;
  const header = document.querySelector("header")!;
  const database = await Database.open("fedsub", () => {
    location.reload();
  });
  const tag = await database.get<string>(LANGUAGE);
  let texts = tag === undefined ? Texts.liked(navigator.languages) : new Texts(tag);
  const card = await federationsCard(database);
  let page: Page | undefined;
  const begin = async (as: Joined) => {
    if (!card) return;
    page = new Page(database, card, as, texts, (await database.get(LEAVING)) !== undefined);
    show();
    await page.begin();
  };
  const joined = async (as: Joined) => {
    await database.put(JOINED, as);
    // A browser that is short of space asks nobody before it deletes, but for this.
    await navigator.storage.persist();
    await begin(as);
  };
  const show = () => {
    document.documentElement.lang = texts.tag;
    document.title = texts.say("title");
    header.replaceChildren(element("h1", { textContent: texts.say("title") }), languages());
    if (page) page.texts = texts;
    const gone = forgottenView(texts);
    if (!card) main.replaceChildren(...gone, said("no-card", texts.say("noCard")));
    else if (page) main.replaceChildren(...page.show());
    else main.replaceChildren(...gone, joiningView(database, card, texts, joined));
  };
  const languages = () => {
    const choice = element("select", { id: "language" }, ...LANGUAGES.map(([one, name]) => element("option", { value: one, textContent: name, lang: one, selected: one === texts.tag })));
    choice.onchange = () => {
      texts = new Texts(choice.value);
      void database.put(LANGUAGE, choice.value);
      show();
      document.querySelector<HTMLElement>("#language")?.focus();
    };
    return element("div", { className: "language" }, element("label", { htmlFor: "language", textContent: texts.say("language") }), choice);
  };
  const known = await database.get<Joined>(JOINED);
  if (known) await begin(known);
  else show();
}

if ("serviceWorker" in navigator) void navigator.serviceWorker.register("/sw.js", { updateViaCache: "imports" });
main().catch((error: unknown) => {
  document.querySelector("main")?.replaceChildren(said("failed", error instanceof Error ? error.message : String(error)));
});
