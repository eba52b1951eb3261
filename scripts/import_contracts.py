"""A contract for import-linter: private modules are imported from their own package alone.

A module is private to the package that holds it where a part of its name begins with an underscore. Modules at the top
of the package, such as ``clovecal._checks``, are open to the whole library, but for the packages that must show that
the public names are enough.
"""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class PrivateModules(Contract):
    """Nobody imports another package's private module."""

    public_names_only: Any = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return every import of a private module from outside the package that holds it."""
        del verbose
        foreign = []
        for importer in sorted(graph.modules):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                home = home_of(imported)
                if home is None or f"{importer}.".startswith(f"{home}."):
                    top = ".".join(importer.split(".")[:2])
                    if home != imported.partition(".")[0] or top not in self.public_names_only:
                        continue
                foreign.append((importer, imported))
        return ContractCheck(kept=not foreign, metadata={"foreign": foreign})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one import per line."""
        for importer, imported in check.metadata["foreign"]:
            output.print_error(f"{importer} imports {imported}")


def home_of(module: str) -> str | None:
    """Return the package that a private module is private to, or None for a public one.

    Examples
    --------
    >>> home_of("clovecal.metrics._ece"), home_of("clovecal.metrics")
    ('clovecal.metrics', None)
    """
    parts = module.split(".")
    private = next(
        (place for place, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")), None
    )
    return None if private is None else ".".join(parts[:private])
