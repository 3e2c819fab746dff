"""Whatever a table's file holds, it is loaded or refused in words; nothing else is raised."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.faults.budget import examples
from tests.faults.test_fuzz_data import damaged, fuzzed, loads_or_refuses

OPTIONS = ("target=ill", "target=ill&client=site", "target=ill&categorical=age&id=site", "drop=age")
GOOD = (
    "site;age;ward;ill\n"
    'nord;60,5;"A ""1""";yes\n'
    "süd;NA;B;no\n"
    'süd;70;"two\nlines";no\n'
    "nord;1e3;?;yes\n"
)


def _load(kind: str, data: bytes, options: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine"
        path.write_bytes(data)
        loads_or_refuses(f"{kind}:{path}?{options}")


@seed(13)
@settings(fuzzed, max_examples=examples(60))
@given(st.data(), st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]), st.sampled_from(OPTIONS))
def test_damaged_csv(data: st.DataObject, encoding: str, options: str) -> None:
    _load("csv", data.draw(damaged(GOOD.encode(encoding))), options)


@seed(13)
@settings(fuzzed, max_examples=examples(60))
@given(
    st.text(st.sampled_from("ab1.,;\"\n\r\t'\\ é\0|-"), max_size=60) | st.text(max_size=30),
    st.sampled_from(OPTIONS),
)
def test_any_text_as_csv(text: str, options: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    _load("csv", b"ill,site,age\n" + data, options)
    _load("csv", data, options)


def _parquet() -> bytes:
    table = pa.table(
        {
            "site": ["n", "s", "n", "s"],
            "age": [1.5, None, 3.0, 2.0],
            "ward": pa.array(["A", "B", None, "A"]).dictionary_encode(),
            "ill": [True, False, False, True],
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


@seed(13)
@settings(fuzzed, max_examples=examples(60))
@given(st.data(), st.sampled_from(OPTIONS))
def test_damaged_parquet(data: st.DataObject, options: str) -> None:
    _load("parquet", data.draw(damaged(_parquet())), options)
