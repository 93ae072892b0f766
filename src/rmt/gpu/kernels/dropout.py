"""Masks of dropout inside kernels; `rmt.gpu.naive.kept` is the same function in torch."""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from rmt.gpu.dropout import Drop


class KernelDrop(NamedTuple):
    """`Drop` as kernels take it."""

    keys: Any
    site: Any
    threshold: Any
    scale: Any


def kernel_drop(drop: Drop | None) -> KernelDrop | None:
    """A mask with its numbers, or none."""
    return None if drop is None else KernelDrop(drop.keys, drop.site, drop.threshold, drop.scale)


@triton.jit
def mixed(word):
    """A word of 32 bits whose every bit depends on every bit of the other (the hash triple32)."""
    word = (word ^ (word >> 17)) * 0xED5AD4BB
    word = (word ^ (word >> 11)) * 0xAC4C1B51
    word = (word ^ (word >> 15)) * 0x31848BAB
    return word ^ (word >> 14)


@triton.jit
def site_keys(keys, seed, site):
    """The two words of a mask: of an update's and of the place in it."""
    low = tl.load(keys + 2 * seed).to(tl.uint32)
    high = tl.load(keys + 2 * seed + 1).to(tl.uint32)
    site = site.to(tl.uint32)
    return mixed(low ^ mixed(site)), mixed(high + site)


@triton.jit
def dropped(values, element, low, high, threshold, scale):
    """Values (float32) of numbered elements: zero, or scaled up."""
    word = element.to(tl.uint32) * 0x9E3779B1 + low
    word = (word ^ (word >> 16)) * 0x7FEB352D + high
    word = (word ^ (word >> 15)) * 0x846CA68B
    return tl.where(word >= threshold.to(tl.uint32), values * scale, 0.0)


@triton.jit
def words_of(drop, seed):
    """The two words of a mask, or zeros; asked for early, they are there when rows need them."""
    low, high = tl.full([], 0, tl.uint32), tl.full([], 0, tl.uint32)
    if drop is not None:
        low, high = site_keys(drop.keys, seed, drop.site)
    return low, high


@triton.jit
def drop_elements(values, drop, words, rows, columns, stride):
    """Dropout of some rows and columns of a matrix, if there is any; `words_of` gave its words."""
    if drop is not None:
        element = rows[:, None] * stride + columns[None, :]
        values = dropped(values, element, words[0], words[1], drop.threshold, drop.scale)
    return values
