"""Seventeen checks that any algorithm can be put through, the user's own included.

    >>> from fedcord.algorithms.averaging.fedavg import FedAvg  # or your own module
    >>> from fedcord.checks import Expectations, check_algorithm
    >>> check_algorithm(FedAvg(), Expectations(learning_rounds=40)).passed
    True

The class must be a frozen dataclass in a module that can be imported. The first broken promise is
raised as a `ContractViolation` that names check, algorithm and reason; with `collect=True` all of
them are in the report, whose text is a table. `Expectations` says what the method promises beyond
the contract: what it reduces to, what one client alone leads to, how well it learns.
"""

from fedcord.checks.check import (
    CHECKS,
    Check,
    CheckResult,
    ContractReport,
    ContractViolation,
    check_algorithm,
)
from fedcord.checks.expectations import Expectations, Identity, Limit, shared_model_is_update

__all__ = [
    "CHECKS",
    "Check",
    "CheckResult",
    "ContractReport",
    "ContractViolation",
    "Expectations",
    "Identity",
    "Limit",
    "check_algorithm",
    "shared_model_is_update",
]
