/** The section of when the device takes part, as the person wishes. */
import { wakeOften, wakeOnce, wakes } from "../browser/waking.js";
import { BACKGROUND } from "../thread/names.js";
import { element, said, section, show } from "./elements.js";
import type { Page } from "./page.js";

/** The section; there is none where the browser leaves nothing to choose. */
export function whenView(page: Page): HTMLElement[] {
  return wakes() ? [section("when", page.texts.say("whenTitle"), ...background(page))] : [];
}

/** The switch by which the service worker takes part, too. */
function background(page: Page): HTMLElement[] {
  const { texts, database } = page, line = said("background-says");
  const box = element("input", { id: "background", type: "checkbox", checked: page.background });
  box.onchange = async () => {
    page.background = box.checked;
    await database.put(BACKGROUND, page.background);
    const [often, once] = [await wakeOften(page.background), page.background && (await wakeOnce())];
    show(line, page.background ? texts.say(often ? "backgroundOften" : once ? "backgroundOnce" : "backgroundNever") : "");
  };
  box.setAttribute("aria-describedby", "background-hint");
  const label = element("label", { htmlFor: "background", textContent: texts.say("background") });
  const hint = element("small", { id: "background-hint", textContent: texts.say("backgroundHint") });
  return [element("div", { className: "tick" }, box, label), hint, line];
}
