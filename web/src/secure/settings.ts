// A run's settings of secure sums, and which of them a device refuses.

import type { Settings } from "../device/settings.js";
import { RunError } from "../errors.js";
import type { RosterFiles } from "./device-roster.js";
import { sumsKnown } from "./vectors.js";

/** What a device's owner wants of all runs. */
export interface OwnersWish {
  /** Whether nothing may leave that tells of this person alone. */
  readonly sumsAlone: boolean;
  /** People in a sum at least; 0: as the run says. */
  readonly least: number;
  /** The roster by which the device goes; undefined: by none. */
  readonly roster: RosterFiles | undefined;
  /** Keeps a line of a run's receipts, by which the server's transcript is checked later; undefined: none are kept. */
  readonly receipt: ((run: string, line: string) => unknown) | undefined;
}

export const NO_WISH: OwnersWish = { sumsAlone: false, least: 0, roster: undefined, receipt: undefined };
/** People in a sum at least, whatever a run says. */
const FEWEST = 3;

/** How a run adds up. */
export interface SumSettings {
  readonly least: number;
  readonly range: number;
  /** Greatest L2 norm of a person's change; Infinity without noise. */
  readonly longest: number;
}

/** Whether the server of a run learns sums alone. */
export function addsUp(settings: Settings): boolean {
  return settings.flag("secure-aggregation", false);
}

/**
 * Refuse a run of secure sums that this device cannot take part in, or one without that its owner does not want.
 *
 * @throws RunError that names the setting.
 */
export function checkSums(settings: Settings, wish: OwnersWish): void {
  const refuse = (key: string, got: string | number, expected: string) => new RunError(`setting ${key}: got ${got}, expected ${expected}`);
  if (!addsUp(settings)) {
    if (wish.sumsAlone) throw refuse("secure-aggregation", "false", "true, as this device's owner wants");
    return;
  }
  for (const name of settings.methods) sumsKnown(name);
  for (const key of ["upload-encoding", "download-encoding"]) {
    const encoding = settings.text(key, "float32");
    if (encoding !== "float32") throw refuse(key, encoding, "float32: a sum's numbers are whole ones of 32 bits");
  }
  const standardise = settings.text("standardise");
  if (standardise === "federation-median") throw refuse("standardise", standardise, "federation, client or none: medians are of single people's numbers");
  const groups = settings.text("fedsub-ridge.groups", "none");
  if (groups !== "none") throw refuse("fedsub-ridge.groups", groups, "none: groups compare single people's sums");
  const least = settings.number("secure-least", FEWEST);
  if (!Number.isInteger(least) || least < FEWEST) throw refuse("secure-least", least, `${FEWEST} or more`);
  // Sums over a class are of as many people as the run says: the device sees of nothing but the whole how many it has.
  if (settings.methods.includes("fedsub-ridge") && least < wish.least) throw refuse("secure-least", least, `${wish.least}, as this device's owner wants`);
  for (const [key, byDefault] of [["secure-range", 8], ["dp-clip", 1]] as const) {
    const value = settings.number(key, byDefault);
    if (!(value > 0)) throw refuse(key, value, "a number above 0");
  }
}

/** How a run adds up, as its settings and a device's owner say. */
export function sumSettings(settings: Settings, wish: OwnersWish): SumSettings {
  const longest = settings.number("dp-noise", 0) ? settings.number("dp-clip", 1) : Infinity;
  return { least: Math.max(settings.number("secure-least", FEWEST), wish.least), range: settings.number("secure-range", 8), longest };
}
