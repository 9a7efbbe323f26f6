/** The section in which a person records, or imports a file. */
import { element, field, said, section, show } from "./elements.js";
import { classInWords } from "../data/person.js";
import type { Page } from "./page.js";
import { Recorder } from "./recorder.js";
import { channelsOf, sensorsAllowed } from "./sensors.js";

/** Milliseconds from one look at a recording to the next. */
const LOOK = 1000;

/** The section; `page.recordingsChanged` is called after each recording or import. */
export function recordingView(page: Page): HTMLElement {
  const { texts, card } = page;
  const channels = "DeviceMotionEvent" in globalThis ? channelsOf(card) : undefined;
  const line = said("record-says");
  const activity = element("select", { id: "activity" }, ...card.classes.map((_, i) => element("option", { value: String(i), textContent: classInWords(card, i) })));
  activity.append(element("option", { value: "-1", textContent: texts.say("noLabel") }));
  const press = element("button", { type: "button", id: "record-press", textContent: texts.say("start") });
  // A recording goes on where the language is changed, in new elements.
  const shown = () => {
    activity.disabled = page.recorder !== undefined;
    press.textContent = texts.say(page.recorder?.ended ? "keepIt" : page.recorder ? "stop" : "start");
    if (page.recorder) activity.value = String(page.recorder.label);
  };
  const timer = setInterval(() => {
    if (!line.isConnected) clearInterval(timer);
    else look();
  }, LOOK);
  const look = () => {
    if (!page.recorder) return;
    const { seconds, rate, gaps, awake, unkept } = page.recorder.progress;
    const text = texts.say("progress", { seconds: texts.number(seconds, 0), rate: texts.number(rate), gaps });
    show(line, unkept ? texts.say("unkept", { why: unkept }) : awake ? text : `${text} ${texts.say("progressAsleep")}`);
  };
  const start = async () => {
    if (!channels) return;
    if (!(await sensorsAllowed())) {
      show(line, texts.say("noPermission"));
      return;
    }
    page.recorder = Recorder.begin(page.database, channels, Number(activity.value));
    shown();
  };
  const stop = async () => {
    try {
      const some = await page.recorder?.end();
      page.recorder = undefined;
      shown();
      show(line, texts.say(some ? "recorded" : "nothingMeasured"));
      const refused = await page.recordingsChanged();
      if (some && refused) show(line, texts.say("tooSlow", { why: refused }));
    } catch (error) {
      // It stays in the page's memory until there is space: the button then keeps it.
      show(line, texts.say("unkept", { why: error instanceof Error ? error.message : String(error) }));
      shown();
    }
  };
  press.onclick = () => void (page.recorder ? stop() : start());
  shown();
  const recording = channels ? [element("p", { textContent: texts.say("recordHow") }), field(texts.say("activity"), activity), press] : [element("p", { textContent: texts.say("noSensors") })];
  return section("record", texts.say("recordTitle"), ...recording, line, ...importing(page));
}

/** The field by which a file is imported, and a line on how that went. */
function importing({ texts, card, thread, recordingsChanged }: Page): HTMLElement[] {
  const line = said("import-says");
  const file = element("input", { id: "file", type: "file", accept: ".csv,.tsv,.txt,text/csv" });
  file.onchange = async () => {
    const [chosen] = file.files ?? [];
    try {
      const count = await thread.call("importFile", chosen);
      await recordingsChanged();
      show(line, texts.say("imported", { count }));
    } catch (error) {
      show(line, texts.say("importFailed", { why: error instanceof Error ? error.message : String(error) }));
    }
    file.value = "";
  };
  return [field(texts.say("importFile"), file, texts.say("importHint", { features: card.features.join(", ") })), line];
}
