"""A person's windows as a phone's sensors would give them, in a page that records them.

Each window is a stretch of its own between two gaps, so that the page cuts the very windows that
the data have. Times are those of a phone; the measurements themselves come as fast as they can.
"""

import json
import re
from itertools import groupby

import numpy as np

from fedsub.deploy.driven_browser import Driven
from fedsub_core.data.card import Card
from fedsub_core.data.federation import ClientData
from fedsub_core.errors import DataError

GRAVITY = 9.80665
#: As the page tells sensors by the names of features (`web/src/page/sensors.ts`).
_SENSOR = re.compile(r"(.*?)_?([xyz])", re.IGNORECASE)
_TURNS = re.compile(r"w|.*(gyro|rotation|angular).*", re.IGNORECASE)
_MOVES = re.compile(r"a|.*acc.*", re.IGNORECASE)
_LINEAR = re.compile(r"lin|user|body", re.IGNORECASE)
_DEGREES, _IN_G = re.compile(r"deg|°"), re.compile(r"^g\b|[^a-z/]g\b", re.IGNORECASE)
_AXES = {"x": "alpha", "y": "beta", "z": "gamma"}
#: Steps from one window's end to the next one's beginning: more than the page takes for late.
_GAP = 20
#: Gives rows of windows to the page; a function, of values, label and ms from row to row.
_REPLAY = """
async (places, windows, label, step, gap) => {
  const show = selector => document.querySelector(selector);
  show("#activity").value = label;
  const press = show("#record-press"), idle = press.textContent;
  press.click();
  // The page asks for the sensors first.
  while (press.textContent === idle) await new Promise(done => setTimeout(done, 10));
  window.replayed = Math.max(window.replayed ?? 0, performance.now());
  for (const rows of windows) {
    for (const row of rows) {
      const parts = {acceleration: {}, accelerationIncludingGravity: {}, rotationRate: {}};
      places.forEach(([part, axis, scale], i) => { parts[part][axis] = row[i] * scale; });
      const event = new DeviceMotionEvent("devicemotion", {...parts, interval: step});
      dispatchEvent(Object.defineProperty(event, "timeStamp", {value: window.replayed}));
      window.replayed += step;
    }
    window.replayed += gap * step;
  }
  press.click();
}
"""


def check_measurable(card: Card) -> list[tuple[str, str, float]]:
    """Return each feature's place in an event: part, axis, and the size of its unit there.

    Raises DataError if a phone does not measure it, or the card does not say how windows are cut.
    """
    if not card.sampling_rate_hz or not card.window_s or not isinstance(card.overlap, float | int):
        raise DataError("--browser: the card says no rate, length or overlap of windows")
    return [_place(feature, card.units or "") for feature in card.features]


def _place(feature: str, units: str) -> tuple[str, str, float]:
    found = _SENSOR.fullmatch(feature)
    sensor, axis = (found[1], found[2].lower()) if found else ("", "")
    if _TURNS.fullmatch(sensor):
        return "rotationRate", _AXES[axis], 1.0 if _DEGREES.search(units) else 180 / np.pi
    if _MOVES.fullmatch(sensor):
        part = "acceleration" if _LINEAR.search(sensor) else "accelerationIncludingGravity"
        return part, axis, GRAVITY if _IN_G.search(units) else 1.0
    expected = "names such as acc_x or gyro_x: a phone measures nothing else"
    raise DataError(f"--browser: got the feature {feature}, expected {expected}")


def record(tab: Driven, data: ClientData, card: Card) -> None:
    """Have a page record all windows of a person, a recording for each stretch of one label."""
    places, step = check_measurable(card), 1000 / float(card.sampling_rate_hz or 1)
    says = "document.querySelector('#record-says').textContent"
    for label, group in groupby(range(len(data.y)), key=lambda i: int(data.y[i])):
        windows = [data.x[i].T.tolist() for i in group]
        arguments = ", ".join(map(json.dumps, (places, windows, str(label), step, _GAP)))
        tab.run("document.querySelector('#record-says').textContent = ''")
        tab.run(f"({_REPLAY})({arguments})")
        tab.until(f"/Recorded/.test({says})")
