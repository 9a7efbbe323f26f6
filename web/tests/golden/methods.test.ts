import assert from "node:assert/strict";
import { test } from "node:test";
import { separated } from "../../src/device/joined.js";
import { uploadIn } from "./uploads.js";
import { answered, assertKept, assertNear, assertValues } from "./answers.js";
import { golden, savedIn } from "./case.js";
import { testKernels } from "./kernels.js";

const CASES = ["fedavg", "fedprox", "fedper", "fedrep", "ditto", "local", "fedavg-differences-int8", "fedavg-differences", "fedavg-top-k", "fedavg-bfloat16", "fedavg-joined", "fedsub", "fedsub-differences", "fedsub-ridge", "fedsub-ridge-windows"];
/** Ends of an interval, by other draws of samples than Python's. */
const DRAWN = ["gain_over_own_low", "gain_over_own_high"];

const kernels = await testKernels();

for (const name of CASES) {
  const one = golden(name);
  one.exchanges.forEach((exchange, i) => {
    test(`${name}: message ${i}, ${exchange.type}, is answered as Python's device answers it`, async () => {
      const { out, after } = await answered(one, exchange, kernels);
      assert.deepEqual([...out.keys()].sort(), [...exchange.out.keys()].sort());
      for (const [record, theirs] of separated(exchange.out)) {
        const mine = separated(out).get(record)!;
        assert.equal(mine.kind, theirs.kind);
        if (mine.kind === "payload" && theirs.kind === "payload") {
          const [got, expected] = [mine, theirs].map(({ bytes }) => uploadIn(bytes));
          assert.deepEqual(got.header, expected.header);
          assert.deepEqual([...got.tensors.keys()], [...expected.tensors.keys()]);
          for (const [tensor, values] of expected.tensors) assertNear(tensor, got.tensors.get(tensor)!, values);
        } else if (mine.kind !== "payload" && theirs.kind !== "payload") {
          assertValues(mine.values, theirs.values, ["joined", ...DRAWN]);
        }
      }
      assertKept(after, savedIn(exchange.after, "golden"));
    });
  });
}
