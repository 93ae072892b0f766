"""`python -m rmt` is the command `rmt`."""

import sys

from rmt.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
