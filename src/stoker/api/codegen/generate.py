"""Writes the files generated from the types: the CRDs, plain and as chart templates, and the reference pages.

    python -m stoker.api.codegen.generate            write them below the current folder
    python -m stoker.api.codegen.generate --check    write nothing; exit with 1 and name outdated files

`make verify` runs the second form, so that types, CRDs and pages cannot drift apart.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent

import yaml

from stoker.api.codegen.crd import crd_for
from stoker.api.codegen.reference_page import GENERATED, reference_page
from stoker.api.registry import KINDS, CustomResourceKind


def crd_yaml(kind: CustomResourceKind) -> str:
    """Return the CRD as a file for `kubectl apply -f`."""
    return f"# {GENERATED}\n" + yaml.safe_dump(
        crd_for(kind), sort_keys=False, width=1 << 20, allow_unicode=True
    )


def crd_template(kind: CustomResourceKind) -> str:
    """Return the CRD as a template of the chart, which keeps it at an uninstall and sets its conversion.

    Helm neither renders nor upgrades files in a chart's own `crds` folder.
    """
    crd = crd_for(kind)
    spec = yaml.safe_dump(crd["spec"], sort_keys=False, width=1 << 20, allow_unicode=True)
    return (
        f"{{{{- /* {GENERATED} */}}}}\n"
        "{{- if .Values.crds.install }}\n"
        f"apiVersion: {crd['apiVersion']}\n"
        f"kind: {crd['kind']}\n"
        "metadata:\n"
        f"  name: {kind.plural}.{kind.group}\n"
        "  labels:\n"
        '    {{- include "stoker.labels" . | nindent 4 }}\n'
        "  annotations:\n"
        '    {{- include "stoker.crd.annotations" . | nindent 4 }}\n'
        "spec:\n"
        '  {{- include "stoker.crd.conversion" . | nindent 2 }}\n'
        # Descriptions mention templates too; Helm must not render those.
        f"{indent(spec, '  ').replace('{{', '{{ `{{` }}')}"
        "{{- end }}\n"
    )


def generated_files(root: Path) -> dict[Path, str]:
    """Return every generated file below a root, with its expected content."""
    files = {}
    for kind in KINDS:
        examples = root / "examples"
        minimal = (examples / f"{kind.singular}-minimal.yaml").read_text()
        full = (examples / f"{kind.singular}.yaml").read_text()
        name = f"{kind.group}_{kind.plural}.yaml"
        files[root / "config" / "crd" / name] = crd_yaml(kind)
        files[root / "charts" / "stoker" / "templates" / "crds" / name] = crd_template(kind)
        files[root / "docs" / "spec" / f"{kind.singular}.md"] = reference_page(kind, minimal, full)
    return files


def stale_files(root: Path) -> list[Path]:
    """Return generated files that are missing, differ, or belong to no kind any more."""
    files = generated_files(root)
    wrong = {path for path, text in files.items() if not path.is_file() or path.read_text() != text}
    for folder in {path.parent for path in files}:
        left_over = set(folder.glob("*")) - files.keys()
        wrong |= {path for path in left_over if path.is_file() and GENERATED in path.read_text()}
    return sorted(wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stoker.api.codegen.generate", description="Write CRDs and reference pages."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit with 1 if a file is out of date"
    )
    parser.add_argument(
        "--root", type=Path, default=Path(), help="folder of the project (default: the current one)"
    )
    options = parser.parse_args(arguments)
    if options.check:
        wrong = stale_files(options.root)
        for path in wrong:
            sys.stderr.write(f"{path.relative_to(options.root)} is out of date: run make generate\n")
        return 1 if wrong else 0
    for path, text in generated_files(options.root).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
