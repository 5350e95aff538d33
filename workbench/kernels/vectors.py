"""LLVM intrinsics: the inner loop of coordinate descent in vector registers, and bits
as a number.

The compiler alone would check at each row whether matrix and scratch overlap, which
costs as much as the arithmetic of a short row.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

REGISTER = ir.VectorType(ir.DoubleType(), 4)
LANES = ir.VectorType(ir.IntType(32), 4)
INDEX = ir.IntType(64)


@intrinsic
def add_rows(context, out, at, W, w, x, width):
    """Compute ``out[at] += x[0] W[w[0]] + x[1] W[w[1]] + ...``.

    Arrays are C-ordered float64 with as many columns as the tuple `width` is long, a
    multiple of four. The only row of a vector is row 0.
    """

    def generate(context, builder, signature, given):
        columns = signature.args[5].count

        def row(which, number):
            array = context.make_array(signature.args[which])(
                context, builder, given[which]
            )
            return builder.gep(array.data, [builder.mul(number, INDEX(columns))])

        def register(row, column):
            return builder.bitcast(
                builder.gep(row, [INDEX(column)]), REGISTER.as_pointer()
            )

        def load(row, column):
            return builder.load(register(row, column), align=8)

        target, terms = row(0, given[1]), []
        for m in range(signature.args[3].count):
            one = REGISTER(ir.Undefined)
            one = builder.insert_element(
                one, builder.extract_value(given[4], m), INDEX(0)
            )
            scale = builder.shuffle_vector(one, one, LANES(None))
            terms.append((scale, row(2, builder.extract_value(given[3], m))))
        totals = []
        for column in range(0, columns, 4):
            total = REGISTER(None)
            for scale, source in terms:
                product = builder.fmul(scale, load(source, column), flags=("contract",))
                total = builder.fadd(product, total, flags=("contract", "nsz"))
            totals.append(
                builder.fadd(load(target, column), total, flags=("contract",))
            )
        # All loads came first, because each would wait for an earlier store.
        for number, total in enumerate(totals):
            builder.store(total, register(target, 4 * number), align=8)
        return context.get_dummy_value()

    return types.none(out, at, W, w, x, width), generate


@intrinsic
def number_of(context, bits):
    """Return the float32 or float64 that has the bits of this int32 or int64."""

    def generate(context, builder, signature, given):
        return builder.bitcast(given[0], context.get_value_type(signature.return_type))

    return (types.float32 if bits == types.int32 else types.float64)(bits), generate
