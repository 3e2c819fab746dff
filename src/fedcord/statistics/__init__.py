"""Honest statistics on plain arrays: intervals, pairing, tests, corrections. Needs no torch."""

from fedcord.statistics.corrections import holm
from fedcord.statistics.equivalence import Equivalence, equivalence
from fedcord.statistics.intervals import (
    MeanInterval,
    bootstrap_interval,
    mean_interval,
    share_interval,
    without_rounding,
)
from fedcord.statistics.pairing import Outcome, Pairs, pair
from fedcord.statistics.random_effects import RandomEffects, random_effects
from fedcord.statistics.stratified import stratified_difference
from fedcord.statistics.tests import PairedDifference, paired_difference, sign_flip_p

__all__ = [
    "Equivalence",
    "MeanInterval",
    "Outcome",
    "PairedDifference",
    "Pairs",
    "RandomEffects",
    "bootstrap_interval",
    "equivalence",
    "holm",
    "mean_interval",
    "pair",
    "paired_difference",
    "random_effects",
    "share_interval",
    "sign_flip_p",
    "stratified_difference",
    "without_rounding",
]
