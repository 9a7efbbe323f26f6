/** A person's raw signals in a CSV file: a column of times, one of labels where there is one, and the card's features. */
import { DataError } from "../errors.js";
import type { Rows } from "./cut.js";
import type { Card } from "./person.js";
import { ascending } from "./windows.js";

const TIMES = ["t", "time", "timestamp", "seconds", "seconds_elapsed"];
const LABELS = ["label", "activity", "class"];
const RECORDING = "recording";
/** Of a second. */
const UNITS = [1, 1e-3, 1e-6, 1e-9];
/** Rows at most: some hundred hours. */
const MOST_ROWS = 2 ** 24;

/**
 * The recordings of a file.
 *
 * Rows without a finite value are left out, and those that come at the time of the row before.
 *
 * @throws DataError that names the column or the line.
 */
export function recordingsOf(text: string, card: Card): Rows[] {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  if (lines.length > MOST_ROWS) throw new DataError(`file: got ${lines.length} lines, expected ${MOST_ROWS} at most`);
  const delimiter = [",", ";", "\t"].reduce((a, b) => (lines[0].split(b).length > lines[0].split(a).length ? b : a));
  const cells = (line: string) => line.split(delimiter).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
  const names = cells(lines[0]).map((name) => name.toLowerCase());
  const column = (wanted: readonly string[]) => names.findIndex((name) => wanted.includes(name));
  const time = column(TIMES), label = column(LABELS), recording = column([RECORDING]);
  const features = card.features.map((name) => names.indexOf(name.toLowerCase()));
  const lacking = card.features.filter((_, i) => features[i] < 0);
  if (time < 0 || lacking.length) throw new DataError(`file: got columns ${names.join(", ")}, expected ${TIMES.join(" or ")}, and ${card.features.join(", ")}`);
  const found = new Map<string, Row[]>();
  lines.slice(1).forEach((line, i) => {
    if (!line.trim()) return;
    const own = cells(line);
    const number = (at: number) => (own[at] ? Number(own[at]) : NaN);
    const row = { t: number(time), x: features.map(number), y: label < 0 ? -1 : labelOf(own[label] ?? "", card, i + 2) };
    if (![row.t, ...row.x].every(Number.isFinite)) return;
    const key = recording < 0 ? "" : own[recording];
    const rows = found.get(key);
    if (rows) rows.push(row);
    else found.set(key, [row]);
  });
  if (!found.size) throw new DataError("file: got no row of numbers, expected some");
  return [...found.values()].map((rows) => sorted(rows, card));
}

interface Row {
  readonly t: number;
  readonly x: readonly number[];
  readonly y: number;
}

function labelOf(text: string, card: Card, line: number): number {
  if (!text) return -1;
  const found = card.classes.findIndex((name) => name.toLowerCase() === text.toLowerCase());
  if (found < 0) throw new DataError(`file, line ${line}: got the label ${text.slice(0, 50)}, expected ${card.classes.join(", ")}, or nothing`);
  return found;
}

/** Rows in the order of time, in seconds: of all units that in which the card's rate is met best. */
function sorted(rows: readonly Row[], card: Card): Rows {
  const ordered = [...rows].sort((a, b) => a.t - b.t).filter((row, i, all) => i === 0 || row.t > all[i - 1].t);
  const steps = ascending(ordered.slice(1).map((row, i) => row.t - ordered[i].t));
  const step = steps.length ? steps[Math.floor(steps.length / 2)] : 1 / (card.samplingRate ?? 1);
  const miss = (unit: number) => Math.abs(Math.log(step * unit * (card.samplingRate ?? 1 / step)));
  const unit = UNITS.reduce((a, b) => (miss(b) < miss(a) ? b : a));
  return {
    t: Float64Array.from(ordered, ({ t }) => t * unit),
    x: Float32Array.from(ordered.flatMap(({ x }) => x)),
    y: Int32Array.from(ordered, ({ y }) => y),
  };
}

/** The first line of a file that {@link recordingsOf} and `fedsub data import` read. */
export function csvHead(card: Card): string {
  return `${[RECORDING, "t", "label", ...card.features].join(",")}\n`;
}

/** A recording's lines in such a file. */
export function csvRows({ t, x, y }: Rows, recording: number, card: Card): string {
  const width = card.features.length;
  return Array.from(t, (time, i) => `${[recording, time, y[i] < 0 ? "" : card.classes[y[i]], ...x.subarray(i * width, (i + 1) * width)].join(",")}\n`).join("");
}
