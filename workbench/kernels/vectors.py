"""LLVM intrinsics: the two inner loops of coordinate descent in vector registers, and 2^m.

The compiler alone would check at each row whether matrix and scratch overlap, which costs as much
as the arithmetic of a short row. Both loops take C-ordered float64 arrays whose number of columns
is the length of the tuple `width`, a multiple of four.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

REGISTER = ir.VectorType(ir.DoubleType(), 4)


@intrinsic
def add_four_rows(context, out, W, w, x, width):
    """Compute ``out += x[0] W[w[0]] + ... + x[3] W[w[3]]``, for (lanes,) `out`."""

    def generate(context, builder, signature, given):
        target = _data(context, builder, signature.args[0], given[0])
        rows = [
            _row(context, builder, signature.args[1], given[1], builder.extract_value(given[2], m))
            for m in range(4)
        ]
        scales = [_all(builder, builder.extract_value(given[3], m)) for m in range(4)]
        for block in range(0, signature.args[4].count, 4):
            total = builder.fmul(scales[0], _load(builder, rows[0], block))
            for row, scale in zip(rows[1:], scales[1:], strict=True):
                total = _fma(builder, scale, _load(builder, row, block), total)
            total = builder.fadd(_load(builder, target, block), total)
            _store(builder, target, block, total)
        return context.get_dummy_value()

    return types.none(out, W, w, x, width), generate


@intrinsic
def add_to_row(context, W, w, x, delta, width):
    """Compute ``W[w] += x delta``, for (lanes,) `delta`."""

    def generate(context, builder, signature, given):
        target = _row(context, builder, signature.args[0], given[0], given[1])
        source = _data(context, builder, signature.args[3], given[3])
        scale = _all(builder, given[2])
        blocks = range(0, signature.args[4].count, 4)
        # All loads come first, because each would wait for an earlier store.
        totals = [
            _fma(builder, scale, _load(builder, source, b), _load(builder, target, b))
            for b in blocks
        ]
        for b, total in zip(blocks, totals, strict=True):
            _store(builder, target, b, total)
        return context.get_dummy_value()

    return types.none(W, w, x, delta, width), generate


@intrinsic
def power_of_two(context, m, like):
    """Return 2^m in the precision of `like`, for an int32 m whose power is a normal number."""
    whole, bias, digits, kind = ir.IntType(32), 127, 23, ir.FloatType()
    if like == types.float64:
        whole, bias, digits, kind = ir.IntType(64), 1023, 52, ir.DoubleType()

    def generate(context, builder, signature, given):
        m = builder.sext(given[0], whole) if like == types.float64 else given[0]
        exponent = builder.add(m, ir.Constant(whole, bias))
        return builder.bitcast(builder.shl(exponent, ir.Constant(whole, digits)), kind)

    return like(types.int32, like), generate


def _data(context, builder, kind, value):
    return context.make_array(kind)(context, builder, value).data


def _row(context, builder, kind, value, row):
    array = context.make_array(kind)(context, builder, value)
    columns = builder.extract_value(array.shape, 1)
    return builder.gep(array.data, [builder.mul(columns, row)])


def _all(builder, number):
    one = builder.insert_element(ir.Constant(REGISTER, ir.Undefined), number, _index(0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), 4), [0, 0, 0, 0])
    return builder.shuffle_vector(one, one, lanes)


def _fma(builder, a, b, c):
    return builder.fadd(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))


def _load(builder, pointer, first):
    return builder.load(_register(builder, pointer, first), align=8)


def _store(builder, pointer, first, value):
    builder.store(value, _register(builder, pointer, first), align=8)


def _register(builder, pointer, first):
    return builder.bitcast(builder.gep(pointer, [_index(first)]), REGISTER.as_pointer())


def _index(number):
    return ir.Constant(ir.IntType(64), number)
