import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { Device } from "../../src/device/device.js";
import { Settings } from "../../src/device/settings.js";
import { MessageRefused } from "../../src/errors.js";
import { methodNamed } from "../../src/methods/table.js";
import { MemoryStore, RUN, storeBefore } from "./answers.js";
import { golden, refusals } from "./case.js";
import { testKernels } from "./kernels.js";

const kernels = await testKernels();

for (const file of readdirSync("../proto/golden/refused")) {
  const name = file.replace(".json", "");
  const one = golden(name);
  if (!new Settings(one.settings).methods.every(methodNamed)) continue;
  for (const { what, content, exchange, refused } of refusals(name)) {
    test(`${name}: ${what} is refused, and nothing is kept of it`, async () => {
      const asked = one.exchanges[exchange];
      const block = storeBefore(one, asked);
      const store = new MemoryStore(block);
      const device = await Device.open(one.person, store, kernels, () => undefined);
      await assert.rejects(device.answer({ run: RUN, type: asked.type, content }), (error: Error) => {
        if (refused.error !== "MessageRefused") return true;
        assert.ok(error instanceof MessageRefused, String(error));
        assert.deepEqual([error.client, error.round], [refused.client, Number(refused.round)], error.message);
        return true;
      });
      assert.deepEqual(store.block, block);
      // What follows is answered as if nothing had come.
      assert.ok((await device.answer({ run: RUN, type: asked.type, content: asked.in })).size);
    });
  }
}
