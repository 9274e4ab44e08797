"""``python -m prefixrouter``, the same as the command ``prefixrouter``."""

import sys

from prefixrouter.cli import main

sys.exit(main())
