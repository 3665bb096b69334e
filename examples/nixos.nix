# Two agents on NixOS. With the flake's `nixosModules.default` among the system's modules.
{ ... }:
{
  users.groups.watchers = { };
  users.users.agent = {
    isNormalUser = true;
    home = "/home/agent";
  };

  services.agentsup.sessions = {
    # `agentsup state --dir /var/lib/agentsup/plan`, as agent, as root, or as one of the watchers.
    plan = {
      command = [
        "claude"
        "--model"
        "opus"
      ];
      user = "agent";
      directory = "/home/agent/project";
      environment.GREETING = "hello, 100% $you";
      environmentFiles = [ "/run/secrets/agent.env" ];
      socketGroup = "watchers";
      settings = {
        run.start = "continue";
        run.pass_env = [ "MY_*" ];
        policy.flapping_wait = "1m";
        policy.halt_after = 10;
      };
    };

    # The document says where it works.
    review = {
      command = [ "codex" ];
      user = "agent";
      document = "/home/agent/review.md";
      grace = 20;
    };
  };
}
