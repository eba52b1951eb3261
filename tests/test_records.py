"""Records of runs: what was run, what came out; an interrupted run's unfinished line is dropped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clovecal import records


@dataclass(frozen=True)
class Part:
    """A configuration."""

    name: str
    numbers: tuple[int, ...] = ()


def test_a_record_has_its_configuration_the_outcome_and_where_it_was_computed(tmp_path: Path) -> None:
    results = tmp_path / "new" / "results.jsonl"
    records.append(results, Part("one", (1, 2)), {"value": 0.5})
    (record,) = records.read(results)
    assert record["config"] == {"name": "one", "numbers": [1, 2]}
    assert record["value"] == 0.5
    assert {"python", "clovecal"} <= set(record["versions"])
    assert record["machine"]["cpus"] >= 1


def test_what_has_a_record_is_not_missing(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    wanted = [Part("one"), Part("one", (1,)), Part("two")]
    assert list(records.missing(results, wanted)) == wanted
    records.append(results, wanted[1], {})
    assert list(records.missing(results, wanted)) == [wanted[0], wanted[2]]


def test_an_unfinished_last_line_is_no_record_and_the_next_record_replaces_it(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    records.append(results, Part("one"), {})
    first = results.read_bytes()
    for unfinished in (b'{"config": {"na', b"x" * len(first)):
        results.write_bytes(first + unfinished)
        assert [one["config"]["name"] for one in records.read(results)] == ["one"]
        records.append(results, Part("two"), {})
        assert [one["config"]["name"] for one in records.read(results)] == ["one", "two"]
        assert results.read_bytes().startswith(first)
    results.write_bytes(b'{"config"')  # of the first record
    records.append(results, Part("two"), {})
    assert [one["config"]["name"] for one in records.read(results)] == ["two"]


def test_what_was_run_may_be_a_mapping_and_more_packages_may_matter(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    records.append(results, {"rows": 5}, {"value": 1}, packages=["click"])
    (record,) = records.read(results)
    assert record["config"] == {"rows": 5}
    assert record["versions"]["click"]
    assert list(records.missing(results, [{"rows": 5}, {"rows": 6}])) == [{"rows": 6}]


def test_records_of_some_configurations_come_in_the_order_of_these(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    for number, name in enumerate(("one", "two", "three")):
        records.append(results, Part(name), {"number": number})
    chosen = records.of_configs(records.read(results), [Part("three"), Part("four"), Part("one")])
    assert [one["number"] for one in chosen] == [2, 0]
