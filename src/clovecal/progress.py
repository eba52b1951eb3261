"""How far long work has come: what anything that takes ``progress=`` is given; `on_terminal` draws it."""

from clovecal._progress import SILENT, Progress, Task, calling, on_terminal

__all__ = ["SILENT", "Progress", "Task", "calling", "on_terminal"]
