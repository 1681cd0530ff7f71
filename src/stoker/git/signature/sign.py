"""Signs commits with an ssh key, so that `git verify-commit` accepts them.

`ssh-keygen` signs, so every key type that it supports works. The key is in a private file during one call
and nowhere else on disk. A commit that cannot be signed is never pushed.
"""

from __future__ import annotations

from pathlib import Path

from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.git.auth.ssh import repair_key
from stoker.git.errors import GitFailed
from stoker.git.private_files import folder_for_one_call, private_folder, write_private
from stoker.git.signature.armor import NAMESPACE
from stoker.git.signature.programs import run_program
from stoker.git.signature.ssh import check_ssh_user


class SigningFailed(Stalled):
    """The key cannot be used to sign."""

    default_reason = Reason.SIGNING_FAILED


class SshSigner:
    """Signs with one ssh key; `cache` is a folder that only this user can enter."""

    def __init__(self, key: Secret, cache: Path) -> None:
        try:
            self._key = Secret(repair_key(key))
        except InvalidValue as error:
            raise SigningFailed(f"commits cannot be signed: {error.message}") from None
        self._cache = cache
        self._public = ""

    async def sign(self, payload: bytes) -> str:
        """Return the armored signature of a commit's bytes."""
        return await self._keygen("-Y", "sign", "-q", "-n", NAMESPACE.decode(), stdin=payload)

    async def public_key(self) -> str:
        """Return the public key as `type base64`."""
        if not self._public:
            words = (await self._keygen("-y")).split()
            self._public = " ".join(words[:2])
        return self._public

    async def _keygen(self, *arguments: str, stdin: bytes = b"") -> str:
        check_ssh_user()
        home = private_folder(private_folder(self._cache) / "home")
        try:
            with folder_for_one_call(home) as folder:
                write_private(folder / "key", self._key.reveal_bytes(), 0o600)
                answer = await run_program(["ssh-keygen", *arguments, "-f", "key"], home=folder, stdin=stdin)
        except OSError as error:
            raise GitFailed(f"folder {home} cannot be written: {error.strerror}") from error
        if answer.code != 0 or not answer.output:
            raise SigningFailed("commits cannot be signed: ssh-keygen does not accept the key")
        return answer.output.decode(errors="replace")
