/** The kernels that tests compute with, built by `make web`. */
import { readFileSync } from "node:fs";
import { type Exports, loadKernels } from "../../src/training/memory.js";

/** A new instance of libfedsub. */
export async function testKernels(): Promise<Exports> {
  return loadKernels(await WebAssembly.compile(readFileSync("kernels/fedsub.wasm")));
}
