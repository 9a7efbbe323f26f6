/** What a browser says of the present of its device. */
import type { Present } from "../device/policy.js";

/** Of a phone's present what a browser may not say. */
type Untold = Omit<Present, "hour">;

interface Sources {
  getBattery?(): Promise<{ readonly charging: boolean; readonly level: number }>;
  readonly connection?: { readonly type?: string };
}

/** In a page, what the browser does not say stands in nobody's way. */
export const IN_PAGE: Untold = { charging: true, battery: 1, wifi: true };
/** Without a page nobody would notice: what the browser does not say there does not hold. */
export const WITHOUT_PAGE: Untold = { charging: false, battery: 0, wifi: false };

/** What this browser says now. */
async function told(): Promise<Partial<Untold>> {
  const sources = navigator as Sources, type = sources.connection?.type;
  const battery = await sources.getBattery?.().catch(() => undefined);
  return { ...(battery && { charging: battery.charging, battery: battery.level }), ...(type !== undefined && { wifi: type !== "cellular" && type !== "wimax" }) };
}

/** The present, with this in place of what the browser does not say. */
export async function presentHere(untold: Untold): Promise<Present> {
  return { ...untold, ...(await told()), hour: new Date().getHours() };
}

/** Of what this browser says nothing. */
export async function unknownHere(): Promise<(keyof Untold)[]> {
  const known = await told();
  return (Object.keys(IN_PAGE) as (keyof Untold)[]).filter((key) => known[key] === undefined);
}
