/** When an owner lets the device take part: fields and meaning are those of `fedsub device policy`. */
import { RunError } from "../errors.js";

/** The owner's conditions, all of which must hold. */
export interface Policy {
  readonly charging: boolean;
  /** Whether it must be on no metered link. */
  readonly wifi: boolean;
  /** Such as `22-7`, of the device's own clock, from the first to before the second; "": all hours. */
  readonly hours: string;
  /** Share of the battery that must be left. */
  readonly battery: number;
}

/** The present of a device. */
export type Present = Omit<Policy, "hours"> & { readonly hour: number };

export const ALWAYS: Policy = { charging: false, wifi: false, hours: "", battery: 0 };
const DAY = 86_400;

function boundsOf(hours: string): [begin: number, end: number] {
  const [begin, end] = /^(\d{1,2})-(\d{1,2})$/.exec(hours)?.slice(1).map(Number) ?? [0, 0];
  if (Math.max(begin, end) > 24 || begin % 24 === end % 24) throw new RunError(`policy: hours: got '${hours}', expected two different hours from 0 to 24, such as 22-7; no hours allow all`);
  return [begin, end];
}

/**
 * Check a policy.
 *
 * @throws RunError if it never allows anything, or a value is none.
 */
export function checkPolicy({ hours, battery }: Policy): void {
  if (hours) boundsOf(hours);
  if (!(battery >= 0 && battery < 1)) throw new RunError(`policy: battery: got ${battery}, expected a share from 0 to below 1: a battery is never above 1`);
}

/** The condition that does not hold now; undefined: all do. */
export function unmet({ charging, wifi, hours, battery }: Policy, now: Present): keyof Policy | undefined {
  if (charging && !now.charging) return "charging";
  if (wifi && !now.wifi) return "wifi";
  if (battery && now.battery <= battery) return "battery";
  if (!hours) return undefined;
  const [begin, end] = boundsOf(hours), { hour } = now;
  const inside = begin < end ? begin <= hour && hour < end : !(end <= hour && hour < begin);
  return inside ? undefined : "hours";
}

/** The hours of each day as the handshake says them: seconds until they begin next, and how long they last; undefined: all. */
export function dailyHours({ hours }: Policy, now: Date): [begin: bigint, length: bigint] | undefined {
  if (!hours) return undefined;
  const [begin, end] = boundsOf(hours), seconds = 3600 * now.getHours() + 60 * now.getMinutes() + now.getSeconds();
  return [BigInt((3600 * begin - seconds + DAY) % DAY), BigInt(3600 * ((end - begin + 24) % 24))];
}
