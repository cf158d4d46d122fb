"""Hadamard features on a graphics card in one pass: rows are read once, and nothing but features is written.

A program holds a few rows of one copy. Products with H run on tensor cores, which take numbers of 11 bits: v
goes in as two of them, and as H holds nothing but ±1, all but the last one or two bits of single precision
come out.
"""

import triton
import triton.language as tl


@triton.jit
def _make_product(v, H):
    # A tensor core rounds its input to 10 bits after the leading one. Clearing the other 13 bits of a float
    # by hand gives a high part that it takes as it is; what it rounds off the rest is in v's last bits.
    high = (v.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    return tl.dot(v - high, H, acc=tl.dot(high, H, input_precision="tf32"), input_precision="tf32")


@triton.jit
def structured_waves(
    X, stride, diagonals, left, right, gain, out, n, d, width, factor,
    K: tl.constexpr, A: tl.constexpr, B: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """Features [sin, cos] · gain, shape (n, 2 width), of rows X under H D_1 … H D_K; H_p = H_A ⊗ H_B.

    The grid has shape (copies, groups of R rows): copies of the same rows run side by side and find them in
    the cache.
    """
    copy = tl.program_id(0)
    # 64 bits: row · 2 width passes 2³¹ for a million rows of a thousand features.
    row = (tl.program_id(1) * R + tl.arange(0, R)).to(tl.int64)[:, None, None]
    place = tl.arange(0, A)[None, :, None] * B + tl.arange(0, B)[None, None, :]
    H_a = tl.load(left + tl.arange(0, A)[:, None] * A + tl.arange(0, A)[None, :])
    H_b = tl.load(right + tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :])
    # The last group may be short of rows, and rows of columns: zeros stand for both.
    v = factor * tl.load(X + row * stride + place, mask=(row < n) & (place < d), other=0.0)
    for block in tl.static_range(K):  # the last diagonal first
        v = v * tl.load(diagonals + (copy * K + K - 1 - block) * A * B + place)
        # H_p v = H_A V H_B for v written as an (A, B) matrix V. H_A is symmetric: Vᵀ takes it from the right.
        v = tl.reshape(_make_product(tl.reshape(v, (R * A, B)), H_b), (R, A, B))
        v = tl.reshape(tl.permute(v, (0, 2, 1)), (R * B, A))
        v = tl.permute(tl.reshape(_make_product(v, H_a), (R, B, A)), (0, 2, 1))
    column = copy * A * B + place
    here = (row < n) & (column < width)  # the last copy may have more directions than are wanted
    amplitude = tl.load(gain + column, mask=column < width, other=0.0)
    tl.store(out + row * 2 * width + column, amplitude * tl.sin(v), mask=here)
    tl.store(out + row * 2 * width + width + column, amplitude * tl.cos(v), mask=here)
