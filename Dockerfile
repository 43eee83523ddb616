# The server in a container: see docs/install.md, "In a container".
FROM python:3.13-slim AS build
COPY pyproject.toml constraints.txt README.md CHANGELOG.md LICENSE /src/
COPY store /src/store
COPY serve /src/serve
COPY pipelines /src/pipelines
RUN python -m venv /opt/mnemolog \
    && /opt/mnemolog/bin/pip install --no-cache-dir --constraint /src/constraints.txt /src/serve/program /src/serve/core /src

FROM python:3.13-slim
# git: which project a folder belongs to, and `mnemolog import git`
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home mnemolog \
    && install --directory --owner=mnemolog --mode=700 /memory
COPY --from=build /opt/mnemolog /opt/mnemolog
ENV PATH=/opt/mnemolog/bin:$PATH MNEMOLOG_HOME=/memory
USER mnemolog
VOLUME /memory
HEALTHCHECK --interval=60s --timeout=10s --start-period=60s \
    CMD ["python", "-c", "from mnemolog import Client; Client().health()"]
CMD ["mnemolog", "serve"]
