# python -m pytest tests/test_description.py
from dllama_py.description import same_name_lines
from dllama_py.transport.hosts import Host, told_apart


def test_machines_of_one_name_are_told() -> None:
    pis = [Host("1", "pi", "a"), Host("2", "pi", "a"), Host("3", "pc", "c"), Host("2", "pi", "a")]
    assert list(same_name_lines(told_apart(pis))) == [
        "2 machines are called pi: rank 0 on pi, rank 1 on pi (2), and machine ids are equal, as on copied cards; "
        "sudo hostnamectl hostname NAME names one"
    ]


def test_other_names_need_no_word() -> None:
    assert list(same_name_lines(told_apart([Host("1", "pi"), Host("2", "pc"), Host("2", "box")]))) == []
    (line,) = same_name_lines(told_apart([Host("1", "pi", "a"), Host("2", "pi", "b")]))
    assert "machine ids" not in line
