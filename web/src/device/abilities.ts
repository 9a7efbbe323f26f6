/** Which runs this device can take part in: what it refuses in the handshake, before anything is trained. */
import { MessageRefused, RunError } from "../errors.js";
import { METHOD_NAMES, methodNamed } from "../methods/table.js";
import type { Values } from "../values.js";
import { parseEncoding } from "../wire/encoding.js";
import type { Settings } from "./settings.js";

/** This release, as package.json has it. */
export const VERSION = "0.1.0";
/** The wire's version and its name. */
export const WIRE = 2n;
export const SCHEMA = "fedsub.v2";

/** Keys by which a device goes, and those of the server alone. */
const KNOWN = new Set(
  (
    "ask asynchronous augment batch-size beside best-by capacities capacity-mode checkpoint-seconds class-counts clients-per-round clip-norm data device download-encoding " +
    "dp-clip dp-delta dp-noise draw encoder epochs evaluate-every fold folder from-run hidden identity join-timeout largest-number late-hours loss lr lr-decay message-limit method " +
    "min-clients model momentum most-examples norm on-round optimiser out patience pause-hours precision quorum robust robust-share " +
    "round-timeout rounds schedule secure-aggregation secure-least secure-range seed set sizes split standardise standardise-anew steps test-share threads train-share unlabelled unlabelled-classes unseen-by unseen-labels unseen-people unseen-rounds " +
    "unseen-share upload-encoding weight-decay whole-rounds"
  ).split(" "),
);

/** Keys of which this device has one value alone. */
const ALONE: readonly (readonly [key: string, value: number | string])[] = [
  ["loss", "cross-entropy"],
  ["optimiser", "sgd"],
  ["schedule", "constant"],
  ["augment", ""],
  ["precision", "float32"],
  ["clip-norm", 0],
  ["best-by", "last"],
  ["train-share", 1],
  ["fold", ""],
  ["unseen-people", ""],
  ["unseen-labels", 0],
  ["unlabelled", 0],
  ["fedsub.prototype-noise", "none"],
  ["fedsub.prototype-clip", 0],
  ["fedsub.prototype-sigma", 0],
];

/**
 * Refuse a server that this device does not understand: its wire, its packages, or keys of its run.
 *
 * @param greeting the server's record `handshake`.
 * @throws MessageRefused that names what is not understood.
 */
export function checkGreeting(greeting: Values, client: string): void {
  const refused = (what: string, got: string, expected: string) => new MessageRefused(client, 0, what, got, expected);
  const wires = greeting.get("wires");
  if (!Array.isArray(wires) || !wires.includes(WIRE)) throw refused("wires", listed(greeting, "wires").join() || "none", `${WIRE}, which fedsub ${VERSION} understands`);
  const version = String(greeting.get("version"));
  if (version.includes(" with ")) throw refused("versions", version, "a run without installed packages, which this device cannot have");
  const unknown = listed(greeting, "given").filter((key) => !known(key));
  if (unknown.length) throw refused("run config", unknown.sort().join(", "), `keys of fedsub ${VERSION}: install the server's release on this device`);
}

function listed(greeting: Values, key: string): string[] {
  const value = greeting.get(key);
  return Array.isArray(value) ? value.map(String) : [];
}

function known(key: string): boolean {
  const dot = key.indexOf(".");
  if (dot < 0) return KNOWN.has(key);
  const method = methodNamed(key.slice(0, dot));
  // Of methods that are not this run's nothing is asked; those that are have been looked at.
  return method === undefined || key.slice(dot + 1) in method.defaults;
}

/**
 * Refuse a run that needs what this device does not have.
 *
 * @throws RunError that names the setting.
 */
export function checkSettings(settings: Settings): void {
  for (const name of settings.methods) {
    if (!methodNamed(name)) throw new RunError(`method: got ${name}, expected ${METHOD_NAMES.join(", ")}: this device has no other`);
    if (settings.number(`${name}.smooth`, 0)) throw new RunError(`setting ${name}.smooth: got ${settings.number(`${name}.smooth`)}, expected 0: this device keeps no means`);
  }
  for (const [key, value] of ALONE) {
    const [method, ...hyper] = key.split(".");
    if (hyper.length && !settings.methods.includes(method)) continue;
    const got = typeof value === "number" ? settings.number(key, value) : settings.text(key, value);
    if (got !== value) throw new RunError(`setting ${key}: got ${got}, expected ${value}: this device knows no other`);
  }
  parseEncoding(settings.text("upload-encoding", "float32"));
  parseEncoding(settings.text("download-encoding", "float32"));
}
