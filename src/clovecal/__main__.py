"""``python -m clovecal``."""

from clovecal.cli import main

main()
