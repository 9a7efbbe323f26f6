// Numbers of any size as whole words, so that their sum under masks is exact: fixed-point numbers of 480
// bits, cut into words of 16 bits.

import type { Words } from "./quantise.js";

/** Words of a number, bits of a word, bits behind the point, and the size below which numbers must be. */
const LIMBS = 30, LIMB_BITS = 16n, FRACTION_BITS = 320, LARGEST = 2 ** 142;

/**
 * Numbers `[n]` as words `[30 n]`, each below 2^16.
 *
 * @throws RangeError if one is not finite, or not below 2^142 in size.
 */
export function wordsOf(numbers: Float64Array): Words {
  const found = new Uint32Array(numbers.length * LIMBS);
  numbers.forEach((number, i) => {
    if (!(Math.abs(number) < LARGEST)) throw new RangeError(`got ${number}, expected numbers below 2^142`);
    let fixed = BigInt.asUintN(LIMBS * 16, fixedPoint(number));
    for (let k = 0; k < LIMBS; k++, fixed >>= LIMB_BITS) found[i * LIMBS + k] = Number(fixed & 0xffffn);
  });
  return found;
}

/** A number times 2^320, rounded, halves to the even number. */
function fixedPoint(number: number): bigint {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, number);
  const exponent = Number((bits.getBigUint64(0) >> 52n) & 0x7ffn), fraction = bits.getBigUint64(0) & (2n ** 52n - 1n);
  const digits = exponent === 0 ? fraction : fraction | (1n << 52n);
  const shift = Math.max(exponent, 1) - 1075 + FRACTION_BITS;
  const size = shift >= 0 ? digits << BigInt(shift) : halvedEven(digits, BigInt(-shift));
  return number < 0 ? -size : size;
}

function halvedEven(digits: bigint, times: bigint): bigint {
  const whole = digits >> times, rest = digits - (whole << times), half = 1n << (times - 1n);
  return rest > half || (rest === half && whole & 1n) ? whole + 1n : whole;
}
