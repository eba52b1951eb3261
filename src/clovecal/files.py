"""Writing files that appear whole or not at all, and only where they may."""

from clovecal._files import check_writable, replacing

__all__ = ["check_writable", "replacing"]
