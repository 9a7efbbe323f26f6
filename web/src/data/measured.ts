/** One measurement: seconds since 1970, and a value of each feature. */
export interface Measured {
  readonly t: number;
  readonly x: readonly number[];
}
