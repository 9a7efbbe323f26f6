/** A device's key, P-384 in WebCrypto, by which a SuperLink knows it. */

/** Signs for a device; the private key need not be extractable. */
export interface DeviceKey {
  /** The public key in PEM. */
  readonly publicPem: Uint8Array;
  /** An ECDSA signature with SHA-256 in DER. */
  readonly sign: (bytes: Uint8Array) => Promise<Uint8Array>;
}

const CURVE = { name: "ECDSA", namedCurve: "P-384" };

/** A new key pair whose private key never leaves WebCrypto; a page keeps it in IndexedDB. */
export async function newKeyPair(): Promise<CryptoKeyPair> {
  return crypto.subtle.generateKey(CURVE, false, ["sign", "verify"]);
}

/** What signs with a key pair. */
export async function deviceKey(pair: CryptoKeyPair): Promise<DeviceKey> {
  const spki = new Uint8Array(await crypto.subtle.exportKey("spki", pair.publicKey));
  const lines = base64(spki).match(/.{1,64}/g)!.join("\n");
  const publicPem = new TextEncoder().encode(`-----BEGIN PUBLIC KEY-----\n${lines}\n-----END PUBLIC KEY-----\n`);
  const how = { name: "ECDSA", hash: "SHA-256" };
  const sign = async (bytes: Uint8Array) => der(new Uint8Array(await crypto.subtle.sign(how, pair.privateKey, bytes.slice())));
  return { publicPem, sign };
}

/** A signature's two numbers, 48 bytes each, in DER. */
function der(numbers: Uint8Array): Uint8Array {
  const half = numbers.length / 2;
  const parts = [numbers.subarray(0, half), numbers.subarray(half)].flatMap((number) => {
    const first = number.findIndex((byte) => byte !== 0);
    const digits = first < 0 ? [0] : [...number.subarray(first)];
    if (digits[0] & 0x80) digits.unshift(0);
    return [0x02, digits.length, ...digits];
  });
  return Uint8Array.from([0x30, parts.length, ...parts]);
}

/** Bytes in base64. */
export function base64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
