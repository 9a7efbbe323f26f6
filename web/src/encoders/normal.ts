// The standard normal distribution's quantile: algorithm AS 241, PPND16 (Wichura, Applied
// Statistics 37, 1988), exact to about 16 digits.

type Coefficients = readonly number[];

/** Of the middle, of the tails, and of the far tails: numerator and denominator, lowest power first. */
const MIDDLE: readonly [Coefficients, Coefficients] = [
  [
    3.3871328727963665, 133.14166789178438, 1971.5909503065513,
    13731.69376550946, 45921.95393154987, 67265.7709270087,
    33430.57558358813, 2509.0809287301227,
  ],
  [
    1, 42.31333070160091, 687.1870074920579, 5394.196021424751,
    21213.794301586597, 39307.89580009271, 28729.085735721943,
    5226.495278852854,
  ],
];
const TAIL: readonly [Coefficients, Coefficients] = [
  [
    1.4234371107496835, 4.630337846156546, 5.769497221460691,
    3.6478483247632045, 1.2704582524523684, 0.2417807251774506,
    0.022723844989269184, 0.0007745450142783414,
  ],
  [
    1, 2.053191626637759, 1.6763848301838038, 0.6897673349851,
    0.14810397642748008, 0.015198666563616457, 0.0005475938084995345,
    1.0507500716444169e-09,
  ],
];
const FAR: readonly [Coefficients, Coefficients] = [
  [
    6.657904643501103, 5.463784911164114, 1.7848265399172913,
    0.29656057182850487, 0.026532189526576124, 0.0012426609473880784,
    2.7115555687434876e-05, 2.0103343992922881e-07,
  ],
  [
    1, 0.599832206555888, 0.1369298809227358, 0.014875361290850615,
    0.0007868691311456133, 1.8463183175100548e-05, 1.421511758316446e-07,
    2.0442631033899397e-15,
  ],
];

/** The number below which a standard normal one is with a probability, which is between 0 and 1. */
export function normalQuantile(probability: number): number {
  const away = probability - 0.5;
  if (Math.abs(away) <= 0.425) return away * ratio(MIDDLE, 0.180625 - away * away);
  const root = Math.sqrt(-Math.log(away < 0 ? probability : 1 - probability));
  const size = root <= 5 ? ratio(TAIL, root - 1.6) : ratio(FAR, root - 5);
  return away < 0 ? -size : size;
}

function ratio([above, below]: readonly [Coefficients, Coefficients], x: number): number {
  return polynomial(above, x) / polynomial(below, x);
}

function polynomial(coefficients: Coefficients, x: number): number {
  return coefficients.reduceRight((value, coefficient) => value * x + coefficient, 0);
}
