/** The section of a person's data: how much there is, and export and deletion. */
import { classInWords } from "../data/person.js";
import type { About } from "../thread/own-data.js";
import { button, element, section } from "./elements.js";
import type { Page } from "./page.js";
import { beginLeaving } from "./forgetting.js";

/** The section. */
export function dataView(page: Page): HTMLElement {
  const { texts, card, data, thread } = page, { recordings } = data;
  const row = (name: string, count: number) => element("tr", {}, element("th", { scope: "row", textContent: name }), element("td", { textContent: texts.number(count, 0) }));
  const counts = card.classes.map((_, i) => row(classInWords(card, i), data.counts[i] ?? 0));
  const heads = (["dataActivity", "dataWindows"] as const).map((key) => element("th", { scope: "col", textContent: texts.say(key) }));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...counts, row(texts.say("unlabelled"), data.unlabelled)));
  const lists = recordings.length ? [element("h3", { textContent: texts.say("recordings") }), element("ul", {}, ...recordings.map((one) => line(page, one)))] : [];
  const take = button(texts.say("export"), async () => {
    download(`fedsub-${page.joined.client}.csv`, await thread.call("exported"));
  });
  take.id = "export";
  const receipts = button(texts.say("receipts"), async () => {
    for (const [name, file] of await thread.call("receipts")) download(name, file);
  }, "second");
  receipts.id = "receipts";
  return section("data", texts.say("dataTitle"), element("p", { textContent: texts.say("dataWhere") }), table, ...older(page), ...lists, take, receipts, forgetting(page));
}

/** How many recordings are too old to be learned from, and the button that deletes them. */
function older({ texts, data, thread, recordingsChanged }: Page): HTMLElement[] {
  if (!data.older) return [];
  const gone = button(texts.say("olderDiscard"), async () => {
    await thread.call("discardOlder");
    await recordingsChanged();
    document.querySelector<HTMLElement>("#data-title")?.focus();
  }, "second");
  gone.id = "older-discard";
  return [element("p", { id: "older", textContent: texts.say("older", { count: data.older }) }), gone];
}

function line({ texts, card, database, recordingsChanged }: Page, { id, from, seconds, label: own, refused }: About): HTMLElement {
  const label = own === undefined ? texts.say("several") : own < 0 ? texts.say("unlabelled") : classInWords(card, own);
  const text = texts.say("recordingLine", { when: texts.moment(from), seconds: texts.number(seconds, 0), label });
  const gone = button(texts.say("discard"), async () => {
    await database.discard(id);
    await recordingsChanged();
    document.querySelector<HTMLElement>("#data-title")?.focus();
  }, "second small");
  gone.setAttribute("aria-label", texts.say("discardOf", { line: text }));
  return element("li", {}, element("span", { textContent: refused ? `${text}: ${refused}` : text }), gone);
}

/** The button that deletes everything, and the question before. */
function forgetting(page: Page): HTMLElement {
  const { texts } = page;
  const dialog = element("dialog", { id: "forget-asks" });
  dialog.setAttribute("aria-labelledby", "forget-sure");
  const yes = button(texts.say("forgetYes"), () => beginLeaving(page), "danger");
  yes.id = "forget-yes";
  dialog.append(
    element("p", { id: "forget-sure", textContent: texts.say("forgetSure") }),
    element("p", { textContent: texts.say("forgetServer") }),
    yes,
    button(texts.say("cancel"), () => {
      dialog.close();
    }, "second"),
  );
  const ask = button(texts.say("forget"), () => {
    dialog.showModal();
  }, "danger");
  ask.id = "forget";
  return element("div", { className: "end" }, ask, dialog);
}

function download(name: string, file: Blob): void {
  const href = URL.createObjectURL(file);
  element("a", { href, download: name }).click();
  setTimeout(() => {
    URL.revokeObjectURL(href);
  }, 60_000);
}
