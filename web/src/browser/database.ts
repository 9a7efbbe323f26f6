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

const VALUES = "values";
const RECORDINGS = "recordings";

/** A page's database; every change is whole, and on the disk before its promise ends. */
export class Database {
  private constructor(
    private readonly opened: IDBDatabase,
    private readonly name: string,
  ) {}

  /** @throws RunError where the browser keeps nothing, as in some private windows. */
  static async open(name = "fedsub"): Promise<Database> {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(VALUES);
      request.result.createObjectStore(RECORDINGS, { keyPath: "id", autoIncrement: true });
    };
    const opened = await answered(request);
    const closing = () => {
      opened.close();
    };
    // Another tab deletes it all: "forget me" must not wait for this one.
    opened.onversionchange = closing;
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

  /** All recordings, the oldest first. */
  async recordings(): Promise<Recording[]> {
    return answered(this.opened.transaction(RECORDINGS).objectStore(RECORDINGS).getAll() as IDBRequest<Recording[]>);
  }

  /** Keep a recording; its number, which is a new one where it has none. */
  async record(recording: Omit<Recording, "id"> & { readonly id?: number }): Promise<number> {
    return (await this.change(RECORDINGS, (store) => store.put(recording))) as number;
  }

  /** Delete a recording. */
  async discard(id: number): Promise<void> {
    await this.change(RECORDINGS, (store) => store.delete(id));
  }

  /** Delete everything that was ever kept. */
  async forget(): Promise<void> {
    this.opened.close();
    await answered(indexedDB.deleteDatabase(this.name));
  }

  private async change<T>(name: string, act: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    const transaction = this.opened.transaction(name, "readwrite", { durability: "strict" });
    const request = act(transaction.objectStore(name));
    return new Promise((resolve, reject) => {
      const failed = () => {
        reject(refusal(transaction.error));
      };
      transaction.oncomplete = () => {
        resolve(request.result);
      };
      transaction.onabort = failed;
      transaction.onerror = failed;
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
  return new RunError(`the browser's storage: got ${error?.name ?? "an abort"} (${error?.message ?? ""}), expected that it keeps data; free some space, and use no private window`);
}
