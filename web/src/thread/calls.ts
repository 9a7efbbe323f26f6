/** Calls from the page to its other thread, and news from there: plain messages, no shared state. */

/** Functions of the thread by name; what they take and give is copied. */
export type Tasks = Readonly<Record<string, (...args: never[]) => unknown>>;
/** What a function of these tasks gives. */
export type Given<T extends Tasks, Name extends keyof T> = Awaited<ReturnType<T[Name]>>;

/** An end of the line between two threads: a worker, or the inside of one. */
export interface Port {
  postMessage(message: unknown): void;
  onmessage: ((event: MessageEvent) => unknown) | null;
}

interface Call {
  readonly id: number;
  readonly name: string;
  readonly args: readonly never[];
}

type Answer = { readonly id: number } & ({ readonly value: unknown } | { readonly fault: string; readonly kind: string });

/** An error of the other thread; `name` is that of its class there. */
export class ThreadError extends Error {
  constructor(kind: string, fault: string) {
    super(fault);
    this.name = kind;
  }
}

/** Answer calls by these functions, one beside another; what they throw is the caller's to handle. */
export function serve(port: Port, tasks: Tasks): void {
  const answer = async ({ id, name, args }: Call): Promise<Answer> => {
    try {
      return { id, value: await tasks[name](...args) };
    } catch (error) {
      return error instanceof Error ? { id, fault: error.message, kind: error.name } : { id, fault: String(error), kind: "Error" };
    }
  };
  port.onmessage = async (event) => {
    port.postMessage(await answer(event.data as Call));
  };
}

/** The page's end. */
export class Caller<T extends Tasks, News> {
  private readonly waiting = new Map<number, (answer: Answer) => void>();
  private calls = 0;

  /** @param heard gets what the thread says unasked. */
  constructor(
    private readonly port: Port,
    heard: (news: News) => void,
  ) {
    port.onmessage = ({ data }) => {
      const said = data as Answer | { readonly news: News };
      if ("news" in said) heard(said.news);
      else {
        this.waiting.get(said.id)?.(said);
        this.waiting.delete(said.id);
      }
    };
  }

  /** What a function of the thread gives; throws a {@link ThreadError} where it throws. */
  async call<Name extends keyof T & string>(name: Name, ...args: Parameters<T[Name]>): Promise<Given<T, Name>> {
    const id = ++this.calls;
    const answered = new Promise<Answer>((resolve) => this.waiting.set(id, resolve));
    this.port.postMessage({ id, name, args });
    const answer = await answered;
    if ("fault" in answer) throw new ThreadError(answer.kind, answer.fault);
    return answer.value as Given<T, Name>;
  }
}
