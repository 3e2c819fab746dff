"""HAM10000: dermatoscopic pictures of pigmented skin lesions, in MedMNIST's npz layout."""

from __future__ import annotations

from fedcord.data.dataset import Dataset
from fedcord.data.download import RemoteFile
from fedcord.data.formats.images import channel_statistics
from fedcord.data.locate import Search, Wanted
from fedcord.data.sources.npz_file import arrays_to_splits
from fedcord.data.spec import DatasetSpec

_CLASSES = (
    "actinic keratosis",
    "basal cell carcinoma",
    "benign keratosis",
    "dermatofibroma",
    "melanoma",
    "melanocytic nevus",
    "vascular lesion",
)


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Lesions, uint8 [N, 3, H, W].

    The file's validation part is merged into training: fedcord carves validation data out of each
    client's own training part, and a central validation set would not exist in a federation.
    Beware that MedMNIST's own split (DermaMNIST, which the download fetches) puts pictures of one
    lesion into both training and test, so its test accuracy is too high; a file split by lesion
    does not have this fault.
    """
    found = search.require(
        Wanted(
            dataset=spec.name,
            places=("ham10000-28.npz", "ham10000*.npz", "dermamnist.npz"),
            remote=(
                RemoteFile(
                    url="https://zenodo.org/records/10519652/files/dermamnist.npz",
                    path="dermamnist.npz",
                    checksum="md5:0744692d530f8e62ec473284d019b0c7",
                ),
            ),
        )
    )
    train, test = arrays_to_splits(found.path, found.root)
    mean, std = channel_statistics(train.inputs)
    return Dataset(
        name=spec.name,
        kind="image",
        train=train,
        test=test,
        class_names=_CLASSES,
        mean=mean,
        std=std,
    )
