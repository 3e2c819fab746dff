"""Named studies: every file can be read, at every scale, and mistakes in one are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedcord.core.errors import ConfigError
from fedcord.experiment.named_study import SCALES, named_study, names, read
from fedcord.report.published import Published

ASKED_FOR = {
    *("flare-table1", "flare-fig1", "flare-table2", "flare-fig2", "flare-table3"),
    *("flare-lambda-sweep", "flare-iffi", "flare-memory-bank"),
    *("fedhpro-label-skew", "fedhpro-longtail", "fedhpro-domain", "fedhpro-k-e"),
    *("fedhpro-prototype-only", "fedhpro-ag-news", "fedhpro-ablation"),
    *("fedhip-invariance", "fedhip-personalisation", "fedhip-cost", "fedhip-new-clients"),
    *("fedacnnl-time", "fedacnnl-accuracy", "afl-partitions"),
    *("accord-ablation", "accord-cifar10", "accord-encoders"),
    *("accord-main", "accord-main-compute", "accord-main-tuned", "accord-mixed", "accord-public"),
    *(
        "accord-full",
        "accord-full-more",
        "accord-full-rounds",
        "accord-rounds",
        "accord-resnet",
        "accord-frontier",
    ),
    *("accord-participation", "accord-private", "accord-controls", "accord-views", "accord-text"),
    *("accord-ham10000", "accord-ham10000-tuned", "accord-fens-tuned", "accord-student"),
}
NEEDS_NO_DOWNLOAD = ("digits", "synthetic")

SMALL = """
title = "Two methods"
source = "A paper, Table 1"
[settings]
dataset = "digits"
subset = 200
clients = 3
rounds = 1
[parts.iid]
partition = "iid"
[parts.skewed]
partition = "dirichlet:0.1"
contenders = ["fedavg"]
[contenders]
fedavg = { algorithm = "fedavg", recipe = "local" }
strong = { algorithm = "fedprox", recipe = "local", params = { proximal_weight = 1.0 } }
[scales.smoke]
seeds = 2
setting = "small"
recipes = { local = { local = { epochs = 1, lr = 0.3 } } }
[scales.small]
seeds = 3
setting = "less small"
settings = { subset = 400 }
recipes = { local = { local = { epochs = 2 } } }
[scales.paper]
seeds = 5
setting = "as published"
settings = { rounds = 9 }
recipes = { local = { local = { epochs = 9 } } }
[[published]]
part = "iid"
contender = "fedavg"
value = 91.5
"""


def test_every_table_that_was_promised_has_a_name() -> None:
    assert set(names()) == ASKED_FOR


@pytest.mark.parametrize("name", names())
def test_every_named_study_can_be_built_at_every_scale(name: str) -> None:
    named = named_study(name)
    assert set(named.scales) == set(SCALES)
    for scale in SCALES:
        studies = named.studies(scale)
        assert studies
        for study in studies.values():
            configs = [config.hash for config in study.contenders.values()]
            assert len(set(configs)) == len(configs)  # two labels for one form would be a mistake
            data = {config.dataset for config in study.contenders.values()}
            assert scale != "smoke" or data <= set(NEEDS_NO_DOWNLOAD)
        seeds = {len(study.seeds) for study in studies.values()}
        assert seeds == {2} if scale == "smoke" else min(seeds) >= 3
    for figure in named.published:  # of the last scale, the published one
        assert {figure.contender, figure.against or figure.contender} <= set(
            studies[figure.part].contenders
        )


def test_files_say_what_cannot_be_compared() -> None:
    assert all(named_study(name).scales["smoke"].judges == "nothing" for name in names())


def test_a_scale_fills_in_recipes_and_a_contender_wins_over_them() -> None:
    named = read("two", SMALL)
    smoke, small = named.studies("smoke"), named.studies("small")
    assert list(smoke) == ["iid", "skewed"]
    assert list(smoke["skewed"].contenders) == ["fedavg"]
    strong = smoke["iid"].contenders["strong"]
    assert strong.params["proximal_weight"] == 1.0
    assert (strong.params["local"]["epochs"], strong.params["local"]["lr"]) == (1, 0.3)
    assert small["iid"].contenders["strong"].params["local"]["epochs"] == 2
    assert (strong.subset, small["iid"].contenders["strong"].subset) == (200, 400)
    assert named.published == (Published(part="iid", contender="fedavg", value=91.5),)
    assert len(named.studies("paper", {"seeds": 4})["iid"].seeds) == 4


def test_a_part_changes_a_recipe_for_itself_alone() -> None:
    own = 'partition = "dirichlet:0.1"\nrecipes = { local = { local = { lr = 0.7 } } }'
    found = read("two", SMALL.replace('partition = "dirichlet:0.1"', own)).studies("smoke")
    params = {part: study.contenders["fedavg"].params["local"] for part, study in found.items()}
    assert {part: (p["epochs"], p["lr"]) for part, p in params.items()} == {
        "iid": (1, 0.3),
        "skewed": (1, 0.7),
    }
    strange = read(
        "two", SMALL.replace('partition = "dirichlet:0.1"', own.replace("local", "lcal"))
    )
    with pytest.raises(ConfigError, match="unknown recipe 'lcal'"):
        strange.studies("smoke")


def test_a_scale_has_a_plan_of_its_own() -> None:
    plan = """[scales.small.plan]
question = "Is it?"
primary = ["strong - fedavg"]
seeds = [0, 1, 2]
stopping = "after these"
[scales.paper]"""
    text = SMALL.replace('contenders = ["fedavg"]', "").replace("[scales.paper]", plan)
    named = read("two", text)
    assert named.studies("smoke")["iid"].plan is None
    found = named.studies("small")["iid"].plan
    assert found is not None
    assert found.table == ("scales", "small", "plan")
    assert (str(found.plan.primary[0]), found.plan.seeds) == ("strong - fedavg", (0, 1, 2))
    with pytest.raises(ConfigError, match="unknown contender 'weak'"):
        read("two", text.replace("strong - fedavg", "weak - fedavg")).studies("small")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("value = 91.5", 'value = "a lot"'), "value = 'a lot'"),
        (("value = 91.5", "valu = 91.5"), "unknown parameter 'valu'"),
        (("value = 91.5", "low = 91.5"), "either value or both low and high"),
        (('contender = "fedavg"', 'contender = "fedagv"'), "unknown contender 'fedagv'"),
        (('part = "iid"', 'part = "idd"'), "unknown part 'idd'"),
        (("seeds = 3\n", ""), r"\[scales.small\] needs seeds and setting"),
        (('setting = "small"', 'setting = "x"\nsedds = 1'), "unknown entry 'sedds'"),
        (('setting = "small"', 'setting = "x"\njudges = "all"'), "unknown judges 'all'"),
        (('source = "A paper, Table 1"', ""), "has no source"),
        (("title", "titel"), "unknown entry 'titel'"),
        (("[settings]", "[settings"), "is not TOML"),
    ],
)
def test_mistakes_in_a_file_are_told(change: tuple[str, str], words: str) -> None:
    assert change[0] in SMALL
    with pytest.raises(ConfigError, match=words):
        read("two", SMALL.replace(*change, 1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('recipe = "local" }', 'recipe = "lokal" }'), "smoke: unknown recipe 'lokal'"),
        (('contenders = ["fedavg"]', 'contenders = ["fedagv"]'), "unknown contender 'fedagv'"),
        (("seeds = 2", 'seeds = 2\nparts = ["idd"]'), "unknown part 'idd'"),
        (("epochs = 1", "epoch = 1"), "epoch"),
    ],
)
def test_mistakes_that_show_when_it_is_built_are_told(change: tuple[str, str], words: str) -> None:
    named = read("two", SMALL.replace(*change, 1))
    with pytest.raises(ConfigError, match=words):
        named.studies("smoke")


def test_unknown_names_are_told() -> None:
    with pytest.raises(ConfigError, match=r"unknown study 'flare-table9'.*flare-table1"):
        named_study("flare-table9")
    with pytest.raises(ConfigError, match="unknown scale 'huge'"):
        read("two", SMALL).studies("huge")


def test_every_study_has_a_row_in_the_matrix() -> None:
    matrix = (Path(__file__).parents[2] / "studies" / "README.md").read_text(encoding="utf-8")
    missing = [name for name in names() if f"`{name}`" not in matrix]
    assert not missing
