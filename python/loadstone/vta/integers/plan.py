# SPDX-License-Identifier: Apache-2.0
"""The cheapest proven form for each block of channels.

In:   runs of a layer's channels, the device's lanes, how many GEMM steps the sum of a tile takes.
Out:  `Planner`: a DigitPlan or PartPlan for every block of output channels.
Next: operators/layer_plans.py asks it, operators/rescaled_layer.py makes kernels of what it says.

What is cheapest says steps.py. Two digits are searched for at once; where parts of weights take
fewer steps than any other form, no other is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.integers.block_plan import LAST_SHIFT, Setting, digit_plans, part_plans
from loadstone.vta.integers.digit_search import LARGEST_LOWEST, DigitForm, held, search_digits
from loadstone.vta.integers.joined import JoinedPlan, prove_blocks
from loadstone.vta.integers.lanes import Lanes
from loadstone.vta.integers.proof import prove_digits
from loadstone.vta.integers.runs import IntArray, Runs
from loadstone.vta.integers.search import Found, needs_sign, search_parts
from loadstone.vta.integers.stair_search import divisions
from loadstone.vta.integers.stairs import stair_plans
from loadstone.vta.integers.steps import BlockPlan, tail_steps

__all__ = ["Planner"]

#: Rounds, cheapest first; all settings of a round are tried, and the cheapest is taken.
_ROUNDS = (
    (Setting(2, False, None),),
    (
        Setting(2, True, None),
        Setting(3, False, None, "layer"),
        Setting(3, False, None, "block"),
        *(Setting(3, False, extra) for extra in (None, 0, 1, 2)),
    ),
    tuple(Setting(3, True, extra) for extra in (None, 0, 1, 2)),
)
#: A block that one shift of all lanes does in so many steps is not tried with others, which took
#: half of the search: of 1,300 blocks of MobileNetV2 two were a step shorter so.
_EVEN_STEPS = 24
#: What is not two digits without a sign takes so many steps at least: of 2,100 blocks of six
#: networks 18 (with a sign) or 21 (three digits). Where parts of weights take fewer, none is
#: searched for.
_LEAST_STEPS = 18
_PARTS = (3, 4, 5)
#: 3 digits hold |x| up to here.
_ROOM = 8355711
#: A constant channel has 256 times its output as x, which must be a multiple of the left shift's.
_DEAD_LEFT = 8
_NEVER = 1 << 30
#: A block of a rule with ties to even that lacks more lanes gets them by no shift to the left.
_LACKING = 3
#: A scale that wants no shift to the left.
_NOTHING = 2.0**-80
#: One block of plans side by side: those, and its place.
_Offer: TypeAlias = tuple[JoinedPlan, int]


class Planner:
    """The forms of one layer's blocks. Which digits do does not depend on how long a sum is, so
    they are searched for once; parts of weights are, where a sum is short enough for them."""

    def __init__(self, runs: Runs, block: int, widest: IntArray) -> None:
        """widest: (C,) the largest magnitude of a channel's weights."""
        self.runs, self.block, self.widest = runs, block, widest
        numbers = range(-(-len(runs.scale) // block))
        lanes = self._lanes(numbers)
        self.largest = float(runs.scale[~runs.constant].max(initial=0.0))
        self.best: list[BlockPlan | None] = [None for _ in numbers]
        self.steps = [_NEVER for _ in numbers]
        # Of a round, what is to be proven: each plan has fewer steps than those before it.
        self.offers: list[list[_Offer]] = [[] for _ in numbers]
        self.hopeless: set[int] = set()
        self.tried: set[tuple[int, int, bool, bool, bytes]] = set()
        if runs.ties_to_even:
            signed = runs.constant & False
        elif runs.alike is not None and runs.member is not None:
            signed = needs_sign(runs.alike)[runs.member] & ~runs.constant
            signed[signed] = needs_sign(runs, np.flatnonzero(signed))
        else:
            signed = needs_sign(runs)
        self.lines: list[bool] = (~lanes.any(signed)).tolist()
        self.short: list[bool] = (~lanes.any(~held(runs, 2) & ~runs.constant)).tolist()
        # By block and count of parts: a plan, and its steps without a sum.
        self.parts: dict[tuple[int, int], tuple[BlockPlan, int] | None] = {}
        self.open = list(numbers)
        self._attempt_round(_ROUNDS[0])
        self.unsearched = set(self.open)

    def _lanes(self, numbers: Sequence[int]) -> Lanes:
        return Lanes.of(numbers, self.block, len(self.runs.scale))

    def _search_all(self, numbers: Sequence[int]) -> None:
        """All rounds, for blocks that were not searched yet."""
        self.open = sorted(self.unsearched.intersection(numbers))
        self.unsearched -= set(self.open)
        for settings in _ROUNDS[1:]:
            self._attempt_round(settings)
        for patient in (False, True):
            self._attempt_stairs(patient)

    def _attempt_round(self, settings: Sequence[Setting]) -> None:
        for setting in settings:
            if not (setting.signed and self.runs.ties_to_even):  # its grids differ by parity
                self._attempt_digits(setting)
        self._settle()

    def _settle(self) -> None:
        """The cheapest offer to each block that is proven: what it replaces need not be. Blocks
        that have a plan want no dearer form."""
        while numbers := [number for number, offers in enumerate(self.offers) if offers]:
            offers = [self.offers[number].pop() for number in numbers]
            proven = prove_blocks(offers, self.runs)
            for number, (joined, place), good in zip(numbers, offers, proven, strict=True):
                if good:
                    self.best[number], self.steps[number] = (
                        joined.plan_of(place),
                        joined.steps[place],
                    )
                    self.offers[number].clear()
                else:
                    self.steps[number] = _NEVER
        self.open = [number for number in self.open if self.best[number] is None]

    def lacking(self, sum_steps: int) -> list[int]:
        """Numbers of the blocks for which no form is proven. sum_steps: for which `plans` will be
        asked; less is searched then."""
        without = [number for number, plan in enumerate(self.plans(sum_steps)) if plan is None]
        left = [number for number in without if self.lines[number]]
        for parts in _PARTS:
            self._search_parts(parts, left)
            left = [number for number in left if self.parts[number, parts] is None]
        return [number for number in without if number in left or not self.lines[number]]

    def plans(self, sum_steps: int) -> list[BlockPlan | None]:
        """The cheapest plan of each block; None where no form is proven. sum_steps: GEMM steps
        of a tile's sum, which P repeats."""
        self._search_all(self._undecided(sum_steps))
        best = list(self.best)
        steps = [
            _LEAST_STEPS if number in self.unsearched else own
            for number, own in enumerate(self.steps)
        ]
        for parts in _PARTS:
            numbers = [
                number
                for number in range(len(steps))
                if self.lines[number] and parts * (sum_steps + 1) + 4 < steps[number] + sum_steps
            ]
            self._search_parts(parts, numbers)
            for number in numbers:
                found = self.parts[number, parts]
                if found is not None and _with_sum(parts, found, sum_steps) < steps[number]:
                    best[number], steps[number] = found[0], _with_sum(parts, found, sum_steps)
        return best

    def _undecided(self, sum_steps: int) -> list[int]:
        """Blocks that were not searched, and that no parts of weights do in fewer steps than what a
        search could find."""
        left = sorted(self.unsearched)
        for parts in _PARTS:
            if parts * (sum_steps + 1) + 4 >= _LEAST_STEPS + sum_steps:
                break
            own = [number for number in left if self.lines[number]]
            self._search_parts(parts, own)
            cheap = {
                number
                for number in own
                if (found := self.parts[number, parts]) is not None
                and _with_sum(parts, found, sum_steps) < _LEAST_STEPS
            }
            left = [number for number in left if number not in cheap]
        return left

    def _attempt_digits(self, setting: Setting) -> None:
        """One setting, for all blocks that are open."""
        numbers = [
            number
            for number in self.open
            if setting.signed or self.lines[number]
            if setting.digits > 2 or self.short[number]
            if setting.even or self.steps[number] > _EVEN_STEPS
            if not (self.runs.ties_to_even and number in self.hopeless)
        ]
        if not numbers:
            return
        lanes = self._lanes(numbers)
        left, fits = self._left(lanes, setting)
        places = [
            place
            for place in np.flatnonzero(fits).tolist()
            if self._is_new(setting, numbers[place], left[slice(*lanes.ends[place : place + 2])])
        ]
        if not places:
            return
        lanes, own = lanes.some(places)
        found = self._search(setting, lanes.channels, left[own])
        self._offer_digits(setting, lanes, left[own], found)
        self._even_out(setting, lanes, left[own], found)

    def _is_new(self, setting: Setting, number: int, left: IntArray) -> bool:
        """Whether no setting before came to the same for a block: its search would, too."""
        key = (number, setting.digits, setting.signed, setting.even is None, left.tobytes())
        new = key not in self.tried
        self.tried.add(key)
        return new

    def _even_out(self, setting: Setting, lanes: Lanes, left: IntArray, found: Found) -> None:
        """Blocks with an offer again, with one last shift for all lanes: an immediate is cheaper
        than a tile."""
        dead = self.runs.constant[lanes.channels]
        least = lanes.least(np.where(dead, _NEVER, found.shift))
        uneven = lanes.most(np.where(dead, -1, found.shift)) > least
        offered = [bool(self.offers[number]) for number in lanes.numbers]
        chosen = np.flatnonzero(uneven & offered)
        if not chosen.size:
            return
        some, own = lanes.some(chosen)
        shift = lanes.each(least)[own]
        form = DigitForm(setting.digits, setting.signed, left[own], shift)
        self._offer_digits(setting, some, left[own], search_digits(self.runs, form, some.channels))

    def _offer_digits(self, setting: Setting, lanes: Lanes, left: IntArray, found: Found) -> None:
        """Plans of what was found for some blocks, those that are cheaper than any before."""
        lacks = ~found.ok & ~self.runs.constant[lanes.channels]
        lacking = np.add.reduceat(lacks, lanes.starts, dtype=np.int64)
        if setting.digits == 3:
            self.hopeless.update(np.array(lanes.numbers)[lacking > _LACKING].tolist())
        chosen = np.flatnonzero(lacking == 0)
        if not chosen.size:
            return
        some, own = lanes.some(chosen)
        plans = digit_plans(self.runs, some, setting, left[own], found.take(own), self.block)
        for number, offer, steps in _offers(plans):
            if steps < self.steps[number]:
                self.offers[number].append(offer)
                self.steps[number] = steps

    def _search(self, setting: Setting, channels: IntArray, left: IntArray) -> Found:
        """Channels of one scale get the same integers where there are such for all of them."""
        alike, member = self.runs.alike, self.runs.member

        def form(left: IntArray) -> DigitForm:
            shift = np.full(len(left), 8 * setting.digits) if setting.even else None
            return DigitForm(setting.digits, setting.signed, left, shift)

        if alike is None or member is None or (left.any() and not setting.even):
            return search_digits(self.runs, form(left), channels)
        groups, position = np.unique(member[channels], return_inverse=True)
        common = form(np.full(len(groups), left[0]))
        shared = search_digits(alike, common, groups).take(position)
        lacking = np.flatnonzero(~shared.ok)
        if not lacking.size:
            return shared
        own = search_digits(self.runs, form(left[lacking]), channels[lacking])
        return shared.updated(lacking, own)

    def _attempt_stairs(self, patient: bool) -> None:
        """Even and odd outputs by floors of their own, for the blocks that have nothing else.
        patient: a block that lacks many lanes at first is searched to the end."""
        for division in divisions(self.runs):
            if not self.open:
                return
            lanes = self._lanes(self.open)
            runs = self.runs.take(lanes.channels)
            blocks = [np.arange(*ends) for ends in pairwise(lanes.ends)]
            plans = stair_plans(
                runs, blocks, division, self.block, patient=patient, largest=self.largest
            )
            for number, own, plan in zip(self.open, blocks, plans, strict=True):
                if plan is not None and prove_digits(plan, runs.take(own)).all():
                    self.best[number] = plan
                    self.steps[number] = tail_steps(plan, 0, self.block)
            self._settle()

    def _search_parts(self, parts: int, numbers: Sequence[int]) -> None:
        """Weights in `parts` parts, for blocks: what is proven, None where nothing is."""
        numbers = [number for number in numbers if (number, parts) not in self.parts]
        if not numbers:
            return
        lanes = self._lanes(numbers)
        limit = 127 * ((256**parts - 1) // 255) // np.maximum(self.widest[lanes.channels], 1)
        found = search_parts(self.runs, limit, 8 * (parts - 1) + LAST_SHIFT, lanes.channels)
        self.parts.update(((number, parts), None) for number in numbers)
        self._offer_parts(parts, lanes, found, limit)
        # Again with one shift for all lanes of a block.
        dead = self.runs.constant[lanes.channels]
        least = lanes.least(np.where(dead, _NEVER, found.shift))
        shift = lanes.each(np.where(least < _NEVER, least, 0))
        if (shift != found.shift)[~dead].any():
            found = search_parts(self.runs, limit, shift, lanes.channels)
            self._offer_parts(parts, lanes, found, limit)

    def _offer_parts(self, parts: int, lanes: Lanes, found: Found, limit: IntArray) -> None:
        """Plans of what was found for some blocks: those that are proven, and cheaper than what
        there is. How long a sum is adds the same to each."""
        lacks = lanes.any(~found.ok & ~self.runs.constant[lanes.channels])
        if lacks.all():
            return
        some, own = lanes.some(np.flatnonzero(~lacks))
        plans = part_plans(self.runs, some, parts, found.take(own), limit[own], self.block)
        cheaper = []
        for number, offer, steps in _offers(plans):
            there = self.parts[number, parts]
            if there is None or steps < there[1]:
                cheaper.append((number, offer, steps))
        proven = prove_blocks([offer for _, offer, _ in cheaper], self.runs)
        for (number, (joined, place), steps), good in zip(cheaper, proven, strict=True):
            if good:
                self.parts[number, parts] = joined.plan_of(place), steps

    def _left(self, lanes: Lanes, setting: Setting) -> tuple[IntArray, NDArray[np.bool_]]:
        """By how much each lane is shifted to the left before it is split, (lanes,); and whether
        the setting is one for these lanes, (blocks,)."""
        runs, dead = self.runs, self.runs.constant[lanes.channels]
        left, fits = np.zeros(len(dead), np.int64), np.ones(len(lanes.numbers), np.bool_)
        live = lanes.any(~dead)
        scale = runs.scale[lanes.channels]
        widest = lanes.most(np.where(dead, 0.0, scale))
        if setting.even == "block" and runs.alike is not None:
            return left, ~fits  # blocks of one scale share their multipliers
        if setting.even:
            largest = np.where(live, self.largest if setting.even == "layer" else widest, _NOTHING)
            bits = np.ceil(np.log2(largest * 2.0 ** (8 * setting.digits) / LARGEST_LOWEST))
            return lanes.each(np.maximum(bits, 0).astype(np.int64)), bits <= _DEAD_LEFT
        if setting.extra is None:
            return left, fits
        scale = np.where(dead, lanes.each(np.where(live, widest, 1.0)), scale)
        first, last = runs.first[lanes.channels, 0], runs.last[lanes.channels, -1]
        reach = np.maximum(np.abs(first), np.abs(last))
        room = np.floor(np.log2(_ROOM / (reach + 130 / scale + 33000)))
        own = np.floor(np.log2(scale / lanes.each(lanes.least(scale))) + 1e-9) + setting.extra
        left = np.clip(np.minimum(own, room), 0, LAST_SHIFT).astype(np.int64)
        common = lanes.most(np.where(dead, 0, left))
        return np.where(dead, lanes.each(common), left), live & (common > 0) & (
            common <= _DEAD_LEFT
        )


def _with_sum(parts: int, found: tuple[BlockPlan, int], sum_steps: int) -> int:
    """What a sum in parts takes beyond one sum."""
    return found[1] + (parts - 1) * sum_steps


def _offers(plans: Sequence[JoinedPlan]) -> Iterator[tuple[int, _Offer, int]]:
    """The number of each block, its place in a plan, and its steps without a sum."""
    for joined in plans:
        for place, number in enumerate(joined.lanes.numbers):
            yield number, (joined, place), joined.steps[place]
