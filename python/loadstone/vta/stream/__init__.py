# SPDX-License-Identifier: Apache-2.0
"""The static stream before it has addresses: operations on virtual tiles.

operations.py      the records
table.py           the same as columns, which passes ask
text.py            the same for people
cost.py            what they take
loop_nest.py       a loop nest as hardware loops and a list of micro-ops
join_products.py   several products as one
"""
