/** Waking the service worker while no page is open, where the browser can. */

/** Under which the browser knows it. */
const TAG = "turns";
/** Milliseconds from one waking to the next at least; browsers take longer as they like. */
const APART = 12 * 3_600_000;

interface Waking {
  /** Once, when there is a network. */
  readonly sync?: { register(tag: string): Promise<void> };
  /** Now and then. */
  readonly periodicSync?: { register(tag: string, how: { readonly minInterval: number }): Promise<void>; unregister(tag: string): Promise<void> };
}

/** Whether this browser can wake a page's service worker. */
export function wakes(): boolean {
  return "serviceWorker" in navigator && ("SyncManager" in globalThis || "PeriodicSyncManager" in globalThis);
}

async function registered(): Promise<Waking> {
  return (await navigator.serviceWorker.ready) as unknown as Waking;
}

/** Have it woken now and then, or no more; false where the browser refuses that, as it does to pages that are not installed. */
export async function wakeOften(on: boolean): Promise<boolean> {
  const { periodicSync } = await registered();
  const done = on ? periodicSync?.register(TAG, { minInterval: APART }) : periodicSync?.unregister(TAG);
  return (await done?.then(() => true, () => false)) ?? false;
}

/** Have it woken once, when there is a network; false where the browser refuses. */
export async function wakeOnce(): Promise<boolean> {
  const { sync } = await registered();
  return (await sync?.register(TAG).then(() => true, () => false)) ?? false;
}
