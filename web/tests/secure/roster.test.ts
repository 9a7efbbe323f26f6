import assert from "node:assert/strict";
import { test } from "node:test";
import { DataError, MessageRefused } from "../../src/errors.js";
import { type Kept, nothingKept } from "../../src/device/kept.js";
import { hasRoster, type RosterFiles, signerOf, withRoster } from "../../src/secure/device-roster.js";
import { noSecrets } from "../../src/secure/kept-secrets.js";
import { joined } from "../../src/secure/keys.js";
import { OpenedSums } from "../../src/secure/opened-sums.js";
import { Participant } from "../../src/secure/participant.js";
import { lineOf, publicLine, Roster } from "../../src/secure/roster.js";
import { withSignature } from "../../src/secure/signed.js";
import { afterFault } from "../../src/thread/taking-part.js";
import type { Value, Values } from "../../src/values.js";
import { named, question, Sum } from "./people.js";

const CURVE = { name: "ECDSA", namedCurve: "P-384" }, HOW = { name: "ECDSA", hash: "SHA-384" };
const text = (value: string) => new TextEncoder().encode(value);

interface Key {
  readonly line: string;
  readonly sign: (text: Uint8Array) => Promise<Uint8Array>;
}

async function newKey(): Promise<Key> {
  const pair = await crypto.subtle.generateKey(CURVE, true, ["sign", "verify"]);
  const line = lineOf(new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey)));
  return { line, sign: async (bytes) => new Uint8Array(await crypto.subtle.sign(HOW, pair.privateKey, bytes.slice())) };
}

/** A roster's file. */
async function fileOf(owner: Key, people: ReadonlyMap<string, string>): Promise<Uint8Array> {
  const lines = [...people].map(([client, line]) => `${client} ${line}\n`), signed = text(`fedsub-roster 1\n${lines.join("")}`);
  return joined(signed, text(`signature ${Buffer.from(await owner.sign(signed)).toString("hex")}\n`));
}

const owner = await newKey(), keys = await Promise.all([0, 1, 2, 3].map(newKey));
const lines = new Map(keys.map(({ line }, i) => [`p${i}`, line]));
const file = await fileOf(owner, lines), roster = Roster.read(file, owner.line);

test("a roster is read by its owner's key alone, whole", async () => {
  assert.deepEqual(roster.people, lines);
  assert.throws(() => Roster.read(file, keys[0].line), RangeError);
  for (let at = 20; at < file.length; at += 97) {
    const broken = file.slice();
    broken[at] ^= 1;
    assert.throws(() => Roster.read(broken, owner.line));
    assert.throws(() => Roster.read(file.slice(0, at), owner.line));
  }
  for (const people of [new Map([["p0", keys[0].line], ["p1", keys[0].line]]), new Map([["../p", keys[0].line]])]) {
    const wrong = await fileOf(owner, people);
    assert.throws(() => Roster.read(wrong, owner.line), RangeError);
  }
  for (const wrong of ["", "ssh-ed25519 AAAA", `${lines.get("p0")!.slice(0, -4)}AAAA`, "ecdsa-sha2-nistp384 !!"]) assert.throws(() => publicLine(wrong), RangeError);
  assert.equal(publicLine(`${keys[0].line} a comment\n`), keys[0].line);
});

function files(of: Uint8Array, i = 0): RosterFiles {
  return { data: of, owner: owner.line, own: keys[i].line, sign: keys[i].sign };
}

test("a roster grows at its end, and changes nothing", async () => {
  const fewer = await fileOf(owner, new Map([...lines].slice(0, 2))), strangers = await fileOf(keys[0], lines);
  const changed = await fileOf(owner, new Map([...lines, ["p1", owner.line]]));
  let kept: Kept = signerOf(files(fewer), "p0", nothingKept("p0")).kept;
  kept = withRoster(files(fewer), "p0", kept, file);
  assert.equal(signerOf(files(fewer), "p0", kept).signer.roster.people.size, 4);
  assert.deepEqual(withRoster(files(fewer), "p0", kept, fewer), kept);
  for (const wrong of [strangers, changed, file.slice(0, -9)]) assert.throws(() => withRoster(files(fewer), "p0", kept, wrong), DataError);
  const seen = signerOf(files(file), "p0", nothingKept("p0")).kept;
  for (const wrong of [fewer, changed]) assert.throws(() => signerOf(files(wrong), "p0", seen), DataError);
  assert.throws(() => signerOf(files(file, 1), "p0", seen), DataError);
  assert.throws(() => signerOf({ ...files(file), owner: keys[1].line }, "p0", seen), DataError);
});

test("who was given none goes by the first that the server passes on, of one owner, and by longer ones after it", async () => {
  const none: RosterFiles = { ...files(file), data: undefined }, before = nothingKept("p0");
  assert.equal(hasRoster(none, before), false);
  assert.throws(() => signerOf(none, "p0", before), DataError);
  const fewer = await fileOf(owner, new Map([...lines].slice(0, 2))), strangers = await fileOf(keys[0], lines);
  for (const wrong of [strangers, file.slice(0, -9)]) assert.throws(() => withRoster(none, "p0", before, wrong), DataError);
  assert.throws(() => withRoster({ ...files(file, 1), data: undefined }, "p0", before, file), DataError);
  const first = withRoster(none, "p0", before, fewer), longer = withRoster(none, "p0", first, file);
  assert.deepEqual([first, longer].map((kept) => signerOf(none, "p0", kept).signer.roster.people.size), [2, 4]);
  assert.equal(signerOf(none, "p0", withRoster(none, "p0", longer, fewer)).signer.roster.people.size, 4);
  assert.throws(() => withRoster(none, "p0", longer, strangers), DataError);
  assert.throws(() => signerOf({ ...none, owner: keys[1].line }, "p0", longer), DataError);
});

test("a page tells a phone that is not in the roster from a server that passes a wrong one on", async () => {
  const none: RosterFiles = { ...files(file), data: undefined }, before = nothingKept("p0"), first = withRoster(none, "p0", before, file);
  const passedOn = async (kept: Kept, people: Iterable<readonly [string, string]>, by = owner) => {
    const wrong = await fileOf(by, new Map(people));
    try {
      withRoster(none, "p0", kept, wrong);
    } catch (error) {
      return afterFault(error).kind;
    }
    return undefined;
  };
  const [, ...others] = lines, own = ["p0", owner.line] as const;
  for (const people of [others, [own, ...others]]) assert.equal(await passedOn(before, people), "unlisted");
  for (const people of [others, [...lines, own], [...lines, ["p1", owner.line] as const], [...lines].slice(2)]) assert.equal(await passedOn(first, people), "rosterRefused");
  assert.equal(await passedOn(before, lines, keys[0]), "rosterRefused");
});

/** A sum of people who go by the roster, whose vectors were sent. */
async function signedSum(): Promise<{ sum: Sum; shares: (id: string) => Values }> {
  const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes));
  const people = new Map([...lines.keys()].map((id) => [id, new Participant(id, 3, noSecrets(), new OpenedSums(), random, roster)]));
  const sum = new Sum(people, named(1)).show(), signed: Uint8Array[] = [];
  for (const [i, id] of [...people.keys()].entries()) {
    const shown = await withSignature({ roster, sign: keys[i].sign }, id, sum.name, new Map<string, Value>([["keys", sum.keys.get(id)!]]));
    signed.push(joined(sum.keys.get(id)!, shown.get("signature") as Uint8Array));
  }
  const all = { signed: [...people.keys()], signed_keys: signed };
  return { sum, shares: (id) => new Map([...sum.forShares(id), ...Object.entries(all)]) };
}

function refused(what: RegExp, ask: () => unknown): void {
  assert.throws(ask, (error) => error instanceof MessageRefused && what.test(error.what));
}

test("by a roster keys without a signature, of strangers, or signed for another session are refused", async () => {
  const { sum, shares } = await signedSum(), one = sum.people.get("p0")!, signed = shares("p0").get("signed_keys") as Uint8Array[];
  const asked = (more: Readonly<Record<string, Value>>) => () => one.answer(new Map([...shares("p0"), ...Object.entries(more)]), 1);
  refused(/keys/, () => one.answer(sum.forShares("p0"), 1));
  refused(/keys/, asked({ signed: ["p0", "p1", "p2", "x"] }));
  refused(/keys/, asked({ signed: ["p0", "p2", "p1", "p3"] }));
  refused(/keys/, asked({ signed: ["p1", "p2", "p3"], signed_keys: signed.slice(1) }));
  refused(/clients/, asked({ clients: ["p1", "p2"], values: [sum.keys.get("p1")!, sum.keys.get("p2")!] }));
  refused(/keys/, asked({ values: ["p2", "p1", "p3"].map((id) => sum.keys.get(id)!) }));
  const broken = signed[1].slice();
  broken[100] ^= 1;
  refused(/keys/, asked({ signed_keys: [signed[0], broken, ...signed.slice(2)] }));
  asked({})();
  assert.deepEqual(one.own.named, [...lines.keys()]);
});

test("a sum is opened once more than two thirds signed that they saw the same", async () => {
  const { sum, shares } = await signedSum(), ids = [...lines.keys()], one = sum.people.get("p0")!;
  for (const [id, who] of sum.people) {
    const said = who.answer(shares(id), 1), clients = said.get("clients") as string[];
    sum.sealed.set(id, new Map(clients.map((other, i) => [other, (said.get("values") as Uint8Array[])[i]])));
  }
  for (const id of ids) sum.send(id, Uint32Array.of(1, 2, 3, 4));
  refused(/unmask/, () => sum.opens("p0"));
  const view = question(sum.name, "view", { sent: ids, silent: [] });
  refused(/view/, () => one.answer(question(sum.name, "view", { sent: [...ids, "x"], silent: [] }), 1));
  const views: Uint8Array[] = [];
  for (const [i, id] of ids.entries()) {
    const said = await withSignature({ roster, sign: keys[i].sign }, id, sum.name, sum.people.get(id)!.answer(view, 1));
    views.push(joined(said.get("view") as Uint8Array, said.get("signature") as Uint8Array));
  }
  refused(/view/, () => one.answer(question(sum.name, "view", { sent: ids.slice(0, 3), silent: ["p3"] }), 1));
  const open = (signers: string[], some: Uint8Array[]) => () => one.answer(new Map([...sum.forShare("p0"), ["signers", signers], ["views", some]]), 1);
  refused(/views/, open(["p1"], [views[1]]));
  refused(/views/, open(["p1", "p2"], [views[2], views[1]]));
  const other = views[2].slice();
  other[0] ^= 1;
  refused(/views/, open(["p1", "p2", "p3"], [views[1], other, views[3]]));
  refused(/unmask/, () => one.answer(question(sum.name, "unmask", { sent: ids.slice(0, 3), silent: ["p3"], signers: ["p1", "p2"], views: views.slice(1, 3) }), 1));
  assert.equal((open(["p1", "p2"], views.slice(1, 3))().get("clients") as string[]).length, 4);
});
