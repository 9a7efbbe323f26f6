/** A person's file, `clients/<id>.npz` of a federation's folder, as `fedsub data` writes it. */
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { cardOf } from "../data/card.js";
import { checkedPerson, type Person } from "../data/person.js";
import { DataError } from "../errors.js";
import { type NpzArray, readNpz } from "./npz.js";

const CARD = "federation.toml";

/**
 * The person in a file, with the card beside it or one folder above.
 *
 * @throws DataError where the file or its card cannot be used; it names the file.
 */
export function readPerson(path: string): Person {
  const folders = [dirname(path), dirname(dirname(path))];
  const folder = folders.find((one) => existsSync(join(one, CARD)));
  try {
    if (folder === undefined) throw new DataError(`got no ${CARD}, expected one in ${folders.join(" or ")}`);
    const card = cardOf(readFileSync(join(folder, CARD), "utf8"));
    const arrays = readNpz(readFileSync(path));
    const [x, y, t, group] = ["x", "y", "t", "group"].map((name) => arrays.get(name));
    if (!x || !y) throw new DataError(`got arrays ${[...arrays.keys()].join(", ") || "none"}, expected x and y`);
    if (arrays.has("edges") || arrays.has("since")) throw new DataError("got nodes of a graph or samples that come later, expected features or windows");
    if (!/^[<|][iu]/.test(y.dtype)) throw new DataError(`y: got ${y.dtype}, expected whole numbers`);
    return checkedPerson({
      client: basename(path).replace(/\.npz$/, ""),
      card,
      x: { shape: x.shape, values: Float32Array.from(x.values) },
      y: Int32Array.from(flat(y)),
      ...(t && { t: flat(t) }),
      ...(group && { group: flat(group) }),
    });
  } catch (error) {
    throw new DataError(`${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function flat(array: NpzArray): Float64Array {
  if (array.shape.length !== 1) throw new DataError(`got shape [${array.shape.join()}], expected [n]`);
  return array.values;
}
