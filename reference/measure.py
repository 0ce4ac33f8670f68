"""Statistics and differences of arrays by NumPy, with sums in the order that `amn stats` and `amn diff` document."""

import numpy as np

BLOCK = 4096
LANES = 8
BINS = 32


def as_blocks(values):
    """Values in F64 as blocks x rows x lanes, filled up with zeros."""
    values = values.ravel().astype(np.float64)
    blocks = -(-values.size // BLOCK)
    padded = np.zeros(blocks * BLOCK)
    padded[: values.size] = values
    return padded.reshape(blocks, BLOCK // LANES, LANES)


def sum_blocks(blocks):
    """The sum of every block: lanes in order of rows, then halves of the lanes."""
    sums = np.add.accumulate(blocks, axis=1)[:, -1, :]
    while sums.shape[1] > 1:
        half = sums.shape[1] // 2
        sums = sums[:, :half] + sums[:, half:]
    return sums[:, 0]


def merge(results, add):
    """Neighbours are merged until one result is left; a result without a partner moves up."""
    while len(results) > 1:
        pairs = [results[i : i + 2] for i in range(0, len(results), 2)]
        results = [add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return results[0]


def add_moments(first, second):
    """Count, sum and squared distances from the mean of two blocks together."""
    (n, total, squares), (m, other, more) = first, second
    if n == 0 or m == 0:
        return second if n == 0 else first
    distance = other / m - total / n
    return n + m, total + other, squares + more + distance * distance * (n * m / (n + m))


def histogram(values):
    """The narrowest bins, a power of two wide and between multiples of it, of which 32 hold all values."""
    largest = np.max(np.abs(values))
    low, high = np.float64(np.min(values)), np.float64(np.max(values))
    exponent = int(np.frexp(np.float64(np.spacing(largest)))[1]) - 1
    while np.floor(np.ldexp(high, -exponent)) - np.floor(np.ldexp(low, -exponent)) >= BINS:
        exponent += 1
    places = np.floor(np.ldexp(values.astype(np.float64), -exponent)).astype(np.int64)
    first = places.min()
    return {
        "start": float(np.ldexp(np.float64(first), exponent)),
        "width": float(np.ldexp(1.0, exponent)),
        "counts": np.bincount(places - first).tolist(),
    }


def as_measured(values):
    """F64 as it is, all other floats as F32."""
    values = np.asarray(values).ravel()
    return values if values.dtype == np.float64 else values.astype(np.float32)


def stats(values):
    """The statistics of one array."""
    values = as_measured(values)
    finite = np.isfinite(values)
    found = {
        "values": int(values.size),
        "zeros": int((values == 0).sum()),
        "nan": int(np.isnan(values).sum()),
        "infinite": int(np.isinf(values).sum()),
        "outliers": 0,
    }
    if not finite.any():
        return found | {"histogram": {"counts": []}}
    blocks = as_blocks(np.where(finite, values, 0))
    inside = as_blocks(finite) > 0
    counts = inside.sum(axis=(1, 2))
    sums = sum_blocks(blocks)
    means = sums / np.maximum(counts, 1)
    squares = sum_blocks(np.where(inside, (blocks - means[:, None, None]) ** 2, 0))
    moments = [(int(n), float(s), float(q)) for n, s, q in zip(counts, sums, squares)]
    count, total, square = merge(moments, add_moments)
    mean, deviation = total / count, float(np.sqrt(square / count))
    numbers = values[finite]
    far = np.abs(numbers.astype(np.float64) - mean) > 6 * deviation
    return found | {
        "min": float(numbers.min() + 0.0),
        "max": float(numbers.max() + 0.0),
        "mean": mean,
        "deviation": deviation,
        "outliers": int(far.sum()),
        "histogram": histogram(numbers),
    }


def sum_of(values):
    """The sum of all values in the order of statistics."""
    return float(merge(list(sum_blocks(as_blocks(values))), lambda a, b: a + b)) if values.size else 0.0


def difference(first, second):
    """The difference between two arrays, the first of which is the signal."""
    x, y = as_measured(first), as_measured(second)
    if x.dtype != y.dtype:
        x, y = x.astype(np.float32), y.astype(np.float32)
    bits = np.uint64 if x.dtype == np.float64 else np.uint32
    unequal = x.view(bits) != y.view(bits)
    finite = np.isfinite(x) & np.isfinite(y)
    a = np.where(finite, x, 0).astype(np.float64)
    b = np.where(finite, y, 0).astype(np.float64)
    absolute, squared = np.abs(a - b), (a - b) * (a - b)
    noise, signal, other = sum_of(squared), sum_of(a * a), sum_of(b * b)
    energies = float(np.sqrt(signal * other))
    count = int(finite.sum())
    with np.errstate(divide="ignore"):
        sqnr = float(10 * np.log10(signal / noise)) if noise else float("inf")
    return {
        "values": int(x.size),
        "different": int(unequal.sum()),
        "incomparable": int((unequal & ~finite & ~(np.isnan(x) & np.isnan(y))).sum()),
        "max_absolute": float(absolute.max()) if x.size else 0.0,
        "mean_absolute": sum_of(absolute) / count if count else 0.0,
        "sqnr": sqnr,
        "cosine": sum_of(a * b) / energies if energies else float(noise == 0),
    }
