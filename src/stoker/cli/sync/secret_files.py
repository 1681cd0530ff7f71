"""Secrets as files of this machine, read again at each use.

A resource names Secrets of a cluster. Here each key of a Secret is a file, which is named on the command line
(`--secret NAME/KEY=FILE`) or is in a folder laid out like mounted Secrets (`--secrets-dir`, NAME/KEY). Files
that an option names (`--token-file`) are looked up in the same way, under the name of the option. Nothing is
cached: a credential is renewed by replacing its file, and the next use reads the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret, one_line_secret

MAX_BYTES = 1 << 20


class SecretFiles(NamedTuple):
    """The files of the keys of Secrets."""

    folder: Path | None = None
    named: Mapping[SecretKey, Path] = MappingProxyType({})
    held: Mapping[SecretKey, Secret] = MappingProxyType({})
    """Values without a file: from an environment variable or, against advice, from an argument."""

    @classmethod
    def given(cls, texts: Sequence[str], folder: Path | None) -> SecretFiles:
        if folder is not None and not folder.is_dir():
            raise Misconfigured(f"--secrets-dir {folder} is not a folder")
        return cls(folder, dict(_parse_secret_file(text) for text in texts))

    def flag(self, name: str, path: Path | None) -> tuple[SecretFiles, SecretKey | None]:
        """Return the same with the file of an option added, and the key under which it is found."""
        if path is None:
            return self, None
        key = SecretKey(name, "")
        return self._replace(named={**self.named, key: path}), key

    def holding(self, key: SecretKey, value: Secret) -> SecretFiles:
        return self._replace(held={**self.held, key: value})

    def has(self, wanted: SecretKey) -> bool:
        return wanted in self.held or self._path(wanted) is not None

    def read(self, wanted: SecretKey) -> bytes:
        if wanted in self.held:
            return self.held[wanted].reveal_bytes()
        path = self._path(wanted)
        if path is None:
            name = f"{wanted.name}/{wanted.key}"
            raise Misconfigured(
                f"Secret {wanted.name!r} with key {wanted.key!r} is named by the resource but not given; use "
                f"--secret {name}=FILE, or put it into the folder of --secrets-dir as {name}",
                reason=Reason.SECRET_NOT_FOUND,
            )
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise Misconfigured(f"{_secret_title(wanted, path)} cannot be read: {error.strerror}") from None
        if len(content) > MAX_BYTES:
            raise Misconfigured(f"{_secret_title(wanted, path)} is larger than {MAX_BYTES} bytes")
        if not content.strip():
            raise Misconfigured(f"{_secret_title(wanted, path)} is empty")
        return content

    def line(self, wanted: SecretKey) -> Secret:
        """Return a token, a password or a name: one line of text, stripped of white space."""
        return one_line_secret(self.read(wanted), _secret_title(wanted, self._path(wanted)))

    def api_key(self, wanted: SecretKey) -> Secret:
        """Return a gateway's API key; raises if it does not have the form that gateways accept."""
        from stoker.ignition.client.api_key import check_api_key  # noqa: PLC0415 - needed with a gateway only

        return check_api_key(self.line(wanted), f"the API key of {wanted.name}")

    def _path(self, wanted: SecretKey) -> Path | None:
        if wanted in self.named:
            return self.named[wanted]
        if (
            self.folder is None
            or {wanted.name, wanted.key} & {"", ".", ".."}
            or "/" in wanted.name + wanted.key
        ):
            return None
        path = self.folder / wanted.name / wanted.key
        return path if path.is_file() else None


def _parse_secret_file(text: str) -> tuple[SecretKey, Path]:
    what, equals, file = text.partition("=")
    name, slash, key = what.partition("/")
    if not (equals and slash and name and key and file) or "/" in key:
        raise InvalidValue(f"--secret {text!r} is not of the form NAME/KEY=FILE")
    return SecretKey(name, key), Path(file)


def _secret_title(wanted: SecretKey, path: Path | None) -> str:
    if wanted.name.startswith("--"):
        return f"file {path} of {wanted.name}"
    return f"file {path} of Secret {wanted.name}/{wanted.key}"
