"""`python -m watchdogd` is `watchdogd`."""

import sys

from watchdogd.cli import main

sys.exit(main())
