/** Deletes what a page has ever kept on this phone. */
import type { Database } from "../browser/database.js";
import type { Thread } from "./thread.js";

/** Name in the address of a page that has just forgotten. */
export const FORGOTTEN = "forgotten";

/** Delete recordings, model, key and the kept files of the page, and load it anew. */
export async function forgetAll(database: Database, thread: Thread): Promise<void> {
  await thread.call("takePart", false);
  await database.forget();
  for (const worker of await navigator.serviceWorker.getRegistrations()) await worker.unregister();
  for (const name of await caches.keys()) await caches.delete(name);
  location.replace(`${location.pathname}?${FORGOTTEN}`);
}
