/** A device's private key in a file: OpenSSH's format, as `fedsub` and `ssh-keygen` write it. */
import { readFileSync } from "node:fs";
import { RunError } from "../errors.js";

const LIMITS = /-----BEGIN OPENSSH PRIVATE KEY-----([\s\S]+?)-----END OPENSSH PRIVATE KEY-----/;
const MAGIC = "openssh-key-v1\0";
/** Bytes of a number of P-384. */
const WIDTH = 48;

/**
 * The key pair in a file.
 *
 * @throws RunError where it is no P-384 key that is not encrypted.
 */
export async function readKeyPair(path: string): Promise<CryptoKeyPair> {
  try {
    const text = LIMITS.exec(readFileSync(path, "utf8"))?.[1];
    if (text === undefined) throw new Error("no key in OpenSSH's format");
    const { x, y, d } = numbersOf(Buffer.from(text, "base64"));
    const curve = { name: "ECDSA", namedCurve: "P-384" };
    const open = { kty: "EC", crv: "P-384", x: x.toString("base64url"), y: y.toString("base64url") };
    const publicKey = await crypto.subtle.importKey("jwk", open, curve, true, ["verify"]);
    const privateKey = await crypto.subtle.importKey("jwk", { ...open, d: d.toString("base64url") }, curve, false, ["sign"]);
    return { publicKey, privateKey };
  } catch (error) {
    throw new RunError(`key ${path}: got ${error instanceof Error ? error.message : String(error)}, expected a private key of curve P-384, not encrypted: ssh-keygen -t ecdsa -b 384 -N ""`);
  }
}

interface Numbers {
  readonly x: Buffer;
  readonly y: Buffer;
  readonly d: Buffer;
}

function numbersOf(bytes: Buffer): Numbers {
  let at = MAGIC.length;
  const next = () => {
    const length = bytes.readUInt32BE(at);
    at += 4 + length;
    if (at > bytes.length) throw new Error("a file that is cut off");
    return bytes.subarray(at - length, at);
  };
  if (bytes.subarray(0, at).toString("latin1") !== MAGIC) throw new Error("another format");
  if (next().toString() !== "none") throw new Error("an encrypted key");
  next(); // how a password makes a key
  next();
  at += 4; // how many keys
  next(); // the public key, which follows again
  bytes = next();
  at = 8; // two numbers that show that a password was right
  if (next().toString() !== "ecdsa-sha2-nistp384") throw new Error("a key of another kind");
  next();
  const point = next();
  const secret = next();
  if (point.length !== 1 + 2 * WIDTH || point[0] !== 4) throw new Error("a point in another form");
  const d = Buffer.alloc(WIDTH);
  const digits = secret.subarray(Math.max(secret.length - WIDTH, 0));
  digits.copy(d, WIDTH - digits.length);
  return { x: point.subarray(1, 1 + WIDTH), y: point.subarray(1 + WIDTH), d };
}
