/** NumPy's default generator, PCG64, seeded as `numpy.random.default_rng` does: of it, permutations. */

const MASK32 = 0xffffffffn;
const MASK64 = (1n << 64n) - 1n;
const MASK128 = (1n << 128n) - 1n;
const MULTIPLIER = 0x2360ed051fc65da44385df649fccf645n;

/** A stream of random numbers. */
export class Pcg64 {
  private state: bigint;
  private readonly increment: bigint;
  /** The upper half of the last number, where its lower half alone was used. */
  private rest: number | undefined;

  /** @param seed 0 to 2^64 - 1. */
  constructor(seed: bigint) {
    const words = seedWords(seed, 8);
    const [high, low, incHigh, incLow] = [0, 2, 4, 6].map((i) => BigInt(words[i]) | (BigInt(words[i + 1]) << 32n));
    this.increment = ((((incHigh << 64n) | incLow) << 1n) | 1n) & MASK128;
    this.state = 0n;
    this.step();
    this.state = (this.state + ((high << 64n) | low)) & MASK128;
    this.step();
  }

  private step(): void {
    this.state = (this.state * MULTIPLIER + this.increment) & MASK128;
  }

  private next64(): bigint {
    this.step();
    const { state } = this;
    const mixed = (state >> 64n) ^ (state & MASK64);
    const turn = state >> 122n;
    return ((mixed >> turn) | (mixed << (64n - turn))) & MASK64;
  }

  private next32(): number {
    if (this.rest !== undefined) {
      const { rest } = this;
      this.rest = undefined;
      return rest;
    }
    const both = this.next64();
    this.rest = Number(both >> 32n);
    return Number(both & MASK32);
  }

  /** A number from 0 to `most`, below 2^31, each alike: lower bits, until they are not above it. */
  private upTo(most: number): number {
    const mask = 2 ** (32 - Math.clz32(most)) - 1;
    for (;;) {
      const drawn = (this.next32() & mask) >>> 0;
      if (drawn <= most) return drawn;
    }
  }

  /** A number from 0 to n - 1, each alike; n is below 2^31. */
  below(n: number): number {
    return this.upTo(n - 1);
  }

  /** The values in random order: `Generator.permutation` of an array of one axis. */
  permutation(values: readonly number[]): number[] {
    const order = [...values];
    for (let i = order.length - 1; i > 0; i--) {
      const j = this.upTo(i);
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }
}

/** Words of 32 bits that NumPy's `SeedSequence` makes of a seed. */
function seedWords(seed: bigint, count: number): Uint32Array {
  const entropy = [Number(seed & MASK32)];
  if (seed >> 32n) entropy.push(Number(seed >> 32n));
  const pool = new Uint32Array(4);
  let hash = 0x43b0d7e5;
  const hashed = (value: number, multiplier: number) => {
    const mixed = value ^ hash;
    hash = Math.imul(hash, multiplier);
    const product = Math.imul(mixed, hash);
    return (product ^ (product >>> 16)) >>> 0;
  };
  const mix = (x: number, y: number) => {
    const mixed = (Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y)) | 0;
    return (mixed ^ (mixed >>> 16)) >>> 0;
  };
  for (let i = 0; i < 4; i++) pool[i] = hashed(entropy.at(i) ?? 0, 0x931e8875);
  for (let from = 0; from < 4; from++) {
    for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mix(pool[to], hashed(pool[from], 0x931e8875));
  }
  hash = 0x8b51f9dd;
  return Uint32Array.from({ length: count }, (_, i) => hashed(pool[i % 4], 0x58f38ded));
}
