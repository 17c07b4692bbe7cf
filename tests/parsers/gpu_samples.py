"""Outputs of smi tools, in the forms that they are seen in, with our own numbers."""

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent.parent / "samples" / "gpu"


def sample(name: str) -> str:
    """One of them, by its file's name."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def sample_bytes(name: str) -> str:
    """A file of metrics, each byte as one letter."""
    return (_FOLDER.parent / "logs" / name).read_bytes().decode("latin-1")
