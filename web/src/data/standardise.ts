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
  const sum = new Float64Array(features);
  const sumsq = new Float64Array(features);
  x.values.forEach((value, i) => {
    const feature = Math.floor(i / time) % features;
    sum[feature] += value;
    sumsq[feature] += value * value;
  });
  return { count: n * time, sum, sumsq };
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
