# `nix flake check`. The package's own tests run in its build.
{
  pkgs,
  agentsup,
  container,
  module,
  nixosSystem,
}:

let
  inherit (pkgs) lib;
  inherit (pkgs.stdenv.hostPlatform) system;

  evaluate =
    configuration:
    (nixosSystem {
      modules = [
        module
        configuration
        {
          nixpkgs.hostPlatform = system;
          system.stateVersion = "26.05";
        }
      ];
    }).config;

  example = evaluate ../examples/nixos.nix;
  plan = example.systemd.services.agentsup-plan;
  review = example.systemd.services.agentsup-review;

  # A session that is right but for one thing.
  session =
    name: wrong:
    evaluate {
      services.agentsup.sessions.${name} = {
        command = [ "claude" ];
        user = "agent";
      }
      // wrong;
    };
  # A machine without disks and a boot loader fails assertions of NixOS itself.
  holds =
    config:
    !lib.any (one: !one.assertion && lib.hasPrefix "services.agentsup" one.message) config.assertions;
  # Whether a configuration is refused when its unit is asked for.
  refused =
    name: wrong:
    !(builtins.tryEval (
      builtins.deepSeq (session name wrong).systemd.services."agentsup-${name}".serviceConfig.ExecStart
        true
    )).success;

  claims = {
    "ExecStart: this package, this session, flags that fit the unit" =
      lib.hasPrefix ''"${lib.getExe agentsup}" "run" "--session" "plan" "--dir" "/var/lib/agentsup/plan" "--grace" "8s" "--config" "'' plan.serviceConfig.ExecStart;
    "ExecStart: the command stands behind --, word by word" =
      lib.hasSuffix ''"--" "claude" "--model" "opus"'' plan.serviceConfig.ExecStart;
    "it reports readiness, and only the main process may" =
      plan.serviceConfig.Type == "notify" && plan.serviceConfig.NotifyAccess == "main";
    "it has a watchdog" = plan.serviceConfig.WatchdogSec == 30;
    "it runs as the user" = plan.serviceConfig.User == "agent";
    "systemd restarts agentsup, never the agent" =
      plan.serviceConfig.Restart == "on-abnormal" && plan.serviceConfig.RestartForceExitStatus == 125;
    "systemd gives up too" = plan.startLimitBurst == 5 && plan.startLimitIntervalSec == 300;
    "agentsup ends the tree, systemd what is left" = plan.serviceConfig.KillMode == "mixed";
    "a stop may take the grace and a little more" =
      plan.serviceConfig.TimeoutStopSec == 13 && review.serviceConfig.TimeoutStopSec == 25;
    "an agent out of memory does not end the unit" = plan.serviceConfig.OOMPolicy == "continue";
    "the state dir is systemd's to make" =
      plan.serviceConfig.StateDirectory == "agentsup/plan"
      && review.serviceConfig.StateDirectoryMode == "0700";
    "a socket's group reaches the state dir" =
      plan.serviceConfig.Group == "watchers"
      && plan.serviceConfig.StateDirectoryMode == "0750"
      && !review.serviceConfig ? Group;
    "no privileges, no devices, no system to write to" =
      plan.serviceConfig.NoNewPrivileges
      && plan.serviceConfig.CapabilityBoundingSet == ""
      && plan.serviceConfig.PrivateDevices
      && plan.serviceConfig.ProtectSystem == "full";
    "an agent may still have a sandbox and a JIT of its own" =
      !lib.any (name: plan.serviceConfig ? ${name}) [
        "MemoryDenyWriteExecute"
        "ProcSubset"
        "ProtectKernelLogs"
        "ProtectKernelTunables"
        "ProtectProc"
        "RestrictNamespaces"
        "SystemCallFilter"
      ];
    "hardening is a default" =
      (evaluate {
        imports = [ ../examples/nixos.nix ];
        systemd.services.agentsup-plan.serviceConfig.ProtectSystem = "strict";
      }).systemd.services.agentsup-plan.serviceConfig.ProtectSystem == "strict";
    "the agent finds what its user finds" = lib.all (dir: builtins.elem dir plan.path) [
      "/etc/profiles/per-user/agent"
      "/run/current-system/sw"
    ];
    "the example's assertions hold" = holds example;
    "a session's id is checked" = !holds (session ".hidden" { }) && !holds (session "a b" { });
    "a session without a command is refused" = refused "s" { command = [ ]; };
    "a session with an unknown option is refused" = refused "s" { comand = "claude"; };
    "a session with a wrong type is refused" = refused "s" { grace = "8s"; };
    "a right one is not" = !refused "s" { };
    "an image can have an agent too" = container.override { contents = [ pkgs.tmux ]; } != container;
    "without sessions there is nothing" = (evaluate { }).systemd.services.agentsup-plan or null == null;
  };
  broken = builtins.filter (name: !claims.${name}) (builtins.attrNames claims);
in
{
  package = agentsup;

  static = pkgs.runCommand "agentsup-static" { nativeBuildInputs = [ pkgs.binutils ]; } ''
    binary=${lib.getExe agentsup}
    if readelf --wide --program-headers "$binary" | grep INTERP; then exit 1; fi
    if readelf --wide --dynamic "$binary" | grep NEEDED; then exit 1; fi
    "$binary" --version | tee $out
  '';

  # Its entrypoint is in the image, under the name that the image gives it, and runs without the rest.
  container = pkgs.runCommand "agentsup-container" { nativeBuildInputs = [ pkgs.python3 ]; } ''
    ${container} | tar -x
    python3 - <<'END' >layers
    import json
    image = json.load(open("manifest.json"))[0]
    program, *rest = json.load(open(image["Config"]))["config"]["Entrypoint"]
    assert rest == ["run", "--"], rest
    open("program", "w").write("root" + program)
    print(*image["Layers"], sep="\n")
    END
    mkdir root
    while read -r layer; do tar -x -f "$layer" -C root; done <layers
    "$(cat program)" --version | tee $out
  '';

  # The units, for whoever wants to look at them.
  module =
    assert lib.assertMsg (broken == [ ]) "not so: ${lib.concatStringsSep "; " broken}";
    pkgs.runCommand "agentsup-units"
      {
        plan = example.systemd.units."agentsup-plan.service".text;
        review = example.systemd.units."agentsup-review.service".text;
      }
      ''
        mkdir $out
        printf %s "$plan" >$out/agentsup-plan.service
        printf %s "$review" >$out/agentsup-review.service
      '';
}
