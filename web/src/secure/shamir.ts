// Shamir's secret sharing (How to Share a Secret, CACM 1979) over a prime field: a secret of 32 bytes is the
// value at 0 of a random polynomial; its values elsewhere are the shares.

import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";

/** The least prime above 2^256, which holds every secret. */
export const PRIME = 2n ** 256n + 297n;
export const SHARE_BYTES = 33;
/** Gives so many bytes that nobody can foretell. */
export type Entropy = (bytes: number) => Uint8Array;

/** One share for each of the holders, of which as many as the threshold give the secret back. */
export function split(secret: Uint8Array, threshold: number, holders: number, entropy: Entropy): Uint8Array[] {
  // 16 bytes beyond the field's: what the remainder favours nobody can see.
  const drawn = Array.from({ length: threshold - 1 }, () => whole(entropy(SHARE_BYTES + 16)) % PRIME);
  const polynomial = [whole(secret), ...drawn];
  const value = (at: bigint) => polynomial.reduceRight((sum, coefficient) => (sum * at + coefficient) % PRIME, 0n);
  return Array.from({ length: holders }, (_, i) => {
    return hexToBytes(value(BigInt(i + 1)).toString(16).padStart(2 * SHARE_BYTES, "0"));
  });
}

function whole(bytes: Uint8Array): bigint {
  return BigInt(`0x${bytesToHex(bytes)}`);
}
