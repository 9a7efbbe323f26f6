/** Errors that say whose message it was, what came and what was expected. */

/** A message or part of it that does not fit; nothing of it is kept. */
export class MessageRefused extends Error {
  override readonly name = "MessageRefused";

  /**
   * @param client whose exchange it is.
   * @param round of the exchange; 0 is before the first.
   * @param what part of the message.
   */
  constructor(
    readonly client: string,
    readonly round: number,
    readonly what: string,
    readonly got: string,
    readonly expected: string,
  ) {
    super(`client ${client}, round ${round}: ${what}: got ${got}, expected ${expected}`);
  }
}

/** A person's data that cannot be used. */
export class DataError extends Error {
  override readonly name = "DataError";
}

/** A run that this device cannot take part in, or a state that cannot be kept. */
export class RunError extends Error {
  override readonly name = "RunError";
}
