"""Tables of the documents, and the sums in their cells, for tests that compare them with the code."""

import re


def cells(text: str, after: str) -> list[list[str]]:
    """Cells of the first table after some words, without its two head lines; a bar inside a word parts no cells."""
    rows = re.search(r"(?:^\|.*\n)+", text[text.index(after) :], re.MULTILINE)
    assert rows is not None
    lines = [line.strip().removeprefix("|").removesuffix("|") for line in rows[0].splitlines()[2:]]
    return [[cell.strip() for cell in re.split(r"\s\|(?=\s)", line)] for line in lines]


def value(cell: str, **values: int) -> int:
    """The value of a cell such as `16 + 8·K`, `4 + 4·(n+1)` or `5 + 2^k`."""
    text = re.sub(r"\((\w)\+(\d)\)", lambda found: str(values[found[1]] + int(found[2])), cell)
    total = 0
    for term in text.split(" + "):
        product = 1
        for factor in term.split("·"):
            base, _, power = factor.partition("^")
            number = values[base] if base in values else int(base)
            product *= number ** values[power] if power else number
        total += product
    return total
