// A device's roster: the one that its owner gave it, the one that it saw last, and a longer one that the server
// passes on, which the same owner signed. A later roster may have more people, and changes nothing.

import type { Kept } from "../device/kept.js";
import { DataError } from "../errors.js";
import { bytes, joined } from "./keys.js";
import { lineOf, Roster, type Signer, publicLine } from "./roster.js";

/** What a device's owner gives it, to go by a roster. */
export interface RosterFiles {
  /** Its file; undefined: the one that the server passes on first is gone by, and longer ones after it. */
  readonly data: Uint8Array | undefined;
  /** The public key of the roster's owner, in OpenSSH's format. */
  readonly owner: string;
  /** The device's own public key as a line, and what signs with its private one. */
  readonly own: string;
  readonly sign: Signer["sign"];
}

/** What a device goes by that signs with a key pair. */
export async function rosterFiles({ publicKey, privateKey }: CryptoKeyPair, owner: string, data?: Uint8Array): Promise<RosterFiles> {
  const own = lineOf(new Uint8Array(await crypto.subtle.exportKey("raw", publicKey)));
  const how = { name: "ECDSA", hash: "SHA-384" };
  const sign = async (text: Uint8Array) => new Uint8Array(await crypto.subtle.sign(how, privateKey, text.slice()));
  return { data, owner, own, sign };
}

const SEEN = "roster seen", PASSED_ON = "roster passed on", LINE_END = 10;

/** Whether a device has a roster by now. */
export function hasRoster(files: RosterFiles | undefined, kept: Kept): files is RosterFiles {
  return files !== undefined && (files.data !== undefined || kept.blocks.has(PASSED_ON));
}

/**
 * The signer of a person's part in sums, and what is kept with the roster that it sees now.
 *
 * @throws DataError if the roster is none, the person is not in it with this device's key, or it is not the last
 *   one with people added at most.
 */
export function signerOf(files: RosterFiles, client: string, kept: Kept): { signer: Signer; kept: Kept } {
  return named(client, () => {
    const data = files.data ?? kept.blocks.get(PASSED_ON);
    if (!data) throw new RangeError("got none, expected one that the server passes on");
    const owner = publicLine(files.owner), roster = Roster.read(data, owner), own = roster.people.get(client);
    if (own !== files.own) throw new RangeError(`got ${own === undefined ? "no key" : "another key"} of ${client}, expected that of this device`);
    const now = joined(bytes(`${owner}\n`), data), before = kept.blocks.get(SEEN);
    if (before !== undefined) {
      const end = before.indexOf(LINE_END), known = publicLine(new TextDecoder().decode(before.subarray(0, end)));
      if (known !== owner) throw new RangeError(`got another owner's key, expected ...${known.slice(-16)}, as seen last`);
      roster.demandAfter(Roster.read(before.subarray(end + 1), known));
    }
    const passedOn = kept.blocks.get(PASSED_ON);
    const all = passedOn === undefined ? roster : longer(roster, Roster.read(passedOn, owner));
    const blocks = new Map([...kept.blocks, [SEEN, now]]);
    return { signer: { roster: all, sign: files.sign }, kept: { ...kept, blocks } };
  });
}

/**
 * What is kept with a roster that the server passes on, if it is the device's own with people added. A server that
 * has an older one is behind, and nothing changes.
 *
 * @throws DataError if another key signed it, or somebody is gone or has another key.
 */
export function withRoster(files: RosterFiles, client: string, kept: Kept, data: Uint8Array): Kept {
  const passedOn = { ...kept, blocks: new Map([...kept.blocks, [PASSED_ON, data]]) };
  if (!hasRoster(files, kept)) return signerOf(files, client, passedOn).kept;
  const { signer, kept: known } = signerOf(files, client, kept);
  return named(client, () => {
    const roster = Roster.read(data, publicLine(files.owner));
    return longer(signer.roster, roster) === roster ? { ...known, blocks: new Map([...known.blocks, [PASSED_ON, data]]) } : known;
  });
}

/** The longer of two rosters; throws a RangeError if it is not the other with more. */
function longer(one: Roster, other: Roster): Roster {
  const known = [...one.people].slice(0, other.people.size).join(), added = [...other.people].join();
  if (known === added) return one;
  other.demandAfter(one);
  return other;
}

function named<T>(client: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new DataError(`client ${client}: roster: ${error instanceof Error ? error.message : String(error)}`);
  }
}
