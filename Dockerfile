# docker build --tag pglock-inspect .
# docker run --publish 10187:10187 --read-only --cap-drop ALL --env PGLOCK_DSN=postgresql://... pglock-inspect
# docker run pglock-inspect ls --dsn postgresql://...

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY pglock_inspect pglock_inspect
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
# Bytecode is never compared with its source: nothing changes here, and nothing can be written.
RUN python -m venv --without-pip /opt/pglock-inspect && \
    python -m pip --python /opt/pglock-inspect/bin/python install --no-cache-dir --no-compile /wheels/*.whl && \
    python -m compileall -q --invalidation-mode unchecked-hash /opt/pglock-inspect

FROM python:3.13-slim
# The base has no bytecode of its own library: each start, and each look at its health, would compile it again.
RUN python -m compileall -q --invalidation-mode unchecked-hash -x '/(dist|site)-packages/|/idlelib/|/ensurepip/' \
        "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" && \
    useradd --uid 65532 --create-home pglock-inspect
COPY --from=build /opt/pglock-inspect /opt/pglock-inspect
ENV PATH=/opt/pglock-inspect/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PGLOCK_LISTEN=0.0.0.0:10187
USER 65532:65532
WORKDIR /home/pglock-inspect
EXPOSE 10187
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s \
    CMD ["python", "-m", "pglock_inspect.serve.health"]
ENTRYPOINT ["pglock-inspect"]
CMD ["serve"]

ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="pglock-inspect" \
      org.opencontainers.image.description="Which job holds which PostgreSQL advisory lock, for Prometheus and for people" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
