"""Gives a user id without a passwd entry a user name, because ssh and ssh-keygen require one.

Both fail with "No user exists for uid" before they read any option, and a container may run as any user
id: 2003 in a gateway image, 1000620000 in a cluster that assigns them (OpenShift). `libnss_wrapper`
(Debian: libnss-wrapper, part of our image) answers the lookup inside that one process, from two files in a
private folder. If it is not installed, the caller reports what is missing. No file of the machine is ever
written.
"""

from __future__ import annotations

import os
import pwd
import sysconfig
from functools import cache
from pathlib import Path

from stoker.git.private_files import write_private

_LIBRARY = "libnss_wrapper.so"
_FOLDERS = ("/usr/lib64", "/usr/lib", "/usr/local/lib")


def has_ssh_user() -> bool:
    """Whether ssh can run as the current user."""
    return _has_passwd_entry() or nss_wrapper_path() is not None


def ssh_user_environment(folder: Path) -> dict[str, str]:
    """Return the variables that ssh needs, and write the files that they name into `folder`."""
    found = None if _has_passwd_entry() else nss_wrapper_path()
    if found is None:
        return {}
    passwd, group = folder / "passwd", folder / "group"
    write_private(passwd, f"stoker:x:{os.getuid()}:{os.getgid()}::{folder}:/bin/false\n".encode(), 0o600)
    write_private(group, f"stoker:x:{os.getgid()}:\n".encode(), 0o600)
    return {"LD_PRELOAD": str(found), "NSS_WRAPPER_PASSWD": str(passwd), "NSS_WRAPPER_GROUP": str(group)}


@cache
def nss_wrapper_path() -> Path | None:
    """Search the library folders of the distributions; None if the library is not installed."""
    multiarch = sysconfig.get_config_var("MULTIARCH")
    folders = (f"/usr/lib/{multiarch}", *_FOLDERS) if multiarch else _FOLDERS
    return next((path for folder in folders if (path := Path(folder, _LIBRARY)).is_file()), None)


def _has_passwd_entry() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True
