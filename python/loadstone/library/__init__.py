# SPDX-License-Identifier: Apache-2.0
"""The C library, opened: what every part that calls C stands on."""
