// Rounding as IEEE 754 and NumPy have it.

const WHOLE_FROM = 2 ** 52;

/** The nearest whole number; halves go to the even one. */
export function rint(value: number): number {
  if (!(Math.abs(value) < WHOLE_FROM)) return value;
  // Beyond 2^52 floats have no fractions: what is added rounds.
  return value < 0 ? -(-value + WHOLE_FROM - WHOLE_FROM) : value + WHOLE_FROM - WHOLE_FROM;
}
