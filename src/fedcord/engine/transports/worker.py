"""What a worker of the `processes` transport does: it is a node that answers its parent.

It is given what its node is made from, and then answers until the parent goes away. A request comes
once, the parcels that belong to it after it.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection

import torch

from fedcord.core.errors import FedcordError
from fedcord.engine.agreement import Agreement
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.population import Population
from fedcord.engine.requests import (
    Request,
    join,
    pack_failure,
    pack_replies,
    split,
    unpack,
    unpack_parcel,
    unpack_request,
)
from fedcord.engine.reuse import WorkCache
from fedcord.engine.shared_block import map_block

REQUEST, PARCELS = b"R", b"P"
"""First byte of a message to a worker: what the rest is."""


def serve(descriptor: int, data: int) -> None:
    """Connect to the parent and work for it until it goes away."""
    torch.set_num_threads(1)
    with Connection(descriptor) as parent:
        try:
            _serve(parent, data)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the parent has ended; so do we


def _serve(parent: Connection, data: int) -> None:
    header, _ = unpack(parent.recv_bytes())
    tensors = map_block(data, header["layout"])
    os.close(data)  # the mapping stays
    cache = header["cache"]
    node = ClientNode.of(
        Blueprint.from_json(header["blueprint"]),
        Population.from_tensors(tensors, header["fingerprint"], dict(header["names"])),
        InProcessMemory(),
        Agreement(**header["agreement"]),
        None if cache is None else WorkCache.from_plain(cache),
    )
    parent.send_bytes(b"")
    request = Request("hello")
    while True:
        message = parent.recv_bytes()
        kind, body = message[:1], message[1:]
        if kind == REQUEST:
            request = unpack_request(body)
            continue
        parent.send_bytes(join([_answer(node, request, parcel) for parcel in split(body)]))


def _answer(node: ClientNode, request: Request, parcel: bytes) -> bytes:
    try:
        return pack_replies(list(node.answer(request, unpack_parcel(parcel))))
    except FedcordError as error:
        return pack_failure(error)
