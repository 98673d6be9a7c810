"""LLVM vectors as Numba values: the only file that writes LLVM IR.

A :class:`Vector` type stands for ``<lanes x element>``. Its values are ordinary variables in nopython code; the
functions here load, store, shuffle and compute with them. Addresses are ``intp``; nothing assumes any alignment.

Plain Numba loops reach 2.5 to 3 times Pillow's speed for the horizontal pass; the same arithmetic on these values 11 to
16 times, since LLVM does not find the byte dot product by itself.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.extending import intrinsic, models, register_model

I32 = ir.IntType(32)


class Vector(types.Type):
    """Numba type of an LLVM vector: ``kind`` is ``"i"`` or ``"f"``."""

    def __init__(self, kind, bits, lanes):
        self.kind, self.bits, self.lanes = kind, bits, lanes
        super().__init__(f"Vector({kind}{bits}x{lanes})")

    @property
    def ir(self):
        """LLVM's type."""
        return ir.VectorType(ir.FloatType() if self.kind == "f" else ir.IntType(self.bits), self.lanes)

    def filled(self, number):
        """Return a constant with the same number in every lane."""
        return ir.Constant(self.ir, [number] * self.lanes)


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """A vector is held in a register of its own type."""

    def __init__(self, manager, vector):
        super().__init__(manager, vector, vector.ir)


U8x16, U8x32, U8x64 = (Vector("i", 8, lanes) for lanes in (16, 32, 64))
I16x32 = Vector("i", 16, 32)
I32x16 = Vector("i", 32, 16)
F32x16 = Vector("f", 32, 16)


def _pointer(builder, address, kind):
    """Make a pointer of address space 1, which on every CPU is the memory of space 0, but where 0 is an address.

    LLVM may take a sum of numbers apart into a pointer and an offset. If the number that it makes the pointer turns out
    to be 0, it would conclude that the code cannot be reached, and drop it (LLVM 22, seen in code read from the cache).
    """
    return builder.inttoptr(address, kind.as_pointer(1))


def _load(builder, address, kind):
    value = builder.load(_pointer(builder, address, kind))
    value.align = 1
    return value


def _store(builder, address, value):
    builder.store(value, _pointer(builder, address, value.type)).align = 1


def _undefined(kind):
    return ir.Constant(kind, ir.Undefined)


def _shuffle(builder, left, right, lanes):
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def _spread(builder, scalar, lanes):
    """Return a vector with the scalar in every lane."""
    empty = _undefined(ir.VectorType(scalar.type, lanes))
    return _shuffle(builder, builder.insert_element(empty, scalar, I32(0)), empty, [0] * lanes)


def _call(builder, name, result, arguments):
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


# ---- memory


def loader(vector):
    """Make ``load(address) -> vector``."""

    @intrinsic
    def load(typing, address):
        def generate(context, builder, signature, args):
            return _load(builder, args[0], vector.ir)

        return vector(types.intp), generate

    return load


load_u8x16, load_u8x64, load_f32x16 = loader(U8x16), loader(U8x64), loader(F32x16)


@intrinsic
def store(typing, address, value):
    """Write all lanes at ``address``."""

    def generate(context, builder, signature, args):
        _store(builder, args[0], args[1])
        return context.get_dummy_value()

    return types.void(types.intp, value), generate


@intrinsic
def prefetch(typing, address):
    """Ask for the cache line at ``address``, which need not be in a program's memory, to be brought into the L2."""

    def generate(context, builder, signature, args):
        read, level, data = I32(0), I32(2), I32(1)
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        _call(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer, read, level, data])
        return context.get_dummy_value()

    return types.void(types.intp), generate


def _scalar(bits, number):
    kind = ir.IntType(bits)

    @intrinsic
    def load(typing, address):
        def generate(context, builder, signature, args):
            return _load(builder, args[0], kind)

        return number(types.intp), generate

    @intrinsic
    def put(typing, address, value):
        def generate(context, builder, signature, args):
            _store(builder, args[0], args[1])
            return context.get_dummy_value()

        return types.void(types.intp, number), generate

    return load, put


load_u8, store_u8 = _scalar(8, types.uint8)
load_u16, store_u16 = _scalar(16, types.uint16)
load_u32, store_u32 = _scalar(32, types.uint32)
load_word, _ = _scalar(64, types.int64)


# ---- lanes


def spreader(vector, number):
    """Make ``spread(number) -> vector`` with the number in every lane."""

    @intrinsic
    def spread(typing, value):
        def generate(context, builder, signature, args):
            return _spread(builder, args[0], vector.lanes)

        return vector(number), generate

    return spread


spread_u8 = spreader(U8x64, types.uint8)
spread_i32 = spreader(I32x16, types.int32)
spread_f32x16 = spreader(F32x16, types.float32)


def word_spreader(vector):
    """Make ``spread(address) -> vector`` that repeats the 4 bytes at ``address``."""

    @intrinsic
    def spread(typing, address):
        def generate(context, builder, signature, args):
            word = _load(builder, args[0], I32)
            return builder.bitcast(_spread(builder, word, vector.bits * vector.lanes // 32), vector.ir)

        return vector(types.intp), generate

    return spread


spread_bytes, spread_pairs = word_spreader(U8x64), word_spreader(I16x32)


def shuffler(vector, lanes):
    """Make ``shuffle(value)`` that picks lanes of one vector."""
    result = Vector(vector.kind, vector.bits, len(lanes))

    @intrinsic
    def shuffle(typing, value):
        def generate(context, builder, signature, args):
            return _shuffle(builder, args[0], _undefined(vector.ir), lanes)

        return result(vector), generate

    return shuffle


def pair_shuffler(vector, lanes):
    """Make ``shuffle(first, second)`` that picks lanes of two vectors, the second's counted on from the first's."""
    result = Vector(vector.kind, vector.bits, len(lanes))

    @intrinsic
    def shuffle(typing, first, second):
        def generate(context, builder, signature, args):
            return _shuffle(builder, args[0], args[1], lanes)

        return result(vector, vector), generate

    return shuffle


join_u8x16, join_u8x32 = pair_shuffler(U8x16, range(32)), pair_shuffler(U8x32, range(64))
quarters = tuple(shuffler(U8x64, range(16 * i, 16 * i + 16)) for i in range(4))


@intrinsic
def join_lanes(typing, first, second, count):
    """Lanes below ``count`` of the first vector, the others of the second."""

    def generate(context, builder, signature, args):
        lane = ir.IntType(first.bits)
        numbers = ir.Constant(first.ir, list(range(first.lanes)))
        chosen = builder.icmp_unsigned("<", numbers, _spread(builder, builder.trunc(args[2], lane), first.lanes))
        return builder.select(chosen, args[0], args[1])

    return first(first, first, types.intp), generate


def block_gatherer(step):
    """Make ``gather(lines, offset, out)`` for 16 pixels of 16 rows, ``step`` bytes apart.

    Reads 64 bytes at ``offset`` from each of the 16 addresses at ``lines``; writes 4 times 3 vectors of 64 bytes, for
    each 4 pixels and each channel [row][pixel].
    """
    order = [
        min((4 * group + pixel) * step + channel, 63)
        for group in range(4)
        for channel in range(4)
        for pixel in range(4)
    ]

    @intrinsic
    def gather(typing, lines, offset, out):
        def generate(context, builder, signature, args):
            words = ir.VectorType(I32, 16)
            rows = []
            for i in range(16):
                line = _load(builder, builder.add(args[0], args[0].type(8 * i)), args[0].type)
                value = _load(builder, builder.add(line, args[1]), U8x64.ir)
                rows.append(builder.bitcast(_shuffle(builder, value, _undefined(U8x64.ir), order), words))
            for distance in (8, 4, 2, 1):
                for i in range(16):
                    if not i & distance:
                        upper, lower = rows[i], rows[i | distance]
                        keep = [j if not j & distance else 16 + (j ^ distance) for j in range(16)]
                        swap = [j ^ distance if not j & distance else 16 + j for j in range(16)]
                        rows[i] = _shuffle(builder, upper, lower, keep)
                        rows[i | distance] = _shuffle(builder, upper, lower, swap)
            for group in range(4):
                for channel in range(3):
                    place = args[2].type(64 * (3 * group + channel))
                    _store(builder, builder.add(args[2], place), rows[4 * group + channel])
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, types.intp), generate

    return gather


# ---- arithmetic


def _binary(operation):
    @intrinsic
    def compute(typing, left, right):
        def generate(context, builder, signature, args):
            return getattr(builder, operation)(args[0], args[1])

        return left(left, right), generate

    return compute


@intrinsic
def blend_bytes(typing, value, back, alpha):
    """Bytes over opaque bytes: ``value * alpha + back * (255 - alpha)``, divided by 255 and rounded."""

    def generate(context, builder, signature, args):
        words = ir.VectorType(ir.IntType(16), value.lanes)
        eight, half = (ir.Constant(words, [number] * value.lanes) for number in (8, 128))
        opaque = builder.zext(builder.not_(args[2]), words)
        front, behind, share = (builder.zext(argument, words) for argument in args)
        mixed = builder.add(builder.mul(front, share), builder.mul(behind, opaque))
        mixed = builder.add(mixed, half)  # at most 65153
        mixed = builder.add(mixed, builder.lshr(mixed, eight))
        return builder.trunc(builder.lshr(mixed, eight), value.ir)

    return value(value, value, value), generate


add, shift_right = _binary("add"), _binary("ashr")
subtract_f32, multiply_f32 = _binary("fsub"), _binary("fmul")


def _shift_left(count):
    @intrinsic
    def shift(typing, value):
        def generate(context, builder, signature, args):
            return builder.shl(args[0], value.filled(count))

        return value(value), generate

    return shift


shift_left_8, shift_left_16 = _shift_left(8), _shift_left(16)


@intrinsic
def fused_multiply_add(typing, x, y, z):
    """X * y + z, rounded once."""

    def generate(context, builder, signature, args):
        return _call(builder, f"llvm.fma.v{x.lanes}f32", x.ir, args)

    return x(x, x, x), generate


@intrinsic
def dot_u8s8(typing, sums, pixels, weights):
    """Add the sum of 4 products u8 * s8 to each 32-bit lane (AVX-512 VNNI ``vpdpbusd``: no saturation)."""

    def generate(context, builder, signature, args):
        return _call(builder, "llvm.x86.avx512.vpdpbusd.512", I32x16.ir, args)

    return I32x16(I32x16, U8x64, U8x64), generate


@intrinsic
def dot_i16(typing, pixels, weights):
    """Return the sum of 2 products i16 * i16 for each 32-bit lane (AVX2 ``vpmaddwd``, as two halves)."""

    def generate(context, builder, signature, args):
        result = ir.VectorType(I32, 8)
        empty = _undefined(I16x32.ir)
        halves = []
        for half in range(2):
            parts = [_shuffle(builder, value, empty, range(16 * half, 16 * half + 16)) for value in args]
            halves.append(_call(builder, "llvm.x86.avx2.pmadd.wd", result, parts))
        return _shuffle(builder, *halves, range(16))

    return I32x16(I16x32, I16x32), generate


def _bytes_as_i16(odd):
    @intrinsic
    def widen(typing, pixels):
        def generate(context, builder, signature, args):
            pairs = builder.bitcast(args[0], I16x32.ir)
            if odd:
                return builder.lshr(pairs, I16x32.filled(8))
            return builder.and_(pairs, I16x32.filled(255))

        return I16x32(U8x64), generate

    return widen


even_bytes, odd_bytes = _bytes_as_i16(False), _bytes_as_i16(True)


def _tap(index):
    @intrinsic
    def tap(typing, pixels, address):
        def generate(context, builder, signature, args):
            words = builder.bitcast(args[0], I32x16.ir)
            byte = builder.and_(builder.lshr(words, I32x16.filled(8 * index)), I32x16.filled(255))
            return builder.mul(byte, _spread(builder, _load(builder, args[1], I32), 16))

        return I32x16(U8x64, types.intp), generate

    return tap


tap_0, tap_1, tap_2, tap_3 = (_tap(index) for index in range(4))


# ---- conversions


@intrinsic
def clip_to_u8(typing, value):
    """32-bit lanes -> bytes, clipped to 0..255."""
    result = Vector("i", 8, value.lanes)

    def generate(context, builder, signature, args):
        suffix = f".v{value.lanes}i32"
        low = _call(builder, "llvm.smax" + suffix, value.ir, [args[0], value.filled(0)])
        return builder.trunc(_call(builder, "llvm.smin" + suffix, value.ir, [low, value.filled(255)]), result.ir)

    return result(value), generate


@intrinsic
def pack_avx512(typing, a, b, c, d):
    """4 vectors of 32-bit lanes -> 64 bytes in the same order, clipped to 0..255 (AVX-512BW packs)."""

    def generate(context, builder, signature, args):
        halves = [
            _call(builder, "llvm.x86.avx512.packssdw.512", I16x32.ir, list(pair)) for pair in (args[:2], args[2:])
        ]
        packed = _call(builder, "llvm.x86.avx512.packuswb.512", U8x64.ir, halves)
        # 16 bytes of the result hold 4 lanes of each vector
        order = [16 * lane + 4 * vector + i for vector in range(4) for lane in range(4) for i in range(4)]
        return _shuffle(builder, packed, _undefined(U8x64.ir), order)

    return U8x64(I32x16, I32x16, I32x16, I32x16), generate


@intrinsic
def pack_avx2(typing, a, b, c, d):
    """4 vectors of 32-bit lanes -> 64 bytes in the same order, clipped to 0..255 (AVX2 packs, as two halves)."""

    def generate(context, builder, signature, args):
        words, octets = ir.VectorType(ir.IntType(16), 16), ir.VectorType(ir.IntType(8), 32)
        halves = []
        for half in range(2):
            lanes = range(8 * half, 8 * half + 8)
            parts = [_shuffle(builder, value, _undefined(I32x16.ir), lanes) for value in args]
            pairs = [_call(builder, "llvm.x86.avx2.packssdw", words, list(pair)) for pair in (parts[:2], parts[2:])]
            halves.append(_call(builder, "llvm.x86.avx2.packuswb", octets, pairs))
        order = [16 * lane + 4 * vector + i for vector in range(4) for lane in range(4) for i in range(4)]
        return _shuffle(builder, *halves, order)

    return U8x64(I32x16, I32x16, I32x16, I32x16), generate


@intrinsic
def u8_to_f32(typing, value):
    """Bytes -> float32 lanes."""
    result = Vector("f", 32, value.lanes)

    def generate(context, builder, signature, args):
        return builder.sitofp(builder.zext(args[0], ir.VectorType(I32, value.lanes)), result.ir)

    return result(value), generate


def _nearest_bf16(builder, value, words):
    """Bits of finite float32 lanes, rounded at bit 16 to the nearest, half away from zero; low bits as they fall.

    Half to even would take 3 operations more. `foveal.run.tables` accepts a form only where the result is the same for
    all 256 bytes of every channel.
    """
    return builder.add(builder.bitcast(value, words.ir), words.filled(0x8000))


@intrinsic
def f32_to_bf16(typing, value):
    """float32 lanes -> bfloat16 bits, nearest, half away from zero; finite values only."""
    words, result = Vector("i", 32, value.lanes), Vector("i", 16, value.lanes)

    def generate(context, builder, signature, args):
        bits = _nearest_bf16(builder, args[0], words)
        return builder.trunc(builder.lshr(bits, words.filled(16)), result.ir)

    return result(value), generate


@intrinsic
def f32_pair_to_bf16(typing, first, second):
    """Two vectors of float32 lanes -> one of bfloat16 bits, as `f32_to_bf16`: one shuffle and one store for both."""
    words, result = Vector("i", 32, first.lanes), Vector("i", 16, 2 * first.lanes)

    def generate(context, builder, signature, args):
        halves = [builder.bitcast(_nearest_bf16(builder, value, words), result.ir) for value in args]
        return _shuffle(builder, *halves, range(1, 4 * first.lanes, 2))

    return result(first, second), generate


@intrinsic
def round_to_bf16(typing, value):
    """float32 lanes -> float32 lanes that bfloat16 can hold, nearest, half away from zero; finite values only."""
    words = Vector("i", 32, value.lanes)

    def generate(context, builder, signature, args):
        bits = builder.and_(_nearest_bf16(builder, args[0], words), words.filled(-65536))
        return builder.bitcast(bits, value.ir)

    return value(value), generate


@intrinsic
def f32_to_f16(typing, value):
    """float32 lanes -> float16 bits, nearest, half to even: only where the CPU converts, see `target.has_f16c`.

    Elsewhere LLVM would call a function of the compiler's runtime library, which the JIT does not find.
    """
    result = Vector("i", 16, value.lanes)

    def generate(context, builder, signature, args):
        halves = builder.fptrunc(args[0], ir.VectorType(ir.HalfType(), value.lanes))
        return builder.bitcast(halves, result.ir)

    return result(value), generate


@intrinsic
def f32_to_f16_portable(typing, value):
    """Do the same with integers; every NaN becomes the quiet one without payload.

    Below 2**-14, the smallest normal float16, adding 0.5 rounds to multiples of 2**-24, as the subnormal ones are.
    """
    words, result = Vector("i", 32, value.lanes), Vector("i", 16, value.lanes)

    def generate(context, builder, signature, args):
        one, thirteen, infinity = (words.filled(number) for number in (1, 13, 0x7C00))
        bits = builder.bitcast(args[0], words.ir)
        size = builder.and_(bits, words.filled(0x7FFFFFFF))
        odd = builder.and_(builder.lshr(size, thirteen), one)
        rounded = builder.add(builder.add(size, odd), words.filled(0xFFF - (112 << 23)))  # exponents start 112 lower
        normal = builder.lshr(rounded, thirteen)
        normal = _call(builder, f"llvm.umin.v{value.lanes}i32", words.ir, [normal, infinity])
        shifted = builder.fadd(builder.bitcast(size, value.ir), value.filled(0.5))
        subnormal = builder.and_(builder.bitcast(shifted, words.ir), words.filled(0x7FF))
        half = builder.select(builder.icmp_unsigned("<", size, words.filled(113 << 23)), subnormal, normal)
        is_nan = builder.icmp_unsigned(">", size, words.filled(0x7F800000))
        half = builder.select(is_nan, words.filled(0x7E00), half)
        sign = builder.lshr(builder.xor(bits, size), words.filled(16))
        return builder.trunc(builder.or_(half, sign), result.ir)

    return result(value), generate


# ---- calls


@intrinsic
def call_at(typing, address, first, second, third, fourth):
    """Call the C function ``void (intp, intp, intp, intp)`` at ``address``."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(ir.VoidType(), [args[0].type] * 4)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate
