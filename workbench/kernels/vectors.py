"""An LLVM intrinsic: the inner loop of coordinate descent in vector registers.

It reads all rows before it writes. A loop in Numba checks for each row whether the
arrays overlap, and reads and writes the sums more often: solvers then take up to 1.9
times as long.
"""

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
    multiple of four. A vector has a single row, row 0.
    """

    def generate(context, builder, signature, arguments):
        columns = signature.args[5].count

        def row(which, number):
            array_type = context.make_array(signature.args[which])
            array = array_type(context, builder, arguments[which])
            return builder.gep(array.data, [builder.mul(number, INDEX(columns))])

        def register(row, column):
            address = builder.gep(row, [INDEX(column)])
            return builder.bitcast(address, REGISTER.as_pointer())

        def load(row, column):
            return builder.load(register(row, column), align=8)

        target = row(0, arguments[1])
        terms = []
        for m in range(signature.args[3].count):
            factor = builder.extract_value(arguments[4], m)
            one = builder.insert_element(REGISTER(ir.Undefined), factor, INDEX(0))
            scale = builder.shuffle_vector(one, one, LANES(None))
            terms.append((scale, row(2, builder.extract_value(arguments[3], m))))
        totals = []
        for column in range(0, columns, 4):
            total = REGISTER(None)
            for scale, source in terms:
                product = builder.fmul(scale, load(source, column), flags=("contract",))
                total = builder.fadd(product, total, flags=("contract", "nsz"))
            totals.append(
                builder.fadd(load(target, column), total, flags=("contract",))
            )
        # The stores come last: a load would wait for an earlier store.
        for number, total in enumerate(totals):
            builder.store(total, register(target, 4 * number), align=8)
        return context.get_dummy_value()

    return types.none(out, at, W, w, x, width), generate
