/**
 * Flower's objects: a message is a tree of them, each named by the SHA-256 of its bytes.
 *
 * An object is a head, `Type ids length`, a zero byte, and a body; ids are of the objects that it
 * names, with commas between them.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import type { Content, PlainRecord } from "../values.js";
import { written } from "../wire/protobuf.js";
import { type Envelope, MESSAGE, type ObjectTree } from "./messages.js";
import { recordBytes, recordValues } from "./records.js";

/** Most bytes of an array in one object. */
const CHUNK = 5_242_880;
/** What an array's type is called that has a payload. */
export const STYPE = "fedsub.v2";
const PAYLOAD = "payload";

/** Objects by id, those that others name first. */
export type Objects = Map<string, Uint8Array>;

/** A message as objects. */
export interface MessageObjects {
  readonly tree: ObjectTree;
  readonly objects: Objects;
}

/** The objects of a message; content undefined: an error is its answer. */
export function messageObjects(envelope: Envelope, content: Content | undefined): MessageObjects {
  const objects: Objects = new Map();
  const children: ObjectTree[] = [];
  if (content) {
    const records = [...content].map(([name, record]) => [name, addRecord(objects, record)] as const);
    const refs = Object.fromEntries(records.map(([name, tree]) => [name, tree.objectId]));
    children.push(add(objects, "RecordDict", different(records.map(([, tree]) => tree)), text(pythonJson(refs))));
  }
  const body = written(MESSAGE, envelope);
  return { tree: add(objects, "Message", children, body), objects };
}

function addRecord(objects: Objects, record: PlainRecord): ObjectTree {
  if (record.kind !== "payload") {
    return add(objects, record.kind === "config" ? "ConfigRecord" : "MetricRecord", [], recordBytes(record.values));
  }
  const { bytes } = record;
  const chunks: ObjectTree[] = [];
  for (let at = 0; at < bytes.length; at += CHUNK) chunks.push(add(objects, "ArrayChunk", [], bytes.subarray(at, at + CHUNK)));
  const unique = different(chunks);
  const places = chunks.map((chunk) => unique.findIndex((one) => one.objectId === chunk.objectId));
  const about = { dtype: "uint8", shape: [bytes.length], stype: STYPE, arraychunk_ids: places };
  const array = add(objects, "Array", unique, text(pythonJson(about)));
  return add(objects, "ArrayRecord", [array], text(pythonJson({ [PAYLOAD]: array.objectId })));
}

function add(objects: Objects, type: string, children: ObjectTree[], body: Uint8Array): ObjectTree {
  const head = text(`${type} ${children.map((child) => child.objectId).join()} ${body.length}\0`);
  const bytes = new Uint8Array(head.length + body.length);
  bytes.set(head);
  bytes.set(body, head.length);
  const objectId = objectIdOf(bytes);
  objects.set(objectId, bytes);
  return { objectId, children };
}

/** The id of an object: SHA-256 of its bytes, in hexadecimal. */
export function objectIdOf(bytes: Uint8Array): string {
  return bytesToHex(sha256(bytes));
}

function different(trees: readonly ObjectTree[]): ObjectTree[] {
  return [...new Map(trees.map((tree) => [tree.objectId, tree])).values()];
}

/** The ids of a tree of objects, those that others name first. */
export function idsOf(tree: ObjectTree): string[] {
  return [...new Set([...tree.children.flatMap(idsOf), tree.objectId])];
}

/** JSON as Python writes it: with blanks, in ASCII. */
function pythonJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    return `{${Object.entries(value).map(([key, one]) => `${pythonJson(key)}: ${pythonJson(one)}`).join(", ")}}`;
  }
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function text(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

interface Parsed {
  readonly type: string;
  readonly ids: readonly string[];
  readonly body: Uint8Array;
}

/**
 * The records of the message with id `id`, whose `objects` are all there.
 *
 * @throws Error where an object is another than its id says, lacks, or is of an unexpected type.
 */
export function contentOf(id: string, objects: ReadonlyMap<string, Uint8Array>): Content {
  const records = parsed(id, objects, ["Message"]).ids.at(0);
  if (records === undefined) throw new Error(`message ${id}: got no records, expected some`);
  return new Map(Object.entries(refsOf(parsed(records, objects, ["RecordDict"]))).map(([name, ref]) => [name, recordOf(ref, objects)]));
}

function recordOf(id: string, objects: ReadonlyMap<string, Uint8Array>): PlainRecord {
  const record = parsed(id, objects, ["ConfigRecord", "MetricRecord", "ArrayRecord"]);
  if (record.type === "ConfigRecord") return { kind: "config", values: recordValues(record.body) };
  if (record.type === "MetricRecord") return { kind: "metrics", values: recordValues(record.body) };
  const arrays = refsOf(record);
  if (!(PAYLOAD in arrays)) throw new Error(`object ${id}: got arrays ${Object.keys(arrays).join()}, expected ${PAYLOAD}`);
  return { kind: "payload", bytes: arrayOf(arrays[PAYLOAD], objects) };
}

function arrayOf(id: string, objects: ReadonlyMap<string, Uint8Array>): Uint8Array {
  const array = parsed(id, objects, ["Array"]);
  const about = JSON.parse(new TextDecoder().decode(array.body)) as { stype?: unknown; arraychunk_ids?: unknown };
  if (about.stype !== STYPE) throw new Error(`object ${id}: got an array of type ${String(about.stype)}, expected ${STYPE}`);
  if (!Array.isArray(about.arraychunk_ids)) throw new Error(`object ${id}: got no chunks, expected some`);
  const chunks = about.arraychunk_ids.map((place) => parsed(array.ids[Number(place)], objects, ["ArrayChunk"]).body);
  const bytes = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

function refsOf(object: Parsed): Record<string, string> {
  const refs = JSON.parse(new TextDecoder().decode(object.body)) as unknown;
  if (typeof refs !== "object" || refs === null) throw new Error(`an object of type ${object.type}: got no names, expected ids by name`);
  return refs as Record<string, string>;
}

function parsed(id: string, objects: ReadonlyMap<string, Uint8Array>, types: readonly string[]): Parsed {
  const bytes = objects.get(id);
  if (bytes === undefined || objectIdOf(bytes) !== id) throw new Error(`object ${id}: got ${bytes ? "others" : "no"} bytes, expected those of its SHA-256`);
  const end = bytes.indexOf(0);
  const [type, ids] = new TextDecoder().decode(bytes.subarray(0, end)).split(" ");
  if (!types.includes(type)) throw new Error(`object ${id}: got type ${type}, expected ${types.join(" or ")}`);
  return { type, ids: ids ? ids.split(",") : [], body: bytes.subarray(end + 1) };
}
