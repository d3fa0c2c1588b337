"""A certificate authority of the sandbox's own, for servers on loopback and for users of the Kubernetes API.

Everything is made by the `openssl` program, since the standard library makes no keys. Keys are on the P-256 curve: made in
milliseconds, where RSA takes half a second of a busy core. They guard nothing but loopback ports and live as long as the folder.
"""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.errors import PartMissing, StartFailed

OPENSSL_SECONDS: Final = 30
DAYS: Final = 365
LONGEST_NAME: Final = 64  # ub-common-name of X.509
NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def missing() -> str | None:
    """What making certificates lacks on this machine, or None."""
    return None if shutil.which("openssl") else "no `openssl` on the PATH (3.0 or newer)"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A signed certificate and its key, both PEM files."""

    file: Path
    key: Path


class CertificateAuthority:
    """Signs certificates for servers and clients. ``authority = CertificateAuthority(folder)`` makes its own key there.

    Raises:
        PartMissing: no `openssl`.
        StartFailed: `openssl` failed; the message holds what it said.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate = self._certificate("authority")
        _openssl(
            "req", "-x509", *NEW_KEY, "-days", str(DAYS), "-subj", "/CN=relight sandbox",
            "-keyout", str(self.certificate.key), "-out", str(self.certificate.file),
        )  # fmt: skip

    def for_server(self, name: str, hosts: Sequence[str]) -> Certificate:
        """Sign for a server that is reached under `hosts`: addresses as ``IP:127.0.0.1``, names as ``DNS:localhost``."""
        return self._sign(name, f"/CN={name}", "serverAuth", f"subjectAltName={','.join(hosts)}")

    def for_user(self, user: str, groups: Sequence[str] = ()) -> Certificate:
        """Sign for a client that the API server is to know as `user`, member of `groups` (a certificate's CN and O).

        Raises:
            ValueError: a name is longer than certificates allow.
        """
        too_long = [name for name in (user, *groups) if len(name) > LONGEST_NAME]
        if too_long:
            raise ValueError(f"names in a certificate have at most {LONGEST_NAME} characters: {too_long}")
        subject = "".join(f"/O={_escaped(group)}" for group in groups) + f"/CN={_escaped(user)}"
        return self._sign(user, subject, "clientAuth")

    def _sign(self, name: str, subject: str, usage: str, *extensions: str) -> Certificate:
        made = self._certificate(name)
        added = ("basicConstraints=critical,CA:FALSE", f"extendedKeyUsage={usage}", *extensions)
        _openssl(
            "req", "-x509", *NEW_KEY, "-days", str(DAYS), "-subj", subject,
            "-CA", str(self.certificate.file), "-CAkey", str(self.certificate.key),
            *(part for extension in added for part in ("-addext", extension)),
            "-keyout", str(made.key), "-out", str(made.file),
        )  # fmt: skip
        return made

    def _certificate(self, name: str) -> Certificate:
        stem = name.replace("/", "_")
        return Certificate(self._folder / f"{stem}.crt", self._folder / f"{stem}.key")


def signing_key(file: Path) -> Path:
    """Make a private key of its own, such as the one that signs service accounts' tokens."""
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(file))
    return file


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("/", "\\/")


def _openssl(*arguments: str) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise PartMissing(
            "no `openssl` on the PATH: the sandbox makes its certificates with it (3.0 or newer)"
        )
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=OPENSSL_SECONDS, check=False
    )
    if done.returncode != 0:
        raise StartFailed(f"openssl {arguments[0]} failed:\n{done.stdout}{done.stderr}")
