# SPDX-License-Identifier: Apache-2.0
"""Searches that compile and simulate many times: which device is best, which samples give what.

In:   models, a space of devices, workers.
Out:  tables of results.
Next: `loadstone sweep`, `loadstone run --workers`.
"""
