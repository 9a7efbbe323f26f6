/** The section of a person's data: how much there is, and export and deletion. */
import type { Recording } from "../browser/database.js";
import { csvOf } from "../data/csv.js";
import { classInWords } from "../data/person.js";
import { button, element, section } from "./elements.js";
import type { Page } from "./page.js";
import { forgetAll } from "./forgetting.js";

/** The section. */
export function dataView(page: Page): HTMLElement {
  const { texts, card, data, recordings } = page;
  const row = (name: string, count: number) => element("tr", {}, element("th", { scope: "row", textContent: name }), element("td", { textContent: texts.number(count, 0) }));
  const counts = card.classes.map((_, i) => row(classInWords(card, i), data.counts[i]));
  const heads = (["dataActivity", "dataWindows"] as const).map((key) => element("th", { scope: "col", textContent: texts.say(key) }));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...counts, row(texts.say("unlabelled"), data.unlabelled)));
  const lists = recordings.length ? [element("h3", { textContent: texts.say("recordings") }), element("ul", {}, ...recordings.map((one) => line(page, one)))] : [];
  const take = button(texts.say("export"), () => {
    download(`fedsub-${page.joined.client}.csv`, csvOf(recordings, card));
  });
  take.id = "export";
  return section("data", texts.say("dataTitle"), element("p", { textContent: texts.say("dataWhere") }), table, ...lists, take, forgetting(page));
}

function line({ texts, card, data, database, recordingsChanged }: Page, recording: Recording): HTMLElement {
  const { t, y, id } = recording;
  const label = y.some((one) => one !== y[0]) ? texts.say("several") : y[0] < 0 ? texts.say("unlabelled") : classInWords(card, y[0]);
  const text = texts.say("recordingLine", { when: texts.moment(t[0]), seconds: texts.number(t[t.length - 1] - t[0], 0), label });
  const gone = button(texts.say("discard"), async () => {
    await database.discard(id);
    await recordingsChanged();
    document.querySelector<HTMLElement>("#data-title")?.focus();
  }, "second small");
  gone.setAttribute("aria-label", texts.say("discardOf", { line: text }));
  const refused = data.refused.get(id);
  return element("li", {}, element("span", { textContent: refused === undefined ? text : `${text}: ${refused}` }), gone);
}

/** The button that deletes everything, and the question before. */
function forgetting({ texts, joined, database, takingPart }: Page): HTMLElement {
  const dialog = element("dialog", { id: "forget-asks" });
  dialog.setAttribute("aria-labelledby", "forget-sure");
  const yes = button(texts.say("forgetYes"), () => forgetAll(database, takingPart), "danger");
  yes.id = "forget-yes";
  dialog.append(
    element("p", { id: "forget-sure", textContent: texts.say("forgetSure") }),
    element("p", { textContent: texts.say("forgetServer", { client: joined.client }) }),
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

function download(name: string, text: string): void {
  const href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  element("a", { href, download: name }).click();
  setTimeout(() => {
    URL.revokeObjectURL(href);
  }, 60_000);
}
