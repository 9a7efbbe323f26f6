// Windows encoded by libfedsub, compiled to WebAssembly: see `fedsub.h`.

import { RunError } from "../errors.js";
import type { WindowKernels, Windows } from "./windows-encoder.js";

/** What this needs of libfedsub. Addresses are numbers; a whole number of 64 bits is a bigint. */
export interface Library {
  readonly memory: WebAssembly.Memory;
  fedsub_memory(bytes: bigint): number;
  fedsub_release(address: number): void;
  fedsub_encode(kernels: number, count: bigint, windows: number, samples: bigint, channels: bigint, time: bigint, levels: number): number;
  fedsub_describe(
    groups: bigint, sensors: number, norms: bigint, turns: number, half: bigint,
    windows: number, samples: bigint, channels: bigint, time: bigint, levels: number,
  ): number;
}

const PER_KERNEL = 5, ROW = 19, AXES = 4;

/** The functions that encode windows, on buffers of JavaScript. */
export class CompiledKernels implements WindowKernels {
  constructor(private readonly library: Library) {}

  encode(table: Int32Array, windows: Windows): Int8Array {
    const count = table.length / ROW, shape = windows.shape.map(BigInt);
    return this.levels([table], windows, windows.shape[0] * count * PER_KERNEL, ([kernels], steps, into) =>
      this.library.fedsub_encode(kernels, BigInt(count), steps, shape[0], shape[1], shape[2], into),
    );
  }

  describe(groups: number, sensors: Int32Array, turns: Int32Array, windows: Windows, each: number): Int8Array {
    const shape = windows.shape.map(BigInt), norms = BigInt(sensors.length / AXES), half = BigInt(turns.length / 2);
    return this.levels([sensors, turns], windows, windows.shape[0] * each, ([of, table], steps, into) =>
      this.library.fedsub_describe(BigInt(groups), of, norms, table, half, steps, shape[0], shape[1], shape[2], into),
    );
  }

  /** Call with the addresses of tables, windows and room for so many levels, and take these out. */
  private levels(
    tables: readonly Int32Array[],
    windows: Windows,
    size: number,
    call: (tables: number[], windows: number, levels: number) => number,
  ): Int8Array {
    const { memory } = this.library, placed: number[] = [];
    const place = (bytes: number) => {
      const address = this.library.fedsub_memory(BigInt(Math.max(bytes, 1)));
      if (address === 0) throw new RunError(`encoder: got no memory for ${bytes} bytes`);
      placed.push(address);
      return address;
    };
    try {
      const addresses = [...tables, windows.steps, new Int8Array(size)].map((one) => {
        const address = place(one.byteLength);
        new Uint8Array(memory.buffer, address).set(new Uint8Array(one.buffer, one.byteOffset, one.byteLength));
        return address;
      });
      const into = addresses[addresses.length - 1], steps = addresses[addresses.length - 2];
      const code = call(addresses, steps, into);
      if (code !== 0) throw new RunError(`encoder: got code ${code} of libfedsub, expected 0`);
      return new Int8Array(memory.buffer, into, size).slice();
    } finally {
      for (const address of placed) this.library.fedsub_release(address);
    }
  }
}
