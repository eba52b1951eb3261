"""The command ``clovecal``: parse, one library call, write.

Each command lives in a module of its own that is imported when it is called, so that help is instant.
"""

from __future__ import annotations

import sys

import click

from clovecal import __version__
from clovecal.cli._console import LazyGroup, ready_streams, terminated_as_interrupted
from clovecal.errors import InputError

_COMMANDS = {
    "audit": "Tell whether the model is equally right in every domain.",
    "calibrate": "Fit a calibrator on validation predictions.",
    "adapt": "Adapt a calibrator to a new domain with a few labelled rows.",
    "apply": "Apply a calibrator to a file of predictions.",
    "compare": "Compare a held-out file before and after calibration.",
    "select": "Choose the model that will hold up elsewhere.",
    "demo": "Run the whole job on built-in flight data.",
    "data": "List, fetch or check the data sets.",
    "finetune": "Train a head on frozen features.",
    "train": "Train a network on images or texts.",
    "predict": "Write the predictions of a trained head, or of a network.",
    "sweep": "Train many models at once and write their predictions.",
    "reproduce": "Regenerate the paper's figures and tables.",
    "doctor": "Show versions, what is installed of each extra, data folders and GPU.",
}


@click.command(
    cls=LazyGroup,
    modules={name: (f"clovecal.cli.{name}", line) for name, line in _COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="clovecal")
def group() -> None:
    """Audit, repair and select models that must hold in a domain nobody has seen yet.

    Start with a file that has a label, a predicted probability and a domain in each row:

    \b
        clovecal audit predictions.csv --report page.html
    """


def main() -> None:
    """Run the command; a wrong input is one sentence on standard error and exit code 2."""
    with ready_streams(), terminated_as_interrupted() as stop_code:
        try:
            group.main(prog_name="clovecal", standalone_mode=False)
        except click.ClickException as error:
            error.show()
            sys.exit(2)
        except InputError as error:
            _say(str(error))
            sys.exit(2)
        except (click.Abort, KeyboardInterrupt):
            _say("interrupted; nothing was written.")
            sys.exit(stop_code())
        except BrokenPipeError:  # the reader of a pipe went away, as `| head` does
            sys.stderr.close()
            sys.exit(0)
        except OSError as error:
            place = f" ({error.filename!r})" if error.filename else ""
            _say(f"{error.strerror or error}{place}; nothing was written.")
            sys.exit(2)
        except MemoryError:
            _say("this needs more memory than there is; give fewer rows or columns, or more memory.")
            sys.exit(2)


def _say(sentence: str) -> None:
    from clovecal.text import printable  # needs numpy, which help does not

    click.echo(f"clovecal: {printable(sentence)}", err=True)
