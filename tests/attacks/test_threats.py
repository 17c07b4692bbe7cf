"""SECURITY.md and the attacks say the same: no row without its attack, no attack without its row."""

import re
from pathlib import Path

TABLES = Path("SECURITY.md").read_text()


def rows(head: str) -> list[tuple[str, ...]]:
    """The cells of a table's rows, below this head."""
    lines = TABLES.partition(f"| {head} |")[2].split("\n\n")[0].splitlines()[2:]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def test_each_row_has_an_attack_and_each_attack_a_row() -> None:
    texts = "".join(path.read_text() for path in Path("tests").rglob("test_*.py"))
    attacks = re.findall(r'mark\.attack\(\s*"([^"]+)"', texts)
    tried = [what for _, what, _ in rows("who | tries to | what holds")]
    assert sorted(tried) == sorted(attacks)


def test_everybody_tries_something_and_for_each_try_it_is_said_what_holds() -> None:
    tries = rows("who | tries to | what holds")
    assert {who for who, _, _ in tries} == {row[0] for row in rows("who | what they can do | what holds")}
    assert all(holds for _, _, holds in tries)
