"""A sweep's folder: a record of each member, the table of its predictions, and its model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from clovecal import records
from clovecal.errors import InputError, OutputExists
from clovecal.tables.writing import as_table, domain_columns, score_columns, write_table
from clovecal.training.sweep.config import SweepMember
from clovecal.training.sweep.running import Outcome, SweepData
from clovecal.training.sweep.values import is_file_name


class SweepFolder:
    """The files of one sweep.

    Parameters
    ----------
    path
        The folder; it need not exist yet.

    Notes
    -----
    What a member has written is named by its record in ``records.jsonl``, which is written last: what has a record is
    whole. Starting anew removes the files that these records name and nothing else, and not before a new member has
    been trained to the end, so that a training that fails costs nothing.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.records = self.path / "records.jsonl"
        self._earlier: tuple[Path, ...] = ()  # the files of the sweep that is to be replaced
        self._waiting: list[tuple[SweepMember, Outcome]] = []

    def predictions(self, name: str) -> Path:
        """Return the table of a member's predictions."""
        return self.path / "predictions" / f"{name}.parquet"

    def model(self, name: str) -> Path:
        """Return the file of a member's model."""
        return self.path / "models" / f"{name}.safetensors"

    @property
    def is_untouched(self) -> bool:
        """Whether an earlier sweep was to be replaced and is still there."""
        return bool(self._earlier)

    def begin(self, members: Sequence[SweepMember], *, overwrite: bool = False) -> tuple[SweepMember, ...]:
        """Return the members that have no record yet.

        Parameters
        ----------
        members
            From `Sweep.members`.
        overwrite
            Whether to replace the sweep that the folder holds, as soon as there is something to replace it by.
        """
        if overwrite:
            self._earlier = self._files_of_an_earlier_sweep()
            return tuple(members)
        self._reject_another(members)
        return tuple(records.missing(self.records, members))

    def keep(self, member: SweepMember, outcome: Outcome, data: SweepData) -> None:
        """Write a member's predictions, its model and its record; of one that diverged the record alone."""
        if self._earlier:
            self._waiting.append((member, outcome))
            if outcome.head is None:
                return
            for path in self._earlier:
                path.unlink(missing_ok=True)
            finished, self._earlier, self._waiting = self._waiting, (), []
        else:
            finished = [(member, outcome)]
        for one, result in finished:
            self._write(one, result, data)

    def diverged(self, members: Sequence[SweepMember]) -> dict[str, str]:
        """Return why members were not trained to the end, by their names."""
        ours = {member.name for member in members}
        if self._earlier:
            return {member.name: str(outcome.diverged) for member, outcome in self._waiting}
        reasons = {one["config"]["name"]: one["diverged"] for one in self._read()}
        return {name: reason for name, reason in reasons.items() if name in ours and reason is not None}

    def _write(self, member: SweepMember, outcome: Outcome, data: SweepData) -> None:
        if outcome.p is not None and outcome.head is not None:
            for path in (self.predictions(member.name), self.model(member.name)):
                path.parent.mkdir(parents=True, exist_ok=True)
            columns = {"y": data.y, **score_columns(outcome.p), **domain_columns(data.domains)}
            write_table(self.predictions(member.name), as_table(columns), overwrite=True)
            outcome.head.save(self.model(member.name), overwrite=True)
        records.append(self.records, member, {"diverged": outcome.diverged, **outcome.summary})

    def _files_of_an_earlier_sweep(self) -> tuple[Path, ...]:
        """Return what the records name, the records last; lines that are not records name nothing."""
        if not self.records.exists():
            return ()
        lines = [_as_json(line) for line in self.records.read_text(encoding="utf-8", errors="replace").splitlines()]
        found = [line for line in lines if _is_record(line)]
        if lines and not found:
            raise InputError(f"file {str(self.records)!r}", "has no record of a sweep", "choose another folder")
        names = [one["config"]["name"] for one in found if one["diverged"] is None]
        files = [path for name in names for path in (self.predictions(name), self.model(name))]
        return (*files, self.records)

    def _reject_another(self, members: Sequence[SweepMember]) -> None:
        """Raise if the folder holds a member of the same name that was trained with other settings or rows."""
        wanted = {member.name: json.loads(json.dumps(asdict(member))) for member in members}
        for record in self._read():
            name = record["config"]["name"]
            others = [key for key, value in wanted.get(name, {}).items() if record["config"].get(key) != value]
            if others:
                raise OutputExists(
                    f"folder {str(self.path)!r}",
                    f"holds another sweep, whose member {name} differs in {', '.join(others)}",
                    "choose another folder, or start anew with overwrite=True",
                )

    def _read(self) -> list[dict[str, Any]]:
        try:
            read = records.read(self.records)
        except (ValueError, RecursionError):
            read = [{}]
        if not all(map(_is_record, read)):
            raise InputError(
                f"file {str(self.records)!r}",
                "has a line that is not a record of a sweep",
                "remove that line, or choose another folder",
            )
        return read


def _as_json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_record(content: Any) -> bool:
    """Whether this is what a member of a sweep leaves behind; its name becomes a path."""
    config = content.get("config") if isinstance(content, Mapping) else None
    if not isinstance(config, Mapping) or "diverged" not in content:
        return False
    return set(config) >= {field.name for field in fields(SweepMember)} and is_file_name(config["name"])
