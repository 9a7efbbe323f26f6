/** Models as chains of layers: their parameters by name, and how the kernels see them. */
import { RunError } from "../errors.js";
import { Twister } from "../random/twister.js";
import { deriveSeed } from "../random/seeds.js";
import { size, type Tensor, type Tensors } from "../tensors.js";

/** Kinds of layers, as the kernels number them. */
export const AFFINE = 0;
export const MAX_POOL = 1;
export const MEAN_POOL = 2;

/** A layer sees `[channels, length]` numbers of a sample and makes `[units, made]`. */
export interface Layer {
  /** Of its parameters; "" has none. */
  readonly name: string;
  readonly kind: number;
  readonly channels: number;
  readonly length: number;
  readonly units: number;
  readonly made: number;
  readonly kernel: number;
  readonly stride: number;
  readonly padding: number;
  readonly relu: boolean;
}

/** A model for samples of one shape. */
export interface Chain {
  readonly layers: readonly Layer[];
  readonly classes: number;
  /** Shapes of parameters by name, from input to output, weights before biases. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
}

/** Names of the layers with parameters, from input to output. */
export function layerNames(chain: Chain): string[] {
  return chain.layers.filter((layer) => layer.kind === AFFINE).map((layer) => layer.name);
}

/** Names of the parameters of some layers, in the order of the model. */
export function parametersOf(chain: Chain, layers: readonly string[]): string[] {
  return [...chain.shapes.keys()].filter((name) => layers.includes(name.slice(0, name.lastIndexOf("."))));
}

/**
 * Names of the last `layers` layers with parameters, the head, and of the others, the body.
 *
 * @throws RunError where either would be empty.
 */
export function headAndBody(chain: Chain, layers: number): { readonly head: string[]; readonly body: string[] } {
  const names = layerNames(chain);
  if (!(layers > 0 && layers < names.length)) {
    throw new RunError(`head-layers: got ${layers}, expected 1 to ${names.length - 1}: body and head both need one`);
  }
  return { head: names.slice(-layers), body: names.slice(0, -layers) };
}

function linear(name: string, inputs: number, units: number, relu: boolean): Layer {
  return { name, kind: AFFINE, channels: inputs, length: 1, units, made: 1, kernel: 1, stride: 1, padding: 0, relu };
}

function conv(name: string, channels: number, length: number, units: number, how: readonly [number, number, number]): Layer {
  const [kernel, stride, padding] = how;
  const made = Math.floor((length + 2 * padding - kernel) / stride) + 1;
  return { name, kind: AFFINE, channels, length, units, made, kernel, stride, padding, relu: true };
}

function pool(kind: number, channels: number, length: number, window: number): Layer {
  return { name: "", kind, channels, length, units: channels, made: length / window, kernel: window, stride: window, padding: 0, relu: false };
}

function chained(layers: readonly Layer[], classes: number): Chain {
  const shapes = new Map<string, readonly number[]>();
  for (const layer of layers) {
    if (layer.kind !== AFFINE) continue;
    const joined = layer.kernel === 1 && layer.length === 1;
    shapes.set(`${layer.name}.weight`, joined ? [layer.units, layer.channels] : [layer.units, layer.channels, layer.kernel]);
    shapes.set(`${layer.name}.bias`, [layer.units]);
  }
  return { layers, classes, shapes };
}

/**
 * The model called `kind` for samples of `shape`.
 *
 * @param hidden units of each hidden layer of `mlp`, with commas.
 * @throws RunError for another kind, or where it cannot take such samples.
 */
export function buildModel(kind: string, shape: readonly number[], classes: number, hidden: string): Chain {
  const named = kind === "auto" ? (shape.length === 1 ? "mlp" : "cnn1d") : kind;
  if (named === "mlp" || named === "linear") {
    const units = named === "linear" ? [] : hidden.split(",").map((part) => part.trim()).filter(Boolean).map(Number);
    if (!units.every((one) => Number.isInteger(one) && one > 0 && one <= 65536)) throw new RunError(`hidden: got ${hidden}, expected whole numbers with commas`);
    const sizes = [size(shape), ...units, classes];
    return chained(sizes.slice(1).map((made, i) => linear(`linear${i + 1}`, sizes[i], made, i < units.length)), classes);
  }
  if (named !== "cnn1d") throw new RunError(`model: got ${kind}, expected auto, mlp, cnn1d or linear: this device has no other`);
  if (shape.length !== 2 || shape[1] < 32) throw new RunError(`model cnn1d: got samples [${shape.join()}], expected windows [channels, 32 or more]`);
  return cnn1d(shape[0], shape[1], classes);
}

function cnn1d(channels: number, time: number, classes: number): Chain {
  const first = conv("conv1", channels, time, 32, [7, 2, 3]);
  const pooled = Math.floor(first.made / 2);
  const second = conv("conv2", 32, pooled, 64, [5, 1, 2]);
  if (first.made % 2 || second.made % 4) {
    throw new RunError(`model cnn1d: got windows of ${time} samples, expected a length that its poolings divide, such as ${Math.max(Math.round(time / 16), 2) * 16}: this device's kernels know no others`);
  }
  const layers = [first, pool(MAX_POOL, 32, first.made, 2), second, pool(MEAN_POOL, 64, second.made, second.made / 4)];
  return chained([...layers, linear("linear1", 256, 128, true), linear("linear2", 128, classes, false)], classes);
}

/** The model that all devices of a run begin with. */
export function firstModel(chain: Chain, seed: bigint): Tensors {
  const stream = new Twister(deriveSeed(seed, "", 0, "model"));
  const made: Record<string, Tensor> = {};
  let bound = 0;
  for (const [name, shape] of chain.shapes) {
    // A bias has the bound of its layer's weights, which come before it.
    if (name.endsWith(".weight")) bound = Math.fround(1 / Math.sqrt(size(shape.slice(1))));
    const values = Float32Array.from({ length: size(shape) }, () => {
      const share = (stream.next() & 0xffffff) * 2 ** -24;
      return Math.fround(Math.fround(2 * share) - 1) * bound;
    });
    made[name] = { shape, values };
  }
  return made;
}
