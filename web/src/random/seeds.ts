/** Randomness as an argument: every stream has a seed derived from what it is for. */
import { blake2b } from "@noble/hashes/blake2.js";

/** The seed of a stream, 0 to 2^63 - 1, for a run's seed, a client ("" is the server), a round and a purpose. */
export function deriveSeed(seed: bigint, client: string, round: number, purpose: string): bigint {
  const text = [seed, client, round, purpose].join("\x1f");
  const digest = blake2b(new TextEncoder().encode(text), { dkLen: 8 });
  return new DataView(digest.buffer, digest.byteOffset).getBigUint64(0, true) >> 1n;
}
