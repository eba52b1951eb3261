"""The script that puts tables into READMEs: each between its own markers, and nothing else is touched."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
END = "<!-- end of table -->"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("update_tables", ROOT / "scripts" / "update_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def begin(records):
    return f"<!-- table: made from {records} -->"


def test_an_empty_table_is_filled_and_the_sections_after_it_stay(script):
    for empty in ("\n", "\n\n", "\n\n\n\n", ""):
        text = (
            f"# Timings\n\n{begin('results/a.jsonl')}{empty}{END}\n\n## Words between\n\n"
            f"{begin('results/b.jsonl')}\n\n| old |\n\n{END}\n\nThe last word.\n"
        )
        found = script.filled(text, lambda records: f"| {records} |")
        assert found == (
            f"# Timings\n\n{begin('results/a.jsonl')}\n\n| results/a.jsonl |\n\n{END}\n\n## Words between\n\n"
            f"{begin('results/b.jsonl')}\n\n| results/b.jsonl |\n\n{END}\n\nThe last word.\n"
        )
        assert script.filled(found, lambda records: f"| {records} |") == found


@pytest.mark.parametrize(
    "text",
    [
        f"{begin('results/a.jsonl')}\n\n| old |\n\n## Next\n\n{begin('results/b.jsonl')}\n\n{END}\n",
        f"{begin('the records')}\n\n| old |\n\nThe verdict.\n",
    ],
)
def test_a_table_without_an_end_is_refused(script, text):
    with pytest.raises(ValueError, match="has no '<!-- end of table -->'"):
        script.filled(text, lambda _: "| new |")


@pytest.mark.parametrize("readme", [*sorted(ROOT.glob("experiments/*/README.md")), ROOT / "benchmarks" / "README.md"])
def test_every_table_of_the_readmes_has_its_end(script, readme):
    text = readme.read_text(encoding="utf-8")
    assert text.count(END) == len(script.BEGINNING.findall(text))
    script.filled(text, lambda _: "")
