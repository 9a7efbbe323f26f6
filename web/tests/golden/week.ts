/**
 * A phone's weeks on a simulated clock: `node week.js CASE MINUTES…`, one JSON document.
 *
 * In each the page is opened once a day, for so many minutes; the server has a round a day, whose messages wait for it. Looks,
 * heartbeats, signatures, messages and answers are the device's own; the server is the tests', and there is no network.
 */
import { separated } from "../../src/device/joined.js";
import { FleetCalls, type Transport } from "../../src/fleet/calls.js";
import { deviceKey, newKeyPair } from "../../src/fleet/keys.js";
import { takePart } from "../../src/fleet/participation.js";
import type { Content } from "../../src/values.js";
import { LOOK } from "../../src/thread/taking-part.js";
import { SuperLink } from "../fleet/superlink.js";
import { answered } from "./answers.js";
import { type Exchange, golden } from "./case.js";
import { testKernels } from "./kernels.js";

const DAY = 86_400_000;
const [, , name, ...minutes] = process.argv;
const one = golden(name), kernels = await testKernels();

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

/** An exchange's answer, and the CPU seconds that it took: they are the same in each week. */
const answers = new Map<Exchange, { readonly out: Content; readonly seconds: number }>();
async function answerTo(exchange: Exchange) {
  const known = answers.get(exchange);
  if (known) return known;
  const before = process.cpuUsage(), { out } = await answered(one, exchange, kernels), { user, system } = process.cpuUsage(before);
  const made = { out, seconds: (user + system) / 1e6 };
  answers.set(exchange, made);
  return made;
}

/** What is counted in a week in which the page is open for so many ms a day. */
async function week(open: number) {
  const link = new SuperLink(), counted = { answers: 0, requests: 0, looks: 0, up: 0, down: 0, seconds: 0 };
  const transport: Transport = (path, headers, body) => {
    const call = path.split("/").at(-1)!, answer = link.handle(call, body);
    counted.requests++;
    if (call === "pull-messages" && !answer.length) counted.looks++;
    counted.up += body.length + Object.entries(headers).reduce((sum, [key, value]) => sum + key.length + value.length + 4, 0);
    counted.down += answer.length;
    return Promise.resolve({ status: 200, body: answer, at: Date.now() });
  };
  for (const [day, exchanges] of days().entries()) {
    timers.clear();
    now = day * DAY;
    const queue = [...exchanges], ended = new AbortController();
    let asked: Exchange | undefined;
    const next = async () => {
      await Promise.resolve();
      asked = queue.shift();
      if (asked) link.ask(asked.type, String(day + 1), asked.in);
    };
    await next();
    const answer = async () => {
      const { out, seconds } = await answerTo(asked!);
      counted.answers++;
      counted.seconds += seconds;
      return out;
    };
    const how = { register: false, look: LOOK, before: day ? 1n : undefined, active: () => Promise.resolve(), answered: next, log: () => undefined };
    const done = takePart(new FleetCalls(transport, key, undefined, ended.signal), answer, how);
    while (await pass(day * DAY + open));
    if (asked) throw new Error(`day ${day + 1}: got ${queue.length + 1} messages without an answer, expected none`);
    ended.abort(new Error("the page was closed"));
    await done;
  }
  return counted;
}

const weeks = [];
for (const one of minutes) weeks.push(await week(60_000 * Number(one)));
console.log(JSON.stringify(weeks));
