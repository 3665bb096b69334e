# A layered image without a Dockerfile: `nix build .#container && ./result | docker load`.
# It holds agentsup and no agent. `container.override { contents = [ … ]; }` puts one in.
{
  lib,
  dockerTools,
  agentsup,
  contents ? [ ],
}:

dockerTools.streamLayeredImage {
  name = "agentsup";
  tag = agentsup.version;
  contents = [
    agentsup
    # An agent speaks TLS, and asks who it is.
    dockerTools.caCertificates
    dockerTools.fakeNss
  ]
  ++ contents;
  # The state dir of a uid that may not write to /run.
  extraCommands = "mkdir -m 1777 tmp";
  config = {
    Entrypoint = [
      (lib.getExe agentsup)
      "run"
      "--"
    ];
    Env = [ "PATH=/bin" ];
  };
}
