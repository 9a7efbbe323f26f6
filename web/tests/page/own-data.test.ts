import assert from "node:assert/strict";
import { test } from "node:test";
import { csvHead, csvRows, recordingsOf } from "../../src/data/csv.js";
import type { Card } from "../../src/data/person.js";
import { DataError } from "../../src/errors.js";
import type { Recording } from "../../src/browser/database.js";
import { ownData, ROOM } from "../../src/thread/own-data.js";
import { covers } from "../../src/thread/terms.js";

const CARD: Card = { classes: ["sit", "walk"], features: ["acc_x", "acc_y"], overlap: 0, timeOrdered: true, samplingRate: 10, windowLength: 1 };
/** Recordings as a database has them. */
function stored(recordings: readonly Recording[]) {
  return { recordingIds: () => Promise.resolve(recordings.map(({ id }) => id)), recording: (id: number) => Promise.resolve(recordings.find((one) => one.id === id)) };
}
const lines = (n: number, of: (i: number) => string) => Array.from({ length: n }, (_, i) => of(i)).join("\n");

test("a file becomes windows with labels, and without, in the card's units", async () => {
  const text = `t,label,acc_y,acc_x\n${lines(40, (i) => `${i / 10},${["sit", "walk", "", "walk"][Math.floor(i / 10)]},${i},${-i}`)}\n`;
  const [rows] = recordingsOf(text, CARD);
  const { person, counts, unlabelled } = await ownData("p1", CARD, stored([{ ...rows, id: 1, measured: false }]));
  assert.deepEqual({ counts, unlabelled }, { counts: [1, 2], unlabelled: 1 });
  assert.deepEqual([...person!.y], [0, 1, 1]);
  assert.deepEqual([...person!.x.values.subarray(0, 20)], [...Array.from({ length: 10 }, (_, i) => 0 - i), ...Array.from({ length: 10 }, (_, i) => i)]);
});

test("times are in the unit in which the card's rate is met", () => {
  for (const [unit, scale] of [["s", 1], ["ms", 1e3], ["us", 1e6], ["ns", 1e9]] as const) {
    const [{ t }] = recordingsOf(`time;acc_x;acc_y\n${lines(30, (i) => `${(i / 10) * scale};1;2`)}`, CARD);
    assert.ok(Math.abs(t[29] - 2.9) < 1e-9, unit);
  }
});

test("recordings are written as they are read", () => {
  const text = `recording,t,label,acc_x,acc_y\n${lines(40, (i) => `${Math.floor(i / 20)},${i / 10},walk,${Math.fround(i / 3)},${i}`)}\n`;
  const found = recordingsOf(text, CARD);
  assert.equal(found.length, 2);
  const written = csvHead(CARD) + found.map((one, i) => csvRows(one, i, CARD)).join("");
  assert.deepEqual(recordingsOf(written, CARD), found);
});

test("what is no recording is refused with its column or line", () => {
  const refused = (text: string, words: RegExp) => {
    assert.throws(() => recordingsOf(text, CARD), (error) => error instanceof DataError && words.test(error.message));
  };
  refused("t,acc_x\n1,2", /acc_y/);
  refused("acc_x,acc_y\n1,2", /seconds/);
  refused("t,label,acc_x,acc_y\n1,run,1,2", /line 2: got the label run/);
  refused("t,acc_x,acc_y\nNaN,1,2\n1,,2", /no row/);
  refused("", /columns/);
});

test("a recording that is far too slow gives no windows, and the others stay", async () => {
  const [slow] = recordingsOf(`t,label,acc_x,acc_y\n${lines(30, (i) => `${i / 3},sit,1,2`)}`, CARD);
  const [good] = recordingsOf(`t,label,acc_x,acc_y\n${lines(30, (i) => `${i / 10},walk,${i},2`)}`, CARD);
  const { counts, recordings } = await ownData("p1", CARD, stored([{ ...slow, id: 4, measured: false }, { ...good, id: 5, measured: false }]));
  assert.deepEqual(counts, [0, 3]);
  assert.match(recordings[0].refused, /3.00 samples a second/);
  assert.deepEqual(recordings[1], { id: 5, from: 0, seconds: 2.9, label: 1, refused: "" });
});

test("consent covers no further method, no fewer people in a sum, and no less noise", () => {
  const agreed = { methods: ["fedavg", "fedsub-ridge"], least: 5, noise: true };
  assert.ok(covers(agreed, { methods: ["fedavg"], least: 6, noise: true }));
  assert.ok(covers({ ...agreed, least: 0, noise: false }, agreed));
  for (const other of [{ methods: ["fedavg", "fedprox"] }, { least: 4 }, { least: 0 }, { noise: false }]) assert.ok(!covers(agreed, { ...agreed, ...other }));
});

test("of more recordings than there is room for, the newest are learned from, and no other is read", async () => {
  const [rows] = recordingsOf(`t,label,acc_x,acc_y\n${lines(40, (i) => `${i / 10},walk,${i},2`)}`, CARD);
  // A thousand times the room: 4 windows of 80 bytes each.
  const read: number[] = [];
  const ids = Array.from({ length: 4000 }, (_, i) => i + 1);
  const database = {
    recordingIds: () => Promise.resolve([...ids]),
    recording: (id: number) => {
      read.push(id);
      return Promise.resolve({ ...rows, id, measured: true });
    },
  };
  const { person, older, recordings } = await ownData("p1", CARD, database, 4 * 320);
  assert.deepEqual([read, recordings.map(({ id }) => id)], [[4000, 3999, 3998, 3997], [3997, 3998, 3999, 4000]]);
  assert.deepEqual(older, ids.slice(0, -4));
  assert.equal(person?.x.shape[0], 16);
  assert.equal((await ownData("p1", CARD, database, ROOM)).older.length, 0);
});
