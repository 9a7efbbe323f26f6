/** A phone's motion sensors as rows of a federation's features. */
import type { Measured } from "../data/measured.js";
import type { Card } from "../data/person.js";

/** A feature's value in an event; undefined: the phone does not measure it. */
type Channel = (event: DeviceMotionEvent) => number | undefined;

const GRAVITY = 9.80665;
const TURNS = { x: "alpha", y: "beta", z: "gamma" } as const;
const SENSOR = /^(.*?)_?([xyz])$/i;

/** Of each feature what measures it; undefined: a phone cannot measure them all. */
export function channelsOf({ features, units = "" }: Card): Channel[] | undefined {
  const found = features.map((name) => channelOf(name, units));
  return found.every((one) => one !== undefined) ? found : undefined;
}

function channelOf(feature: string, units: string): Channel | undefined {
  const found = SENSOR.exec(feature);
  if (!found) return undefined;
  const [, sensor, letter] = found;
  const axis = letter.toLowerCase() as keyof typeof TURNS;
  const numbers = (value: number | null | undefined, scale: number) => (typeof value === "number" ? value * scale : undefined);
  if (/^w$|gyro|rotation|angular/i.test(sensor)) {
    const scale = /deg|°/.test(units) ? 1 : Math.PI / 180;
    return (event) => numbers(event.rotationRate?.[TURNS[axis]], scale);
  }
  if (!/^a$|acc/i.test(sensor)) return undefined;
  const scale = /^g\b|[^a-z/]g\b/i.test(units) ? 1 / GRAVITY : 1;
  const linear = /lin|user|body/i.test(sensor);
  return (event) => numbers((linear ? event.acceleration : event.accelerationIncludingGravity)?.[axis], scale);
}

/**
 * Give each measurement to `take` until the returned function is called.
 *
 * Events without a value of every feature are passed over.
 */
export function measure(channels: readonly Channel[], take: (measured: Measured) => void): () => void {
  let last = -Infinity;
  const heard = (event: DeviceMotionEvent) => {
    const x = channels.map((channel) => channel(event));
    const t = (performance.timeOrigin + event.timeStamp) / 1000;
    if (t <= last || !x.every((value) => value !== undefined)) return;
    last = t;
    take({ t, x });
  };
  addEventListener("devicemotion", heard);
  return () => {
    removeEventListener("devicemotion", heard);
  };
}

/** Ask for the sensors where the browser wants to be asked, which it allows after a touch alone. */
export async function sensorsAllowed(): Promise<boolean> {
  const { requestPermission } = DeviceMotionEvent as unknown as { requestPermission?: () => Promise<string> };
  if (!requestPermission) return true;
  return (await requestPermission().catch(() => "denied")) === "granted";
}
