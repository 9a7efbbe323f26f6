/** A device's state in the page's database. */
import { unpacked } from "../device/container.js";
import type { Store } from "../device/kept.js";
import { RunError } from "../errors.js";
import type { Database } from "./database.js";

const STATE = "state";

/** The state of one device. One tab has it at a time: see {@link alone}. */
export class BrowserStore implements Store {
  constructor(private readonly database: Database) {}

  /**
   * The last block.
   *
   * @throws RunError where it is damaged.
   */
  async load(): Promise<Uint8Array | undefined> {
    const block = await this.database.get<Uint8Array>(STATE);
    if (!block) return undefined;
    try {
      unpacked(block);
    } catch (error) {
      throw new RunError(`state: ${error instanceof Error ? error.message : String(error)}`);
    }
    return block;
  }

  /** Keep a block in place of the last, in one transaction. */
  async save(block: Uint8Array): Promise<void> {
    await this.database.put(STATE, block);
  }
}

/**
 * Do something that one tab does at a time.
 *
 * @param patience seconds to wait for another tab, after which it throws; 0: no wait.
 * @returns undefined, at once, where another tab is at it and there is no wait.
 */
export async function alone<T>(act: () => Promise<T>, patience = 0): Promise<T | undefined> {
  const how = patience ? { signal: AbortSignal.timeout(1000 * patience) } : { ifAvailable: true };
  return navigator.locks.request("fedsub-device", how, (lock) => (lock ? act() : undefined));
}
