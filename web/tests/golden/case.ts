/** A case of proto/golden: a run's settings, one person's samples, and every message to that person's device. */
import { readFileSync } from "node:fs";
import { cardOf } from "../../src/data/card.js";
import { checkedPerson, type Person } from "../../src/data/person.js";
import type { Saved } from "../../src/device/kept.js";
import type { Numbers, Tensor } from "../../src/tensors.js";
import { type Content, type PlainRecord, type Scalar, type Value, type Values } from "../../src/values.js";

/** A value of a file; whole numbers are `bigint`. */
type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json };
type Table = Record<string, Json>;

/** One message: what came in, what the device kept before and after, and what went out. */
export interface Exchange {
  readonly type: string;
  readonly in: Content;
  readonly before: Table;
  readonly after: Table;
  readonly out: Content;
}

/** A case. */
export interface Case {
  readonly name: string;
  readonly settings: Values;
  readonly person: Person;
  readonly exchanges: readonly Exchange[];
}

/** Where cases lie; a measurement has its own. */
const FOLDER = process.env.GOLDEN ?? "../proto/golden/";
/** A whole number that stands alone in its line, as those of files with an indent do. */
const WHOLE = /^(\s*(?:"[^"\n]*": )?)(-?\d+)(,?)$/gm;

function fileOf(name: string): Table {
  const text = readFileSync(`${FOLDER}${name}.json`, "utf8").replace(WHOLE, '$1{"whole": "$2"}$3');
  return JSON.parse(text, (_, value: unknown) => wholeOf(value)) as Table;
}

/** A message in the place of one of a case's exchanges, which its device refuses. */
export interface Refusal {
  readonly what: string;
  readonly content: Content;
  readonly exchange: number;
  /** Python's error; of a MessageRefused with client and round. */
  readonly refused: Table;
}

/** The refusals of a case. */
export function refusals(name: string): Refusal[] {
  return (fileOf(`refused/${name}`).messages as Table[]).map((one) => ({
    what: one.name as string,
    content: contentOf(one.in as Table),
    exchange: Number(one.exchange),
    refused: one.refused as Table,
  }));
}

/** The case of a name. */
export function golden(name: string): Case {
  const file = fileOf(name);
  const { client, x, y } = file.person as Table;
  const labels = arrayOf(y as Table);
  const person = {
    client: client as string,
    card: cardOf(file.card as string),
    x: arrayOf(x as Table) as Tensor,
    y: Int32Array.from(labels.values as BigInt64Array, Number),
  };
  const exchanges = (file.exchanges as Table[]).map((one) => ({
    type: one.type as string,
    in: contentOf(one.in as Table),
    before: one.before as Table,
    after: one.after as Table,
    out: contentOf(one.out as Table),
  }));
  return { name, settings: valuesOf(file.config as Table), person: checkedPerson(person), exchanges };
}

function wholeOf(value: unknown): unknown {
  // Sums that were opened have a key of that name, too.
  if (typeof value !== "object" || value === null || !("whole" in value) || typeof value.whole !== "string") return value;
  return BigInt(value.whole);
}

/** Records of plain values; `metrics` and `report` are of numbers. */
function contentOf(table: Table): Content {
  return new Map(
    Object.entries(table).map(([name, record]): [string, PlainRecord] => {
      const values = record as Table;
      if (name === "payload") {
        const { payload } = values.arrays as Table;
        return [name, { kind: "payload", bytes: bytesOf(payload as string) }];
      }
      return [name, { kind: name === "metrics" || name === "report" ? "metrics" : "config", values: valuesOf(values) }];
    }),
  );
}

function valuesOf(table: Table): Values {
  return new Map(Object.entries(table).map(([key, value]) => [key, valueOf(value)]));
}

function valueOf(value: Json): Value {
  if (Array.isArray(value)) return value.map((one) => valueOf(one) as Scalar);
  if (typeof value === "object" && value !== null && "list" in value) return (value.list as string[]).map(bytesOf);
  if (typeof value === "object" && value !== null) return bytesOf(value.base64 as string);
  return value as Scalar;
}

/** Bytes in base64. */
export function bytesOf(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, "base64"));
}

const KINDS = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array, int8: Int8Array, int16: Int16Array };

/** An array of a file. */
export function arrayOf({ dtype, shape, base64 }: Table): Tensor<Numbers> {
  const kind = KINDS[dtype as keyof typeof KINDS];
  return { shape: (shape as bigint[]).map(Number), values: new kind(bytesOf(base64 as string).buffer as ArrayBuffer) };
}

/** What was kept of a run; undefined: nothing. */
export function savedIn(table: Table, samples: string): Saved | undefined {
  if (!("round" in table)) return undefined;
  const tensors = Object.entries(table.tensors as Table).map(([name, array]) => [name, arrayOf(array as Table)] as const);
  const wire = tensors.filter(([name]) => name.startsWith("wire.") && name !== "wire.round");
  const round = tensors.find(([name]) => name === "wire.round");
  const { levels, once, made_of } = table;
  return {
    run: table.run as string,
    method: table.method as string,
    round: Number(table.round),
    samples,
    state: Object.fromEntries(tensors.filter(([name]) => !name.startsWith("wire."))),
    reply: bytesOf(table.reply as string),
    report: table.report as Record<string, number>,
    reference: round && { round: Number(round[1].values[0]), tensors: new Map(wire.map(([name, tensor]) => [name.slice(5), tensor as Tensor])) },
    beside: { levels, once, made_of },
  };
}

/** What was kept of secure sums, as this device's blocks: secrets of the case's run, and the sums that were opened. */
export function blocksIn({ sums, opened }: Table, name: string): Map<string, Uint8Array> {
  const block = (table: Table) => new TextEncoder().encode(JSON.stringify(table, (_, value: unknown) => (typeof value === "bigint" ? Number(value) : value)));
  const found = new Map<string, Uint8Array>();
  if (sums) found.set(`sums golden ${name}`, block(sums as Table));
  if (opened) found.set("opened sums", block(opened as Table));
  return found;
}
