/** The section of a person's own model: how good it is, against being alone, and what it says now. */
import { cutOf } from "../data/cut.js";
import { classInWords } from "../data/person.js";
import type { OwnModel } from "../device/owner.js";
import { button, element, said, section, show } from "./elements.js";
import type { Page } from "./page.js";
import type { Measured } from "../data/measured.js";
import { channelsOf, measure, sensorsAllowed } from "./sensors.js";

/** Milliseconds from one word of the model to the next. */
const EVERY = 1000;

/** The section. */
export function modelView(page: Page): HTMLElement {
  const { texts, model } = page;
  if (!model) return section("model", texts.say("modelTitle"), element("p", { textContent: texts.say("noModel") }));
  const { round, rounds } = model.turn;
  const number = (key: string) => metric(model, key);
  const score = element("p", { id: "score", className: "large", textContent: texts.say("score", { score: texts.number(100 * (number("macro_f1") ?? NaN)) }) });
  const lines = gainLines(page, model).map((text, i) => element("p", { id: `gain-${i}`, textContent: text }));
  return section("model", texts.say("modelTitle"), element("p", { textContent: texts.say("modelRound", { round, rounds }) }), score, ...lines, ...live(page));
}

function metric(model: OwnModel, key: string): number | undefined {
  const value = model.metrics.get(key);
  return typeof value === "number" ? value : undefined;
}

/** How much better than alone, and what that means. */
function gainLines({ texts }: Page, model: OwnModel): string[] {
  const points = (value: number) => (value > 0 ? "+" : "") + texts.number(100 * value);
  const [gain, low, high] = ["gain_over_own", "gain_over_own_low", "gain_over_own_high"].map((key) => metric(model, key));
  if (gain !== undefined && low !== undefined && high !== undefined) {
    const verdict = low > 0 ? "better" : high < 0 ? "worse" : "unclear";
    return [texts.say("alone", { gain: points(gain), low: points(low), high: points(high) }), texts.say(verdict)];
  }
  const [with_, without] = [metric(model, "macro_f1"), metric(model, "own_heads_macro_f1")];
  if (with_ === undefined || without === undefined) return [];
  return [texts.say("aloneOnly", { gain: points(with_ - without) }), texts.say("unclear")];
}

/** The button and the line by which the model says what it recognises. */
function live({ texts, card, data, thread }: Page): HTMLElement[] {
  const channels = "DeviceMotionEvent" in globalThis ? channelsOf(card) : undefined;
  if (!channels || !data.counts.some(Boolean)) return [];
  const line = said("live-says");
  const { rate, length } = cutOf(card);
  let rows: Measured[] = [];
  let stop: (() => void) | undefined;
  let asking = false;
  const tell = async () => {
    const last = rows.at(-1);
    if (!line.isConnected) return stop?.();
    if (last) rows = rows.filter(({ t }) => t > last.t - (2 * length) / rate);
    // While a round is worked on, the answer comes late: nothing more is asked until then.
    if (asking) return;
    asking = true;
    const label = last && (await thread.call("predict", rows).catch(() => undefined));
    asking = false;
    show(line, label === undefined ? texts.say("liveWaits") : texts.say("liveSays", { label: classInWords(card, label) }));
  };
  const press = button(texts.say("live"), async () => {
    if (stop) {
      stop();
      stop = undefined;
    } else if (await sensorsAllowed()) {
      const end = measure(channels, (row) => rows.push(row));
      const timer = setInterval(() => void tell(), EVERY);
      stop = () => {
        end();
        clearInterval(timer);
      };
    } else show(line, texts.say("noPermission"));
    press.textContent = texts.say(stop ? "liveStop" : "live");
  });
  press.id = "live";
  return [press, line];
}
