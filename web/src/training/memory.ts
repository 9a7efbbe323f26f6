/** The kernels' memory: buffers that a call needs, and structures of words of eight bytes. */
import type { Numbers } from "../tensors.js";

/** What the WebAssembly module of `libfedsub` exports; pointers are numbers. */
export interface Exports {
  readonly memory: WebAssembly.Memory;
  fedsub_memory(bytes: bigint): number;
  fedsub_release(at: number): void;
  fedsub_descend(chain: number, samples: number, steps: number): number;
  fedsub_forward(chain: number, samples: number, out: number): number;
  fedsub_relate(chain: number, samples: number, how: number): number;
  fedsub_encode(kernels: number, count: bigint, windows: number, samples: bigint, channels: bigint, time: bigint, levels: number): number;
  fedsub_describe(
    groups: bigint,
    sensors: number,
    norms: bigint,
    turns: number,
    half: bigint,
    windows: number,
    samples: bigint,
    channels: bigint,
    time: bigint,
    levels: number,
  ): number;
}

/** A word of a structure: a whole number or an address; two floats share one. */
export type Word = number | readonly [number, number];

const ERRORS = new Map([
  [-1, "no memory"],
  [-2, "layers that do not fit each other"],
  [-3, "samples that do not fit the model"],
  [-4, "arguments that do not fit"],
]);

/** The buffers of one call; {@link release} frees all of them. */
export class CallMemory {
  private readonly held: number[] = [];

  constructor(readonly exports: Exports) {}

  /** The address of a copy of some numbers. */
  place(values: Numbers | Int32Array): number {
    const at = this.room(values.byteLength);
    new Uint8Array(this.exports.memory.buffer, at, values.byteLength).set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    return at;
  }

  /** The address of `bytes` of zeros. */
  room(bytes: number): number {
    const at = this.exports.fedsub_memory(BigInt(Math.max(bytes, 8)));
    if (at === 0) throw new RangeError(`kernels: no memory for ${bytes} bytes`);
    this.held.push(at);
    new Uint8Array(this.exports.memory.buffer, at, Math.max(bytes, 8)).fill(0);
    return at;
  }

  /** The address of a structure of these words. */
  structure(words: readonly Word[]): number {
    const at = this.room(8 * words.length);
    const view = new DataView(this.exports.memory.buffer, at);
    words.forEach((word, i) => {
      if (typeof word === "number") view.setBigInt64(8 * i, BigInt(word), true);
      else word.forEach((half, j) => {
        view.setFloat32(8 * i + 4 * j, half, true);
      });
    });
    return at;
  }

  /** A copy of `count` floats. */
  floats(at: number, count: number): Float32Array {
    return new Float32Array(this.exports.memory.buffer, at, count).slice();
  }

  /** A copy of `count` bytes with signs. */
  bytes(at: number, count: number): Int8Array {
    return new Int8Array(this.exports.memory.buffer, at, count).slice();
  }

  /** Throw where a kernel returned an error. */
  check(code: number): void {
    if (code !== 0) throw new RangeError(`kernels: ${ERRORS.get(code) ?? `error ${code}`}`);
  }

  /** Free all buffers. */
  release(): void {
    for (const at of this.held) this.exports.fedsub_release(at);
    this.held.length = 0;
  }
}

/** The exports of a compiled module. */
export async function loadKernels(module: WebAssembly.Module): Promise<Exports> {
  const instance = await WebAssembly.instantiate(module, {});
  const exports = instance.exports as unknown as Exports & { _initialize?: () => void };
  exports._initialize?.();
  return exports;
}
