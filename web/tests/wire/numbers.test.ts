import assert from "node:assert/strict";
import { test } from "node:test";
import { type Format, pack, packBits, packDifferences, unpack, unpackBits, unpackDifferences } from "../../src/wire/numbers.js";

const NEW = new Float32Array([2.5, 0.125]);
const OLD = new Float32Array([2.0, 0.25]);
const CHANGE = new Float32Array([0.5, -0.125]);
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

// The wire page's last table.
const WRITTEN: [Format, Float32Array, string, string][] = [
  ["float32", NEW, "000020400000003e", ""],
  ["bfloat16", NEW, "2040003e", ""],
  ["int8", NEW, "ff00", "9998183c0000003e"],
  ["bfloat16", CHANGE, "003f00be", ""],
  ["int8", CHANGE, "ff00", "a1a0203b000000be"],
];

for (const [format, values, bytes, scales] of WRITTEN) {
  test(`${format} writes ${values.join()} as the wire page does`, () => {
    const packed = pack(values, 1, format);
    assert.deepEqual([hex(packed.values), hex(packed.scales)], [bytes, scales]);
      for (const [i, value] of unpack(packed, 1, format).entries()) assert.ok(Math.abs(value - values[i]) < 0.01);
  });
}

test("differences of float32 are the bits that changed, and go back", () => {
  const bytes = packDifferences(NEW, OLD);
  assert.equal(hex(bytes), "0000000020800000");
  assert.deepEqual(unpackDifferences(bytes, OLD), NEW);
});

test("bfloat16 never makes a finite number infinite", () => {
  const largest = new Float32Array([3.4028234663852886e38]);
  assert.ok(Number.isFinite(unpack(pack(largest, 1, "bfloat16"), 1, "bfloat16")[0]));
});

test("a mask refuses bits beyond its length and other lengths", () => {
  const mask = Uint8Array.from([1, 0, 1, 1, 0, 0, 0, 1, 1, 0]);
  assert.deepEqual(unpackBits(packBits(mask), 10), mask);
  assert.equal(unpackBits(Uint8Array.from([0, 4]), 10), undefined);
  assert.equal(unpackBits(Uint8Array.from([0]), 10), undefined);
});
