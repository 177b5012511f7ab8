# SPDX-License-Identifier: Apache-2.0
"""One module for each command of the command line; cli.py lists them, and imports one when it is
called."""
