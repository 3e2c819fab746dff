"""Where two sets of named tensors differ, in words."""

from __future__ import annotations

from torch import Tensor

from fedcord.core.tensors import Tensors, hash_tensors, is_finite, spec_of


def difference(found: Tensors, wanted: Tensors, tolerance: float = 0.0) -> str | None:
    """The first tensor that differs, by name and by how much; None when none does.

    Args:
        found: what came out.
        wanted: what should have come out.
        tolerance: largest gap, relative to the largest value of the tensor or to 1 when that is
            smaller; 0 asks for equal bits.
    """
    one_sided = sorted(found.keys() ^ wanted.keys())
    if one_sided:
        return f"{one_sided[0]} is on one side only"
    specs = spec_of(found), spec_of(wanted)
    for name in sorted(wanted):
        if specs[0][name] != specs[1][name]:
            return f"{name} is {specs[0][name]}, not {specs[1][name]}"
        gap = _gap(found[name], wanted[name], tolerance)
        if gap is not None:
            return f"{name} differs by {gap}"
    return None


def non_finite(tensors: Tensors) -> list[str]:
    """Names of tensors with a value that is not a finite number."""
    return [name for name in sorted(tensors) if not is_finite(tensors[name])]


def _gap(found: Tensor, wanted: Tensor, tolerance: float) -> str | None:
    if hash_tensors({"": found}) == hash_tensors({"": wanted}):
        return None
    a, b = found.detach().double(), wanted.detach().double()
    gap = float((a - b).abs().max())
    allowed = tolerance * max(1.0, float(b.abs().max()))
    if tolerance > 0 and gap <= allowed:  # a gap that is not a number fails too
        return None
    return f"{gap:.3g} (allowed: {allowed:.3g})" if tolerance else f"{gap:.3g} (allowed: no bit)"
