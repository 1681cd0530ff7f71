#!/usr/bin/env bash
# Installs the command `stoker` from this folder, without a network: ./install.sh [PREFIX]
# PREFIX is /opt/stoker unless another folder is named. Needs Python 3.11 or newer with its venv module.
set -euo pipefail
cd "$(dirname "$0")"

prefix=${1:-/opt/stoker}
python=${PYTHON:-python3}
fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
    || fail "$python is not Python 3.11 or newer; name another one: PYTHON=python3.12 ./install.sh"
"$python" -c 'import ensurepip, venv' 2>/dev/null \
    || fail "$python has no venv module; install the package python3-venv of your system"
sha256sum --check --quiet SHA256SUMS || fail "files differ from SHA256SUMS; copy the bundle again. Nothing was installed"
wheel=$(ls wheels/stoker-*.whl)

"$python" -m venv --clear "$prefix"
"$prefix/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links wheels "$wheel[demo]" \
    || fail "the wheels do not fit $("$python" --version) on $(uname -m)"
version=$("$prefix/bin/stoker" --version)
cat <<TEXT
$version is installed: $prefix/bin/stoker
To have it on PATH: ln -s $prefix/bin/stoker /usr/local/bin/stoker

For a cluster, push the image to a registry that its nodes reach, and install the chart:
  skopeo copy --all oci-archive:stoker-image.tar docker://REGISTRY/stoker:${version#stoker }
  helm install stoker $(ls stoker-*.tgz) --namespace stoker-system --create-namespace --set image.repository=REGISTRY/stoker
TEXT
