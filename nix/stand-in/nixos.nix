# lib.nixosSystem with the options of NixOS that agentsup's module and its example define, and the
# text of a unit made from them.
{ lib, pkgsFor }:

{ modules }:
let
  inherit (lib) mkOption types;
  option = type: default: mkOption { inherit type default; };
  names = option (types.listOf types.str) [ ];
  # systemd's own words; NixOS leaves checking them to systemd.
  section = option (types.attrsOf types.anything) { };

  service = {
    options = {
      description = option types.str "";
      wantedBy = names;
      wants = names;
      after = names;
      startLimitIntervalSec = mkOption { type = types.int; };
      startLimitBurst = mkOption { type = types.int; };
      path = option (types.listOf (types.either types.package types.str)) [ ];
      environment = option (types.attrsOf types.str) { };
      serviceConfig = section;
    };
  };

  text =
    service:
    let
      value =
        v:
        if v == true then
          "true"
        else if v == false then
          "false"
        else
          toString v;
      lines =
        set:
        lib.concatStringsSep "\n" (
          builtins.concatLists (
            lib.mapAttrsToList (
              name: v: map (v: "${name}=${value v}") (if builtins.isList v then v else [ v ])
            ) set
          )
        );
      unit = {
        Description = service.description;
        Wants = service.wants;
        After = service.after;
        StartLimitIntervalSec = service.startLimitIntervalSec;
        StartLimitBurst = service.startLimitBurst;
      };
      bins = lib.concatMapStringsSep ":" (package: "${package}/bin") service.path;
    in
    ''
      [Unit]
      ${lines unit}

      [Service]
      Environment="PATH=${bins}"
      ${lines service.serviceConfig}

      [Install]
      ${lines { WantedBy = service.wantedBy; }}
    '';

  nixos =
    { config, ... }:
    {
      options = {
        assertions = option (types.listOf types.anything) [ ];
        environment.systemPackages = option (types.listOf types.package) [ ];
        nixpkgs.hostPlatform = mkOption { type = types.str; };
        system.stateVersion = mkOption { type = types.str; };
        systemd.services = option (types.attrsOf (types.submodule service)) { };
        systemd.units = option (types.attrsOf types.anything) { };
        users.users = section;
        users.groups = section;
      };
      config.systemd.units = lib.mapAttrs' (
        name: service: lib.nameValuePair "${name}.service" { text = text service; }
      ) config.systemd.services;
    };

  result = lib.evalModules {
    modules = [ nixos ] ++ modules;
    specialArgs = {
      pkgs = pkgsFor result.config.nixpkgs.hostPlatform;
      utils.escapeSystemdExecArgs = lib.concatMapStringsSep " " (
        argument: builtins.replaceStrings [ "%" "$" ] [ "%%" "$$" ] (builtins.toJSON "${argument}")
      );
    };
  };
in
result
