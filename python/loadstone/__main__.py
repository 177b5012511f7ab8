"""`python -m loadstone`: the same as the `loadstone` command.

In:   sys.argv.
Out:  the exit status.
Next: cli.py.
"""

import sys

from loadstone.cli import main

sys.exit(main())
