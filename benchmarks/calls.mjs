// As calls.c, by fedsub.wasm in Node: node calls.mjs FEDSUB.WASM < image > answer
import { readFileSync, writeSync } from "node:fs";

const FUNCTIONS = ["descend", "forward", "relate", "standardise", "quantise", "encode", "describe", "sums"];
const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
const library = instance.exports;
library._initialize();
const image = readFileSync(0);
let at = 0;
const next = () => Number(image.readBigInt64LE((at += 8) - 8));

const buffers = Array.from({ length: next() }, () => {
  const bytes = next();
  const pairs = Array.from({ length: next() }, () => [next(), next()]);
  const place = library.fedsub_memory(BigInt(bytes + 8));
  if (place === 0) throw new Error(`got no memory for ${bytes} bytes`);
  new Uint8Array(library.memory.buffer).set(image.subarray(at, at + bytes), place);
  at += bytes;
  return { bytes, pairs, place };
});
for (const { pairs, place } of buffers)
  for (const [offset, other] of pairs)
    new DataView(library.memory.buffer).setUint32(place + offset, buffers[other].place, true);
const returned = Array.from({ length: next() }, () => {
  const call = library[`fedsub_${FUNCTIONS[next()]}`];
  const words = Array.from({ length: next() }, () => (next() ? buffers[next()].place : BigInt(next())));
  return BigInt(call(...words));
});
const answer = [new Uint8Array(BigInt64Array.from(returned).buffer)];
for (const { bytes, place } of buffers) answer.push(new Uint8Array(library.memory.buffer, place, bytes));
const whole = Buffer.concat(answer);
for (let sent = 0; sent < whole.length; ) sent += writeSync(1, whole, sent);
