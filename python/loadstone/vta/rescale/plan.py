# SPDX-License-Identifier: Apache-2.0
"""The cheapest proven form for each block of channels.

In:   runs of a layer's channels, the device's lanes, how many GEMM steps the sum of a tile takes.
Out:  `Planner`: a DigitPlan or PartPlan for every block of output channels.
Next: operators/layer_plans.py asks it, operators/rescaled_layer.py makes kernels of what it says.

What is cheapest says steps.py. Two digits are searched for at once; where parts of weights take
fewer steps than any other form, no other is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from loadstone.vta.rescale.block_plan import LAST_SHIFT, Setting, digit_plans, part_plan
from loadstone.vta.rescale.digit_search import LARGEST_LOWEST, DigitForm, held, search_digits
from loadstone.vta.rescale.joined import prove_blocks
from loadstone.vta.rescale.proof import DigitPlan, PartPlan, prove_digits, prove_parts
from loadstone.vta.rescale.runs import IntArray, Runs
from loadstone.vta.rescale.search import Found, needs_sign, search_parts
from loadstone.vta.rescale.stair_search import divisions
from loadstone.vta.rescale.stairs import stair_plans
from loadstone.vta.rescale.steps import BlockPlan, tail_steps

__all__ = ["Planner", "block_plans"]

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


def block_plans(runs: Runs, block: int, sum_steps: int, widest: IntArray) -> list[BlockPlan | None]:
    """One plan for each block of channels; None where no form is proven.

    sum_steps: GEMM steps of a tile's sum, which P repeats. widest: (C,) the largest magnitude of a
    channel's weights.
    """
    return Planner(runs, block, widest).plans(sum_steps)


class Planner:
    """The forms of one layer's blocks. Which digits do does not depend on how long a sum is, so
    they are searched for once; parts of weights are, where a sum is short enough for them."""

    def __init__(self, runs: Runs, block: int, widest: IntArray) -> None:
        """widest: (C,) the largest magnitude of a channel's weights."""
        self.runs, self.block, self.widest = runs, block, widest
        count = len(runs.scale)
        self.blocks = [np.arange(at, min(at + block, count)) for at in range(0, count, block)]
        self.own = [runs.take(slice(at, at + block)) for at in range(0, count, block)]
        self.largest = float(runs.scale[~runs.constant].max(initial=0.0))
        self.best: list[BlockPlan | None] = [None] * len(self.blocks)
        self.steps = [_NEVER] * len(self.blocks)
        # Of a round, what is to be proven: each plan with its steps, fewer than those before it.
        self.offers: list[list[tuple[DigitPlan, int]]] = [[] for _ in self.blocks]
        self.hopeless: set[int] = set()
        self.tried: set[tuple[int, int, bool, bool, bytes]] = set()
        if runs.ties_to_even:
            signed = runs.constant & False
        elif runs.alike is not None and runs.member is not None:
            signed = needs_sign(runs.alike)[runs.member] & ~runs.constant
            signed[signed] = needs_sign(runs, np.flatnonzero(signed))
        else:
            signed = needs_sign(runs)
        self.lines = [not signed[channels].any() for channels in self.blocks]
        held_by_two = held(runs, 2) | runs.constant
        self.short = [bool(held_by_two[channels].all()) for channels in self.blocks]
        self.parts: dict[tuple[int, int], PartPlan | None] = {}
        self.open = list(range(len(self.blocks)))
        self._attempt_round(_ROUNDS[0])
        self.unsearched = set(self.open)

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
            blocks = [self.blocks[number].tolist() for number in numbers]
            spans = [(lanes[0], lanes[-1] + 1) for lanes in blocks]
            proven = prove_blocks([plan for plan, _ in offers], self.runs, spans)
            for number, (plan, steps), good in zip(numbers, offers, proven, strict=True):
                if good:
                    self.best[number], self.steps[number] = plan, steps
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
        """The cheapest plan of each block; None where no form is proven. sum_steps: as of
        block_plans."""
        self._search_all(self._undecided(sum_steps))
        best = list(self.best)
        steps = [
            _LEAST_STEPS if number in self.unsearched else own
            for number, own in enumerate(self.steps)
        ]
        for parts in _PARTS:
            numbers = [
                number
                for number in range(len(self.blocks))
                if self.lines[number] and parts * (sum_steps + 1) + 4 < steps[number] + sum_steps
            ]
            self._search_parts(parts, numbers)
            for number in numbers:
                plan = self.parts[number, parts]
                if plan is None:
                    continue
                own = tail_steps(plan, sum_steps, self.block) - sum_steps
                if own < steps[number]:
                    best[number], steps[number] = plan, own
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
                if (plan := self.parts[number, parts]) is not None
                and tail_steps(plan, sum_steps, self.block) - sum_steps < _LEAST_STEPS
            }
            left = [number for number in left if number not in cheap]
        return left

    def _attempt_digits(self, setting: Setting) -> None:
        """One setting, for all blocks that are open."""
        lefts = {
            number: self._left(number, setting)
            for number in self.open
            if setting.signed or self.lines[number]
            if setting.digits > 2 or self.short[number]
            if setting.even or self.steps[number] > _EVEN_STEPS
            if not (self.runs.ties_to_even and number in self.hopeless)
        }
        numbers = [
            number
            for number, left in lefts.items()
            if left is not None and self._is_new(setting, number, left)
        ]
        if not numbers:
            return
        channels = np.concatenate([self.blocks[number] for number in numbers])
        left = np.concatenate([lefts[number] for number in numbers])
        found = self._search(setting, channels, left)
        self._offer_digits(setting, numbers, left, found)
        self._even_out(setting, numbers, left, found)

    def _is_new(self, setting: Setting, number: int, left: IntArray) -> bool:
        """Whether no setting before came to the same for a block: its search would, too."""
        key = (number, setting.digits, setting.signed, setting.even is None, left.tobytes())
        new = key not in self.tried
        self.tried.add(key)
        return new

    def _even_out(self, setting: Setting, numbers: list[int], left: IntArray, found: Found) -> None:
        """Blocks with an offer again, with one last shift for all lanes: an immediate is cheaper
        than a tile."""
        shift = found.shift.copy()
        at, chosen, positions = 0, [], []
        for number in numbers:
            lanes = np.arange(at, at + len(self.blocks[number]))
            at += len(lanes)
            live = lanes[~self.runs.constant[self.blocks[number]]]
            if not self.offers[number] or not live.size or np.ptp(shift[live]) == 0:
                continue
            shift[lanes] = shift[live].min()
            chosen.append(number)
            positions.append(lanes)
        if not chosen:
            return
        lanes = np.concatenate(positions)
        channels = np.concatenate([self.blocks[number] for number in chosen])
        form = DigitForm(setting.digits, setting.signed, left[lanes], shift[lanes])
        self._offer_digits(setting, chosen, left[lanes], search_digits(self.runs, form, channels))

    def _offer_digits(
        self, setting: Setting, numbers: list[int], left: IntArray, found: Found
    ) -> None:
        """Plans of what was found for some blocks, those that are cheaper than any before."""
        runs = self.runs.take(np.concatenate([self.blocks[number] for number in numbers]))
        spans = self._spans(numbers)
        starts = [first for first, _ in spans]
        lacking = np.add.reduceat(~found.ok & ~runs.constant, starts, dtype=np.int64)
        if setting.digits == 3:
            self.hopeless.update(np.array(numbers)[lacking > _LACKING].tolist())
        chosen = np.flatnonzero(lacking == 0)
        if not chosen.size:
            return
        if chosen.size < len(numbers):
            lanes = np.concatenate([np.arange(*spans[at]) for at in chosen])
            numbers = np.array(numbers)[chosen].tolist()
            runs, spans = runs.take(lanes), self._spans(numbers)
            left, found = left[lanes], found.take(lanes)
        plans = digit_plans(runs, setting, left, found, spans, self.block)
        for number, plan in zip(numbers, plans, strict=True):
            if plan is not None and (steps := tail_steps(plan, 0, self.block)) < self.steps[number]:
                self.offers[number].append((plan, steps))
                self.steps[number] = steps

    def _spans(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """The lanes of some blocks side by side: of each the first, and the one behind its last."""
        ends = np.cumsum([0, *(len(self.blocks[number]) for number in numbers)]).tolist()
        return list(pairwise(ends))

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
            blocks = [self.blocks[number] for number in self.open]
            plans = stair_plans(self.runs, blocks, division, self.block, patient=patient)
            for number, plan in zip(self.open, plans, strict=True):
                if plan is not None and prove_digits(plan, self.own[number]).all():
                    self.best[number] = plan
                    self.steps[number] = tail_steps(plan, 0, self.block)
            self._settle()

    def _search_parts(self, parts: int, numbers: Sequence[int]) -> None:
        """Weights in `parts` parts, for blocks: what is proven, None where nothing is."""
        numbers = [number for number in numbers if (number, parts) not in self.parts]
        if not numbers:
            return
        channels = np.concatenate([self.blocks[number] for number in numbers])
        limit = 127 * ((256**parts - 1) // 255) // np.maximum(self.widest[channels], 1)
        constant = self.runs.constant[channels]
        found = search_parts(self.runs, limit, 8 * (parts - 1) + LAST_SHIFT, channels)
        self.parts.update(((number, parts), None) for number in numbers)
        self._offer_parts(parts, numbers, found, limit)
        # Again with one shift for all lanes of a block.
        shift, at = found.shift.copy(), 0
        for number in numbers:
            lanes = np.arange(at, at + len(self.blocks[number]))
            at += len(lanes)
            live = lanes[~constant[lanes]]
            shift[lanes] = found.shift[live].min() if live.size else 0
        if (shift != found.shift)[~constant].any():
            self._offer_parts(
                parts, numbers, search_parts(self.runs, limit, shift, channels), limit
            )

    def _offer_parts(self, parts: int, numbers: list[int], found: Found, limit: IntArray) -> None:
        """Plans of what was found for some blocks: those that are proven, and cheaper than what
        there is. How long a sum is adds the same to each."""
        at = 0
        for number in numbers:
            lanes = np.arange(at, at + len(self.blocks[number]))
            at += len(lanes)
            own, there = self.own[number], self.parts[number, parts]
            if not (found.ok[lanes] | own.constant).all():
                continue
            plan = part_plan(own, parts, found.take(lanes), limit[lanes])
            least = tail_steps(there, 1, self.block) if there else _NEVER
            if tail_steps(plan, 1, self.block) < least and prove_parts(plan, own).all():
                self.parts[number, parts] = plan

    def _left(self, number: int, setting: Setting) -> IntArray | None:
        """By how much each lane of a block is shifted to the left before it is split; None where
        the setting is none for these lanes."""
        runs = self.own[number]
        left = np.zeros(len(runs.scale), np.int64)
        live = ~runs.constant
        if setting.even == "block" and self.runs.alike is not None:
            return None  # blocks of one scale share their multipliers
        if setting.even and live.any():
            scale = self.largest if setting.even == "layer" else runs.scale[live].max()
            widest = scale * 2.0 ** (8 * setting.digits)
            bits = int(np.ceil(np.log2(widest / LARGEST_LOWEST)))
            return left + max(0, bits) if bits <= _DEAD_LEFT else None
        if setting.extra is None:
            return left
        if not live.any():
            return None
        scale = np.where(live, runs.scale, runs.scale[live].max())
        reach = np.maximum(np.abs(runs.first[:, 0]), np.abs(runs.last[:, -1]))
        room = np.floor(np.log2(_ROOM / (reach + 130 / scale + 33000)))
        own = np.floor(np.log2(scale / scale[live].min()) + 1e-9) + setting.extra
        left = np.clip(np.minimum(own, room), 0, LAST_SHIFT).astype(np.int64)
        left[~live] = left[live].max()
        return left if left.any() and left.max() <= _DEAD_LEFT else None
