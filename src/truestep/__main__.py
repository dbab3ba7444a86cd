"""`python -m truestep`: the command line, where no script was installed."""

import sys

from truestep.cli import main

if __name__ == "__main__":
    sys.exit(main())
