/** A device in Node that takes part in a federation until it is ended. */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { Device } from "../device/device.js";
import { FleetCalls } from "../fleet/calls.js";
import { deviceKey } from "../fleet/keys.js";
import { takePart } from "../fleet/participation.js";
import { loadKernels } from "../training/memory.js";
import { FileStore } from "./file-store.js";
import { readKeyPair } from "./key-file.js";
import { readPerson } from "./person-file.js";
import { nodeTransport } from "./transport.js";

const USAGE = `node device.js --superlink HOST:PORT --ca FILE --key FILE --data FILE --state DIR [--look SECONDS]
  --superlink  where the SuperLink lets devices in
  --ca         certificates in PEM by which it is known; left out: those of the system
  --key        the device's private key, whose public half is registered there
  --data       the person's samples, clients/<id>.npz beside or below federation.toml
  --state      a folder of the device's own
  --look       seconds from one look for messages to the next: 3`;

const OPTIONS = {
  superlink: { type: "string" },
  ca: { type: "string" },
  key: { type: "string" },
  data: { type: "string" },
  state: { type: "string" },
  look: { type: "string", default: "3" },
} as const;

function log(line: string): void {
  process.stderr.write(`${new Date().toISOString()} ${line}\n`);
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: OPTIONS });
  const { superlink, ca, key, data, state } = values;
  const look = Number(values.look);
  if (superlink === undefined || key === undefined || data === undefined || state === undefined || !(look > 0)) throw new Error(`got ${JSON.stringify(values)}, expected\n${USAGE}`);
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
    const device = await Device.open(person, store, await loadKernels(module), log);
    const transport = nodeTransport(superlink, ca === undefined ? undefined : readFileSync(ca, "utf8"));
    const calls = new FleetCalls(transport, await deviceKey(await readKeyPair(key)), undefined, ended.signal);
    await takePart(calls, (metadata, content) => device.answer({ run: String(metadata.runId), type: metadata.messageType, content }), {
      register: false,
      look,
      before: device.node,
      active: (nodeId) => device.active(nodeId),
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
