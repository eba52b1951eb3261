"""The documentation's Python examples run, and what it says a command prints is what it prints."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs" / "guide.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_of_a_page_run_in_order(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    assert blocks
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), namespace)
        if "# the second weight is near 0" in block:
            assert abs(float(namespace["model"].weight.detach()[0, 1])) < 0.1
    assert capsys.readouterr().out


def test_the_readmes_first_python_example_prints_what_it_says():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, flags=re.S).groups()
    printed: list[str] = []
    exec(compile(code, "README.md", "exec"), {"print": printed.append})
    assert " ".join(printed[0].split()) == " ".join(shown.split())


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_to_files_of_the_repository_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert all((page.parent / target).exists() for target in targets), targets
