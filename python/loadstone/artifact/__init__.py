# SPDX-License-Identifier: Apache-2.0
"""The compiled model as one file: its format, its memory, and what the host does between device
programs."""
