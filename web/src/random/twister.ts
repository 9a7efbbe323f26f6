/** The Mersenne Twister MT19937, seeded by a whole number of 32 bits, as PyTorch's and NumPy's. */

const SIZE = 624;
const AHEAD = 397;

/** A stream of whole numbers of 32 bits. */
export class Twister {
  private readonly state = new Uint32Array(SIZE);
  private at = SIZE;

  /** @param seed whose lower 32 bits count. */
  constructor(seed: bigint) {
    const { state } = this;
    state[0] = Number(seed & 0xffffffffn);
    for (let i = 1; i < SIZE; i++) {
      state[i] = Math.imul(1812433253, state[i - 1] ^ (state[i - 1] >>> 30)) + i;
    }
  }

  /** The next number, 0 to 2^32 - 1. */
  next(): number {
    if (this.at === SIZE) this.twist();
    let y = this.state[this.at++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  private twist(): void {
    const { state } = this;
    for (let i = 0; i < SIZE; i++) {
      const y = (state[i] & 0x80000000) | (state[(i + 1) % SIZE] & 0x7fffffff);
      state[i] = state[(i + AHEAD) % SIZE] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.at = 0;
  }

  /** A permutation of 0 to `count` - 1: PyTorch's `randperm`. */
  permutation(count: number): BigInt64Array {
    const order = BigInt64Array.from({ length: count }, (_, i) => BigInt(i));
    for (let i = 0; i < count - 1; i++) {
      const j = i + (this.next() % (count - i));
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }
}
