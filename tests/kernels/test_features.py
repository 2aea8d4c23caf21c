# python -m pytest tests/kernels/test_features.py
from dllama_py.kernels.features import arm_features, enabled

PI_4 = "processor\t: 0\nFeatures\t: fp asimd evtstrm crc32 cpuid\nCPU part\t: 0xd08\n"
PI_5 = (
    "processor\t: 0\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm "
    "lrcpc dcpop asimddp\nCPU part\t: 0xd0b\n"
)


def test_what_a_feature_string_turns_on() -> None:
    assert enabled("+avx2,-avx512f,+fma") == {"avx2", "fma"}
    assert enabled("") == set()


def test_a_raspberry_pi_4_has_no_products_of_bytes_and_a_5_has() -> None:
    assert arm_features("Linux", PI_4) == {"neon", "crc"}
    assert arm_features("Linux", PI_5) == {"neon", "dotprod", "crc"}


def test_all_kinds_of_cores_must_have_it() -> None:
    assert arm_features("Linux", PI_5 + "\n" + PI_4) == {"neon", "crc"}


def test_a_mac_has_it_and_no_cpuinfo() -> None:
    assert arm_features("Darwin", "") == {"neon", "dotprod", "crc"}


def test_neon_is_all_that_is_taken_for_granted() -> None:
    assert arm_features("Linux", "") == {"neon"}
