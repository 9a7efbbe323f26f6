// What devices run, in dist/: device.js for Node, and the kernels beside it. With --tests the tests, in build/.
import { copyFileSync, readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

const shared = { bundle: true, format: "esm", target: "es2022", logLevel: "warning" };

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
}
