"""Our wheel and the locked ones it needs, and the bytecode of all Python in the image.

The versions and checksums come from uv.lock. Only wheels are taken, for the processor
of the image, so nothing is built. Bytecode is made by Debian's own interpreter, run
from its unpacked packages: what another patch release writes differs in a few bits.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterable
from pathlib import Path

from stoker_image.commands import ImageError, ask, run
from stoker_image.contents import ARCHITECTURES, EXTRAS, PYTHON
from stoker_image.debs import Package, fetch
from stoker_image.trees import Node, Tree

PLACE = f"usr/local/lib/{PYTHON}/dist-packages"
COMMANDS = ("stoker", "ignition-sync", "gitops-reverser")
_SCRIPT = f"#!/usr/bin/{PYTHON} -I\nimport sys\n\nfrom stoker.cli.main import main\n\nsys.exit(main())\n"
# What uv notes about the machine that it ran on.
_NOTES = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json", "uv_build.json"}
# What compilers and type checkers read.
_SOURCES = {".c", ".h", ".hash", ".pxd", ".pxi", ".pyi", ".pyx"}
_INTERPRETER = (
    "libc6",
    "libexpat1",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "python3.11-minimal",
    "zlib1g",
)
_COMPILE = """
import sys, importlib.util, marshal, pathlib
root = pathlib.Path(sys.argv[1])
for path in sorted(root.rglob("*.py")):
    source = path.read_bytes()
    try:
        code = compile(source, "/" + str(path.relative_to(root)), "exec", dont_inherit=True)
    except SyntaxError:
        continue  # a template for another version
    # The hash is never compared again: files of an image do not change.
    head = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
    path.with_suffix(".pyc").write_bytes(head + marshal.dumps(code))
"""


def requirements(project: Path, uv: str) -> str:
    """The locked requirements with their checksums."""
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    options = [
        "--frozen",
        "--quiet",
        "--no-default-groups",
        "--no-emit-project",
        "--no-annotate",
        "--no-header",
    ]
    return ask([uv, "export", *options, "--format", "requirements-txt", *extras], cwd=project)


def install(tree: Tree, wheel: Path, locked: str, architecture: str, uv: str) -> None:
    """Unpack wheels into the tree."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "requirements.txt").write_text(locked)
        common = [
            uv,
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--link-mode",
            "copy",
        ]
        common += ["--python-version", "3.11", "--target", str(place / "lib")]
        common += ["--python-platform", f"{ARCHITECTURES[architecture]}-manylinux_2_36"]
        run([*common, "--require-hashes", "-r", str(place / "requirements.txt")])
        run([*common, str(wheel)])
        for path in sorted((place / "lib").rglob("*")):
            shown = path.relative_to(place / "lib")
            if path.is_file() and shown.parts[0] != "bin" and not _is_noise(shown):
                # A library keeps its right to be run; loaders of some systems ask for it.
                mode = 0o755 if os.access(path, os.X_OK) else 0o644
                tree.put(f"{PLACE}/{shown.as_posix()}", Node(mode, path.read_bytes()))
    for command in COMMANDS:
        tree.file(f"usr/local/bin/{command}", _SCRIPT, 0o755)


def compile_all(tree: Tree, packages: Iterable[Package], day: str, cache: Path) -> None:
    """Bytecode beside each module of Python."""
    with tempfile.TemporaryDirectory() as folder:
        interpreter, root = Path(folder, "interpreter"), Path(folder, "root")
        for package in packages:
            if package.name in _INTERPRETER:
                run(["dpkg-deb", "--extract", str(fetch(package, day, cache)), str(interpreter)])
        for path, node in tree:
            if path.endswith(".py") and not node.target:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(node.content)
        Path(folder, "compile.py").write_text(_COMPILE)
        run([*_interpreter(interpreter), "-I", "-S", str(Path(folder, "compile.py")), str(root)])
        for made in root.rglob("*.pyc"):
            place = made.relative_to(root)
            cached = place.parent / "__pycache__" / f"{place.stem}.cpython-311.pyc"
            tree.put(cached.as_posix(), Node(0o644, made.read_bytes()))


def own_architecture() -> str:
    """Debian's name of the processor that this runs on."""
    for name, machine in ARCHITECTURES.items():
        if platform.machine() == machine:
            return name
    raise ImageError(f"images are made on {' or '.join(ARCHITECTURES)}, this is {platform.machine()}")


def _interpreter(place: Path) -> list[str]:
    triplet = f"{platform.machine()}-linux-gnu"
    loader = next(place.glob(f"lib/{triplet}/ld-linux-*.so.*"))
    libraries = f"{place}/lib/{triplet}:{place}/usr/lib/{triplet}"
    return [str(loader), "--library-path", libraries, str(place / "usr/bin" / PYTHON)]


def _is_noise(path: Path) -> bool:
    if path.suffix in _SOURCES:
        return True
    return "__pycache__" in path.parts or (path.parts[0].endswith(".dist-info") and path.name in _NOTES)
