/** Joining a federation by an invitation's code, which never leaves the device. */
import { bytesToHex } from "@noble/hashes/utils.js";
import { deviceKey } from "./keys.js";

/** What a server says to a device that has joined. */
export interface Joined {
  /** The name by which the federation knows the person. */
  readonly client: string;
  readonly node: string;
  readonly federation: string;
}

/** Symbols of a code. */
const SYMBOLS = 20;
const PATH = "/v1/join";

/** A join that the server refused, or that got no answer that can be read. */
export class JoinRefused extends Error {
  override readonly name = "JoinRefused";

  constructor(
    readonly status: number,
    readonly detail: string,
  ) {
    super(`join: got HTTP ${status} (${detail.slice(0, 300)}), expected 200`);
  }
}

/** A code as everybody writes it: upper case, without hyphens and blanks, and without letters like digits; "" where it is none. */
export function plainCode(text: string): string {
  const plain = text.toUpperCase().replace(/[\s-]/g, "").replaceAll("O", "0").replace(/[IL]/g, "1");
  return plain.length === SYMBOLS && /^[0-9A-Z]+$/.test(plain) ? plain : "";
}

/** The body of a join; the same invitation, name and key make one that the server answers alike. */
export async function joinRequest(code: string, client: string, pair: CryptoKeyPair): Promise<Record<string, string>> {
  const key = new TextDecoder().decode((await deviceKey(pair)).publicPem);
  const derived = (use: string) => crypto.subtle.digest("SHA-256", bytes(`fedsub-join 1 ${use} ${code}`));
  const token = hex(await derived("token"));
  const sealing = await crypto.subtle.importKey("raw", await derived("seal"), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const seal = hex(await crypto.subtle.sign("HMAC", sealing, bytes(`${client}\n${key}`)));
  const text = ["fedsub-join 1", token, client, seal, key].join("\n");
  const signature = hex(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-384" }, pair.privateKey, bytes(text)));
  return { client, key, token, seal, signature };
}

/**
 * Join at the page's own origin.
 *
 * @throws JoinRefused where the server refuses, TypeError where it cannot be reached.
 */
export async function join(code: string, client: string, pair: CryptoKeyPair): Promise<Joined> {
  const body = JSON.stringify(await joinRequest(code, client, pair));
  const answer = await fetch(PATH, { method: "POST", headers: { "content-type": "application/json" }, body });
  const found = (await answer.json().catch(() => ({}))) as Record<string, unknown>;
  const { client: name, node, federation, detail } = found;
  if (answer.status !== 200) throw new JoinRefused(answer.status, String(detail));
  if (typeof name !== "string" || typeof node !== "string" || typeof federation !== "string") throw new JoinRefused(answer.status, "an answer without name, node and federation");
  return { client: name, node, federation };
}

function bytes(text: string) {
  return new TextEncoder().encode(text);
}

function hex(data: ArrayBuffer): string {
  return bytesToHex(new Uint8Array(data));
}
