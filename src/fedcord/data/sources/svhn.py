"""Street View House Numbers (cropped digits) and the synthetic digits published alike."""

from __future__ import annotations

from fedcord.data.checksum import Official
from fedcord.data.dataset import Dataset, Split
from fedcord.data.download import RemoteFile
from fedcord.data.formats.mat import read_digit_mat
from fedcord.data.locate import Search, Wanted
from fedcord.data.spec import DatasetSpec

_TRAIN, _TEST = "train_32x32.mat", "test_32x32.mat"
_OFFICIAL = {
    _TRAIN: Official(
        182_040_794, "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"
    ),
    _TEST: Official(64_275_384, "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
}
_DIGITS = tuple(str(digit) for digit in range(10))


def wanted_svhn() -> Wanted:
    """The files of SVHN."""
    return Wanted(
        dataset="svhn",
        places=("svhn", "SVHN"),
        holds=((_TRAIN,), (_TEST,)),
        remote=tuple(
            RemoteFile(
                # the authors' server speaks plain http; the SHA-256 makes that safe
                url=f"http://ufldl.stanford.edu/housenumbers/{file}",
                path=f"svhn/{file}",
                checksum=f"sha256:{official.sha256}",
                size=official.size,
            )
            for file, official in _OFFICIAL.items()
        ),
    )


def wanted_syn() -> Wanted:
    """The files of SYN (synthetic digits); its authors offer no address for programs."""
    return Wanted(
        dataset="digits-domains?domains=syn",
        places=("syn", "SYN", "SynthDigits", "synth-digits"),
        holds=(("synth_train_32x32.mat",), ("synth_test_32x32.mat",)),
        advice="ask for SynthDigits (Ganin and Lempitsky 2015) on its authors' page",
    )


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """House-number digits, uint8 [N, 3, 32, 32]; labels are the digits themselves."""
    found = search.require(wanted_svhn())
    train = read_digit_mat(found.path / _TRAIN, found.root, _OFFICIAL[_TRAIN])
    test = read_digit_mat(found.path / _TEST, found.root, _OFFICIAL[_TEST])
    return Dataset(
        name=spec.name,
        kind="image",
        train=Split(*train),
        test=Split(*test),
        class_names=_DIGITS,
        mean=(0.4377, 0.4438, 0.4728),
        std=(0.1980, 0.2010, 0.1970),
    )


def load_syn(search: Search) -> tuple[Split, Split]:
    """Training and test part of SYN, uint8 [N, 3, 32, 32]."""
    found = search.require(wanted_syn())
    return (
        Split(*read_digit_mat(found.path / "synth_train_32x32.mat", found.root)),
        Split(*read_digit_mat(found.path / "synth_test_32x32.mat", found.root)),
    )
