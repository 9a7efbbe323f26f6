/** A device in Node that takes part in a federation until it is ended. */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../device/device.js";
import { FleetCalls } from "../fleet/calls.js";
import type { Metadata } from "../fleet/messages.js";
import { deviceKey } from "../fleet/keys.js";
import { takePart } from "../fleet/participation.js";
import { receiptsFile } from "../secure/receipts.js";
import { rosterFiles } from "../secure/device-roster.js";
import { loadKernels } from "../training/memory.js";
import type { Content } from "../values.js";
import { FileStore } from "./file-store.js";
import { readKeyPair } from "./key-file.js";
import { farewell, hasLeft, leave } from "./leaving.js";
import { readPerson } from "./person-file.js";
import { nodeTransport } from "./transport.js";

const USAGE = `node device.js --superlink HOST:PORT --ca FILE --key FILE --data FILE --state DIR [--roster FILE --owner FILE] [--sums-alone]
    [--least PEOPLE] [--look SECONDS] [--leave]
  --superlink  where the SuperLink lets devices in
  --ca         certificates in PEM by which it is known; left out: those of the system
  --key        the device's private key, whose public half is registered there
  --data       the person's samples, clients/<id>.npz beside or below federation.toml
  --state      a folder of the device's own
  --roster     people's keys, by which the device goes in secure sums; with --owner, the public key of its owner
  --sums-alone refuse runs whose server sees single uploads
  --least      people in a secure sum at least: 0, as the run says
  --look       seconds from one look for messages to the next: 3
  --leave      the person takes part no more: the device's files of the folder are deleted, and the server is told as long as this runs`;

const OPTIONS = {
  superlink: { type: "string" },
  ca: { type: "string" },
  key: { type: "string" },
  data: { type: "string" },
  state: { type: "string" },
  roster: { type: "string" },
  owner: { type: "string" },
  "sums-alone": { type: "boolean", default: false },
  least: { type: "string", default: "0" },
  look: { type: "string", default: "3" },
  leave: { type: "boolean", default: false },
} as const;

function log(line: string): void {
  process.stderr.write(`${new Date().toISOString()} ${line}\n`);
}

/** What keeps receipts of secure sums in a folder, a file for each run, as Python's devices do. */
function receiptsIn(folder: string): (run: string, line: string) => void {
  return (run, line) => {
    const path = join(folder, receiptsFile(run));
    // A device that died while it wrote left a part of a line.
    const torn = existsSync(path) && !readFileSync(path, "utf8").endsWith("\n");
    appendFileSync(path, `${torn ? "\n" : ""}${line}\n`, { mode: 0o600, flush: true });
  };
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: OPTIONS });
  const { superlink, ca, key, data, state } = values;
  const look = Number(values.look);
  const least = Number(values.least);
  if (superlink === undefined || key === undefined || data === undefined || state === undefined || !(look > 0) || !Number.isSafeInteger(least) || least < 0 || Boolean(values.roster) !== Boolean(values.owner)) throw new Error(`got ${JSON.stringify(values)}, expected\n${USAGE}`);
  const ended = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      ended.abort(new Error(`ended by ${signal}`));
    });
  }
  const person = readPerson(data);
  const module = await WebAssembly.compile(readFileSync(new URL("fedsub.wasm", import.meta.url)));
  const store = await FileStore.open(state, log);
  try {
    const pair = await readKeyPair(key);
    const roster = values.roster === undefined ? undefined : await rosterFiles(pair, readFileSync(values.owner!, "utf8"), readFileSync(values.roster));
    const wish = { sumsAlone: values["sums-alone"], least, roster, receipt: receiptsIn(state) };
    const device = await Device.open(person, store, await loadKernels(module), log, wish);
    if (values.leave) leave(state, person.client);
    const left = hasLeft(state);
    if (left) log(`client ${person.client}: left: the server is told, and nothing else is answered`);
    const transport = nodeTransport(superlink, ca === undefined ? undefined : readFileSync(ca, "utf8"));
    const calls = new FleetCalls(transport, await deviceKey(pair), undefined, ended.signal);
    const answer = (metadata: Metadata, content: Content) => device.answer({ run: String(metadata.runId), type: metadata.messageType, content });
    await takePart(calls, left ? (_, content) => Promise.resolve(farewell(state, person.client, content)) : answer, {
      register: false,
      look,
      before: device.node,
      active: (nodeId) => (left ? Promise.resolve() : device.active(nodeId)),
      log,
    });
  } finally {
    store.close();
  }
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    log(error instanceof Error ? error.message : String(error));
    process.exit(1);
  },
);
