/** A person's leave: what a device answers from then on, and what the server says that it deleted. */
import { MessageRefused } from "../errors.js";
import { config, type Content, type Value } from "../values.js";
import { separated } from "./joined.js";
import { recordOf } from "./turn.js";

/** What a server deleted of a person, and what it cannot delete, in sentences. */
export interface Left {
  readonly deleted: readonly string[];
  readonly remains: readonly string[];
}

const LEFT = "left";
/** Sentences of a list at most, and characters of each. */
const MOST = 50;
const LONGEST = 1000;
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;

/** The answer to whatever is asked once a person left. */
export function leaveOf(client: string): Content {
  return new Map([["leave", config(new Map([["client", client]]))]]);
}

/**
 * What the server says that it deleted; undefined where the message is another.
 *
 * @throws MessageRefused where it is no list of sentences.
 */
export function leftOf(content: Content, client: string): Left | undefined {
  const records = separated(content, client);
  if (!records.has(LEFT)) return undefined;
  const { values } = recordOf(records, LEFT, "config", client);
  const sentences = (key: string): string[] => {
    const found: Value | undefined = values.get(key);
    const whole = Array.isArray(found) && found.length <= MOST && found.every((one) => typeof one === "string" && one.length <= LONGEST && !UNPRINTABLE.test(one));
    if (!whole) throw new MessageRefused(client, 0, LEFT, String(found).slice(0, 100), `${key}: ${MOST} printable sentences of ${LONGEST} characters at most`);
    return found as string[];
  };
  return { deleted: sentences("deleted"), remains: sentences("remains") };
}
