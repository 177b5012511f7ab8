# SPDX-License-Identifier: Apache-2.0
"""From operations on virtual tiles to instructions: pipeline.py has the list, program.py what each
pass takes and returns. A pass has its verifier beside it."""
