/**
 * A phone's week on a simulated clock: `node week.js CASE MINUTES`, one JSON document.
 *
 * The page is opened once a day, for so many minutes; the server has a round a day, whose messages wait for it. Looks,
 * heartbeats, signatures, messages and answers are the device's own; the server is the tests', and there is no network.
 */
import { separated } from "../../src/device/joined.js";
import { FleetCalls, type Transport } from "../../src/fleet/calls.js";
import { deviceKey, newKeyPair } from "../../src/fleet/keys.js";
import { takePart } from "../../src/fleet/participation.js";
import { LOOK } from "../../src/thread/taking-part.js";
import { SuperLink } from "../fleet/superlink.js";
import { answered } from "./answers.js";
import { type Exchange, golden } from "./case.js";
import { testKernels } from "./kernels.js";

const DAYS = 7, DAY = 86_400_000;
const one = golden(process.argv[2]), open = 60_000 * Number(process.argv[3]);
const kernels = await testKernels(), link = new SuperLink();

/** What waits for a moment, ms since the week began. */
interface Timer {
  at: number;
  readonly every: number;
  readonly act: () => void;
}
const timers = new Set<Timer>();
let now = 0;
const began = Date.now(), turn = globalThis.setImmediate;
const timer = (every: number) => (act: () => void, wait = 0) => {
  const made = { at: now + wait, every: every * wait, act };
  timers.add(made);
  return made;
};
const stop = (made: unknown) => timers.delete(made as Timer);
Object.assign(globalThis, { setTimeout: timer(0), setInterval: timer(1), clearTimeout: stop, clearInterval: stop });
Date.now = () => began + now;

/** Let what can go on now do so; then the clock goes to the next timer, at most to `end`. */
async function pass(end: number): Promise<boolean> {
  await new Promise((resolve) => turn(resolve));
  const next = [...timers].sort((a, b) => a.at - b.at).at(0);
  now = Math.min(next?.at ?? end, end);
  if (!next || next.at > end) return false;
  if (next.every) next.at += next.every;
  else timers.delete(next);
  next.act();
  return true;
}

const counted = { requests: 0, looks: 0, up: 0, down: 0 };
const transport: Transport = (path, headers, body) => {
  const name = path.split("/").at(-1)!, answer = link.handle(name, body);
  counted.requests++;
  if (name === "pull-messages" && !answer.length) counted.looks++;
  counted.up += body.length + Object.entries(headers).reduce((sum, [key, value]) => sum + key.length + value.length + 4, 0);
  counted.down += answer.length;
  return Promise.resolve({ status: 200, body: answer, at: Date.now() });
};
const real = await deviceKey(await newKeyPair());
// All signatures are as long as this one, to two bytes; one that is made anew waits for another thread.
const signature = await real.sign(new Uint8Array(32)), key = { ...real, sign: () => Promise.resolve(signature) };

/** Exchanges by day: what comes before a round belongs to it. */
function days(): Exchange[][] {
  const found: Exchange[][] = [[]];
  let round = 1n;
  for (const exchange of one.exchanges) {
    const turn = separated(exchange.in).get("turn");
    const told = turn?.kind === "config" ? (turn.values.get("round") as bigint) : round;
    if (told > round) found.push([]);
    round = told;
    found.at(-1)!.push(exchange);
  }
  return found;
}

let seconds = 0;
const all = days();
for (let day = 0; day < DAYS; day++) {
  now = day * DAY;
  const queue = [...(all[day] ?? [])], ended = new AbortController();
  let asked: Exchange | undefined;
  const ask = () => {
    asked = queue.shift();
    if (asked) link.ask(asked.type, String(day + 1), asked.in);
  };
  ask();
  const answer = async () => {
    const before = process.cpuUsage();
    const { out } = await answered(one, asked!, kernels);
    const { user, system } = process.cpuUsage(before);
    seconds += (user + system) / 1e6;
    return out;
  };
  const next = async () => {
    await Promise.resolve();
    ask();
  };
  const how = { register: false, look: LOOK, before: day ? 1n : undefined, active: () => Promise.resolve(), answered: next, log: () => undefined };
  const done = takePart(new FleetCalls(transport, key, undefined, ended.signal), answer, how);
  while (await pass(day * DAY + open));
  if (asked) throw new Error(`day ${day + 1}: got ${queue.length + 1} messages without an answer, expected none`);
  ended.abort(new Error("the page was closed"));
  await done;
}
console.log(JSON.stringify({ ...counted, answers: link.pushed.length, seconds }));
