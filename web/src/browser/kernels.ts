/** The kernels of a page: a module beside its script. */
import { pause } from "../fleet/calls.js";
import { type Exports, loadKernels } from "../training/memory.js";
import address from "../../kernels/fedsub.wasm";

/** Tries to load them, and seconds before the second; each further pause is twice as long. */
const TRIES = 8;
const FIRST_PAUSE = 0.5;

/** The kernels, from the network or from what the service worker kept; throws where a minute of tries brings none. */
export async function pageKernels(): Promise<Exports> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await loadKernels(await WebAssembly.compileStreaming(fetch(address)));
    } catch (error) {
      // Of a network that is away for a moment.
      if (attempt === TRIES || !(error instanceof TypeError)) throw error;
      await pause(FIRST_PAUSE * 2 ** (attempt - 1));
    }
  }
}
