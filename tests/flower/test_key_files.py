"""Keys and certificates: each where it belongs, readable by whom it must be, accepted by TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedcord.core.errors import ConfigError
from fedcord.flower.keys import Keys, make_keys


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    folder = tmp_path_factory.mktemp("keys") / "all"
    return make_keys(folder, ["B", "A"], ["flower.example.org", "10.0.0.7"])


def test_everybody_gets_what_they_need_and_no_secret_of_others(made: Keys) -> None:
    files = {str(p.relative_to(made.folder)): p for p in made.folder.rglob("*") if p.is_file()}
    assert sorted(files) == [
        "ca.key",
        "coordinator/ca.crt",
        "coordinator/server.crt",
        "coordinator/server.key",
        "coordinator/site-A.pub",
        "coordinator/site-B.pub",
        "site-A/ca.crt",
        "site-A/site.key",
        "site-B/ca.crt",
        "site-B/site.key",
    ]
    secret = {name for name, path in files.items() if path.stat().st_mode & 0o077 == 0}
    assert secret == {name for name in files if name.endswith(".key")}
    assert Keys.read(made.folder) == made
    assert made.sites == ("A", "B")


def test_a_site_has_the_key_that_the_server_knows(made: Keys) -> None:
    for site in made.sites:
        private = serialization.load_ssh_private_key(made.private(site).read_bytes(), None)
        public = serialization.load_ssh_public_key(made.public(site).read_bytes())
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        assert isinstance(public, ec.EllipticCurvePublicKey)
        assert private.public_key().public_numbers() == public.public_numbers()
        assert private.curve.name == "secp384r1"


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("flower.example.org", True),
        ("10.0.0.7", True),
        ("other.example.org", False),
    ],
)
def test_the_certificate_is_of_the_server_and_of_no_other(
    made: Keys, host: str, is_known: bool
) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.server, made.server_key)
    client = ssl.create_default_context(cafile=made.ca)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    if is_known:
        _shake_hands(server, client, host)
    else:
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            _shake_hands(server, client, host)


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)


def test_the_authority_signs_no_other_authority(made: Keys) -> None:
    found = x509.load_pem_x509_certificate(made.ca.read_bytes())
    limits = found.extensions.get_extension_for_class(x509.BasicConstraints)
    assert limits.critical
    assert (limits.value.ca, limits.value.path_length) == (True, 0)


def test_keys_are_never_replaced_and_names_must_be_names(tmp_path: Path, made: Keys) -> None:
    with pytest.raises(ConfigError, match="exists already; choose a new folder"):
        make_keys(made.folder, ["A"])
    with pytest.raises(ConfigError, match=r"site '../A'.*\n.*named twice"):
        make_keys(tmp_path / "new", ["../A", "B", "B"])
    with pytest.raises(ConfigError, match="is no name or address of a machine"):
        make_keys(tmp_path / "new", ["A"], ["höst"])
    assert not (tmp_path / "new").exists()


def test_a_folder_that_lacks_a_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no coordinator/ca\.crt.*fedcord flower keys"):
        Keys.read(tmp_path)
