"""Keys, keystreams and sealed messages, all from PyCA `cryptography`; nothing here is home-made.

| what | from |
|---|---|
| a key of two sites | X25519, then HKDF-SHA256 bound to what it is for |
| masks | the keystream of ChaCha20 under a key that is used once |
| shares on their way through the server | ChaCha20-Poly1305 with a random nonce |

All randomness is the operating system's. The run's seed is known to the server and decides nothing.
"""

from __future__ import annotations

import secrets

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from fedcord.core.errors import ProtocolError

KEY_BYTES = 32
NONCE_BYTES = 12

Vector = NDArray[np.uint64]
"""Numbers modulo 2⁶⁴; sums and differences wrap around."""


def new_secret() -> bytes:
    """A private key, or a seed of masks."""
    return secrets.token_bytes(KEY_BYTES)


def public_of(secret: bytes) -> bytes:
    """The public key that belongs to a private one."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def common_key(secret: bytes, public: bytes, purpose: str) -> bytes:
    """The key that only the holders of the two private keys can compute.

    Args:
        secret: one's own private key.
        public: the other's public key.
        purpose: what the key is for; another purpose gives another key.
    """
    try:
        other = X25519PublicKey.from_public_bytes(public)
        agreed = X25519PrivateKey.from_private_bytes(secret).exchange(other)
    except ValueError as error:  # a wrong length, or a point that would make the key known
        raise ProtocolError(f"a site's public key cannot be used ({error}).") from error
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=purpose.encode()).derive(agreed)


def keystream(key: bytes, length: int) -> Vector:
    """So many numbers that nobody without the key can tell from random ones."""
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * length)), dtype="<u8")


def seal(key: bytes, content: bytes) -> bytes:
    """`content`, readable with the key only."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, content, None)


def unseal(key: bytes, sealed: bytes) -> bytes:
    """The inverse of `seal`; anything that was changed on the way is refused."""
    nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, rest, None)
    except (InvalidTag, ValueError) as error:
        raise ProtocolError("a sealed message was changed on its way.") from error
