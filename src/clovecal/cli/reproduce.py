"""``clovecal reproduce``: one command a figure or table of the paper, each in a module of its own."""

from __future__ import annotations

from importlib import import_module

import click

_PARTS = {
    "two-bit": "Two-Bit environments: the optima of IRMv1 and CLOvE (figure 3a).",
    "gaussian": "Linear-Gaussian domains: how many are enough (section 3).",
    "colored-mnist": "Colored MNIST: 300 models a setting, and the choice among them (section 6.1).",
    "wilds": "WILDS: the tables of section 6.2.",
}


class _Parts(click.Group):
    """A group whose commands are imported when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_PARTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _PARTS:
            return None
        command: click.Command = import_module(f"clovecal.cli._reproduce_{cmd_name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_PARTS.items()))


@click.command("reproduce", cls=_Parts)
def command() -> None:
    """Regenerate the paper's figures and tables, with its numbers beside ours.

    \b
    Example:
        clovecal reproduce two-bit --output two-bit
    """
