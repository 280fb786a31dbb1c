from __future__ import annotations

from pglock_inspect.top.sections import Entry, Section, lines_of

SECTIONS = [
    Section("One", [Entry("a", "some words that are long enough to wrap")]),
    Section("Two", [Entry("second label", "text")]),
    Section("Three", [Entry("b", "text")]),
]


def shown(cells: int) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in lines_of(SECTIONS, cells)]


def test_wraps_beside_the_labels() -> None:
    assert shown(30) == [
        "One",
        "a  some words that are long",
        "   enough to wrap",
        "",
        "Two",
        "second label text",
        "",
        "Three",
        "b  text",
    ]


def test_stands_side_by_side_where_there_is_room() -> None:
    assert shown(116) == [
        "One                                                         Two",
        "a  some words that are long enough to wrap                  second label text",
        "",
        "                                                            Three",
        "                                                            b  text",
    ]
