# SPDX-License-Identifier: Apache-2.0
"""Loadstone as a framework and a back end of MLonMCU's flow (docs/mlonmcu.md)."""
