import assert from "node:assert/strict";
import { test } from "node:test";
import { Device } from "../../src/device/device.js";
import { SILENT } from "../../src/device/owner.js";
import { ALWAYS, checkPolicy, dailyHours, type Policy, type Present, unmet } from "../../src/device/policy.js";
import { RunError } from "../../src/errors.js";
import { NO_WISH } from "../../src/secure/settings.js";
import { MemoryStore, RUN } from "../golden/answers.js";
import { golden } from "../golden/case.js";
import { testKernels } from "../golden/kernels.js";

const FLAT: Present = { hour: 23, charging: false, battery: 0.4, wifi: false };
const at = (hour: number): Present => ({ hour, charging: true, battery: 1, wifi: true });

for (const [own, now, why] of [
  [{}, FLAT, undefined],
  [{ charging: true }, FLAT, "charging"],
  [{ charging: true }, at(3), undefined],
  [{ wifi: true }, FLAT, "wifi"],
  [{ battery: 0.5 }, FLAT, "battery"],
  [{ battery: 0.4 }, FLAT, "battery"],
  [{ battery: 0.3 }, FLAT, undefined],
  [{ hours: "22-7" }, FLAT, undefined],
  [{ hours: "22-7" }, at(7), "hours"],
  [{ hours: "9-17" }, at(16), undefined],
  [{ hours: "9-17" }, at(17), "hours"],
] as readonly [Partial<Policy>, Present, string | undefined][]) {
  test(`of ${JSON.stringify(own)} at ${now.hour} o'clock there is ${why ?? "nothing"} that does not hold`, () => {
    assert.equal(unmet({ ...ALWAYS, ...own }, now), why);
  });
}

for (const [hours, clock, begin, length] of [
  ["22-7", "23:30", 22.5, 9],
  ["22-7", "07:00", 15, 9],
  ["9-17", "08:00", 1, 8],
  ["0-6", "00:00", 0, 6],
  ["18-24", "17:59", 1 / 60, 6],
] as const) {
  test(`hours ${hours} are said from ${clock} on as a Python device says them`, () => {
    assert.deepEqual(dailyHours({ ...ALWAYS, hours }, new Date(`2026-01-15T${clock}:00`)), [BigInt(3600 * begin), BigInt(3600 * length)]);
  });
}

for (const own of [{ hours: "8-8" }, { hours: "0-24" }, { hours: "at night" }, { hours: "22-31" }, { battery: 1 }, { battery: NaN }, { battery: -0.1 }] as readonly Partial<Policy>[]) {
  test(`a policy of ${Object.entries(own).flat().map(String).join(" ")} is refused`, () => {
    assert.throws(() => {
      checkPolicy({ ...ALWAYS, ...own });
    }, RunError);
  });
}

test("the handshake says the hours, and is the same without any", async () => {
  const { person, exchanges: [{ in: content }] } = golden("fedavg"), kernels = await testKernels();
  const said = async (hours?: [bigint, bigint]) => {
    const device = await Device.open(person, new MemoryStore(), kernels, () => undefined, NO_WISH, { ...SILENT, hours: () => Promise.resolve(hours) });
    const record = (await device.answer({ run: RUN, type: "query", content })).get("handshake");
    assert.ok(record?.kind === "config");
    return record.values;
  };
  const plain = await said();
  assert.deepEqual(await said([3600n, 32_400n]), new Map([...plain, ["hours", [3600n, 32_400n]]]));
});
