"""A GGUF file made deeper by layers that add nothing, or coarser: a large and a small model of which one foretells the
other, where only one real model is at hand.

    python -m tests.peers.deepened MODEL.gguf DEEP.gguf --times 8        the same answers, eight times the layers
    python -m tests.peers.deepened MODEL.gguf COARSE.gguf --kind Q4_0    nearly the same answers, fewer bits
"""

import argparse
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, ReaderField, ReaderTensor
from gguf.quants import dequantize, quantize

OUTPUTS = ("attn_output.weight", "ffn_down.weight")  # of these a layer's contribution is a product: zero, it adds zero
WRITTEN_ANYWAY = ("GGUF.", "general.architecture")


def deepen(source: Path, out: Path, times: int, kind: str | None) -> None:
    """Each layer is followed by times - 1 copies of it whose outputs are zero; matrices of layers become `kind`."""
    reader = GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(out, arch)
    for field in reader.fields.values():
        if not field.name.startswith(WRITTEN_ANYWAY):
            _add_field(writer, field, times if field.name == f"{arch}.block_count" else 1)
    for tensor in reader.tensors:
        data, type = _converted(tensor, kind)
        head, _, rest = tensor.name.removeprefix("blk.").partition(".")
        if not tensor.name.startswith("blk."):
            writer.add_tensor(tensor.name, data, raw_dtype=type)
            continue
        for copy in range(times):
            shown = np.zeros_like(data) if copy and rest in OUTPUTS else data
            writer.add_tensor(f"blk.{int(head) * times + copy}.{rest}", shown, raw_dtype=type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_field(writer: GGUFWriter, field: ReaderField, factor: int) -> None:
    kind, *of_elements = field.types
    value = field.contents()
    if kind is not GGUFValueType.ARRAY and factor != 1:
        value *= factor
    writer.add_key_value(field.name, value, kind, of_elements[-1] if of_elements else None)


def _converted(tensor: ReaderTensor, kind: str | None) -> tuple[np.ndarray, GGMLQuantizationType]:
    if kind is None or not tensor.name.startswith("blk.") or len(tensor.shape) < 2:
        return tensor.data, tensor.tensor_type
    wanted = GGMLQuantizationType[kind]
    return quantize(dequantize(tensor.data, tensor.tensor_type), wanted), wanted


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--kind")
    arguments = parser.parse_args()
    deepen(arguments.source, arguments.out, arguments.times, arguments.kind)
