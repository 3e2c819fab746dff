"""Every check fails for the mistake it is there to catch, for the stated reason."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.checks import CHECKS, ContractViolation, Expectations, Limit, check_algorithm
from fedcord.checks.global_randomness import global_randomness
from fedcord.core.contract import Algorithm
from tests.checks.broken import aggregation, declaration, prediction, purity, refusal, state
from tests.checks.registered import QUICK
from tests.checks.sound import NearestMean, Plain

DEFAULT = Expectations()
STATED = Expectations(identity=None)
PULL_AT_ZERO = Limit("proximal_weight = 0 is FedAvg", state.PullsAtZero(0.0), FedAvg(QUICK))
PULL_UNUSED = Limit(
    "proximal_weight = 0 is FedAvg",
    state.NeverPulls(0.0),
    FedAvg(QUICK),
    unlike=state.NeverPulls(1.0),
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
        declaration.PersonalizesInWordsOnly(),
        "declared",
        "announces the trait personalizes but has no verb personalize;",
    ),
    Case(
        declaration.PersonalizesNothing(),
        "declared",
        "personalize leaves every client as it was; say personalizes=False",
    ),
    Case(
        declaration.KeepsThingsToItself(),
        "declared",
        "has the verb observations but does not announce the trait observes",
    ),
    Case(declaration.HalfStacked(), "declared", "the trait stacks but has no verb client_updates"),
    Case(declaration.LetsTraitsBeSet(), "declared", "traits is a field"),
    Case(
        declaration.DeclaresByDictionary(),  # type: ignore[arg-type]
        "declared",
        "traits is dict, not Traits",
    ),
    Case(declaration.ReviewsInPlainText(), "declared", "review returned str, not Review"),
    Case(
        declaration.ReviewsWithoutComma(),
        "declared",
        "errors = 'too few classes', which is no tuple",
    ),
    Case(
        declaration.RefusesTheTask(), "declared", "review refuses this task: it needs at least 1000"
    ),
    Case(refusal.NeedsEverybody(), "faults", "drops a third of the answers led to KeyError"),
    Case(purity.CountsCalls(), "faults", "when answers come twice .* the run ends elsewhere"),
    Case(purity.CountsCalls(), "same-outputs", "gave other outputs the second time"),
    Case(purity.DrawsGlobally(), "same-outputs", r"aggregate \(round 0\) changed .* of torch"),
    Case(purity.DrawsGlobally(library="numpy"), "same-outputs", "global random state of numpy"),
    Case(purity.DrawsGlobally(library="random"), "same-outputs", "global random state of random"),
    Case(purity.SeedsGlobally(), "same-outputs", "init changed the global random state of torch"),
    Case(purity.IgnoresSeed(), "same-outputs", "another seed changed nothing"),
    Case(
        NearestMean(),
        "same-outputs",
        r"another seed changed nothing \(streams asked for: none\)",
        expectations=Expectations(is_random=True),
    ),
    Case(purity.EditsShared(), "inputs-unchanged", r"client_update .* changed its input 'shared'"),
    Case(purity.EditsData(), "inputs-unchanged", r"client_update .* changed its input 'data'"),
    Case(purity.EditsUpdates(), "inputs-unchanged", r"aggregate .* changed its input 'updates'"),
    Case(purity.BorrowsNetwork(), "inputs-unchanged", "client 0.* was changed by a later call"),
    Case(aggregation.LastWins(), "order-free", "in reversed order, .* give another state"),
    Case(
        aggregation.WeighsOneTooMany(),
        "one-client-identity",
        "with one client alone: model.*differs",
    ),
    Case(aggregation.MeanOfMeans(), "splitting-adds-up", "two halves do not add up"),
    Case(
        aggregation.MedianCalledMean(),
        "sums-suffice",
        "the mean of all updates of round 0 gives another model than the single ones: model",
    ),
    Case(
        aggregation.SpreadOfOne(),
        "odd-clients",
        "with one example, update.data.spread is not finite",
    ),
    Case(
        aggregation.DividesByZero(),
        "odd-clients",
        "ZeroDivisionError for a client with one example",
    ),
    Case(aggregation.FailsOnNothing(), "odd-clients", "raised .* for a client with no example"),
    Case(aggregation.RaggedPrototypes(), "odd-clients", "client 0 did not send proto.1, proto.2"),
    Case(aggregation.RaggedPrototypes(), "equal-updates", "client 0 did not send proto.2"),
    Case(aggregation.SendsGraph(), "equal-updates", "class.sum with a gradient graph"),
    Case(state.VelocityOnObject(), "resume", "after 1 of 2 rounds the run ends elsewhere"),
    Case(state.ForgetsRound(), "resume", r"say \[0, 0, 0\] rounds"),
    Case(state.KnowsItself(), "engines-agree", "engine 'wire' .* end in other states"),
    Case(
        state.PullsAtZero(),
        "limits",
        "proximal_weight = 0 is FedAvg: not so, model",
        expectations=Expectations(limits=(PULL_AT_ZERO,)),
    ),
    Case(
        state.NeverPulls(),
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
    Case(state.SendsPrivate(), "nothing-leaks", "private tensor secret .* after 1 rounds"),
    Case(state.ProbesAloud(), "nothing-leaks", "probe in round 0 changes what clients are sent"),
    Case(state.SendsMemory(), "nothing-leaks", "memory tensor own of client 0 is in its update"),
    Case(prediction.PredictsInTraining(), "predictor", "depend on the batch: one by one", "images"),
    Case(prediction.LeavesTrainingMode(), "predictor", "left the task's network in training mode"),
    Case(
        prediction.PredictsLabels(), "predictor", r"scores at .* are torch.int64 \[12\], expected"
    ),
    Case(
        prediction.BorrowsToPredict(),
        "predictor",
        "depend on what the task's network was last used",
    ),
    Case(prediction.PredictsWithGraph(), "predictor", "have a gradient graph; use .*held_network"),
    Case(
        prediction.CountsAnotherRule(), "predictor", "are not those of the first rule, 'farthest'"
    ),
    Case(prediction.ShowsOneFeature(), "predictor", r"features at the server are \[12\], expected"),
    Case(prediction.ShowsPrototypesFlat(), "predictor", r"prototypes at .* expected \[3, M, "),
    Case(prediction.ShowsTheBatch(), "predictor", "features at the server depend on the batch"),
    Case(refusal.NeverTrains(), "learns", r"accuracy is 0\.\d+ after 10 rounds, expected at least"),
    Case(
        refusal.AgreesToAnything(),
        "bad-updates-refused",
        "wrong shape .*: 0 updates were",
    ),
    Case(refusal.SwallowsErrors(), "bad-updates-refused", "are refused, the run goes on"),
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
        (aggregation.LastWins(), Expectations(), {"order-free", "sums-suffice"}),
        (aggregation.MeanOfMeans(), Expectations(), {"splitting-adds-up"}),
        (aggregation.FailsOnNothing(), Expectations(), {"odd-clients"}),
        (aggregation.RaggedPrototypes(), Expectations(), {"odd-clients", "equal-updates"}),
        (state.VelocityOnObject(), STATED, {"resume"}),
        (state.KnowsItself(), Expectations(), {"resume", "engines-agree"}),
        (state.PullsAtZero(), Expectations(limits=(PULL_AT_ZERO,)), {"limits"}),
        (refusal.NeverTrains(), Expectations(), {"learns"}),
        (refusal.AgreesToAnything(), Expectations(), {"bad-updates-refused"}),
        (
            purity.CountsCalls(),
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
        (state.SendsMemory(), Expectations(memory_may_be_sent=("o*",))),
        (state.SendsPrivate(), Expectations(private_may_be_sent=("secret",))),
    ):
        assert check_algorithm(algorithm, expectations, only=["nothing-leaks"]).passed


def test_a_clear_refusal_of_an_empty_client_is_fine() -> None:
    assert check_algorithm(aggregation.RefusesNothing(), only=["odd-clients"]).passed


@pytest.mark.parametrize("library", ["torch", "numpy", "random"])
def test_the_callers_random_state_survives_a_broken_algorithm(library: str) -> None:
    before = global_randomness()
    for algorithm in (purity.SeedsGlobally(), purity.DrawsGlobally(library=library)):
        check_algorithm(algorithm, only=["learns"], tasks=["vectors"], collect=True)
    assert global_randomness() == before
