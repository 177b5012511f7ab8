# SPDX-License-Identifier: Apache-2.0
"""The static stream before it has addresses: operations on virtual tiles.

operations.py      the records
table.py           the same as columns, for passes
text.py            the same as text
cost.py            their cost
loop_nest.py       a loop nest as hardware loops and a list of micro-ops
join_products.py   several products as one
"""
