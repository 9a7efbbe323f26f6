/** Standardisation from moments that people can sum: per feature, or per channel of windows. */
import { size, type Tensor } from "../tensors.js";

/** Sums from which a mean and a deviation follow. */
export interface Moments {
  /** Values per feature: samples, or samples x time. */
  readonly count: number;
  /** Sums of the values and of their squares, `[features]`. */
  readonly sum: Float64Array;
  readonly sumsq: Float64Array;
}

/** What is subtracted and what is divided by, `[features]`. */
export interface Scaling {
  readonly mean: Float32Array;
  readonly std: Float32Array;
}

/** A spread below this share of the mean is rounding noise of float32 itself. */
const NOISE = 1e-7;
/** float32's smallest normal number. */
const TINY = 2 ** -126;
/** A feature's spread counts as so much at least, of a full scale of 1. */
const LEAST_SPREAD = 2 ** -4;

/** The moments of `x [n, F]` or `[n, F, time]`. */
export function momentsOf(x: Tensor): Moments {
  const [n, features] = x.shape;
  const time = size(x.shape.slice(2));
  const rows = Array.from({ length: features }, (_, feature) => {
    return Float64Array.from({ length: n * time }, (_, i) => x.values[(Math.floor(i / time) * features + feature) * time + (i % time)]);
  });
  const sums = (of: (value: number) => number) => Float64Array.from(rows, (row) => pairwise(row.map(of)));
  return { count: n * time, sum: sums((value) => value), sumsq: sums((value) => value * value) };
}

/** The numbers of a moment in a row, as secure sums add them up. */
export function momentsVector({ count, sum, sumsq }: Moments): Float64Array {
  return Float64Array.of(count, ...sum, ...sumsq);
}

/** The sum of halves, and so on: an error of log(n) roundings, and the bits of NumPy's sums. */
function pairwise(values: Float64Array): number {
  const n = values.length;
  if (n > 128) {
    const half = Math.floor(n / 2) - (Math.floor(n / 2) % 8);
    return pairwise(values.subarray(0, half)) + pairwise(values.subarray(half));
  }
  const whole = n - (n % 8), lanes = values.slice(0, 8);
  if (n < 8) return values.reduce((sum, value) => sum + value, 0);
  for (let i = 8; i < whole; i++) lanes[i % 8] += values[i];
  const [a, b, c, d, e, f, g, h] = lanes;
  return values.subarray(whole).reduce((sum, value) => sum + value, a + b + (c + d) + (e + f + (g + h)));
}

/** Mean and deviation; a feature without spread has deviation 1. */
export function scalingOf({ count, sum, sumsq }: Moments): Scaling {
  const mean = sum.map((total) => total / count);
  const std = Float32Array.from(sumsq, (squares, i) => {
    const variance = squares / count - mean[i] ** 2;
    return variance <= (mean[i] * NOISE) ** 2 ? 1 : Math.sqrt(variance);
  });
  return { mean: Float32Array.from(mean), std: std.map((one) => (one < TINY ? 1 : one)) };
}

/** Mean and deviation of an encoder's features, which is no smaller than the least spread. */
export function featureScalingOf(moments: Moments): Scaling {
  const { mean, std } = scalingOf(moments);
  return { mean, std: std.map((one) => Math.max(one, LEAST_SPREAD)) };
}

/** `(x - mean) / std`, features in the second axis. */
export function standardised({ mean, std }: Scaling, x: Tensor): Tensor {
  const features = x.shape[1];
  const time = size(x.shape.slice(2));
  const values = x.values.map((value, i) => {
    const feature = Math.floor(i / time) % features;
    return Math.fround(value - mean[feature]) / std[feature];
  });
  return { shape: x.shape, values };
}
