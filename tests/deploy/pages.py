"""The files in deploy/, and how a site would change them: the paths alone."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "deploy"
INSTALLATION = "/opt/watchdogd"
HOME = "/shared/team/watchdogd"


def adapted(name: str, installation: Path, home: Path) -> str:
    """A file of deploy/ with this site's paths; AssertionError where it does not name them."""
    text = (FOLDER / name).read_text()
    for example, own in ((INSTALLATION, installation), (HOME, home)):
        assert example in text
        text = text.replace(example, str(own))
    return text
