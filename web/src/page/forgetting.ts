/** Leaving: first the server is told, then everything that a page has ever kept on this phone is deleted. */
import type { Database } from "../browser/database.js";
import type { Left } from "../device/leaving.js";
import { pause } from "../fleet/calls.js";
import { BACKGROUND, CARD, JOINED, KEYS, LANGUAGE, type Leaving, LEAVING } from "../thread/names.js";
import { button, element, said, section, show } from "./elements.js";
import type { Page } from "./page.js";
import type { Key, Texts } from "./texts.js";
import type { Thread } from "./thread.js";

/** Name in the address of a page that has just forgotten, and of what the server said meanwhile. */
const FORGOTTEN = "forgotten";
/** Seconds for the device to stop: a thread that does not answer keeps nobody here. */
const STOPS = 10;
/** What is said where the server cannot be told now. */
const WORDS: Readonly<Record<string, Key>> = { offline: "offline", elsewhere: "elsewhere", outdated: "outdated", refused: "leavingRefused" };

/** Delete recordings, model and state; name and key stay, by which the server is told. The page is loaded anew. */
export async function beginLeaving({ database, thread }: Page): Promise<void> {
  await stopped(thread);
  const leaving: Leaving = { node: undefined, said: false, runs: await inTime(thread.call("runs"), []) };
  await database.keepOnly([BACKGROUND, CARD, JOINED, KEYS, LANGUAGE], LEAVING, leaving);
  location.reload();
}

/** Delete name, key and the kept files of the page, too, and load it anew; `left` is what the server said. */
export async function forgetAll({ database, thread }: { readonly database: Database; readonly thread: Thread }, left?: Left): Promise<void> {
  await stopped(thread);
  // First: whatever stops what follows, what the server said is there.
  sessionStorage.setItem(FORGOTTEN, JSON.stringify(left ?? null));
  await database.forget();
  // Some browsers have neither, or refuse them.
  const workers = "serviceWorker" in navigator ? await navigator.serviceWorker.getRegistrations().catch(() => []) : [];
  for (const worker of workers) await worker.unregister();
  const names = "caches" in globalThis ? await caches.keys().catch(() => []) : [];
  for (const name of names) await caches.delete(name);
  location.replace(`${location.pathname}?${FORGOTTEN}`);
}

function stopped(thread: Thread): Promise<unknown> {
  return inTime(thread.call("takePart", false), undefined);
}

/** What a thread gives, or something else where it fails or takes too long. */
function inTime<T>(given: Promise<T>, otherwise: T): Promise<T> {
  return Promise.race([given.catch(() => otherwise), pause(STOPS).then(() => otherwise)]);
}

/** What a page that has just forgotten says: that it has, and what the server deleted and did not. */
export function forgottenView(texts: Texts): HTMLElement[] {
  if (!new URLSearchParams(location.search).has(FORGOTTEN)) return [];
  const left = JSON.parse(sessionStorage.getItem(FORGOTTEN) ?? "null") as Left | null;
  const list = (key: "leftDeleted" | "leftRemains", lines: readonly string[]) => (lines.length ? [element("p", { textContent: texts.say(key) }), element("ul", { lang: "en" }, ...lines.map((line) => element("li", { textContent: line })))] : []);
  const server = left ? [...list("leftDeleted", left.deleted), ...list("leftRemains", left.remains), element("p", { textContent: texts.say("leftOthers") })] : [element("p", { textContent: texts.say("leftUnsaid") })];
  return [element("div", { id: "left" }, said("forgotten", texts.say("forgotten")), ...server)];
}

/** The page of somebody who leaves, until the server has said what it deleted. */
export function leavingView(page: Page): HTMLElement {
  const { texts, joined } = page;
  const rest = button(texts.say("leaveNow"), () => forgetAll(page), "danger");
  rest.id = "leave-now";
  const words = (["leavingHere", "leavingOpen", "leavingRest"] as const).map((key) => element("p", { textContent: texts.say(key, { client: joined.client }) }));
  const made = section("leaving", texts.say("leavingTitle"), said("leaving-says"), ...words, rest);
  updateLeaving(page, made);
  return made;
}

/** Bring it up to date; what the server has said ends it. */
export function updateLeaving(page: Page, view: HTMLElement): void {
  const { texts, news: { doing } } = page;
  const why = "why" in doing ? doing.why : "";
  const key = WORDS[doing.kind] ?? (doing.kind === "leaving" && doing.said ? "leavingSaid" : "leavingWaits");
  show(view.querySelector<HTMLElement>("#leaving-says")!, texts.say(key, { why }));
  if (doing.kind === "left") void forgetAll(page, doing);
}
