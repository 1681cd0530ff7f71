# The same root filesystem as `make image` makes, for those who build with a container engine:
#
#   make build && docker build --build-arg BASE_DIGEST=sha256:… --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) .
#
# Everything that installs, unpacks or compiles happens in the first stage, on the builder's own processor
# whatever the target is: packages are unpacked, none is run, so arm64 needs no emulation. The result has no
# package manager, no pip, no compiler and no file that is setuid. What is inside: packaging/image.
ARG BASE=debian:12-slim
ARG BASE_DIGEST

FROM --platform=$BUILDPLATFORM ${BASE}${BASE_DIGEST:+@${BASE_DIGEST}} AS assembled
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY packaging/image/uv.txt packaging/image/uv.txt
RUN python3 -m venv /uv && /uv/bin/pip install --no-cache-dir --require-hashes -r packaging/image/uv.txt
COPY pyproject.toml uv.lock ./
COPY packaging packaging
COPY dist/stoker-*.whl dist/
ARG TARGETARCH
ARG SOURCE_DATE_EPOCH=315532800
RUN PATH=/uv/bin:$PATH PYTHONPATH=packaging/image UV_PYTHON_DOWNLOADS=never SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH \
    python3 -m stoker_image rootfs ${TARGETARCH:+--arch $TARGETARCH} --wheel dist/stoker-*.whl --output /rootfs

FROM scratch
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="stoker" \
      org.opencontainers.image.description="GitOps for Ignition gateways, and a Kubernetes cluster's resources recorded in Git" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=assembled /rootfs/ /
ENV PATH=/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    LANG=C.UTF-8 \
    MALLOC_ARENA_MAX=1 \
    MALLOC_TRIM_THRESHOLD_=65536
USER 65532:65532
WORKDIR /
ENTRYPOINT ["stoker"]
