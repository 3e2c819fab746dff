"""The error a broken contract ends in."""

from __future__ import annotations

from fedcord.core.errors import FedcordError


class ContractViolation(FedcordError):  # noqa: N818 - the name users catch
    """An algorithm does not keep its promises.

    Attributes:
        algorithm: name of the class.
        check: which of the checks failed.
        task: the tiny task it failed on.
        reason: what was found, in words.
    """

    def __init__(self, algorithm: str, check: str, task: str, reason: str) -> None:
        self.algorithm = algorithm
        self.check = check
        self.task = task
        self.reason = reason
        super().__init__(f"{algorithm} fails the check '{check}' on the task '{task}': {reason}")
