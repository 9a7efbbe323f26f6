/** Training and forward passes by the kernels, for one person: calls of `libfedsub` on copies of tensors. */
import { AFFINE, type Chain } from "../models/chain.js";
import { size, type Tensor, type Tensors } from "../tensors.js";
import { CallMemory, type Exports, type Word } from "./memory.js";

/** A person's samples as a model sees them. */
export interface Samples {
  /** float32 `[n, *features]`. */
  readonly x: Tensor;
  /** Labels `[n]`. */
  readonly y: Int32Array;
}

/** A pull to an anchor: `weight / 2 * sum((p - anchor)^2)`. */
export interface Pull {
  readonly anchor: Tensors;
  readonly weight: number;
}

/** How stochastic gradient descent goes on. */
export interface Descent {
  readonly batch: number;
  /** Of the epoch, from its first batch on anew; 0: one for each batch. */
  readonly steps: number;
  readonly momentum: number;
  readonly rate: number;
  readonly decay: number;
  readonly pull: Pull | undefined;
}

/** Numbers of a structure for absent floats. */
const ABSENT: readonly Word[] = [0, 0, 0];

interface Part {
  readonly values: number;
  readonly words: readonly Word[];
}

/** What a device computes with, on one person's samples. */
export class Kernels {
  constructor(readonly exports: Exports) {}

  /** Run something with buffers of its own. */
  within<T>(run: (memory: CallMemory) => T): T {
    const memory = new CallMemory(this.exports);
    try {
      return run(memory);
    } finally {
      memory.release();
    }
  }

  /** Logits `[n, classes]` of samples. */
  forward(chain: Chain, params: Tensors, x: Tensor): Tensor {
    const n = x.shape[0];
    if (n === 0) return { shape: [0, chain.classes], values: new Float32Array(0) };
    return this.within((memory) => {
      const { at } = this.chain(memory, chain, params);
      const made = n * chain.classes;
      const out = memory.room(4 * made);
      const counts = memory.place(BigInt64Array.of(BigInt(n)));
      const samples = memory.structure([1, n, 0, counts, 1, 0, ...this.x(memory, x), ...ABSENT, ...ABSENT, ...ABSENT]);
      memory.check(this.exports.fedsub_forward(at, samples, memory.structure([out, made, 0])));
      return { shape: [n, chain.classes], values: memory.floats(out, made) };
    });
  }

  /**
   * Parameters after epochs of descent, and the mean cross-entropy of their steps.
   *
   * @param trained layers that are trained; the others stay to the bit.
   * @param orders of the samples in each epoch.
   */
  descend(
    chain: Chain,
    params: Tensors,
    samples: Samples,
    trained: readonly string[],
    orders: readonly BigInt64Array[],
    how: Descent,
  ): { readonly params: Tensors; readonly loss: number } {
    return this.within((memory) => {
      const n = samples.y.length;
      const { at, parts } = this.chain(memory, chain, params, trained, how.pull);
      const x = this.x(memory, samples.x);
      const y = memory.place(BigInt64Array.from(samples.y, BigInt));
      const counts = memory.place(BigInt64Array.of(BigInt(n)));
      const weight = memory.place(batchWeights(n, how.batch));
      const loss = memory.room(4);
      const floats: Word[] = [[how.momentum, how.rate], [how.decay, how.pull?.weight ?? 0], [0, 0]];
      const steps = memory.structure([how.batch, how.steps, 1, ...floats, ...ABSENT, ...ABSENT, ...ABSENT, loss, 1, 1]);
      for (const order of orders) {
        const own = memory.structure([1, n, n, counts, 1, 0, ...x, y, n, 0, memory.place(order), n, 0, weight, n, 0]);
        memory.check(this.exports.fedsub_descend(at, own, steps));
      }
      const changed = [...parts].map(([name, part]) => [name, { shape: params[name].shape, values: memory.floats(part.values, size(params[name].shape)) }]);
      const count = how.steps ? how.steps * orders.length : orders.length * Math.ceil(n / how.batch);
      return { params: { ...params, ...(Object.fromEntries(changed) as Tensors) }, loss: Math.fround(memory.floats(loss, 1)[0] / count) };
    });
  }

  /** The address of a chain with its parameters, and the parts that are trained, by name. */
  chain(memory: CallMemory, chain: Chain, params: Tensors, trained: readonly string[] = [], pull?: Pull): { readonly at: number; readonly parts: Map<string, Part> } {
    const parts = new Map<string, Part>();
    const words = chain.layers.flatMap((layer): Word[] => {
      const own = trained.includes(layer.name);
      const part = (what: string): readonly Word[] => {
        if (layer.kind !== AFFINE) return [...ABSENT, ...ABSENT, ...ABSENT, ...ABSENT, ...ABSENT];
        const name = `${layer.name}.${what}`;
        const made = placed(memory, params[name].values, own, own ? pull?.anchor[name]?.values : undefined);
        if (own) parts.set(name, made);
        return made.words;
      };
      const { kind, channels, length, units, made, kernel, stride, padding } = layer;
      return [kind, channels, length, units, made, kernel, stride, padding, Number(layer.relu), Number(own), ...part("weight"), ...part("bias")];
    });
    return { at: memory.structure([chain.layers.length, memory.structure(words)]), parts };
  }

  private x(memory: CallMemory, x: Tensor): readonly Word[] {
    return [memory.place(x.values), x.values.length, 0];
  }
}

function placed(memory: CallMemory, values: Float32Array, trained: boolean, anchor: Float32Array | undefined): Part {
  const at = memory.place(values);
  const floats = (address: number): readonly Word[] => [address, values.length, 0];
  const into = trained ? floats(memory.room(values.byteLength)) : ABSENT;
  const toward = anchor ? floats(memory.place(anchor)) : ABSENT;
  return { values: at, words: [...floats(at), ...into, ...toward, ...ABSENT, ...ABSENT] };
}

/** Each place's share in its batch's mean, `[n]`. */
function batchWeights(n: number, batch: number): Float32Array {
  const full = Math.floor(n / batch) * batch;
  return Float32Array.from({ length: n }, (_, i) => 1 / (i < full ? batch : n - full));
}
