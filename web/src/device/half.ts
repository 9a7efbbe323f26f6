/** The device half of one method in a run, with the person's samples as it sees them. */
import { seenParts, type SeenParts, type Shared, type Sight } from "../data/seen.js";
import type { Person } from "../data/person.js";
import { split, type Split } from "../data/splits.js";
import { buildEncoder } from "../encoders/build.js";
import { CompiledKernels } from "../encoders/compiled-kernels.js";
import { resolveEncoder } from "../encoders/names.js";
import { RunError } from "../errors.js";
import type { Learner, Method, Run, State } from "../methods/method.js";
import { methodNamed } from "../methods/table.js";
import { sameShape } from "../tensors.js";
import type { Kernels } from "../training/kernels.js";
import { type Encoding, parseEncoding } from "../wire/encoding.js";
import { OwnHead, ownEncoder } from "./own-heads.js";
import type { Settings } from "./settings.js";

/** A method of a run on a person's samples. */
export class Half {
  readonly method: Method;
  readonly learner: Learner;
  readonly split: Split;
  readonly sight: Sight;
  /** Of uploads. */
  readonly encoding: Encoding;
  readonly ownHead: OwnHead;
  private seen: { readonly shared: Shared; readonly parts: SeenParts } | undefined;

  /** @throws RunError where the run has no such method, or it does not fit the samples. */
  constructor(
    readonly settings: Settings,
    name: string,
    readonly person: Person,
    kernels: Kernels,
  ) {
    const method = methodNamed(name);
    if (!method || !settings.methods.includes(name)) throw new RunError(`client ${person.client}: asked to train ${name}, expected ${settings.methods.join(", ")}`);
    this.method = method;
    const { x, card, client } = person;
    const { seed } = settings;
    const shape = x.shape.slice(1);
    const text = settings.text("encoder", "auto");
    const context = { seed, shape, sensors: card.sensors ?? [], capacity: 1, kernels: new CompiledKernels(kernels) };
    const encoder = buildEncoder(resolveEncoder(text, method.encodes, shape), context);
    this.sight = { standardise: settings.text("standardise"), encoder, trains: method.trains };
    this.split = split(person, settings.text("split"), settings.number("test-share"), seed);
    this.ownHead = new OwnHead(person, this.split, this.sight.standardise, ownEncoder(text, context));
    const run: Run = { settings, client, classes: card.classes.length, shape: encoder ? [encoder.features] : shape, seed, kernels };
    this.learner = method.learner(run);
    this.encoding = parseEncoding(settings.text("upload-encoding", "float32"));
  }

  /** Whether devices of the run share their sums for a standardisation. */
  get shares(): boolean {
    return this.sight.standardise.startsWith("federation");
  }

  /** The person's parts, as the method sees them by the federation's standardisation. */
  parts(shared: Shared): SeenParts {
    const same = this.seen && equal(this.seen.shared, shared);
    this.seen = this.seen && same ? this.seen : { shared, parts: seenParts(this.person, this.split, this.sight, shared) };
    return this.seen.parts;
  }

  /** Whether a state has the tensors of this half, such as one of the same model. */
  fits(state: State): boolean {
    return Object.entries(this.learner.first()).every(([name, tensor]) => name in state && sameShape(state[name].shape, tensor.shape));
  }
}

function equal(a: Shared, b: Shared): boolean {
  const numbers = ({ samples, features }: Shared) => [samples, features].map((one) => (one ? [[...one.mean], [...one.std]] : null));
  return JSON.stringify(numbers(a)) === JSON.stringify(numbers(b));
}
