/** A person's leave from a device in Node: as Python's `fedsub device leave` keeps it, in the device's folder. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { leaveOf, leftOf } from "../device/leaving.js";
import type { Content } from "../values.js";

const NOTE = "leaving.json";
/** What was deleted, in words, for the person. */
const RECORD = "what-was-deleted.txt";
/** What a device writes: its state, and a file of receipts for each run. */
const OWN = /^(state\.bin|state-before\.bin|state\.draft|receipts-.+\.jsonl)$/;

/** Whether the person of a folder left. */
export function hasLeft(folder: string): boolean {
  return existsSync(join(folder, NOTE));
}

/** Note that a person leaves, and delete the device's files of the folder. The note comes first: it can be done again. */
export function leave(folder: string, client: string): void {
  const gone = readdirSync(folder).filter((name) => OWN.test(name)), first = !hasLeft(folder);
  if (first) writeFileSync(join(folder, NOTE), `${JSON.stringify({ client, since: now() })}\n`, { mode: 0o600, flush: true });
  for (const name of gone) rmSync(join(folder, name));
  if (first || gone.length) note(folder, "On this device", gone.map((name) => `${name} was deleted`), []);
}

/** The answer of somebody who left; what the server says that it deleted is kept. */
export function farewell(folder: string, client: string, content: Content): Content {
  const left = leftOf(content, client);
  if (left) note(folder, "On the server", left.deleted, left.remains);
  return leaveOf(client);
}

function note(folder: string, where: string, deleted: readonly string[], remains: readonly string[]): void {
  const path = join(folder, RECORD), before = existsSync(path) ? readFileSync(path, "utf8") : "";
  const lines = [`${where}, ${now()}:`, ...(deleted.length ? deleted : ["nothing was kept"]).map((text) => `- ${text}`)];
  if (remains.length) lines.push("What cannot be deleted there:", ...remains.map((text) => `- ${text}`));
  writeFileSync(path, `${before}${lines.join("\n")}\n\n`, { mode: 0o600, flush: true });
}

function now(): string {
  return `${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
