// libfedsub of tests.

import { readFileSync } from "node:fs";
import { CompiledKernels, type Library } from "../../src/encoders/compiled-kernels.js";

/** The kernels, compiled as devices have them. */
export async function kernels(): Promise<CompiledKernels> {
  const { instance } = await WebAssembly.instantiate(readFileSync("kernels/fedsub.wasm"));
  (instance.exports._initialize as () => void)();
  return new CompiledKernels(instance.exports as unknown as Library);
}
