/** A person's recordings as samples: windows with labels, and windows without, which are kept apart. */
import { type Recording } from "../browser/database.js";
import { cutOf, type Windows, windowsOf } from "../data/cut.js";
import { type Card, checkedPerson, type Person } from "../data/person.js";

/** What a person has recorded, as windows. */
export interface OwnData {
  /** Those with labels; undefined: there is none. */
  readonly person: Person | undefined;
  /** Windows of each class. */
  readonly counts: readonly number[];
  readonly unlabelled: number;
  /** By a recording's number: why it has no windows. */
  readonly refused: ReadonlyMap<number, string>;
}

/** The samples of recordings; throws a DataError where the card does not say how they are cut. */
export function ownData(client: string, card: Card, recordings: readonly Recording[]): OwnData {
  const cut = cutOf(card);
  const refused = new Map<number, string>();
  const made: { readonly id: number; readonly windows: Windows }[] = [];
  for (const recording of recordings) {
    try {
      made.push({ id: recording.id, windows: windowsOf(recording, card.features.length, cut) });
    } catch (error) {
      refused.set(recording.id, error instanceof Error ? error.message : String(error));
    }
  }
  const labels = made.flatMap(({ windows }) => [...windows.y]);
  const counts = card.classes.map((_, label) => labels.filter((one) => one === label).length);
  return { person: personOf(client, card, made), counts, unlabelled: labels.filter((one) => one < 0).length, refused };
}

function personOf(client: string, card: Card, made: readonly { readonly id: number; readonly windows: Windows }[]): Person | undefined {
  const own = made.flatMap(({ id, windows }) => [...windows.y.keys()].filter((i) => windows.y[i] >= 0).map((i) => ({ id, windows, i })));
  if (!own.length) return undefined;
  const shape = own[0].windows.x.shape.slice(1);
  const width = shape[0] * shape[1];
  const values = new Float32Array(own.length * width);
  own.forEach(({ windows, i }, at) => {
    values.set(windows.x.values.subarray(i * width, (i + 1) * width), at * width);
  });
  return checkedPerson({
    client,
    card,
    x: { shape: [own.length, ...shape], values },
    y: Int32Array.from(own, ({ windows, i }) => windows.y[i]),
    t: Float64Array.from(own, ({ windows, i }) => windows.t[i]),
    ...(card.groups === "recording" && { group: Float64Array.from(own, ({ id }) => id) }),
  });
}
