// Keys of one sum: pairs agree on secrets, seal messages to each other, and expand seeds to masks. X25519
// (RFC 7748), HKDF with SHA-256 (RFC 5869), ChaCha20 and ChaCha20-Poly1305 (RFC 8439).

import { chacha20, chacha20poly1305 } from "@noble/ciphers/chacha.js";
import { x25519 } from "@noble/curves/ed25519.js";
import { hkdf } from "@noble/hashes/hkdf.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import type { Words } from "./quantise.js";

export { bytesToHex as hex, concatBytes as joined, hexToBytes as unhex, utf8ToBytes as bytes };

export const KEY_BYTES = 32, TAG_BYTES = 16;
/** Each key seals one message, so that its number may always be the same. */
const NONCE = new Uint8Array(12);

/** Two public keys, and what a self mask's seed is held to: 96 bytes. */
export interface Keys {
  /** For shares, for masks of pairs; and the hash of the seed. */
  readonly seal: Uint8Array;
  readonly mask: Uint8Array;
  readonly commitment: Uint8Array;
}

/** The keys in 96 bytes. */
export function keysIn(joined: Uint8Array): Keys {
  const [seal, mask, commitment] = [0, 1, 2].map((i) => joined.slice(i * KEY_BYTES, (i + 1) * KEY_BYTES));
  return { seal, mask, commitment };
}

/** The 96 bytes that somebody with these secrets shows. */
export function shownOf(seal: Uint8Array, mask: Uint8Array, seed: Uint8Array): Uint8Array {
  const commitment = sha256(concatBytes(utf8ToBytes("fedsub self mask"), seed));
  return concatBytes(x25519.getPublicKey(seal), x25519.getPublicKey(mask), commitment);
}

/**
 * The 32 bytes that the owners of two key pairs alone know, for one purpose.
 *
 * @throws Error if the other's key is none that anybody's secret leads to.
 */
export function agreed(own: Uint8Array, others: Uint8Array, purpose: string): Uint8Array {
  return hkdf(sha256, x25519.getSharedSecret(own, others), undefined, utf8ToBytes(purpose), KEY_BYTES);
}

/** A message that the key's holders alone can read, and nobody else can change. */
export function seal(key: Uint8Array, message: Uint8Array, about: string): Uint8Array {
  return chacha20poly1305(key, NONCE, utf8ToBytes(about)).encrypt(message);
}

/**
 * Inverse of `seal`.
 *
 * @throws Error if it was sealed with another key or about something else, or was changed.
 */
export function unseal(key: Uint8Array, sealed: Uint8Array, about: string): Uint8Array {
  return chacha20poly1305(key, NONCE, utf8ToBytes(about)).decrypt(sealed);
}

/** Add a seed's mask to a vector, or take it away: ChaCha20's stream as words, little-endian. */
export function mask(vector: Words, seed: Uint8Array, sign: 1 | -1): void {
  const stream = new DataView(chacha20(seed, NONCE, new Uint8Array(4 * vector.length)).buffer);
  for (let i = 0; i < vector.length; i++) vector[i] += sign * stream.getUint32(4 * i, true);
}

/** A vector's words, little-endian. */
export function wordBytes(vector: Words): Uint8Array {
  const view = new DataView(new ArrayBuffer(4 * vector.length));
  vector.forEach((word, i) => {
    view.setUint32(4 * i, word, true);
  });
  return new Uint8Array(view.buffer);
}
