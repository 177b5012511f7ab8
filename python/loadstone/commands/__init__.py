# SPDX-License-Identifier: Apache-2.0
"""One module per command of the command line; cli.py lists them and imports the one that is asked
for."""
