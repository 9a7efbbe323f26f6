/** The page's service worker: keeps the page's files, so that it opens without a network, and takes part without a page. */
import type { takePartAwhile } from "../thread/background.js";

/** The page's files by their paths, which the build fills in; all but the first have their hash in their names. */
declare const FILES: readonly string[];
/** The script of the page's thread, by which a device works here, too. */
declare const THREAD: string;

/** What of a service worker's surroundings is used. */
interface Surroundings {
  skipWaiting(): Promise<void>;
  readonly clients: { claim(): Promise<void>; matchAll(which: object): Promise<readonly { readonly visibilityState: string }[]> };
  /** Of the thread's script, once that is there. */
  readonly takePartAwhile: typeof takePartAwhile;
  importScripts(path: string): void;
  addEventListener(type: "install" | "activate" | "sync" | "periodicsync", act: (event: { waitUntil(until: Promise<unknown>): void }) => void): void;
  addEventListener(type: "fetch", act: (event: { readonly request: Request; respondWith(answer: Promise<Response>): void }) => void): void;
}

const worker = globalThis as unknown as Surroundings;
const NAME = "page";
/** Milliseconds that a page from the network may take before the kept one is shown. */
const PATIENCE = 4000;

async function install(): Promise<void> {
  // What is imported now can be imported later: not each opening of the page waits for it.
  worker.importScripts(THREAD);
  const cache = await caches.open(NAME);
  await cache.addAll(FILES);
  await worker.skipWaiting();
}

/** Old files go once new ones are there. */
async function activate(): Promise<void> {
  const cache = await caches.open(NAME);
  for (const request of await cache.keys()) if (!FILES.includes(new URL(request.url).pathname)) await cache.delete(request);
  await worker.clients.claim();
}

async function answer(request: Request, path: string): Promise<Response> {
  const kept = () => caches.match(path);
  // A name with its hash is of the same bytes for ever.
  if (path !== FILES[0]) return (await kept()) ?? fetch(request);
  const late = new Promise<undefined>((resolve) => setTimeout(resolve, PATIENCE));
  const fresh = fetch(request).catch(() => undefined);
  return (await Promise.race([fresh, late])) ?? (await kept()) ?? (await fresh) ?? Response.error();
}

async function lookedAt(): Promise<boolean> {
  const pages = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  return pages.some(({ visibilityState }) => visibilityState === "visible");
}

for (const type of ["sync", "periodicsync"] as const) {
  worker.addEventListener(type, (event) => {
    worker.importScripts(THREAD);
    event.waitUntil(worker.takePartAwhile(lookedAt));
  });
}
worker.addEventListener("install", (event) => {
  event.waitUntil(install());
});
worker.addEventListener("activate", (event) => {
  event.waitUntil(activate());
});
worker.addEventListener("fetch", (event) => {
  const path = new URL(event.request.url).pathname;
  if (event.request.method === "GET" && FILES.includes(path)) event.respondWith(answer(event.request, path));
});
