"""``python -m chaoscore.cli`` is ``chaoscore``."""

import sys

from chaoscore.cli.main import run

sys.exit(run())
