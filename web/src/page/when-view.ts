/** The section of when the device takes part, as the person wishes. */
import { wakeOften, wakeOnce, wakes } from "../browser/waking.js";
import type { Policy } from "../device/policy.js";
import { RunError } from "../errors.js";
import { BACKGROUND } from "../thread/names.js";
import { element, field, said, section, show, ticked } from "./elements.js";
import type { Page } from "./page.js";
import type { Key } from "./texts.js";

/** The section. */
export function whenView(page: Page): HTMLElement {
  return section("when", page.texts.say("whenTitle"), ...conditions(page), ...(wakes() ? background(page) : []));
}

/** The conditions that the browser can tell, and what it cannot. */
function conditions(page: Page): HTMLElement[] {
  const { texts, policy, unknown } = page, line = said("policy-says");
  const change = async (changed: Partial<Policy>) => {
    try {
      await page.goBy({ ...page.policy, ...changed });
      show(line, "");
    } catch (error) {
      if (!(error instanceof RunError)) throw error;
      show(line, texts.say("badPolicy", { why: error.message }));
    }
  };
  const box = (name: "charging" | "wifi") => tick(name, texts.say(`only-${name}`), policy[name], (on) => change({ [name]: on }));
  const battery = element("input", { id: "battery", type: "number", min: "0", max: "99", value: String(Math.round(100 * policy.battery)) });
  battery.onchange = () => change({ battery: battery.valueAsNumber / 100 });
  const hours = element("input", { id: "hours", value: policy.hours, autocomplete: "off" });
  hours.onchange = () => change({ hours: hours.value.replace(/\s/g, "") });
  // What was chosen can be taken back, whatever the browser says now.
  const told = (name: keyof Policy, ...made: HTMLElement[]) => (unknown.includes(name) && !policy[name] ? [] : made);
  const untold = (name: keyof Policy, key: Key) => (unknown.includes(name) ? [element("p", { className: "hint", textContent: texts.say(key) })] : []);
  return [
    ...told("charging", box("charging")),
    ...told("battery", field(texts.say("only-battery"), battery)),
    ...told("wifi", box("wifi")),
    field(texts.say("only-hours"), hours, texts.say("hoursHint")),
    line,
    ...untold("charging", "untoldBattery"),
    ...untold("wifi", "untoldWifi"),
  ];
}

function tick(id: string, text: string, checked: boolean, change: (on: boolean) => Promise<void>): HTMLElement {
  const box = element("input", { id, type: "checkbox", checked });
  box.onchange = () => change(box.checked);
  return ticked(box, text);
}

/** The switch by which the service worker takes part, too. */
function background(page: Page): HTMLElement[] {
  const { texts, database } = page, line = said("background-says");
  const change = async (on: boolean) => {
    page.background = on;
    await database.put(BACKGROUND, on);
    const [often, once] = [await wakeOften(on), on && (await wakeOnce())];
    show(line, on ? texts.say(often ? "backgroundOften" : once ? "backgroundOnce" : "backgroundNever") : "");
  };
  const hints = (["backgroundHint", "backgroundUntold"] as const).map((key) => element("small", { textContent: texts.say(key) }));
  return [tick("background", texts.say("background"), page.background, change), ...hints, line];
}
