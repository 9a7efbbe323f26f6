/** The kernels of a page: a module beside its script. */
import { type Exports, loadKernels } from "../training/memory.js";
import address from "../../kernels/fedsub.wasm";

/** The kernels, from the network or from what the service worker kept. */
export async function pageKernels(): Promise<Exports> {
  return loadKernels(await WebAssembly.compileStreaming(fetch(address)));
}
