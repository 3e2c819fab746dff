"""The head without its Gram matrix: block conjugate gradients over clients' sums.

The Gram matrix grows with the square of the head's width D. What conjugate gradients ask of it are
products with a few directions, and those are sums over samples as it is:

    first       up  Q_k = Σ φy', Σ ‖φ‖², class counts           D × C numbers
    then        down  directions P, at most C + 1 of them        D × (C + 1) numbers
                      and who is in Q                            a number for each of them
                up  Σ φ (φ'P)                                    D × (C + 1) numbers

until every column of Q − (G + λI) W is short enough. With `ridge=gcv`, λ is chosen by generalised
cross-validation after every exchange, for which one random direction is asked for beside those of
the C classes; see `fedcord.ops.conjugate_gradients`.

Encoders are sent with the first exchange, and clients keep them until the last. Products with G
mean something only if they are always over the same samples. So who is in the first sums is sent
with the directions, since a client that was refused there, or late, has the encoders all the same;
and an exchange in which somebody of the first is missing is asked for again in the next one. If
that is so in every exchange there is no head, which is an error; one that ends above the residual
is used, and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.accord.joint_features import CHOSEN, ENCODER, JointFeatures, chosen_clients
from fedcord.algorithms.analytic.afl import CLASS_WEIGHT
from fedcord.algorithms.analytic.closed_form import RIDGE, SEEN, WEIGHT, aligned
from fedcord.algorithms.analytic.sum_messages import STATS, SUM, add_message, check_tag
from fedcord.core.contract import METRIC, ClientResult, Env, ServerState, Update, Updates
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.examples import Examples
from fedcord.core.names import clients_listed
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, TensorSpec, is_finite, prefixed, select
from fedcord.ops.conjugate_gradients import KnownProducts, new_directions
from fedcord.ops.fixed_point import from_fixed, to_fixed

GRAM, GRADIENTS = "gram", "gradients"
DIRECTIONS, PRODUCTS, PROBE, MEMBERS = "directions", "products", "probe", "members"
RESIDUAL, EXCHANGES = f"{METRIC}.residual", f"{METRIC}.exchanges"
PLAIN = ("trace", "target_square")
OVERFLOWED = "the sums of features overflowed; scale the features down."
NUMBERS = {"packed32": torch.float32, "fixed64": torch.int64}
"""How real numbers of sums travel that are not float64, by `wire`."""


@dataclass(frozen=True)
class Solve:
    """How the head is found."""

    by: str = param(
        GRAM,
        "the Gram matrix of everybody's features, once; or conjugate gradients, in several "
        "exchanges of directions, whose bytes do not grow with the square of the width",
        choices=(GRAM, GRADIENTS),
    )
    residual: float = param(
        1e-4,
        "gradients end when ‖Q − (G + λI)W‖ is below this share of ‖Q‖ for every class",
        above=0,
        below=1,
    )
    exchanges: int = param(20, "products that gradients may ask for", at_least=1)

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def num_products(self) -> int:
        """Exchanges that are for products."""
        return self.exchanges if self.by == GRADIENTS else 0


@dataclass(frozen=True)
class IterativeHead:
    """What clients send for conjugate gradients, and what the server makes of it.

    Attributes:
        joint: what the head sees.
        ridge: λ, or `gcv`.
        wire: how sums travel; directions have no triangle, so that `svec` is `packed64`.
        solve: when to stop.
    """

    joint: JointFeatures
    ridge: float | str
    wire: str
    solve: Solve

    def expected_moments(self, shared: Tensors, env: Env) -> dict[str, TensorSpec]:
        """What every client sends first."""
        width, classes = self._width(shared, env), env.task.num_classes
        real = NUMBERS.get(self.wire, torch.float64)
        return {
            f"{STATS}.moment": TensorSpec((width, classes), real),
            f"{STATS}.trace": TensorSpec((), real, at_least=0.0),
            f"{STATS}.target_square": TensorSpec((), real, at_least=0.0),
            f"{STATS}.class_count": TensorSpec((classes,), torch.int64, counts=True),
            f"{STATS}.tag_sum": TensorSpec((), torch.int64),
        }

    def expected_products(self, shared: Tensors) -> Mapping[str, TensorSpec]:
        """What every client sends after that; nothing once there are no directions."""
        if DIRECTIONS not in shared:
            return {}
        shape = tuple(shared[DIRECTIONS].shape)
        return {PRODUCTS: TensorSpec(shape, NUMBERS.get(self.wire, torch.float64))}

    def client_moments(self, shared: Tensors, data: Examples, env: Env) -> ClientResult:
        """A client's first message; it keeps the encoders."""
        classes = env.task.num_classes
        moment = torch.zeros(classes, self._width(shared, env), dtype=torch.float64)
        trace = torch.zeros((), dtype=torch.float64)
        for rows, labels in self.joint.batches(data, shared, env):
            weighted = rows * _weights(shared, labels)
            moment.index_add_(0, labels, weighted)
            trace += (rows * weighted).sum()
        count = torch.bincount(data.labels, minlength=classes)
        weight = shared.get(CLASS_WEIGHT, torch.ones(classes, dtype=torch.float64))
        real = {
            "moment": moment.T.contiguous(),
            "trace": trace,
            "target_square": (count * weight).sum(),
        }
        tag = self.joint.tag(shared, env)
        whole = {"class_count": count, "tag_sum": torch.tensor(tag * len(data))}
        message = {**{name: self._sent(tensor) for name, tensor in real.items()}, **whole}
        return ClientResult(Update(prefixed(STATS, message), len(data)), _features_of(shared))

    def client_products(
        self, shared: Tensors, memory: Tensors, data: Examples, env: Env
    ) -> ClientResult:
        """A client's part of G times the directions; of one that is not in the sums, nothing."""
        if DIRECTIONS not in shared:
            return ClientResult(Update({}, len(data)))
        directions = aligned(shared, DIRECTIONS).to(torch.float64)
        products = torch.zeros_like(directions)
        if CHOSEN not in memory or env.client not in shared[MEMBERS].tolist():
            return ClientResult(Update({PRODUCTS: self._sent(products)}, 0))
        for rows, labels in self.joint.batches(data, memory, env):
            products += rows.T @ (_weights(memory, labels) * (rows @ directions))
        return ClientResult(Update({PRODUCTS: self._sent(products)}, len(data)), dict(memory))

    def begun(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Everybody's moments, and the first directions.

        Raises:
            NumericalError: sums are too large for the lengths that everything later rests on.
        """
        tag, members = self.joint.tag(state.shared, env), list[int]()
        total: dict[str, Tensor] = {}
        for client, update in updates:
            message = select(update.tensors, STATS)
            check_tag(message, tag, env.said(client))
            add_message(total, message)
            members.append(client)
        if not int(total["class_count"].sum()):
            raise ProtocolError("no client has examples; there is nothing to learn from.")
        moment = self._arrived(total["moment"])
        # a length that is no number gives no directions, and is not above the residual
        real = (moment.norm(dim=0), *(self._arrived(total[name]) for name in PLAIN))
        if not all(map(is_finite, real)):
            raise NumericalError(OVERFLOWED)
        none, probe = moment[:, :0], self._probe(len(moment), env)
        private = {
            **prefixed(SUM, total),
            PROBE: probe,
            DIRECTIONS: none,
            PRODUCTS: none,
            RESIDUAL: torch.tensor(1.0),
            EXCHANGES: torch.tensor(0.0),
        }
        first = new_directions(none, torch.cat([moment, probe], dim=1))
        asked = self._asked(first, torch.tensor(sorted(members)))
        return state.next(asked, private, _features_of(state.shared))

    def continued(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The head after one more product, and what to ask for next.

        Raises:
            ProtocolError: all exchanges are over, and none has led to a head.
        """
        after = self._after_product(state, updates, env)
        if env.round + 1 == env.num_rounds and WEIGHT not in after.result:
            needed = clients_listed(after.shared[MEMBERS].tolist(), env.names)
            raise ProtocolError(
                f"solve.by = '{GRADIENTS}' found no head: in none of its {self.solve.exchanges} "
                f"exchanges were all clients there whose sums it is of ({needed}). Let all of them "
                "take part (--participation 1 in these rounds), allow more exchanges "
                "(solve.exchanges), or use solve.by=gram, which waits for nobody."
            )
        return after

    def observations(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """What the server's metrics at the end show to have gone wrong."""
        residual = metrics.get("residual", 0.0)
        if self.solve.by != GRADIENTS or residual <= self.solve.residual:
            return ()
        return (
            f"solve.by = '{GRADIENTS}' ended at residual {residual:.1e} after "
            f"{metrics.get('exchanges', 0):.0f} exchanges that everybody took part in, above "
            f"solve.residual = {self.solve.residual:g}: the head is not solved to the end; allow "
            "more exchanges (solve.exchanges), or use solve.by=gram.",
        )

    def _after_product(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Unchanged where somebody was missing, or nothing was asked for."""
        if DIRECTIONS not in state.shared:
            return state.next(state.shared)
        total: dict[str, Tensor] = {}
        members, samples = set[int](), 0.0
        for client, update in updates:
            add_message(total, update.tensors)
            members.add(client)
            samples += update.weight
        known, sums = state.private, select(state.private, SUM)
        wanted = state.shared[MEMBERS]
        is_whole = samples == int(sums["class_count"].sum())
        if not (is_whole and members >= set(wanted.tolist())):
            return state.next(state.shared)
        asked = state.shared[DIRECTIONS].to(torch.float64)
        directions = torch.cat([known[DIRECTIONS], asked], dim=1)
        products = torch.cat([known[PRODUCTS], self._arrived(total[PRODUCTS])], dim=1)
        if not is_finite(products):
            raise NumericalError(OVERFLOWED)
        moment, found = self._arrived(sums["moment"]), KnownProducts.of(directions, products)
        ridge = self._ridge(found, moment, known)
        weight, missing = found.solution(moment, ridge)
        share = missing.norm(dim=0) / moment.norm(dim=0).clamp(min=1e-300)
        is_missing = share > self.solve.residual
        private = {
            **known,
            DIRECTIONS: directions,
            PRODUCTS: products,
            RESIDUAL: share.max(),
            EXCHANGES: known[EXCHANGES] + 1,
        }
        head = {
            WEIGHT: weight,
            SEEN: sums["class_count"] > 0,
            RIDGE: torch.tensor(ridge, dtype=torch.float64),
        }
        further: dict[str, Tensor] = {}
        if bool(is_missing.any()) and env.round + 1 < env.num_rounds:
            _, unprobed = found.solution(known[PROBE], ridge)
            left = torch.cat([missing[:, is_missing], unprobed], dim=1)
            further = self._asked(new_directions(found.vectors, left), wanted)
        return state.next(further, private, {**state.result, **head})

    def _ridge(self, found: KnownProducts, moment: Tensor, known: Tensors) -> float:
        if not isinstance(self.ridge, str):
            return self.ridge
        sums = select(known, SUM)
        trace, square = (float(self._arrived(sums[name])) for name in PLAIN)
        count = float(sums["class_count"].sum())
        return found.choose_ridge(moment, known[PROBE], trace, square, count)

    def _probe(self, width: int, env: Env) -> Tensor:
        """Signs [D, 1] that λ is chosen by; [D, 0] where it is given."""
        if not isinstance(self.ridge, str):
            return torch.zeros(width, 0, dtype=torch.float64)
        signs = torch.randint(2, (width, 1), generator=env.generator("probe"))
        return 2 * signs.to(torch.float64) - 1

    def _asked(self, directions: Tensor, members: Tensor) -> dict[str, Tensor]:
        """What clients are sent: directions as they travel, if there are any, and for whom."""
        if not directions.shape[1]:
            return {}
        travelling = directions.float() if self.wire == "packed32" else directions
        return {DIRECTIONS: travelling, MEMBERS: members}

    def _sent(self, sums: Tensor) -> Tensor:
        if not is_finite(sums):
            raise NumericalError(OVERFLOWED)
        if self.wire == "fixed64":
            return to_fixed(sums)
        return sums.to(NUMBERS.get(self.wire, torch.float64))

    def _arrived(self, total: Tensor) -> Tensor:
        return from_fixed(total) if self.wire == "fixed64" else total

    def _width(self, shared: Tensors, env: Env) -> int:
        return self.joint.num_features(chosen_clients(shared), env.task)


def _features_of(shared: Tensors) -> dict[str, Tensor]:
    """What decides everybody's features and their weight in the sums."""
    kept = {name: shared[name] for name in (CHOSEN, CLASS_WEIGHT) if name in shared}
    return {**kept, **prefixed(ENCODER, select(shared, ENCODER))}


def _weights(shared: Tensors, labels: Tensor) -> Tensor:
    """Of samples in the sums, [B, 1]."""
    if CLASS_WEIGHT not in shared:
        return torch.ones(len(labels), 1, dtype=torch.float64)
    return shared[CLASS_WEIGHT].to(torch.float64)[labels][:, None]
