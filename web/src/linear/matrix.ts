// Matrices of float64 numbers, row after row.

/** A matrix `[rows, columns]`; a vector is a matrix of one column or a plain Float64Array. */
export class Matrix {
  constructor(
    readonly rows: number,
    readonly columns: number,
    readonly values: Float64Array = new Float64Array(rows * columns),
  ) {
    if (values.length !== rows * columns) {
      throw new RangeError(`matrix: got ${values.length} numbers, expected ${rows} x ${columns}`);
    }
  }

  static identity(size: number): Matrix {
    const found = new Matrix(size, size);
    for (let i = 0; i < size; i++) found.values[i * size + i] = 1;
    return found;
  }

  /** The matrix whose number in a row and a column `number` gives. */
  static of(rows: number, columns: number, number: (row: number, column: number) => number): Matrix {
    const found = new Matrix(rows, columns);
    for (let i = 0, at = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++, at++) found.values[at] = number(i, j);
    }
    return found;
  }

  at(row: number, column: number): number {
    return this.values[row * this.columns + column];
  }

  /** A view of a row; what is written in it stands in the matrix. */
  row(index: number): Float64Array {
    return this.values.subarray(index * this.columns, (index + 1) * this.columns);
  }

  column(index: number): Float64Array {
    return Float64Array.from({ length: this.rows }, (_, i) => this.at(i, index));
  }

  copy(): Matrix {
    return new Matrix(this.rows, this.columns, this.values.slice());
  }

  map(change: (value: number, row: number, column: number) => number): Matrix {
    return Matrix.of(this.rows, this.columns, (i, j) => change(this.at(i, j), i, j));
  }

  /** The transpose `[columns, rows]`. */
  get T(): Matrix {
    return Matrix.of(this.columns, this.rows, (i, j) => this.at(j, i));
  }

  plus(other: Matrix, times = 1): Matrix {
    const found = this.copy();
    addTo(found.values, other.values, times);
    return found;
  }

  /** The rows of these numbers, `[indices, columns]`. */
  take(indices: ArrayLike<number>): Matrix {
    const found = new Matrix(indices.length, this.columns);
    for (let i = 0; i < indices.length; i++) found.row(i).set(this.row(indices[i]));
    return found;
  }

  /** The product with `other` `[columns, n]`: `[rows, n]`. */
  times(other: Matrix): Matrix {
    const found = new Matrix(this.rows, other.columns);
    for (let i = 0; i < this.rows; i++) {
      const into = found.row(i);
      for (let k = 0; k < this.columns; k++) {
        const by = this.values[i * this.columns + k];
        if (by !== 0) addTo(into, other.row(k), by);
      }
    }
    return found;
  }

  /** The product of the transpose with `other` `[rows, n]`: `[columns, n]`. */
  transposedTimes(other: Matrix): Matrix {
    const found = new Matrix(this.columns, other.columns);
    for (let k = 0; k < this.rows; k++) {
      const from = other.row(k);
      for (let i = 0; i < this.columns; i++) {
        const by = this.values[k * this.columns + i];
        if (by !== 0) addTo(found.row(i), from, by);
      }
    }
    return found;
  }

  /** The product with the transpose of `other` `[n, columns]`: `[rows, n]`. */
  timesTransposed(other: Matrix): Matrix {
    return Matrix.of(this.rows, other.rows, (i, j) => dot(this.row(i), other.row(j)));
  }

  /** The products of all pairs of rows, `[rows, rows]`: each is computed once. */
  rowProducts(): Matrix {
    const found = new Matrix(this.rows, this.rows);
    for (let i = 0; i < this.rows; i++) {
      for (let j = 0; j <= i; j++) {
        const product = dot(this.row(i), this.row(j));
        found.values[i * this.rows + j] = product;
        found.values[j * this.rows + i] = product;
      }
    }
    return found;
  }

  diagonal(): Float64Array {
    return Float64Array.from({ length: Math.min(this.rows, this.columns) }, (_, i) => this.at(i, i));
  }
}

/** Matrices above one another. */
export function stacked(parts: readonly Matrix[]): Matrix {
  const columns = parts[0]?.columns ?? 0;
  const found = new Matrix(parts.reduce((sum, part) => sum + part.rows, 0), columns);
  let at = 0;
  for (const part of parts) {
    found.values.set(part.values, at);
    at += part.values.length;
  }
  return found;
}

export function dot(one: Float64Array, other: Float64Array): number {
  // Four sums at once: each addition need not wait for the one before it.
  let a = 0, b = 0, c = 0, d = 0, i = 0;
  const whole = one.length - (one.length % 4);
  for (; i < whole; i += 4) {
    a += one[i] * other[i];
    b += one[i + 1] * other[i + 1];
    c += one[i + 2] * other[i + 2];
    d += one[i + 3] * other[i + 3];
  }
  for (; i < one.length; i++) a += one[i] * other[i];
  return a + b + (c + d);
}

/** Add `times` the numbers of `from` to those of `into`. */
export function addTo(into: Float64Array, from: Float64Array, times: number): void {
  for (let i = 0; i < into.length; i++) into[i] += times * from[i];
}

export function sum(values: ArrayLike<number>): number {
  let found = 0;
  for (let i = 0; i < values.length; i++) found += values[i];
  return found;
}

/** The greatest number; `initial` of none. */
export function greatest(values: ArrayLike<number>, initial = -Infinity): number {
  let found = initial;
  for (let i = 0; i < values.length; i++) if (values[i] > found) found = values[i]!;
  return found;
}
