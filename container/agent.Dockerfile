# An agent under agentsup, on any Debian or Alpine image that has the agent or can install it:
#     docker build -t agent -f container/agent.Dockerfile container
# Needs the image that container/Dockerfile makes.
ARG AGENTSUP=agentsup
ARG BASE=node:22-bookworm-slim
FROM ${AGENTSUP} AS agentsup

FROM ${BASE}
ARG INSTALL="npm install --global @anthropic-ai/claude-code"
RUN eval "${INSTALL}"
COPY --from=agentsup /agentsup /agentsup
# A named volume takes owner and mode from the directory that it covers: so any uid may use it.
RUN mkdir -p /run/agentsup /workspace && chmod 1777 /run/agentsup
WORKDIR /workspace
USER 1000:1000
HEALTHCHECK --interval=30s --timeout=6s --start-period=10s CMD ["/agentsup", "health"]
# No `--` behind it, so that options can be given too: docker run agent --restart no claude
ENTRYPOINT ["/agentsup", "run"]
CMD ["claude"]
