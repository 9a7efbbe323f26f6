/** Numbers, texts and bytes as protobuf writes them. */

/** How values of one type are written. */
export interface Kind<T> {
  /** 0 a varint, 1 eight bytes, 2 a length and so many bytes. */
  readonly wire: 0 | 1 | 2;
  /** What a field has that was not sent. */
  readonly empty: T;
  put(out: Output, value: T): void;
  take(input: Input, depth: number): T;
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Bytes that are read from their beginning. */
export class Input {
  at = 0;

  constructor(readonly bytes: Uint8Array) {}

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.some(1)[0];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asUintN(64, value);
    }
    throw new RangeError("protobuf: got a number of more than ten bytes, expected one of 64 bits");
  }

  some(length: number): Uint8Array {
    const end = this.at + length;
    if (end > this.bytes.length) throw new RangeError(`protobuf: got ${this.bytes.length - this.at} bytes at the end, expected ${length}`);
    const found = this.bytes.subarray(this.at, end);
    this.at = end;
    return found;
  }

  block(): Uint8Array {
    return this.some(Number(this.varint()));
  }

  eight(): DataView {
    const { buffer, byteOffset } = this.some(8);
    return new DataView(buffer, byteOffset, 8);
  }
}

/** Bytes that are written. */
export class Output {
  readonly parts: Uint8Array[] = [];

  varint(value: bigint): void {
    const digits: number[] = [];
    let left = BigInt.asUintN(64, value);
    for (; left > 127n; left >>= 7n) digits.push(Number(left & 127n) | 128);
    this.parts.push(Uint8Array.from([...digits, Number(left)]));
  }

  block(bytes: Uint8Array): void {
    this.varint(BigInt(bytes.length));
    this.parts.push(bytes);
  }

  eight(put: (view: DataView) => void): void {
    const view = new DataView(new ArrayBuffer(8));
    put(view);
    this.parts.push(new Uint8Array(view.buffer));
  }

  whole(): Uint8Array {
    const whole = new Uint8Array(this.parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of this.parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }
}

export const uint32: Kind<number> = {
  wire: 0,
  empty: 0,
  put: (out, value) => {
    out.varint(BigInt(value));
  },
  take: (input) => Number(BigInt.asUintN(32, input.varint())),
};
export const uint64: Kind<bigint> = {
  wire: 0,
  empty: 0n,
  put: (out, value) => {
    out.varint(value);
  },
  take: (input) => input.varint(),
};
export const sint64: Kind<bigint> = {
  wire: 0,
  empty: 0n,
  put: (out, value) => {
    out.varint((value << 1n) ^ (value >> 63n));
  },
  take: (input) => {
    const value = input.varint();
    return (value >> 1n) ^ -(value & 1n);
  },
};
export const bool: Kind<boolean> = {
  wire: 0,
  empty: false,
  put: (out, value) => {
    out.varint(value ? 1n : 0n);
  },
  take: (input) => input.varint() !== 0n,
};
export const double: Kind<number> = {
  wire: 1,
  empty: 0,
  put: (out, value) => {
    out.eight((view) => {
      view.setFloat64(0, value, true);
    });
  },
  take: (input) => input.eight().getFloat64(0, true),
};
export const fixed64: Kind<bigint> = {
  wire: 1,
  empty: 0n,
  put: (out, value) => {
    out.eight((view) => {
      view.setBigUint64(0, value, true);
    });
  },
  take: (input) => input.eight().getBigUint64(0, true),
};
export const string: Kind<string> = {
  wire: 2,
  empty: "",
  put: (out, value) => {
    out.block(new TextEncoder().encode(value));
  },
  take: (input) => decoder.decode(input.block()),
};
export const bytes: Kind<Uint8Array> = {
  wire: 2,
  empty: new Uint8Array(0),
  put: (out, value) => {
    out.block(value);
  },
  take: (input) => input.block().slice(),
};
