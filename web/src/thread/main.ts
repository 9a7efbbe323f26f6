/** The page's other thread: whatever takes long, so that the page answers at once. A service worker has it, too. */
import { Database } from "../browser/database.js";
import { pageKernels } from "../browser/kernels.js";
import { takePartAwhile } from "./background.js";
import type { Port } from "./calls.js";
import { serve } from "./calls.js";
import { type News, Work } from "./work.js";

/** Begin as the thread of a page. */
function begin(port: Port): void {
  const work = new Work(Database.open(), pageKernels(), (news: News) => {
    port.postMessage({ news });
  });
  serve(port, work.tasks());
}

const here = globalThis as unknown as Port;
if ("clients" in here) Object.assign(here, { takePartAwhile });
else begin(here);
