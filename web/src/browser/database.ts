/** What a page keeps: single values by name, and recordings, in one IndexedDB. */
import type { Rows } from "../data/cut.js";
import { RunError } from "../errors.js";

/** A recording, whole or as far as it went. */
export interface Recording extends Rows {
  /** Its number, in the order of recordings. */
  readonly id: number;
  /** Whether it was measured here; else it came from a file. */
  readonly measured: boolean;
}

/** There is no space for more; what was kept before is still there. */
export class StorageFull extends RunError {}

const VALUES = "values";
const RECORDINGS = "recordings";

/** A page's database; every change is whole, and on the disk before its promise ends. */
export class Database {
  private constructor(
    private readonly opened: IDBDatabase,
    private readonly name: string,
  ) {}

  /**
   * @param lost called when another tab deletes what is kept; then this one can keep nothing any more.
   * @throws RunError where the browser keeps nothing, as in some private windows.
   */
  static async open(name = "fedsub", lost: () => void = () => undefined): Promise<Database> {
    // Of whatever version: keepOnly raises it.
    const request = indexedDB.open(name);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(VALUES);
      request.result.createObjectStore(RECORDINGS, { keyPath: "id", autoIncrement: true });
    };
    const opened = await answered(request);
    // Another tab deletes it all: "forget me" must not wait for this one.
    opened.onversionchange = () => {
      opened.close();
      lost();
    };
    return new Database(opened, name);
  }

  /** The value of a name, as it was put. */
  async get<T>(name: string): Promise<T | undefined> {
    return answered(this.opened.transaction(VALUES).objectStore(VALUES).get(name) as IDBRequest<T | undefined>);
  }

  /** Keep a value in place of the one before. */
  async put(name: string, value: unknown): Promise<void> {
    await this.change(VALUES, (store) => store.put(value, name));
  }

  /** The recordings' numbers, the oldest first. */
  async recordingIds(): Promise<number[]> {
    return answered(this.opened.transaction(RECORDINGS).objectStore(RECORDINGS).getAllKeys() as IDBRequest<number[]>);
  }

  /** A recording; undefined: it was deleted. */
  async recording(id: number): Promise<Recording | undefined> {
    return answered(this.opened.transaction(RECORDINGS).objectStore(RECORDINGS).get(id) as IDBRequest<Recording | undefined>);
  }

  /** Keep a recording; its number, which is a new one where it has none. */
  async record(recording: Omit<Recording, "id"> & { readonly id?: number }): Promise<number> {
    return (await this.change(RECORDINGS, (store) => store.put(recording))) as number;
  }

  /** Keep new recordings, all of them or none. */
  async recordAll(recordings: readonly Omit<Recording, "id">[]): Promise<void> {
    await this.change(RECORDINGS, (store) => recordings.map((one) => store.put(one))[recordings.length - 1]);
  }

  /** Delete a recording. */
  async discard(id: number): Promise<void> {
    await this.change(RECORDINGS, (store) => store.delete(id));
  }

  /** Delete the recordings up to one. */
  async discardUpTo(id: number): Promise<void> {
    await this.change(RECORDINGS, (store) => store.delete(IDBKeyRange.upperBound(id)));
  }

  /** Delete everything but what is kept by these names, and keep one more value: all at once. It is closed then, in all tabs. */
  async keepOnly(names: readonly string[], name: string, value: unknown): Promise<void> {
    const { version } = this.opened;
    this.opened.close();
    // A new version: no other tab has the database meanwhile, and none keeps anything after.
    const request = indexedDB.open(this.name, version + 1);
    request.onupgradeneeded = () => {
      const [values, recordings] = [VALUES, RECORDINGS].map((store) => request.transaction!.objectStore(store));
      recordings.clear();
      const keys = values.getAllKeys();
      keys.onsuccess = () => {
        for (const key of keys.result) if (!names.includes(key as string)) values.delete(key);
        values.put(value, name);
      };
    };
    (await answered(request)).close();
  }

  /** Let go of it. */
  close(): void {
    this.opened.close();
  }

  /** Delete everything that was ever kept. */
  async forget(): Promise<void> {
    this.opened.close();
    await answered(indexedDB.deleteDatabase(this.name));
  }

  private async change<T>(name: string, act: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    const transaction = this.opened.transaction(name, "readwrite", { durability: "strict" });
    let request: IDBRequest<T>;
    try {
      request = act(transaction.objectStore(name));
    } catch (error) {
      transaction.abort();
      throw error instanceof DOMException ? refusal(error) : error;
    }
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => {
        resolve(request.result);
      };
      // What went wrong is known once nothing of it is left.
      transaction.onabort = () => {
        reject(refusal(transaction.error));
      };
    });
  }
}

function answered<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => {
      resolve(request.result);
    };
    request.onerror = () => {
      reject(refusal(request.error));
    };
  });
}

function refusal(error: DOMException | null): RunError {
  const kind = error?.name === "QuotaExceededError" ? StorageFull : RunError;
  return new kind(`the browser's storage: got ${error?.name ?? "an abort"} (${error?.message ?? ""}), expected that it keeps data; free some space, and use no private window`);
}
