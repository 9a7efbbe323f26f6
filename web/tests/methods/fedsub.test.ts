import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { checkSettings } from "../../src/device/abilities.js";
import { Device } from "../../src/device/device.js";
import { Half } from "../../src/device/half.js";
import { Settings } from "../../src/device/settings.js";
import { MessageRefused, RunError } from "../../src/errors.js";
import { countsOf } from "../../src/methods/fedsub-prototypes.js";
import { representatives, unitRelevance } from "../../src/methods/fedsub-relevance.js";
import { classScores } from "../../src/methods/fedsub-scores.js";
import type { Chain } from "../../src/models/chain.js";
import { buildModel } from "../../src/models/chain.js";
import { Kernels } from "../../src/training/kernels.js";
import type { Value } from "../../src/values.js";
import { BundleSchema, TensorSchema } from "../generated/wire/exchange_pb.js";
import { MemoryStore, RUN, storeBefore } from "../golden/answers.js";
import { golden } from "../golden/case.js";
import { testKernels } from "../golden/kernels.js";

const exports = await testKernels();
const kernels = new Kernels(exports);
const one = golden("fedsub");

function settings(others: Readonly<Record<string, Value>>): Settings {
  return new Settings(new Map([...one.settings, ...Object.entries(others)]));
}

const UNKNOWN: readonly (readonly [key: string, value: Value])[] = [
  ["prototype-noise", "gaussian"], ["prototype-clip", 1], ["prototype-sigma", 0.5], ["depth", 3n], ["depth", -1n],
  ["relevance", "lrp-e"], ["lrp-start", "all"], ["score", "f1"], ["prototype", "bytes"], ["relevance-samples", 0.5],
];
for (const [key, value] of UNKNOWN) {
  test(`a run with fedsub.${key} = ${String(value)} is refused by name`, () => {
    const said = settings({ [`fedsub.${key}`]: value });
    assert.throws(() => {
      checkSettings(said);
      new Half(said, "fedsub", one.person, kernels);
    }, (error: Error) => error instanceof RunError && error.message.includes(`fedsub.${key}`));
  });
}

test("prototype noise of a method that does not run is no concern of a device", () => {
  checkSettings(settings({ method: "fedavg", "fedsub.prototype-noise": "gaussian" }));
});

type Row = [units: number[], values: number[]];
const LIES: readonly (readonly [what: string, name: string, shape: number[], row: Row])[] = [
  ["a layer that the model lacks", "linear3", [4, 5], [[1], [1, 1, 1, 1, 1]]],
  ["rows of another width", "linear1", [4, 4], [[1], [1, 1, 1, 1]]],
  ["more units than the layer has", "linear1", [4, 5], [[0x11], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]],
  ["fewer numbers than units", "linear1", [4, 5], [[3], [1, 1, 1, 1, 1]]],
  ["what is no number", "linear1", [4, 5], [[1], [1, 1, NaN, 1, 1]]],
  ["a number beyond all bounds", "linear1", [4, 5], [[1], [1, 1, 1, 1, 1e30]]],
  ["an upload's mask", "linear1.masks", [3, 4], [[], [1]]],
];
for (const [what, name, shape, [units, values]] of LIES) {
  test(`a download with ${what} is refused, and nothing is kept of it`, async () => {
    const asked = one.exchanges[2], payload = asked.in.get("payload");
    assert.ok(payload?.kind === "payload");
    const bundle = fromBinary(BundleSchema, payload.bytes);
    const numbers = new Uint8Array(Float32Array.from(values).buffer);
    const lie = { ...bundle, tensors: [create(TensorSchema, { name, shape, units: Uint8Array.from(units), values: numbers })] };
    const content = new Map([...asked.in, ["payload", { kind: "payload", bytes: toBinary(BundleSchema, lie) }] as const]);
    const block = storeBefore(one, asked), store = new MemoryStore(block);
    const device = await Device.open(one.person, store, exports, () => undefined);
    await assert.rejects(device.answer({ run: RUN, type: "train", content }), (error: Error) => {
      assert.ok(error instanceof MessageRefused, String(error));
      assert.deepEqual([error.client, error.round], ["p1", 2]);
      return true;
    });
    assert.deepEqual(store.block, block);
  });
}

const Y = Int32Array.of(0, 0, 2, 0, 0, 2, 0);
const X = { shape: [7, 1], values: Float32Array.from(Y.keys()) };

test("representatives are spread evenly over each class, and all where there are few", () => {
  const counts = countsOf(Y, 3);
  // Of five the third and the fifth, as Python's devices choose them.
  assert.deepEqual([...representatives({ x: X, y: Y }, counts, 2).x.values], [2, 3, 5, 6]);
  assert.equal(representatives({ x: X, y: Y }, counts, 0).y.length, 7);
  assert.equal(representatives({ x: X, y: Y }, counts, 5).y.length, 7);
});

test("scores are 0 for a class that the person lacks, and of judged samples stand for all", () => {
  const logits = { shape: [3, 3], values: Float32Array.of(1, 0, 0, 0, 1, 0, 0, 0, 1) };
  const judged = Int32Array.of(0, 0, 2), counts = countsOf(Y, 3);
  assert.deepEqual([...classScores("one", logits, judged, counts)], [1, 0, 1]);
  assert.deepEqual([...classScores("samples", logits, judged, counts)], [5, 0, 2]);
  assert.deepEqual([...classScores("accuracy", logits, judged, counts)], [0.5, 0, 1]);
  assert.deepEqual([...classScores("accuracy-samples", logits, judged, counts)], [2.5, 0, 2]);
});

/** A model of one input, hidden units of weights 1 and -1, and logits of each of them. */
function small(): { readonly chain: Chain; readonly params: Parameters<Kernels["forward"]>[1] } {
  const tensor = (shape: number[], ...values: number[]) => ({ shape, values: Float32Array.from(values) });
  const params = {
    "linear1.weight": tensor([2, 1], 1, -1), "linear1.bias": tensor([2], 0, 0),
    "linear2.weight": tensor([2, 2], 1, 0, 0, 1), "linear2.bias": tensor([2], 0, 0),
  };
  return { chain: buildModel("mlp", [1], 2, "2"), params };
}

for (const rule of ["naive", "lrp-a1b0", "lrp-a2b1"] as const) {
  test(`relevance by ${rule} is of the unit that a class's samples reach, on their mean`, () => {
    const { chain, params } = small();
    const samples = { x: { shape: [3, 1], values: Float32Array.of(1, 3, -4) }, y: Int32Array.of(0, 0, 1) };
    const { relevance, logits } = unitRelevance(kernels, chain, params, samples, rule, "logits");
    assert.deepEqual([...logits.values], [1, 0, 3, 0, 0, 4]);
    const factor = rule === "lrp-a2b1" ? 2 : 1, hidden = [2 * factor, 0, 0, 4 * factor];
    for (const [name, expected] of [["linear1", hidden], ["linear2", [2, 0, 0, 4]]] as const) {
      relevance.get(name)?.forEach((value, i) => {
        assert.ok(Math.abs(value - expected[i]) < 1e-4, `${name}[${i}]: got ${value}, expected ${expected[i]}`);
      });
    }
  });
}
