/** CPU seconds and differences of a case's answers: `node measure.js CASE`, one JSON document. */
import { separated } from "../../src/device/joined.js";
import type { Content } from "../../src/values.js";
import { answered } from "./answers.js";
import { golden } from "./case.js";
import { testKernels } from "./kernels.js";
import { uploadIn } from "./uploads.js";

const kernels = await testKernels();
const one = golden(process.argv[2]);
const seconds: number[] = [];
const differences: number[] = [];
for (const exchange of one.exchanges) {
  const before = process.cpuUsage();
  const { out } = await answered(one, exchange, kernels);
  const { user, system } = process.cpuUsage(before);
  seconds.push((user + system) / 1e6);
  const [mine, theirs] = [numbersIn(out), numbersIn(exchange.out)];
  let difference = 0;
  for (const [name, values] of theirs) {
    const got = mine.get(name);
    if (got?.length !== values.length) throw new Error(`${name}: got another shape than Python's`);
    for (let i = 0; i < values.length; i++) difference = Math.max(difference, Math.abs(got[i] - values[i]));
  }
  differences.push(difference);
}
console.log(JSON.stringify({ seconds, differences }));

/** What an answer uploads, by tensor. */
function numbersIn(content: Content): ReadonlyMap<string, Float32Array | Uint8Array> {
  const payload = [...separated(content).values()].find(({ kind }) => kind === "payload");
  return payload?.kind === "payload" ? uploadIn(payload.bytes).tensors : new Map<string, Uint8Array>();
}
