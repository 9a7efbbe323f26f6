/** A device's state in a folder: one file, the one before it, and a lock that ends with its process. */
import { closeSync, existsSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { unpacked } from "../device/container.js";
import type { Store } from "../device/kept.js";
import { RunError } from "../errors.js";

/** Longest name of a socket that systems take. */
const LONGEST_SOCKET = 100;

/** The state of one device; {@link close} frees its folder for other processes. */
export class FileStore implements Store {
  /** Names the file that was read or written last. */
  private known = "";
  /** Whether that file is whole: only such a one is kept beside the next. */
  private whole = true;

  private constructor(
    private readonly folder: string,
    private readonly lock: Server,
    private readonly log: (line: string) => void,
  ) {}

  /**
   * The store in a folder, which is made.
   *
   * @throws RunError where another process has it, or it cannot be written.
   */
  static async open(folder: string, log: (line: string) => void): Promise<FileStore> {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw new RunError(`state folder ${folder}: cannot be made (${String(error)}); choose another`);
    }
    return new FileStore(folder, await locked(folder), log);
  }

  private get state(): string {
    return join(this.folder, "state.bin");
  }

  private get before(): string {
    return join(this.folder, "state-before.bin");
  }

  /**
   * The last block that is whole.
   *
   * @throws RunError where there are files, and none is whole.
   */
  load(): Promise<Uint8Array | undefined> {
    this.known = named(this.state);
    const faults: string[] = [];
    for (const path of [this.state, this.before]) {
      if (!existsSync(path)) continue;
      const block = new Uint8Array(readFileSync(path));
      try {
        unpacked(block);
        this.whole = faults.length === 0;
        if (!this.whole) this.log(`${faults.join("; ")}: the state before it is used`);
        return Promise.resolve(block);
      } catch (error) {
        faults.push(`${path}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
    if (!faults.length) return Promise.resolve(undefined);
    return Promise.reject(new RunError(`${faults.join("; ")}. Move the files aside to begin anew`));
  }

  /** Write a new file, move it over the last and keep that; all are on the disk when this ends. */
  save(block: Uint8Array): Promise<void> {
    const draft = join(this.folder, "state.draft");
    if (named(this.state) !== this.known) return Promise.reject(new RunError(`${this.state}: another process wrote it; a device has one process`));
    try {
      written(draft, block);
      if (this.whole && existsSync(this.state)) {
        // At no time is there no state: the last has two names before the new one takes one.
        rmSync(this.before, { force: true });
        linkSync(this.state, this.before);
      }
      renameSync(draft, this.state);
      synced(this.folder);
      this.known = named(this.state);
      this.whole = true;
      return Promise.resolve();
    } catch (error) {
      return Promise.reject(new RunError(`${this.state}: could not be written (${String(error)}); the state before is kept. Free some space`));
    }
  }

  /** Let other processes have the folder. */
  close(): void {
    this.lock.close();
  }
}

/** What tells a file from another of its name; "": there is none. */
function named(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  return found ? `${found.ino} ${found.mtimeMs} ${found.size}` : "";
}

function written(path: string, block: Uint8Array): void {
  const file = openSync(path, "w", 0o600);
  try {
    for (let at = 0; at < block.length; ) at += writeSync(file, block, at);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function synced(folder: string): void {
  const opened = openSync(folder, "r");
  fsyncSync(opened);
  closeSync(opened);
}

/** A socket that listens in the folder as long as this process lives: nobody else can have it. */
async function locked(folder: string): Promise<Server> {
  const path = socketIn(folder);
  const taken = () => new RunError(`state folder ${folder}: another process uses it; a device has one process`);
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      return await listening(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw new RunError(`state folder ${folder}: cannot be locked (${String(error)})`);
      if (await answers(path)) throw taken();
      // Whoever listened died.
      rmSync(path, { force: true });
    }
  }
  throw taken();
}

/** The name of the lock's socket: where the folder's is too long for systems, Linux has a short one by its descriptor. */
function socketIn(folder: string): string {
  if (process.platform === "win32") return `\\\\.\\pipe\\${folder.replace(/[^A-Za-z0-9]/g, "-")}`;
  const path = join(folder, "lock");
  if (Buffer.byteLength(path) <= LONGEST_SOCKET) return path;
  // It stays open: the socket is removed by this name, too.
  if (process.platform === "linux") return `/proc/self/fd/${openSync(folder, "r")}/lock`;
  throw new RunError(`state folder ${folder}: got a name of ${path.length} characters, expected ${LONGEST_SOCKET} at most`);
}

function listening(path: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.end());
    server.once("error", reject);
    server.listen(path, () => {
      server.unref();
      resolve(server);
    });
  });
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => {
      resolve(false);
    });
  });
}
