import assert from "node:assert/strict";
import { test } from "node:test";
import { answered, assertKept, assertValues } from "./answers.js";
import { blocksIn, golden, savedIn } from "./case.js";
import { testKernels } from "./kernels.js";

const CASES = ["fedsub-ridge-sums", "fedavg-sums", "fedavg-sums-noise"];
/** Ends of an interval, by other draws of samples than Python's. */
const DRAWN = ["gain_over_own_low", "gain_over_own_high"];
/** What is drawn anew for each sum. */
const RANDOM = ["seal", "mask", "seed", "shares", "sealed"];

const kernels = await testKernels();

function kept(blocks: ReadonlyMap<string, Uint8Array>): Record<string, unknown>[] {
  return [...blocks].sort().map(([, block]) => JSON.parse(new TextDecoder().decode(block)) as Record<string, unknown>);
}

/** The kept values without what is random where keys or shares were asked for, and without dates. */
function comparable(blocks: ReadonlyMap<string, Uint8Array>, random: boolean): unknown {
  const without = ([key, value]: [string, unknown]) =>
    random && RANDOM.includes(key) ? [key, Object.keys(value as object).length > 0] : [key, value];
  const all = kept(blocks).map((one): unknown => Object.fromEntries(Object.entries(one).sort().map(without)));
  return JSON.parse(JSON.stringify(all).replace(/"date":"[^"]*"/g, '"date":""')) as unknown;
}

for (const name of CASES) {
  const one = golden(name);
  one.exchanges.forEach((exchange, i) => {
    const asked = exchange.in.get("secure"), phase = asked?.kind === "config" ? asked.values.get("phase") : exchange.type;
    test(`${name}: message ${i}, ${String(phase)}, is answered as Python's device answers it`, async () => {
      const { out, after, blocks } = await answered(one, exchange, kernels);
      assert.deepEqual([...out.keys()].sort(), [...exchange.out.keys()].sort());
      const random = phase === "keys" || phase === "shares";
      for (const [record, theirs] of exchange.out) {
        const mine = out.get(record)!;
        if (mine.kind === "payload" && theirs.kind === "payload") {
          assert.deepEqual(mine.bytes, theirs.bytes);
        } else if (mine.kind !== "payload" && theirs.kind !== "payload") {
          const own = random ? ["keys", "values"] : [];
          assertValues(mine.values, theirs.values, ["joined", ...DRAWN, ...own]);
          if (random) assert.deepEqual(sizes(mine.values), sizes(theirs.values));
        }
      }
      assertKept(after, savedIn(exchange.after, "golden"));
      assert.deepEqual(comparable(blocks, random), comparable(blocksIn(exchange.after, name), random));
    });
  });
}

function sizes(values: ReadonlyMap<string, unknown>): unknown {
  const length = (value: unknown): unknown => (Array.isArray(value) ? value.map(length) : (value as Uint8Array | string).length);
  return [...values].map(([key, value]) => [key, length(value)]);
}
