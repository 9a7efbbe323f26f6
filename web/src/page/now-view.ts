/** The section of what the device does now, with the button that pauses it, and a run's question. */
import { element, said, section, show } from "./elements.js";
import type { Page } from "./page.js";

/** The section; {@link updateNow} fills it in. */
export function nowView(page: Page): HTMLElement {
  const { texts, joined } = page;
  const pause = element("button", { type: "button", id: "pause", onclick: () => void page.pauseOrGoOn() });
  const hello = element("p", { textContent: texts.say("hello", { client: joined.client, federation: joined.federation }) });
  const made = section("now", texts.say("nowTitle"), hello, said("now-says"), element("div", { id: "asks" }), pause, element("p", { className: "hint", textContent: texts.say("keepOpen") }));
  updateNow(page, made);
  return made;
}

/** Bring the section up to date, without a change of what has not changed. */
export function updateNow(page: Page, view: HTMLElement): void {
  const { texts, consent, paused } = page;
  const [line, asks, pause] = ["#now-says", "#asks", "#pause"].map((name) => view.querySelector<HTMLElement>(name)!);
  show(line, wordsNow(page));
  show(pause, texts.say(paused ? "goOn" : "pause"));
  const asked = JSON.stringify(consent.waiting ?? null);
  if (asks.dataset.asked === asked) return;
  asks.dataset.asked = asked;
  asks.replaceChildren(consent.view(texts));
}

function wordsNow({ texts, consent, paused, takingPart, data }: Page): string {
  if (paused) return texts.say("paused");
  if (consent.waiting) return texts.say("asks");
  if (data.counts.filter((count) => count > 0).length < 2) return texts.say("needsData");
  const { doing } = takingPart;
  switch (doing.kind) {
    case "working":
      return texts.say("working", { round: doing.round });
    case "offline":
    case "refused":
      return texts.say(doing.kind, { why: doing.why });
    case "elsewhere":
    case "waiting":
      return texts.say(doing.kind);
    case "idle":
      return texts.say("wait");
  }
}
