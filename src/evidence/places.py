"""Folders of the checkout that the package belongs to."""

from __future__ import annotations

from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1]
"""What a process needs on PYTHONPATH to import this samedevice and this package."""
ROOT = SOURCES.parent
