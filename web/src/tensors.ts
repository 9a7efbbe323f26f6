/** Arrays of numbers with shapes, row-major, as on the wire and in a device's state. */

/** Numbers of a kind that a state may keep. */
export type Numbers = Float32Array | Float64Array | Int32Array | BigInt64Array | Uint8Array | Int8Array | Int16Array;

/** Values `[*shape]`, row-major. */
export interface Tensor<Values extends Numbers = Float32Array> {
  readonly shape: readonly number[];
  readonly values: Values;
}

/** Tensors by name. */
export type Tensors = Readonly<Record<string, Tensor>>;

/** How many numbers a tensor of `shape` has. */
export function size(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

/** A tensor of zeros. */
export function zeros(shape: readonly number[]): Tensor {
  return { shape, values: new Float32Array(size(shape)) };
}

/** A copy that can change on its own. */
export function copied(tensor: Tensor): Tensor {
  return { shape: tensor.shape, values: tensor.values.slice() };
}

/** Whether two shapes are the same. */
export function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((length, axis) => length === b[axis]);
}
