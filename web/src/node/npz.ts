/** Files of NumPy's arrays, `.npz`, as `numpy.savez` writes them: a zip of `.npy`, no pickles. */
import { inflateRawSync } from "node:zlib";
import { DataError } from "../errors.js";

/** An array of a file: numbers of any type as float64, row-major. */
export interface NpzArray {
  readonly shape: readonly number[];
  /** NumPy's name of the type, such as `<f4`. */
  readonly dtype: string;
  readonly values: Float64Array;
}

/** A file may say that it holds this much more than its own size, beyond the first bytes. */
const MOST_SHRUNK = 100;
const FREE_BYTES = 64 * 2 ** 20;

/**
 * The arrays of a file by name.
 *
 * @throws DataError where it is none, is damaged, or says that it holds far more than its size can.
 */
export function readNpz(file: Uint8Array): Map<string, NpzArray> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  try {
    const found = new Map<string, NpzArray>();
    let room = FREE_BYTES + MOST_SHRUNK * file.length;
    for (const member of membersOf(view)) {
      room -= member.size;
      if (room < 0) throw new DataError(`it says that it holds more than ${MOST_SHRUNK} times its own size`);
      const start = member.at + 30 + view.getUint16(member.at + 26, true) + view.getUint16(member.at + 28, true);
      const packed = file.subarray(start, start + member.packed);
      if (member.method !== 0 && member.method !== 8) throw new DataError(`packed by method ${member.method}, expected 0 or 8`);
      const bytes = member.method === 8 ? inflateRawSync(packed, { maxOutputLength: Math.max(member.size, 1) }) : packed;
      found.set(member.name.replace(/\.npy$/, ""), arrayOf(bytes));
    }
    return found;
  } catch (error) {
    throw new DataError(`npz file: got one that cannot be read (${error instanceof Error ? error.message : String(error)}), expected arrays as numpy.savez writes them`);
  }
}

interface Member {
  readonly name: string;
  readonly at: number;
  readonly method: number;
  readonly packed: number;
  readonly size: number;
}

/** The members that the directory at a zip's end lists. */
function membersOf(view: DataView): Member[] {
  let end = view.byteLength - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw new DataError("no directory of a zip");
  const found: Member[] = [];
  let at = view.getUint32(end + 16, true);
  for (let i = view.getUint16(end + 10, true); i > 0; i--) {
    if (view.getUint32(at, true) !== 0x02014b50) throw new DataError("a damaged directory");
    const [nameLength, extra, comment] = [28, 30, 32].map((place) => view.getUint16(at + place, true));
    const name = new TextDecoder().decode(new Uint8Array(view.buffer, view.byteOffset + at + 46, nameLength));
    found.push({ name, method: view.getUint16(at + 10, true), packed: view.getUint32(at + 20, true), size: view.getUint32(at + 24, true), at: view.getUint32(at + 42, true) });
    at += 46 + nameLength + extra + comment;
  }
  return found;
}

type Get = (view: DataView, at: number) => number;

/** By NumPy's names: bytes of a number, and how it is read. */
const TYPES = new Map<string, readonly [number, Get]>([
  ["<f4", [4, (view, at) => view.getFloat32(at, true)]],
  ["<f8", [8, (view, at) => view.getFloat64(at, true)]],
  ["<i8", [8, (view, at) => Number(view.getBigInt64(at, true))]],
  ["<i4", [4, (view, at) => view.getInt32(at, true)]],
  ["<i2", [2, (view, at) => view.getInt16(at, true)]],
  ["|i1", [1, (view, at) => view.getInt8(at)]],
  ["<u8", [8, (view, at) => Number(view.getBigUint64(at, true))]],
  ["<u4", [4, (view, at) => view.getUint32(at, true)]],
  ["<u2", [2, (view, at) => view.getUint16(at, true)]],
  ["|u1", [1, (view, at) => view.getUint8(at)]],
]);

function arrayOf(bytes: Uint8Array): NpzArray {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (new TextDecoder("latin1").decode(bytes.subarray(0, 6)) !== "\x93NUMPY") throw new DataError("a member that is no array");
  const wide = bytes[6] > 1;
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const begin = (wide ? 12 : 10) + length;
  const header = new TextDecoder("latin1").decode(bytes.subarray(begin - length, begin));
  const dtype = /'descr': '([^']+)'/.exec(header)?.[1] ?? "objects";
  const shape = (/'shape': \(([^)]*)\)/.exec(header)?.[1] ?? "").split(",").map((one) => one.trim()).filter(Boolean).map(Number);
  const type = TYPES.get(dtype);
  if (!type || /'fortran_order': True/.test(header)) throw new DataError(`an array of type ${dtype} or in columns, expected numbers in rows`);
  const [width, get] = type;
  const count = shape.reduce((a, b) => a * b, 1);
  if (bytes.length !== begin + width * count) throw new DataError(`an array of ${bytes.length - begin} bytes, expected ${width * count}`);
  return { shape, dtype, values: Float64Array.from({ length: count }, (_, i) => get(view, begin + width * i)) };
}
