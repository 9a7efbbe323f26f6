/** A person's own model at work: what it says of the last window. */
import { atRate, cutOf, gapOf } from "../data/cut.js";
import { seeing } from "../data/seen.js";
import type { Person } from "../data/person.js";
import { strongest } from "../device/evaluation.js";
import { Half } from "../device/half.js";
import type { OwnModel } from "../device/owner.js";
import { Settings } from "../device/settings.js";
import type { Tensor } from "../tensors.js";
import { Kernels } from "../training/kernels.js";
import type { Exports } from "../training/memory.js";
import type { Measured } from "../data/measured.js";

/** Says the class of measurements as they come. */
export class Predictor {
  private readonly half: Half;
  private readonly see: (x: Tensor) => Tensor;

  /** @throws RunError where the model does not fit the person's samples. */
  constructor(
    private readonly model: OwnModel,
    private readonly person: Person,
    exports: Exports,
  ) {
    this.half = new Half(new Settings(model.settings), model.method, person, new Kernels(exports));
    const { split, sight } = this.half;
    this.see = seeing(person, split, sight, model.shared);
  }

  /** The class of the last window of rows; undefined: they are too few, or have a gap. */
  ofLast(rows: readonly Measured[]): number | undefined {
    const { rate, length } = cutOf(this.person.card);
    const features = this.person.card.features.length;
    const last = rows.filter(({ t }) => t > rows[rows.length - 1].t - (length + 2) / rate);
    if (last.length < 2) return undefined;
    const t = Float64Array.from(last, (row) => row.t);
    const gap = gapOf(t);
    if (t.some((time, i) => i > 0 && time - t[i - 1] > gap)) return undefined;
    const even = atRate({ t, x: Float32Array.from(last.flatMap(({ x }) => x)), y: new Int32Array(t.length) }, features, rate);
    const from = even.t.length - length;
    if (from < 0) return undefined;
    const values = Float32Array.from({ length: length * features }, (_, i) => even.x[(from + (i % length)) * features + Math.floor(i / length)]);
    return this.of({ shape: [1, features, length], values });
  }

  /** The class of one window `[1, F, time]`. */
  of(window: Tensor): number {
    return strongest(this.half.learner.predict(this.model.state, this.see(window)).values);
  }
}
