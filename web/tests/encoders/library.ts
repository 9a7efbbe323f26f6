// libfedsub of tests.

import { readFileSync } from "node:fs";
import { CompiledKernels } from "../../src/encoders/compiled-kernels.js";
import { Kernels } from "../../src/training/kernels.js";
import { loadKernels } from "../../src/training/memory.js";

/** The kernels, compiled as devices have them. */
export async function kernels(): Promise<CompiledKernels> {
  const module = await WebAssembly.compile(readFileSync("kernels/fedsub.wasm"));
  return new CompiledKernels(new Kernels(await loadKernels(module)));
}
