/** The page's other thread: whatever takes long, so that the page answers at once. */
import { Database } from "../browser/database.js";
import { pageKernels } from "../browser/kernels.js";
import type { Port } from "./calls.js";
import { serve } from "./calls.js";
import { type News, Work } from "./work.js";

const port = globalThis as unknown as Port;
const database = Database.open();
const kernels = pageKernels();
const work = new Work(database, kernels, (news: News) => {
  port.postMessage({ news });
});
serve(port, work.tasks());
