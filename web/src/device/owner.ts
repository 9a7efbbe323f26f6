/** The person whose device it is: agrees to runs, and gets to know the own model. */
import type { Shared } from "../data/seen.js";
import type { State, Turn } from "../methods/method.js";
import type { Values } from "../values.js";
import type { Settings } from "./settings.js";

/** A person's model in use after a round, with all that it needs to predict. */
export interface OwnModel {
  /** The run's settings. */
  readonly settings: Values;
  readonly method: string;
  readonly turn: Turn;
  readonly shared: Shared;
  readonly state: State;
  /** What the server hears of its test. */
  readonly metrics: Values;
}

/** What a device asks and tells its owner. */
export interface Owner {
  /** Ends when the owner agrees to a run; throws a RunError where the owner does not. */
  agrees(settings: Settings): Promise<void>;
  /** The hours of each day in which it may take part, as the handshake says them; undefined: all. */
  hours?(): Promise<[begin: bigint, length: bigint] | undefined>;
  /** Gets the model that was tested last. */
  tested(model: OwnModel): Promise<void>;
}

/** An owner who agrees to everything and asks nothing. */
export const SILENT: Owner = { agrees: () => Promise.resolve(), tested: () => Promise.resolve() };
