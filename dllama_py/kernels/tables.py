"""Looking up in tables that are constants of the compiled code: 16 bytes in a register, or some kilobytes in the cache.

Only the way differs from CPU to CPU; what is found is the same.
"""

from typing import Any

from llvmlite import ir

from dllama_py.kernels.codegen import I8, I32, I64, LANES, VI32, call_intrinsic, pick_lanes
from dllama_py.kernels.features import FEATURES, IS_ARM

BYTES = ir.VectorType(I8, 4 * LANES)
_EIGHTS = ir.VectorType(I64, LANES // 2)
_HAS_GATHER = "avx512f" in FEATURES  # that of AVX2 is no faster than single loads
_HAS_BYTE_MASKS = "avx512bw" in FEATURES
HAS_WIDE_SHUFFLES = "avx512vbmi" in FEATURES
"""Whether `bytes_of_tables` exists: shuffles that see more than 16 bytes."""


def byte_of_table(builder: Any, table: bytes, numbers: Any) -> Any:
    """Of every byte 0..15 of `numbers` (16 lanes) the entry of a table of 16 bytes."""
    numbers = builder.bitcast(numbers, BYTES)
    if "avx512bw" in FEATURES:
        return _by_registers(builder, "llvm.x86.avx512.pshuf.b.512", table, numbers, 64)
    if "avx2" in FEATURES:
        return _by_registers(builder, "llvm.x86.avx2.pshuf.b", table, numbers, 32)
    if IS_ARM:
        return _by_registers(builder, "llvm.aarch64.neon.tbl1.v16i8", table, numbers, 16)
    found = ir.Constant(BYTES, None)
    for number, entry in enumerate(table):
        chosen = builder.icmp_unsigned("==", numbers, ir.Constant(BYTES, [number] * 64))
        found = builder.select(chosen, ir.Constant(BYTES, [entry] * 64), found)
    return builder.bitcast(found, VI32)


def _by_registers(builder: Any, name: str, table: bytes, numbers: Any, size: int) -> Any:
    """Registers of `size` bytes, each part of 16 of which sees the table. x86 has the table first, as ARM has it."""
    register = ir.VectorType(I8, size)
    entries = ir.Constant(register, list(table) * (size // 16))
    parts = []
    for first in range(0, 64, size):
        part = pick_lanes(builder, numbers, list(range(first, first + size)))
        parts.append(call_intrinsic(builder, name, register, entries, part))
    while len(parts) > 1:
        order = ir.Constant(ir.VectorType(I32, 2 * parts[0].type.count), list(range(2 * parts[0].type.count)))
        parts = [builder.shuffle_vector(parts[i], parts[i + 1], order) for i in range(0, len(parts), 2)]
    return builder.bitcast(parts[0], VI32)


def bytes_of_tables(builder: Any, tables: list[bytes], numbers: Any, ninth: Any) -> list[Any]:
    """Of every byte of `numbers` the entries of tables of 64, 256 or 512 bytes; `ninth` is a mask, the highest bit."""
    numbers, zero, masks = builder.bitcast(numbers, BYTES), ir.Constant(BYTES, None), []
    if len(tables[0]) > 64:
        twice = builder.add(numbers, numbers)
        masks = [builder.icmp_signed("<", v, zero) for v in (twice, numbers)] + ([ninth] if ninth else [])
    found = []
    for table in tables:
        parts = [ir.Constant(BYTES, list(table[first : first + 64])) for first in range(0, len(table), 64)]
        name = "llvm.x86.avx512.permvar.qi.512"
        entries = [call_intrinsic(builder, name, BYTES, part, numbers) for part in parts]
        for mask in masks:
            entries = [builder.select(mask, entries[i + 1], entries[i]) for i in range(0, len(entries), 2)]
        found.append(builder.bitcast(entries[0], VI32))
    return found


def table_address(builder: Any, name: str, data: bytes) -> Any:
    """The address of a table that becomes part of the compiled code, under a name of its own."""
    module = builder.module
    if name not in module.globals:
        kind = ir.ArrayType(I8, len(data))
        table = ir.GlobalVariable(module, kind, name)
        table.linkage, table.global_constant, table.unnamed_addr, table.align = "internal", True, True, 64
        table.initializer = ir.Constant(kind, bytearray(data))
    return builder.ptrtoint(module.globals[name], I64)


def eights_at(builder: Any, table: Any, numbers: Any) -> Any:
    """8 bytes for each of 8 lanes of int32: 16 lanes, two for a number."""
    if _HAS_GATHER:
        found = _gathered(builder, "llvm.x86.avx512.mask.gather.dpq.512", _EIGHTS, table, numbers)
    else:
        found = _one_by_one(builder, _EIGHTS, table, numbers)
    return builder.bitcast(found, VI32)


def fours_at(builder: Any, table: Any, numbers: Any) -> Any:
    """4 bytes for each of 16 lanes of int32."""
    if _HAS_GATHER:
        return _gathered(builder, "llvm.x86.avx512.mask.gather.dpi.512", VI32, table, numbers)
    return _one_by_one(builder, VI32, table, numbers)


def _gathered(builder: Any, name: str, result: Any, table: Any, numbers: Any) -> Any:
    everywhere = ir.Constant(ir.VectorType(ir.IntType(1), result.count), [1] * result.count)
    pointer, size = builder.inttoptr(table, I8.as_pointer()), I32(result.element.width // 8)
    return call_intrinsic(builder, name, result, ir.Constant(result, None), pointer, numbers, everywhere, size)


def _one_by_one(builder: Any, result: Any, table: Any, numbers: Any) -> Any:
    found, size = ir.Constant(result, ir.Undefined), result.element.width // 8
    for lane in range(result.count):
        number = builder.zext(builder.extract_element(numbers, I32(lane)), I64)
        pointer = builder.inttoptr(builder.add(table, builder.mul(number, I64(size))), result.element.as_pointer())
        found = builder.insert_element(found, builder.load(pointer, align=size), I32(lane))
    return found


def negated_where(builder: Any, bits: Any, v: Any) -> Any:
    """16 lanes of bytes, negative where the bit of an int64 is set, the lowest bit for the first byte."""
    if _HAS_BYTE_MASKS:
        mask = builder.bitcast(bits, ir.VectorType(ir.IntType(1), 64))
    else:
        packed = builder.bitcast(bits, ir.VectorType(I8, 8))
        spread = pick_lanes(builder, packed, [byte for byte in range(8) for _ in range(8)])
        places = ir.Constant(BYTES, [1 << bit for _ in range(8) for bit in range(8)])
        mask = builder.icmp_unsigned("!=", builder.and_(spread, places), ir.Constant(BYTES, None))
    return negated_by(builder, mask, v)


def negated_by(builder: Any, mask: Any, v: Any) -> Any:
    """16 lanes of bytes, negative where the mask of 64 bits is set."""
    v = builder.bitcast(v, BYTES)
    return builder.bitcast(builder.select(mask, builder.sub(ir.Constant(BYTES, None), v), v), VI32)
