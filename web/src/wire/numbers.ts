/** Numbers and masks as bytes: float32, bfloat16, int8 with a scale and offset per line, and bits. */
import { rint } from "../linear/rounding.js";

/** Formats in the order of the schema's numbers. */
export const FORMATS = ["float32", "bfloat16", "int8"] as const;
/** A number format by its name in a run's settings. */
export type Format = (typeof FORMATS)[number];
/** Bytes of a number in each format. */
export const WIDTH: Readonly<Record<Format, number>> = { float32: 4, bfloat16: 2, int8: 1 };

/** Numbers in a format, and their scales (int8 only). */
export interface Packed {
  readonly values: Uint8Array;
  readonly scales: Uint8Array;
}

/** The bytes that an array is made of; all processors that run this are little-endian. */
export function bytesOf(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength).slice();
}

/** float32 numbers of bytes. */
export function floatsOfBytes(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

const NONE = new Uint8Array(0);

/** `values` [lines, width] in a format. */
export function pack(values: Float32Array, lines: number, format: Format): Packed {
  if (format === "float32") return { values: bytesOf(values), scales: NONE };
  return format === "bfloat16" ? { values: packBfloat16(values), scales: NONE } : packInt8(values, lines);
}

/** Inverse of {@link pack}, up to rounding; lengths must fit. */
export function unpack(packed: Packed, lines: number, format: Format): Float32Array {
  if (format === "float32") return floatsOfBytes(packed.values);
  if (format === "bfloat16") {
    const halves = new Uint16Array(packed.values.slice().buffer);
    return new Float32Array(Uint32Array.from(halves, (half) => (half << 16) >>> 0).buffer);
  }
  const scales = floatsOfBytes(packed.scales);
  const found = new Float32Array(packed.values.length);
  const width = lines ? found.length / lines : 0;
  found.forEach((_, i) => {
    const line = Math.floor(i / width);
    found[i] = scales[2 * line + 1] + Math.fround(scales[2 * line] * packed.values[i]);
  });
  return found;
}

function packBfloat16(values: Float32Array): Uint8Array {
  const bits = new Uint32Array(values.slice().buffer);
  const halves = Uint16Array.from(bits, (whole) => {
    const rounded = (whole + 0x7fff + ((whole >>> 16) & 1)) >>> 0;
    // An exponent of ones is infinity or NaN: neither may come or go by rounding.
    const exponent = 0x7f800000;
    const fits = (rounded & exponent) !== exponent && (whole & exponent) !== exponent;
    return (fits ? rounded : whole) >>> 16;
  });
  return bytesOf(halves);
}

function packInt8(values: Float32Array, lines: number): Packed {
  const codes = new Uint8Array(values.length);
  const scales = new Float32Array(2 * lines);
  const width = lines ? values.length / lines : 0;
  for (let line = 0; line < lines && width; line++) {
    const own = values.subarray(line * width, (line + 1) * width);
    const low = own.reduce((a, b) => Math.min(a, b));
    const high = own.reduce((a, b) => Math.max(a, b));
    const scale = Math.fround(Math.fround(high - low) / 255);
    scales.set([scale, low], 2 * line);
    own.forEach((value, i) => {
      const steps = Math.fround(Math.fround(value - low) / (scale > 0 ? scale : 1));
      codes[line * width + i] = Math.min(Math.max(rint(steps), 0), 255);
    });
  }
  return { values: codes, scales: bytesOf(scales) };
}

/** float32 `values` as bits that differ from `reference`, bytes of one place together. */
export function packDifferences(values: Float32Array, reference: Float32Array): Uint8Array {
  const bits = new Uint32Array(values.slice().buffer);
  const held = new Uint32Array(reference.slice().buffer);
  const found = new Uint8Array(4 * bits.length);
  bits.forEach((own, i) => {
    const changed = own ^ held[i];
    for (let place = 0; place < 4; place++) found[place * bits.length + i] = changed >>> (8 * place);
  });
  return found;
}

/** Inverse of {@link packDifferences}, bit for bit. */
export function unpackDifferences(bytes: Uint8Array, reference: Float32Array): Float32Array {
  const bits = new Uint32Array(reference.slice().buffer);
  bits.forEach((held, i) => {
    let changed = 0;
    for (let place = 0; place < 4; place++) changed |= bytes[place * bits.length + i] << (8 * place);
    bits[i] = held ^ changed;
  });
  return new Float32Array(bits.buffer);
}

/** A mask, a byte each, as bits. */
export function packBits(mask: Uint8Array): Uint8Array {
  const found = new Uint8Array(Math.ceil(mask.length / 8));
  mask.forEach((bit, i) => {
    if (bit) found[i >> 3] |= 1 << (i & 7);
  });
  return found;
}

/** A mask over `length` things, a byte each; undefined where bytes hold another number of bits. */
export function unpackBits(bytes: Uint8Array, length: number): Uint8Array | undefined {
  if (bytes.length !== Math.ceil(length / 8)) return undefined;
  if (length % 8 && bytes[bytes.length - 1] >> (length % 8)) return undefined;
  return Uint8Array.from({ length }, (_, i) => (bytes[i >> 3] >> (i & 7)) & 1);
}
