/**
 * A person's recordings as samples: windows with labels, and windows without, which are kept apart.
 *
 * Recordings are read one after another, the newest first, until their windows fill the room that a phone has for
 * them: years of recordings may lie in the database.
 */
import type { Database, Recording } from "../browser/database.js";
import { cutOf, type Windows, windowsOf } from "../data/cut.js";
import { type Card, checkedPerson, type Person, rowsOf } from "../data/person.js";
import { FEWEST, LEAVING } from "./names.js";

/** Bytes of windows that are learned from: 64 MiB are some eight hours of six channels, 50 a second. */
export const ROOM = 2 ** 26;

/** A recording without its rows. */
export interface About {
  readonly id: number;
  /** When it begins, s since 1970 or as its file says, and how long it is, s. */
  readonly from: number;
  readonly seconds: number;
  /** Its label, -1 for none; undefined: it has several. */
  readonly label: number | undefined;
  /** Why it has no windows; "" where it may have. */
  readonly refused: string;
}

/** What a person has recorded, as windows. */
export interface OwnData {
  /** Those with labels; undefined: there is none. */
  readonly person: Person | undefined;
  /** Windows of each class. */
  readonly counts: readonly number[];
  readonly unlabelled: number;
  readonly recordings: readonly About[];
  /** Numbers of the recordings for which there was no room, ascending. */
  readonly older: readonly number[];
}

/** Where recordings are, each to be had by itself. */
export interface Recordings {
  /** Their numbers, ascending. */
  recordingIds(): Promise<number[]>;
  recording(id: number): Promise<Recording | undefined>;
}

interface Part {
  readonly id: number;
  /** Windows with labels. */
  readonly windows: Windows;
}

/** The samples of recordings; throws a DataError where the card does not say how they are cut. */
export async function ownData(client: string, card: Card, stored: Recordings, room = ROOM): Promise<OwnData> {
  const cut = cutOf(card), ids = await stored.recordingIds();
  const about: About[] = [], parts: Part[] = [];
  let left = room, unlabelled = 0;
  while (ids.length && left > 0) {
    const recording = await stored.recording(ids.pop()!);
    if (!recording) continue;
    const { id, t, y } = recording;
    let refused = "";
    try {
      const windows = windowsOf(recording, card.features.length, cut), own = labelled(windows);
      unlabelled += windows.y.length - own.y.length;
      left -= own.x.values.byteLength;
      parts.unshift({ id, windows: own });
    } catch (error) {
      refused = error instanceof Error ? error.message : String(error);
    }
    about.unshift({ id, from: t[0], seconds: t[t.length - 1] - t[0], label: y.some((one) => one !== y[0]) ? undefined : y[0], refused });
  }
  const counts = card.classes.map((_, label) => parts.reduce((sum, { windows }) => sum + windows.y.filter((one) => one === label).length, 0));
  return { person: personOf(client, card, parts), counts, unlabelled, recordings: about, older: ids };
}

/** Whether there is enough to take part with; who leaves needs nothing. */
export async function isReady(stored: Pick<Database, "get">, { person, counts }: Pick<OwnData, "person" | "counts">): Promise<boolean> {
  return person ? counts.filter((count) => count > 0).length >= FEWEST : (await stored.get(LEAVING)) !== undefined;
}

function labelled({ x, y, t }: Windows): Windows {
  const rows = [...y.keys()].filter((i) => y[i] >= 0);
  return rows.length === y.length ? { x, y, t } : { x: rowsOf(x, rows), y: Int32Array.from(rows, (i) => y[i]), t: Float64Array.from(rows, (i) => t[i]) };
}

function personOf(client: string, card: Card, parts: readonly Part[]): Person | undefined {
  const all = parts.map(({ windows }) => windows), n = all.reduce((sum, { y }) => sum + y.length, 0);
  if (!n) return undefined;
  const made = { values: new Float32Array(all.reduce((sum, { x }) => sum + x.values.length, 0)), y: new Int32Array(n), t: new Float64Array(n), group: new Float64Array(n) };
  let at = 0, place = 0;
  for (const { id, windows } of parts) {
    made.values.set(windows.x.values, place);
    made.y.set(windows.y, at);
    made.t.set(windows.t, at);
    made.group.fill(id, at, at + windows.y.length);
    at += windows.y.length;
    place += windows.x.values.length;
  }
  const { values, y, t, group } = made;
  return checkedPerson({ client, card, x: { shape: [n, ...all[0].x.shape.slice(1)], values }, y, t, ...(card.groups === "recording" && { group }) });
}
