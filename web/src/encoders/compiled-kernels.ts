// Windows encoded by libfedsub: see `fedsub.h`.

import type { Kernels } from "../training/kernels.js";
import type { CallMemory } from "../training/memory.js";
import { PER_KERNEL } from "./names.js";
import { AXES, ROW, type WindowKernels, type Windows } from "./windows-encoder.js";

/** The functions that encode windows, on buffers of JavaScript. */
export class CompiledKernels implements WindowKernels {
  constructor(private readonly kernels: Kernels) {}

  encode(table: Int32Array, windows: Windows): Int8Array {
    const count = table.length / ROW, [n, channels, time] = windows.shape.map(BigInt), { exports } = this.kernels;
    return this.levels(windows, windows.shape[0] * count * PER_KERNEL, (memory, steps, into) =>
      exports.fedsub_encode(memory.place(table), BigInt(count), steps, n, channels, time, into),
    );
  }

  describe(groups: number, sensors: Int32Array, turns: Int32Array, windows: Windows, each: number): Int8Array {
    const [n, channels, time] = windows.shape.map(BigInt), { exports } = this.kernels;
    const norms = BigInt(sensors.length / AXES), half = BigInt(turns.length / 2);
    return this.levels(windows, windows.shape[0] * each, (memory, steps, into) => {
      const of = memory.place(sensors), table = memory.place(turns);
      return exports.fedsub_describe(BigInt(groups), of, norms, table, half, steps, n, channels, time, into);
    });
  }

  /** So many levels that a call writes. */
  private levels(windows: Windows, size: number, call: (memory: CallMemory, steps: number, into: number) => number): Int8Array {
    return this.kernels.within((memory) => {
      const steps = memory.place(windows.steps), into = memory.room(size);
      memory.check(call(memory, steps, into));
      return memory.bytes(into, size);
    });
  }
}
