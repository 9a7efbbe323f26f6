// What devices run, in dist/: device.js for Node and the kernels beside it, and the folder page/ for browsers.
// With --tests the tests, in build/.
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const shared = { bundle: true, format: "esm", target: "es2022", logLevel: "warning" };

/** Bytes of the page's files at most, packed: seconds on a slow network. */
const MOST_PACKED = 150_000;

/** The page: its files have their hashes in their names, but for the index, the manifest and the service worker. */
async function page(outdir) {
  const hashed = { outdir, platform: "browser", minify: true, legalComments: "none", metafile: true, publicPath: "/", entryNames: "[name]-[hash]", assetNames: "[name]-[hash]" };
  const namesOf = ({ metafile }) => Object.keys(metafile.outputs).map((path) => basename(path));
  const thread = namesOf(await build({ ...shared, ...hashed, format: "iife", entryPoints: { thread: "src/thread/main.ts" }, loader: { ".wasm": "file" } }));
  const define = { THREAD: JSON.stringify(`/${thread.find((name) => name.endsWith(".js"))}`) };
  const entryPoints = { page: "src/page/main.ts", style: "src/page/style.css", icon: "src/page/icon.svg" };
  const names = [...thread, ...namesOf(await build({ ...shared, ...hashed, define, entryPoints, loader: { ".svg": "copy" } }))];
  const named = (begin) => names.find((name) => name.startsWith(`${begin}-`));
  const icon = named("icon");
  const index = readFileSync("src/page/index.html", "utf8").replace("ICON", icon).replace("STYLE", named("style")).replace("SCRIPT", names.find((name) => /^page-.*js$/.test(name)));
  writeFileSync(`${outdir}/index.html`, index);
  const icons = [{ src: `/${icon}`, sizes: "any", type: "image/svg+xml" }];
  writeFileSync(`${outdir}/page.webmanifest`, JSON.stringify({ name: "FedSub", start_url: "/", display: "standalone", icons }));
  const files = JSON.stringify(["/", "/page.webmanifest", ...names.map((name) => `/${name}`)]);
  await build({ ...shared, entryPoints: { sw: "src/worker/main.ts" }, outdir, platform: "browser", format: "iife", minify: true, define: { ...define, FILES: files } });
  const packed = readdirSync(outdir).reduce((sum, name) => sum + gzipSync(readFileSync(`${outdir}/${name}`), { level: 9 }).length, 0);
  if (packed > MOST_PACKED) throw new Error(`${outdir}: got ${packed} bytes packed, expected ${MOST_PACKED} at most`);
  console.log(`${outdir}: ${packed} bytes packed`);
}

if (process.argv.includes("--tests")) {
  rmSync("build", { recursive: true, force: true });
  const tests = readdirSync("tests", { recursive: true }).filter((name) => name.endsWith(".test.ts"));
  const entryPoints = tests.map((name) => `tests/${name}`);
  await build({ ...shared, entryPoints, outdir: "build", platform: "node", sourcemap: "inline" });
} else {
  rmSync("dist", { recursive: true, force: true });
  await build({
    ...shared,
    entryPoints: { device: "src/node/main.ts" },
    outdir: "dist",
    platform: "node",
    minify: true,
    sourcemap: true,
  });
  copyFileSync("kernels/fedsub.wasm", "dist/fedsub.wasm");
  await page("dist/page");
}
