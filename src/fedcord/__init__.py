"""Federated learning when clients' data disagree.

Compare heterogeneity-robust algorithms on your own data with honest statistics, choose one, and
deploy the very same object.

    import fedcord

    fedcord.run("fedavg", dataset="digits", partition="dirichlet:0.1", clients=10, rounds=20)

Names are imported when first used, so that `import fedcord` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedcord.core.version import __version__

_PLACES = {
    "run": "experiment.api",
    "compare": "experiment.api",
    "resume": "experiment.api",
    "write_report": "experiment.api",
    "load": "trained.load",
    "LoadedModel": "trained.load",
    "Comparison": "experiment.api",
    "load_dataset": "data.registry",
    "Dataset": "data.dataset",
    "Split": "data.dataset",
    "Vocabulary": "data.vocabulary",
    "make_partition": "data.partition",
    "check_algorithm": "checks",
    "Limit": "checks",
    "param": "core.params",
    "check_params": "core.params",
    "AveragesModels": "algorithms.kit.model_exchange",
    "Expectations": "checks",
    "Algorithm": "core.contract",
    "Predictor": "core.contract",
    "Review": "core.contract",
    "ServerState": "core.contract",
    "Traits": "core.contract",
    "Update": "core.contract",
    "ClientResult": "core.contract",
    "Env": "core.contract",
    "ClientData": "core.examples",
    "Examples": "core.examples",
    "Task": "core.task",
    "TensorSpec": "core.tensors",
    "LocalSGD": "algorithms.kit.local_sgd",
    "FedAvg": "algorithms.averaging.fedavg",
    "FedProx": "algorithms.averaging.fedprox",
    "FedcordError": "core.errors",
    "ConfigError": "core.errors",
    "DataError": "core.errors",
    "ProtocolError": "core.errors",
    "NumericalError": "core.errors",
    "CheckpointError": "core.errors",
    "FailedRunError": "core.errors",
    "PairingError": "core.errors",
}

if TYPE_CHECKING:
    from fedcord.algorithms.averaging.fedavg import FedAvg
    from fedcord.algorithms.averaging.fedprox import FedProx
    from fedcord.algorithms.kit.local_sgd import LocalSGD
    from fedcord.algorithms.kit.model_exchange import AveragesModels
    from fedcord.checks import Expectations, Limit, check_algorithm
    from fedcord.core.contract import (
        Algorithm,
        ClientResult,
        Env,
        Predictor,
        Review,
        ServerState,
        Traits,
        Update,
    )
    from fedcord.core.errors import (
        CheckpointError,
        ConfigError,
        DataError,
        FailedRunError,
        FedcordError,
        NumericalError,
        PairingError,
        ProtocolError,
    )
    from fedcord.core.examples import ClientData, Examples
    from fedcord.core.params import check_params, param
    from fedcord.core.task import Task
    from fedcord.core.tensors import TensorSpec
    from fedcord.data.dataset import Dataset, Split
    from fedcord.data.partition import make_partition
    from fedcord.data.registry import load_dataset
    from fedcord.data.vocabulary import Vocabulary
    from fedcord.experiment.api import Comparison, compare, resume, run, write_report
    from fedcord.trained.load import LoadedModel, load

__all__ = [
    "Algorithm",
    "AveragesModels",
    "CheckpointError",
    "ClientData",
    "ClientResult",
    "Comparison",
    "ConfigError",
    "DataError",
    "Dataset",
    "Env",
    "Examples",
    "Expectations",
    "FailedRunError",
    "FedAvg",
    "FedProx",
    "FedcordError",
    "Limit",
    "LoadedModel",
    "LocalSGD",
    "NumericalError",
    "PairingError",
    "Predictor",
    "ProtocolError",
    "Review",
    "ServerState",
    "Split",
    "Task",
    "TensorSpec",
    "Traits",
    "Update",
    "Vocabulary",
    "__version__",
    "check_algorithm",
    "check_params",
    "compare",
    "load",
    "load_dataset",
    "make_partition",
    "param",
    "resume",
    "run",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'fedcord' has no attribute '{name}'")
    return getattr(importlib.import_module(f"fedcord.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
