/** The page's other thread, as the page sees it. */
import { Caller } from "../thread/calls.js";
import type { News, WorkTasks } from "../thread/work.js";

/** The thread's script, which the build names. */
declare const THREAD: string;

/** The other thread. */
export type Thread = Caller<WorkTasks, News>;

/**
 * A new one; `failed` is called where it cannot run.
 *
 * Its script is of the same release as the page: it is loaded at once, not when it is needed.
 */
export function newThread(heard: (news: News) => void, failed: () => void): Thread {
  const worker = new Worker(THREAD);
  worker.onerror = failed;
  return new Caller<WorkTasks, News>(worker, heard);
}
