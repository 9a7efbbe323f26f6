/** A device's receipts of secure sums, a file for each run, as Python's devices name and write them. */
import { blake2b } from "@noble/hashes/blake2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

/** The name of the file of a run's receipts. */
export function receiptsFile(run: string): string {
  return `receipts-${bytesToHex(blake2b(new TextEncoder().encode(run), { dkLen: 8 }))}.jsonl`;
}
