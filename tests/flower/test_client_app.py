"""What leaves a site where its app fails."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import Message

from fedcord.core.errors import ProtocolError
from fedcord.engine.requests import unpack_replies
from fedcord.flower import client_app
from fedcord.flower.messages import from_records, to_records


def test_a_failure_of_the_machine_is_told_without_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: Any) -> bytes:
        raise PermissionError(13, "Permission denied", str(tmp_path / "smith.npz"))

    monkeypatch.setattr(client_app, "answer_at_site", failing)
    context: Any = SimpleNamespace(node_config={"site": "site.toml"}, run_config={})
    asked = Message(to_records(b""), 7, "query")
    answer = client_app.answer(asked, context)
    assert not answer.has_error()
    found = unpack_replies(from_records(answer.content)[0])
    assert isinstance(found, ProtocolError)
    assert str(found) == "its app failed (PermissionError); the site's own log says more."
    assert "smith.npz" in caplog.text
