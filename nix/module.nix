# NixOS: `services.agentsup.sessions.<name>`, each a systemd unit `agentsup-<name>`.
#
# agentsup restarts the agent; systemd restarts agentsup, and only when agentsup itself broke. Two
# restart policies on one agent would multiply. systemd/agentsup@.service says the same for others.
{
  config,
  lib,
  pkgs,
  utils,
  ...
}:

let
  inherit (lib) mkOption types;
  cfg = config.services.agentsup;
  toml = pkgs.formats.toml { };

  session =
    { name, config, ... }:
    {
      options = {
        command = mkOption {
          type = types.nonEmptyListOf types.str;
          example = [
            "claude"
            "--model"
            "opus"
          ];
          description = "The agent and its arguments.";
        };
        user = mkOption {
          type = types.str;
          example = "alice";
          description = "Who the agent runs as. The user must exist; its home is the agent's HOME.";
        };
        document = mkOption {
          type = types.nullOr types.str;
          default = null;
          description = "A markdown file whose frontmatter describes the session.";
        };
        directory = mkOption {
          type = types.nullOr types.str;
          default = null;
          description = "Where the agent works; by default the document says, else it is the user's home.";
        };
        environment = mkOption {
          type = types.attrsOf types.str;
          default = { };
          description = "Variables for the agent. Everybody can read them: secrets go into a file of {option}`environmentFiles`.";
        };
        environmentFiles = mkOption {
          type = types.listOf types.str;
          default = [ ];
          example = [ "/run/secrets/agent.env" ];
          description = "Files with further variables, NAME=VALUE a line. Names that agentsup does not pass on by itself need `settings.run.pass_env`.";
        };
        path = mkOption {
          type = types.listOf types.package;
          default = [ ];
          description = "Packages in front of the user's and the system's own in the agent's PATH.";
        };
        socketGroup = mkOption {
          type = types.nullOr types.str;
          default = null;
          description = "A group whose members may look at the session, and do more if `settings.access.group` says so. The agent runs with it as its group.";
        };
        grace = mkOption {
          type = types.ints.unsigned;
          default = 8;
          description = "Seconds that a stop may take.";
        };
        stateDirectory = mkOption {
          type = types.str;
          default = "agentsup/${name}";
          description = "The state dir, below /var/lib. Sessions of one user may share one.";
        };
        settings = mkOption {
          type = toml.type;
          default = { };
          example = {
            run.start = "continue";
            policy.halt_after = 10;
          };
          description = "The config file: restart numbers, rules of access, all that has no option here.";
        };
      };

      config.settings.run = {
        document = lib.mkIf (config.document != null) config.document;
        cwd = lib.mkIf (config.directory != null) config.directory;
        env = lib.mapAttrsToList (variable: value: "${variable}=${value}") config.environment;
        socket_group = lib.mkIf (config.socketGroup != null) config.socketGroup;
      };
    };

  # An unknown key is found here, not when the unit fails to start. What depends on the machine that
  # it will run on is left out.
  configFile =
    name: settings:
    let
      file = toml.generate "agentsup-${name}.toml" settings;
      elsewhere = [
        "allowed_dirs"
        "cwd"
        "dir"
        "document"
        "prompt"
        "socket_group"
      ];
      checkable = settings // {
        run = removeAttrs settings.run elsewhere;
      };
    in
    if pkgs.stdenv.buildPlatform.canExecute pkgs.stdenv.hostPlatform then
      pkgs.runCommand "agentsup-${name}-checked.toml" { } ''
        ${lib.getExe cfg.package} explain --dir "$PWD/state" --config ${toml.generate "agentsup-${name}.toml" checkable} -- true >/dev/null
        ln -s ${file} $out
      ''
    else
      file;

  unit = name: session: {
    description = "AI coding agent ${name} under agentsup";
    wantedBy = [ "multi-user.target" ];
    wants = [ "network-online.target" ];
    after = [ "network-online.target" ];
    startLimitIntervalSec = 300;
    startLimitBurst = 5;
    # What the user finds in a shell.
    path = session.path ++ [
      "/etc/profiles/per-user/${session.user}"
      "/run/current-system/sw"
    ];

    serviceConfig = {
      # Flags win over the file: these three must fit the rest of the unit.
      ExecStart = utils.escapeSystemdExecArgs (
        [
          (lib.getExe cfg.package)
          "run"
          "--session"
          name
          "--dir"
          "/var/lib/${session.stateDirectory}"
          "--grace"
          "${toString session.grace}s"
          "--config"
          (configFile name session.settings)
          "--"
        ]
        ++ session.command
      );
      User = session.user;
      WorkingDirectory = "~";
      EnvironmentFile = session.environmentFiles;

      # Started means: the agent runs.
      Type = "notify";
      NotifyAccess = "main";
      WatchdogSec = 30;

      # A signal, a hang or 125 are agentsup's own failures. Any other code is the agent's, after
      # agentsup has restarted it as often as its policy allows.
      Restart = "on-abnormal";
      RestartForceExitStatus = 125;
      RestartSec = 2;
      # An agent that ends by the TERM of a stop has not failed.
      SuccessExitStatus = 143;

      # agentsup ends the whole tree itself, within its grace; what is left then is systemd's.
      KillMode = "mixed";
      TimeoutStopSec = session.grace + 5;
      # The agent dies of its hunger for memory, and agentsup starts it again.
      OOMPolicy = "continue";

      StateDirectory = session.stateDirectory;
      StateDirectoryMode = if session.socketGroup == null then "0700" else "0750";

      # A screen full of escape sequences is no log. Events go to the journal by themselves.
      StandardOutput = "null";
    }
    // lib.optionalAttrs (session.socketGroup != null) { Group = session.socketGroup; }
    // lib.mapAttrs (_: lib.mkDefault) hardening;
  };

  # What an agent can live with: it compiles, runs its JIT, and has a sandbox of its own, which needs
  # namespaces and a /proc without anything mounted over it. So no MemoryDenyWriteExecute, no
  # RestrictNamespaces, no ProtectProc, no ProtectKernelTunables or ProtectKernelLogs.
  hardening = {
    CapabilityBoundingSet = "";
    NoNewPrivileges = true;
    PrivateDevices = true;
    PrivateTmp = true;
    ProtectControlGroups = true;
    ProtectSystem = "full";
    RestrictAddressFamilies = "AF_UNIX AF_INET AF_INET6 AF_NETLINK";
    RestrictRealtime = true;
    SystemCallArchitectures = "native";
  };
in
{
  options.services.agentsup = {
    package = mkOption {
      type = types.package;
      description = "The agentsup to run.";
    };
    sessions = mkOption {
      type = types.attrsOf (types.submodule session);
      default = { };
      description = "One agent each, by the session's id.";
    };
  };

  config = lib.mkIf (cfg.sessions != { }) {
    assertions = lib.mapAttrsToList (name: _: {
      assertion = builtins.match "[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}" name != null;
      message = "services.agentsup.sessions: \"${name}\" is no session id: 1 to 64 of A-Z a-z 0-9 . _ -, no dot in front";
    }) cfg.sessions;

    # For `agentsup state` and the like.
    environment.systemPackages = [ cfg.package ];

    systemd.services = lib.mapAttrs' (
      name: session: lib.nameValuePair "agentsup-${name}" (unit name session)
    ) cfg.sessions;
  };
}
