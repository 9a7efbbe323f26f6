/** Flower's fleet calls: protobuf by POST, signed, tried again where the network or the server fails for a while. */
import { read, type Schema, written } from "../wire/protobuf.js";
import { base64, type DeviceKey } from "./keys.js";
import { type CallName, CALLS, type Request, type Response } from "./messages.js";

/** What a server answered. */
export interface HttpAnswer {
  readonly status: number;
  readonly body: Uint8Array;
  /** The server's clock, as its header `date` says, in ms since 1970; NaN where it says nothing. */
  readonly at: number;
}

/**
 * Sends a POST to a path of the server; throws where no answer comes.
 *
 * A page's is {@link fetchTransport}; in Node `src/node/transport.ts`, which knows one's own CA.
 */
export type Transport = (path: string, headers: Readonly<Record<string, string>>, body: Uint8Array, signal: AbortSignal) => Promise<HttpAnswer>;

/** Posts by `fetch` to a base URL without a slash at its end; "" is the page's own origin. */
export function fetchTransport(base: string): Transport {
  return async (path, headers, body, signal) => {
    const answer = await fetch(base + path, { method: "POST", headers, body: body.slice(), signal });
    return { status: answer.status, body: new Uint8Array(await answer.arrayBuffer()), at: Date.parse(answer.headers.get("date") ?? "") };
  };
}

/** A call that the server refused. */
export class CallRefused extends Error {
  override readonly name = "CallRefused";

  constructor(
    readonly call: string,
    readonly status: number,
    said: string,
  ) {
    const hint = status === 401 ? "; is its key registered, and its clock right?" : "";
    super(`fleet call ${call}: got HTTP ${status} (${said.slice(0, 200)}), expected 200${hint}`);
  }

  /** Whether its run is over, or unknown: these are Flower's numbers of such errors. */
  get ofEndedRun(): boolean {
    return this.status === 403 && /\b200[78]\b/.test(this.message);
  }
}

/** How patient calls are. Times in seconds. */
export interface Patience {
  /** For one answer. */
  readonly timeout: number;
  /** Tries of a call at most. */
  readonly tries: number;
  /** Pause before the second try; each further one is twice as long, up to `longest`. */
  readonly first: number;
  readonly longest: number;
}

/** Some minutes of a server that restarts or of a network that is away. */
export const PATIENCE: Patience = { timeout: 30, tries: 12, first: 0.5, longest: 30 };

/** Ends a wait of some seconds, or throws the signal's reason. */
export async function pause(seconds: number, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason instanceof Error ? signal.reason : new Error("stopped"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, 1000 * seconds);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Seconds for the answer to a last word. */
const LAST_SECONDS = 3;

const AWAY = [408, 429, 500, 502, 503, 504];

/** A device's calls to one server. */
export class FleetCalls {
  /** How far the server's clock is ahead of this device's, ms: a phone's may be wrong, and Flower forgives seconds. */
  private ahead = 0;

  constructor(
    private readonly transport: Transport,
    private readonly key: DeviceKey,
    private readonly patience: Patience = PATIENCE,
    /** Ends all calls and their pauses. */
    readonly signal?: AbortSignal,
  ) {}

  /** For a last word once the signal has ended all others; who ends them does not wait for it for long. */
  get last(): FleetCalls {
    const calls = new FleetCalls(this.transport, this.key, { ...this.patience, timeout: LAST_SECONDS });
    calls.ahead = this.ahead;
    return calls;
  }

  /** The device's public key in PEM. */
  get publicKey(): Uint8Array {
    return this.key.publicPem;
  }

  /**
   * The server's answer to a call such as `pull-messages`.
   *
   * @throws CallRefused where the server refuses it, Error where no answer came in all tries.
   */
  async call<Name extends CallName>(name: Name, request: Request<Name>, tries: number = this.patience.tries): Promise<Response<Name>> {
    const [input, output] = CALLS[name] as unknown as readonly [Schema<unknown, Request<Name>>, Schema<Response<Name>>];
    const body = written(input, request);
    let clockSet = false;
    for (let attempt = 1; ; attempt++) {
      this.signal?.throwIfAborted();
      let failed: Error;
      try {
        const answer = await this.post(`/v1/fleet/${name}`, body);
        if (answer.status === 200) return read(output, answer.body);
        if (this.setClock(answer.at) && answer.status === 401 && !clockSet) {
          clockSet = true;
          attempt--;
          continue;
        }
        failed = new CallRefused(name, answer.status, new TextDecoder().decode(answer.body));
        if (!AWAY.includes(answer.status)) throw failed;
      } catch (error) {
        if (error instanceof CallRefused && !AWAY.includes(error.status)) throw error;
        failed = error instanceof Error ? error : new Error(String(error));
      }
      if (attempt >= tries) throw failed;
      const wait = Math.min(this.patience.first * 2 ** (attempt - 1), this.patience.longest);
      // Devices that a server's restart cut off all come back at once, but for this.
      await pause(wait * (0.8 + 0.4 * Math.random()), this.signal);
    }
  }

  /** The time now by the server's clock, s since 1970. */
  get now(): number {
    return (Date.now() + this.ahead) / 1000;
  }

  /** Goes by the server's clock from now on; false where that is what it went by. */
  private setClock(at: number): boolean {
    const ahead = at - Date.now();
    // A header has whole seconds.
    if (!(Math.abs(ahead - this.ahead) > 2000)) return false;
    this.ahead = ahead;
    return true;
  }

  private async post(path: string, body: Uint8Array): Promise<HttpAnswer> {
    const timestamp = new Date(1000 * this.now).toISOString().replace("Z", "+00:00");
    const headers = {
      "content-type": "application/protobuf",
      accept: "application/protobuf",
      "flwr-public-key": base64(this.key.publicPem),
      "flwr-timestamp": timestamp,
      "flwr-signature": base64(await this.key.sign(new TextEncoder().encode(timestamp))),
    };
    const late = AbortSignal.timeout(1000 * this.patience.timeout);
    return this.transport(path, headers, body, this.signal ? AbortSignal.any([this.signal, late]) : late);
  }
}
