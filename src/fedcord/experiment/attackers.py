"""The setting `attack`: which simulated clients are bad, and what they do.

`KIND:SHARE` draws that share of the clients by the seed, a smaller share's among a larger one's;
`KIND:clients=0+3` names them. `sign-flip` and `scaled` take `,factor=F`, `gaussian` takes
`,deviation=S`. No PyTorch is needed to read it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

from fedcord.core.errors import ConfigError, shown, unknown_name
from fedcord.core.names import clients_listed
from fedcord.core.rng import numpy_generator

KINDS = MappingProxyType(
    {
        "label-flip": ("", 1.0),
        "sign-flip": ("factor", 1.0),
        "scaled": ("factor", 10.0),
        "gaussian": ("deviation", 1.0),
    }
)
"""By kind of attack: what its strength is called, if it has one, and its default."""
EXAMPLE = "sign-flip:0.2, or sign-flip:clients=0+3"


@dataclass(frozen=True)
class AttackSpec:
    """A read setting.

    Attributes:
        kind: of the attack.
        share: of clients that attack; 0 where they are named.
        named: clients that attack.
        strength: of the attack.
    """

    kind: str
    share: float
    named: tuple[int, ...]
    strength: float

    def clients(self, seed: int, num_clients: int) -> tuple[int, ...]:
        """Who attacks, in ascending order; at least one, else a ConfigError."""
        absent = [client for client in self.named if client >= num_clients]
        if absent:
            raise ConfigError(
                f"attack: there is no client {absent[0]} among {num_clients}, which are numbered "
                "from 0."
            )
        if self.named:
            return tuple(sorted(set(self.named)))
        count = math.floor(self.share * num_clients + 0.5)
        if count == 0:
            raise ConfigError(
                f"attack: a share of {self.share:g} of {num_clients} clients is nobody; take a "
                "larger share, or leave attack out."
            )
        drawn = numpy_generator(seed, "attackers").permutation(num_clients)[:count]
        return tuple(sorted(drawn.tolist()))


def read_attack(text: str) -> AttackSpec:
    """The setting, or a ConfigError that says what it could be."""
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        raise ConfigError(unknown_name("attack", kind, KINDS))
    who, *options = rest.split(",")
    share, named = _who(text, who)
    option, strength = KINDS[kind]
    for given in options:
        name, _, value = given.partition("=")
        if not option or name != option:
            allowed = f"'{option}=NUMBER'" if option else "no option"
            raise ConfigError(
                f"attack = {shown(text)}: '{given}' is not known; allowed: {allowed}."
            )
        strength = _number(text, value)
        if strength <= 0:
            raise ConfigError(f"attack = {shown(text)}: {option} must be a number > 0.")
    return AttackSpec(kind, share, named, strength)


def attack_problems(text: str | None) -> list[str]:
    """What is wrong with the setting, in words."""
    try:
        if text is not None:
            read_attack(text)
    except ConfigError as error:
        return list(error.problems)
    return []


def attack_note(text: str, clients: tuple[int, ...]) -> str:
    """What a reader of the result must know."""
    return (
        f"Simulated attack {text}: client {clients_listed(clients, {})} did not work or send "
        "honestly."
    )


def _who(text: str, who: str) -> tuple[float, tuple[int, ...]]:
    name, equals, listed = who.partition("=")
    if equals and name == "clients":
        numbers = listed.split("+")
        if not all(number.isascii() and number.isdigit() for number in numbers):
            raise ConfigError(
                f"attack = {shown(text)}: clients are numbers with + between them; write {EXAMPLE}."
            )
        return 0.0, tuple(map(int, numbers))
    share = _number(text, who)
    if not 0 < share <= 1:
        raise ConfigError(
            f"attack = {shown(text)}: the share of clients must be > 0 and <= 1; write {EXAMPLE}."
        )
    return share, ()


def _number(text: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(
            f"attack = {shown(text)}: {shown(value)} is not a number; write {EXAMPLE}."
        )
    return number
