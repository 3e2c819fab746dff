"""Who gets in: a certificate authority for tests, the server's certificate, and a key per site.

    DIR/ca.key          signs certificates; stays where it is
    DIR/coordinator/    for the SuperLink's machine: its certificate and key, sites' public keys
    DIR/site-NAME/      for the site: what it knows the server by, and its own private key

An institution that has an authority of its own uses its certificates instead; the files are the
same.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedcord.core.errors import ConfigError
from fedcord.core.names import name_problem

CA, SERVER, SERVER_KEY, SITE_KEY = "ca.crt", "server.crt", "server.key", "site.key"
COORDINATOR, SITE = "coordinator", "site-"
HERE = ("localhost", "127.0.0.1")
"""Where a rehearsal's SuperLink is; always in its certificate."""
DAYS = 365
CURVE = ec.SECP384R1()


@dataclass(frozen=True)
class Keys:
    """The files that `make_keys` has made.

    Attributes:
        folder: which holds them all.
        sites: by name, in the order of their names.
    """

    folder: Path
    sites: tuple[str, ...]

    @staticmethod
    def read(folder: Path) -> Keys:
        """What a folder holds; one that is not complete is refused."""
        sites = sorted(path.name.removeprefix(SITE) for path in folder.glob(f"{SITE}*"))
        made = Keys(folder.absolute(), tuple(sites))
        wanted = [made.ca, made.server, made.server_key]
        wanted += [path for name in sites for path in (made.public(name), made.private(name))]
        missing = [str(path.relative_to(made.folder)) for path in wanted if not path.is_file()]
        if missing or not sites:
            what = ", ".join(missing[:3]) or f"{SITE}NAME/"
            raise ConfigError(
                f"'{folder}' has no {what}; make its keys with `fedcord flower keys`."
            )
        return made

    @property
    def ca(self) -> Path:
        """What everybody knows the server by."""
        return self.folder / COORDINATOR / CA

    @property
    def server(self) -> Path:
        """The server's certificate."""
        return self.folder / COORDINATOR / SERVER

    @property
    def server_key(self) -> Path:
        """The server's own key."""
        return self.folder / COORDINATOR / SERVER_KEY

    def public(self, site: str) -> Path:
        """What the server knows a site by."""
        return self.folder / COORDINATOR / f"{SITE}{site}.pub"

    def private(self, site: str) -> Path:
        """A site's own key."""
        return self.folder / f"{SITE}{site}" / SITE_KEY


def make_keys(folder: Path, sites: Sequence[str], hosts: Sequence[str] = ()) -> Keys:
    """Make everything anew, in a folder that is new or empty.

    Args:
        folder: for all of it.
        sites: their names.
        hosts: names and addresses of the SuperLink, beside this machine's own.
    """
    problems = [p for p in (name_problem("site", site) for site in sites) if p]
    problems += [f"site '{s}' is named twice." for s in sorted(set(sites)) if sites.count(s) > 1]
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problems.append(f"'{folder}' exists already; choose a new folder, keys are not replaced.")
    if problems:
        raise ConfigError(problems)
    authority, certificate = _authority()
    server_key = ec.generate_private_key(CURVE)
    server = _server_certificate(server_key, authority, certificate, [*HERE, *hosts])
    made = Keys(folder.absolute(), tuple(sorted(sites)))
    _write(folder / "ca.key", _pem(authority), secret=True)
    _write(made.ca, _certificate(certificate))
    _write(made.server, _certificate(server))
    _write(made.server_key, _pem(server_key), secret=True)
    for site in sites:
        key = ec.generate_private_key(CURVE)
        _write(made.private(site), _ssh(key), secret=True)
        _write(made.private(site).with_name(CA), _certificate(certificate))
        _write(made.public(site), _ssh_public(key, site))
    return made


def _authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(CURVE)
    name = _name("fedcord test authority")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    built = (
        _begun(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return key, built.sign(key, hashes.SHA384())


def _server_certificate(
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate,
    hosts: Sequence[str],
) -> x509.Certificate:
    names = [_alternative(host) for host in dict.fromkeys(hosts)]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    built = (
        _begun(_name(hosts[-1]), issuer.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
    )
    return built.sign(authority, hashes.SHA384())


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + timedelta(days=DAYS))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise ConfigError(f"--host {host}: is no name or address of a machine.") from error


def _certificate(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _ssh(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )


def _ssh_public(key: ec.EllipticCurvePrivateKey, comment: str) -> bytes:
    encoded = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return encoded + f" {comment}\n".encode()


def _write(path: Path, content: bytes, secret: bool = False) -> None:
    """A new file; nobody else can read a secret one, not even while it is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
