"""Every check fails for the mistake it is there to catch, for the stated reason."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.checks import CHECKS, ContractViolation, Expectations, Limit, check_algorithm
from fedcord.checks.global_randomness import global_randomness
from fedcord.core.contract import Algorithm
from tests.checks import broken
from tests.checks.registered import QUICK
from tests.checks.sound import NearestMean, Plain

DEFAULT = Expectations()
STATED = Expectations(identity=None)
PULL_AT_ZERO = Limit("proximal_weight = 0 is FedAvg", broken.PullsAtZero(0.0), FedAvg(QUICK))
PULL_UNUSED = Limit(
    "proximal_weight = 0 is FedAvg",
    broken.NeverPulls(0.0),
    FedAvg(QUICK),
    unlike=broken.NeverPulls(1.0),
)
NO_SUCH_TENSOR = Limit("nothing is compared", Plain(), Plain(), tensors="head.")


@dataclass(frozen=True)
class Case:
    """An algorithm, the check it must fail, and the reason."""

    algorithm: Algorithm
    check: str
    reason: str
    task: str = "vectors"
    expectations: Expectations = DEFAULT


CASES = [
    Case(
        broken.PersonalizesInWordsOnly(),
        "declared",
        "announces the trait personalizes but has no verb personalize;",
    ),
    Case(
        broken.KeepsRulesToItself(),
        "declared",
        "has the verb predict_by_rules but does not announce the trait answers_by_rules",
    ),
    Case(broken.HalfStacked(), "declared", "the trait stacks but has no verb client_updates"),
    Case(broken.LetsTraitsBeSet(), "declared", "traits is a field"),
    Case(
        broken.DeclaresByDictionary(),  # type: ignore[arg-type]
        "declared",
        "traits is dict, not Traits",
    ),
    Case(broken.ReviewsInPlainText(), "declared", "review returned str, not Review"),
    Case(broken.ReviewsWithoutComma(), "declared", "errors = 'too few classes', which is no tuple"),
    Case(broken.RefusesTheTask(), "declared", "review refuses this task: it needs at least 1000"),
    Case(broken.NeedsEverybody(), "faults", "drops a third of the answers led to KeyError"),
    Case(broken.CountsCalls(), "faults", "when answers come twice .* the run ends elsewhere"),
    Case(broken.CountsCalls(), "same-outputs", "gave other outputs the second time"),
    Case(broken.DrawsGlobally(), "same-outputs", r"aggregate \(round 0\) changed .* of torch"),
    Case(broken.DrawsGlobally(library="numpy"), "same-outputs", "global random state of numpy"),
    Case(broken.DrawsGlobally(library="random"), "same-outputs", "global random state of random"),
    Case(broken.SeedsGlobally(), "same-outputs", "init changed the global random state of torch"),
    Case(broken.IgnoresSeed(), "same-outputs", "another seed changed nothing"),
    Case(
        NearestMean(),
        "same-outputs",
        r"another seed changed nothing \(streams asked for: none\)",
        expectations=Expectations(is_random=True),
    ),
    Case(broken.EditsShared(), "inputs-unchanged", r"client_update .* changed its input 'shared'"),
    Case(broken.EditsData(), "inputs-unchanged", r"client_update .* changed its input 'data'"),
    Case(broken.EditsUpdates(), "inputs-unchanged", r"aggregate .* changed its input 'updates'"),
    Case(broken.BorrowsNetwork(), "inputs-unchanged", "client 0.* was changed by a later call"),
    Case(broken.LastWins(), "order-free", "in reversed order, .* give another state"),
    Case(broken.WeighsOneTooMany(), "one-client-identity", "with one client alone: model.*differs"),
    Case(broken.MeanOfMeans(), "splitting-adds-up", "two halves do not add up"),
    Case(
        broken.MedianCalledMean(),
        "sums-suffice",
        "the mean of all updates of round 0 gives another model than the single ones: model",
    ),
    Case(broken.SpreadOfOne(), "odd-clients", "with one example, update.data.spread is not finite"),
    Case(broken.DividesByZero(), "odd-clients", "ZeroDivisionError for a client with one example"),
    Case(broken.FailsOnNothing(), "odd-clients", "raised .* for a client with no example"),
    Case(broken.RaggedPrototypes(), "odd-clients", "client 0 did not send proto.1, proto.2"),
    Case(broken.RaggedPrototypes(), "equal-updates", "client 0 did not send proto.2"),
    Case(broken.SendsGraph(), "equal-updates", "class.sum with a gradient graph"),
    Case(broken.VelocityOnObject(), "resume", "after 1 of 2 rounds the run ends elsewhere"),
    Case(broken.ForgetsRound(), "resume", r"say \[0, 0, 0\] rounds"),
    Case(broken.KnowsItself(), "engines-agree", "engine 'wire' .* end in other states"),
    Case(
        broken.PullsAtZero(),
        "limits",
        "proximal_weight = 0 is FedAvg: not so, model",
        expectations=Expectations(limits=(PULL_AT_ZERO,)),
    ),
    Case(
        broken.NeverPulls(),
        "limits",
        "also away from the limit, so the parameter has no effect",
        expectations=Expectations(limits=(PULL_UNUSED,)),
    ),
    Case(
        Plain(),
        "limits",
        "no tensor of the model is named 'head.",
        expectations=Expectations(limits=(NO_SUCH_TENSOR,)),
    ),
    Case(broken.SendsPrivate(), "nothing-leaks", "private tensor secret .* after 1 rounds"),
    Case(broken.ProbesAloud(), "nothing-leaks", "probe in round 0 changes what clients are sent"),
    Case(broken.SendsMemory(), "nothing-leaks", "memory tensor own of client 0 is in its update"),
    Case(broken.PredictsInTraining(), "predict", "depends on the batch: one by one", task="images"),
    Case(broken.LeavesTrainingMode(), "predict", "left the task's network in training mode"),
    Case(broken.PredictsLabels(), "predict", r"returned torch.int64 \[12\], expected"),
    Case(broken.NeverTrains(), "learns", r"accuracy is 0\.\d+ after 10 rounds, expected at least"),
    Case(
        broken.AgreesToAnything(),
        "bad-updates-refused",
        "wrong shape .*: 0 updates were",
    ),
    Case(broken.SwallowsErrors(), "bad-updates-refused", "are refused, the run goes on"),
]


def test_every_check_has_a_case() -> None:
    assert {case.check for case in CASES} == set(CHECKS)


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{type(c.algorithm).__name__}-{c.check}" for c in CASES]
)
def test_broken_algorithm_fails_its_check(case: Case) -> None:
    with pytest.raises(ContractViolation, match=case.reason) as caught:
        check_algorithm(case.algorithm, case.expectations, only=[case.check], tasks=[case.task])
    violation = caught.value
    assert violation.check == case.check
    assert violation.algorithm == type(case.algorithm).__name__
    assert f"{violation.algorithm} fails the check '{case.check}' on the task" in str(violation)


@pytest.mark.parametrize(
    ("algorithm", "expectations", "failing"),
    [
        (broken.LastWins(), Expectations(), {"order-free", "sums-suffice"}),
        (broken.MeanOfMeans(), Expectations(), {"splitting-adds-up"}),
        (broken.FailsOnNothing(), Expectations(), {"odd-clients"}),
        (broken.RaggedPrototypes(), Expectations(), {"odd-clients", "equal-updates"}),
        (broken.VelocityOnObject(), STATED, {"resume"}),
        (broken.KnowsItself(), Expectations(), {"resume", "engines-agree"}),
        (broken.PullsAtZero(), Expectations(limits=(PULL_AT_ZERO,)), {"limits"}),
        (broken.NeverTrains(), Expectations(), {"learns"}),
        (broken.AgreesToAnything(), Expectations(), {"bad-updates-refused"}),
        (
            broken.CountsCalls(),
            STATED,
            {"same-outputs", "resume", "engines-agree", "bad-updates-refused", "faults"},
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, set) else None,
)
def test_collecting_finds_exactly_these_failures(
    algorithm: Algorithm, expectations: Expectations, failing: set[str]
) -> None:
    report = check_algorithm(algorithm, expectations, tasks=["vectors"], collect=True)
    assert {result.check for result in report.failures} == failing
    assert len(report.results) == len(CHECKS)


def test_what_is_declared_may_be_sent() -> None:
    for algorithm, expectations in (
        (broken.SendsMemory(), Expectations(memory_may_be_sent=("o*",))),
        (broken.SendsPrivate(), Expectations(private_may_be_sent=("secret",))),
    ):
        assert check_algorithm(algorithm, expectations, only=["nothing-leaks"]).passed


def test_a_clear_refusal_of_an_empty_client_is_fine() -> None:
    assert check_algorithm(broken.RefusesNothing(), only=["odd-clients"]).passed


@pytest.mark.parametrize("library", ["torch", "numpy", "random"])
def test_the_callers_random_state_survives_a_broken_algorithm(library: str) -> None:
    before = global_randomness()
    for algorithm in (broken.SeedsGlobally(), broken.DrawsGlobally(library=library)):
        check_algorithm(algorithm, only=["learns"], tasks=["vectors"], collect=True)
    assert global_randomness() == before
