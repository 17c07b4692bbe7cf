"""The oldest versions of the libraries that pyproject.toml allows do the work as well as the newest."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.lab.environments import python_of

ROOT = Path(__file__).parents[1]
USE_EACH = (
    "tests/config/test_loading.py",  # pydantic
    "tests/cli/test_overview.py",  # rich
    "tests/cli/test_plot.py",
    "tests/daemon/test_check_factory.py",
    "tests/daemon/test_daemon.py",  # APScheduler, psutil
    "tests/history/test_archive.py",  # SQLAlchemy, Alembic, psycopg
    "tests/notify/test_apprise.py",
    "tests/notify/test_mail.py",
    "tests/notify/test_web.py",  # requests
    "tests/web/test_metrics.py",  # prometheus-client
    "tests/web/test_report.py",  # Jinja2
)


@pytest.mark.timeout(1800)  # the environment may have to come first
def test_the_lower_bounds_hold() -> None:
    python = python_of("lowest", ".venv/lowest/ready")
    words = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *USE_EACH]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env["HYPOTHESIS_PROFILE"] = "quick"  # the libraries are tried here, not the examples
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
