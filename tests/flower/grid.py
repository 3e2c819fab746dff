"""A grid without a network: nodes are functions, and whatever can go wrong is asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Error, Message, RecordDict
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.serverapp import Grid

Answer = Callable[[Message], RecordDict | Error | Exception | None]
"""A node's answer: content, what the SuperLink says in its place, what fails on the way; None for
no answer at all."""


class FakeGrid(Grid):
    """Answers come in the reverse order of asking, one at a time, the first look finds none."""

    def __init__(self, nodes: dict[int, Answer]) -> None:
        self.nodes = nodes
        self.sent: list[Message] = []
        self.duplicate = False
        self._numbers = itertools.count()
        self._asked: dict[str, Message] = {}
        self._looked: set[str] = set()

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *_: Any, **__: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, *_: Any, **__: Any) -> Iterable[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        for message in messages:
            message_id = f"m{next(self._numbers)}"
            self.sent.append(message)
            self._asked[message_id] = message
            yield message_id

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = []
        for message_id in reversed(list(message_ids)):
            if message_id not in self._looked:
                self._looked.add(message_id)
                continue
            asked = self._asked[message_id]
            answer = self.nodes[asked.metadata.dst_node_id](asked)
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                found.append(_reply(message_id, asked, answer))
        return found * 2 if self.duplicate else found


def _reply(message_id: str, asked: Message, answer: RecordDict | Error) -> Message:
    is_error = isinstance(answer, Error)
    source = 1 if is_error else asked.metadata.dst_node_id  # the SuperLink speaks for the dead
    metadata = Metadata(1, "r" + message_id, source, 1, message_id, "", 0.0, 60.0, "query")
    if isinstance(answer, Error):
        return make_message(metadata, error=answer)
    return make_message(metadata, content=answer)
