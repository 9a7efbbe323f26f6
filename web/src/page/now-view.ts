/** The section of what the device does now, with the button that pauses it, and a run's question. */
import { consentView } from "./consent.js";
import { element, said, section, show } from "./elements.js";
import { FEWEST } from "../thread/names.js";
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
  const { texts, news, paused, thread } = page;
  const [line, asks, pause] = ["#now-says", "#asks", "#pause"].map((name) => view.querySelector<HTMLElement>(name)!);
  show(line, wordsNow(page));
  show(pause, texts.say(paused ? "goOn" : "pause"));
  const asked = JSON.stringify(news.asks ?? null);
  if (asks.dataset.asked === asked) return;
  asks.dataset.asked = asked;
  const { asks: terms } = news;
  asks.replaceChildren(...(terms ? [consentView(terms, texts, (yes) => void thread.call("agree", terms, yes))] : []));
}

/** What is said where a condition of the person's policy does not hold. */
const RESTS = { charging: "restsCharging", wifi: "restsWifi", battery: "restsBattery", hours: "restsHours" } as const;

function wordsNow({ texts, news, paused, data, policy, unmet }: Page): string {
  const { doing, asks } = news;
  if (!data.counts.length && doing.kind === "idle") return texts.say("wait");
  if (doing.kind === "outdated") return texts.say("outdated", { why: doing.why });
  if (paused) return texts.say("paused");
  if (unmet) return texts.say(RESTS[unmet], { hours: policy.hours, percent: texts.number(100 * policy.battery, 0) });
  if (asks) return texts.say("asks");
  if (data.counts.filter((count) => count > 0).length < FEWEST) return texts.say("needsData");
  switch (doing.kind) {
    case "working":
      return texts.say("working", { round: doing.round });
    case "offline":
    case "refused":
    case "full":
    case "unlisted":
    case "rosterRefused":
      return texts.say(doing.kind, { why: doing.why });
    case "elsewhere":
    case "waiting":
    case "declined":
      return texts.say(doing.kind);
    case "idle":
    case "leaving":
    case "left":
      return texts.say("wait");
  }
}
