"""Write the channels' tables of config.example.toml, each of its type's own words.

They stand in the repository, so that they can be read where the project is; a test compares them with the
code. Run it where the keys of a channel changed: python scripts/example.py
"""

from __future__ import annotations

from pathlib import Path

from watchdogd.config.channels import ChannelSection, channel_model, channel_types, example

TARGET = Path(__file__).resolve().parents[1] / "config.example.toml"
_BEGIN, _END = "# ---- channels", "# [heartbeat]"


def rewritten(text: str) -> str:
    """Return the text of config.example.toml with the channels' tables as they are now."""
    before, begin, rest = text.partition(_BEGIN)
    heading, _, rest = rest.partition("\n")
    _, end, after = rest.partition(_END)
    models = [channel_model(name) for name in channel_types()]
    own = [model for model in models if model.__module__.startswith("watchdogd.")]
    blocks = [example(model) for model in sorted(own, key=lambda model: not model.local)]
    common = f"# In each, beside its own keys:\n{example(ChannelSection)}"
    return f"{before}{begin}{heading}\n\n" + "\n".join((*blocks, common, f"{end}{after}"))


if __name__ == "__main__":
    TARGET.write_text(rewritten(TARGET.read_text("utf-8")), "utf-8")
