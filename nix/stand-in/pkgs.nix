# Package sets of nixpkgs, as far as they are used, on the tools of the machine. ci/nix puts host.json
# and ci/ beside this file: the variables that cargo needs here, and the scripts that build.
{ lib, system }:
let
  host = builtins.fromJSON (builtins.readFile ./host.json);

  run =
    name: variables: script:
    derivation (
      host
      // variables
      // {
        inherit name system;
        builder = "/bin/bash";
        args = [
          "-euo"
          "pipefail"
          "-c"
          # Not the last command: bash would become it, and many a tool closes its output before it
          # ends, which Nix takes for the end, and kills.
          "${script}\nexit 0"
        ];
      }
    );
  writeText = name: text: run name { inherit text; } ''printf %s "$text" >"$out"'';
  # A package that is named and not looked into.
  named = name: run name { } ''mkdir "$out"'';

  callPackage =
    file: arguments:
    let
      function = import file;
      wanted = builtins.intersectAttrs (builtins.functionArgs function) pkgs;
    in
    function (wanted // arguments) // { override = more: callPackage file (arguments // more); };

  buildRustPackage =
    {
      pname,
      version,
      src,
      cargoLock,
      checkType,
      checkFlags,
      cargoTestFlags,
      nativeCheckInputs,
      meta,
    }:
    # nixpkgs fetches crates by the lock file's checksums; a dependency from git has none.
    assert builtins.all (
      crate: lib.hasPrefix "registry+" (crate.source or "registry+")
    ) (lib.importTOML cargoLock.lockFile).package;
    assert checkType == "debug";
    run "${pname}-${version}" { inherit nativeCheckInputs; } ''
      cp -r --no-preserve=mode ${src} source
      cp -r ${./ci} source/ci
      cd source
      binary=$(bash ci/build-static x86_64 --offline | tail -n 1)
      install -D "$binary" "$out/bin/${pname}"
      cargo test --locked --offline ${toString cargoTestFlags} -- ${toString checkFlags}
    ''
    // {
      inherit pname version meta;
    };

  # One layer with the closure of it all, and links to the contents; nixpkgs makes many, and streams.
  streamLayeredImage =
    {
      name,
      tag,
      contents,
      extraCommands,
      config,
    }:
    let
      image =
        run "${name}.tar"
          {
            inherit contents;
            exportReferencesGraph = builtins.concatMap (content: [
              "closure-${content.name}"
              content
            ]) contents;
            description = builtins.toJSON {
              architecture = "amd64";
              os = "linux";
              inherit config;
              rootfs = {
                type = "layers";
                diff_ids = [ "sha256:DIGEST" ];
              };
            };
            manifest = builtins.toJSON [
              {
                Config = "config.json";
                RepoTags = [ "${name}:${tag}" ];
                Layers = [ "layer.tar" ];
              }
            ];
          }
          ''
            mkdir root
            for path in $contents; do cp -as --no-preserve=mode "$path/." root/; done
            (cd root && ${extraCommands})
            mkdir -p "root$NIX_STORE"
            grep -hx "$NIX_STORE/.*" closure-* | sort -u | xargs cp -a --target-directory "root$NIX_STORE"
            tar --create --file layer.tar --sort=name --mtime=@1 --owner=0 --group=0 -C root .
            digest=$(sha256sum layer.tar | cut -d ' ' -f 1)
            printf %s "''${description/DIGEST/$digest}" >config.json
            printf %s "$manifest" >manifest.json
            tar --create --file "$out" manifest.json config.json layer.tar
          '';
    in
    run "stream-${name}" { } ''
      printf '#!/bin/sh\nexec cat %s\n' ${image} >"$out"
      chmod +x "$out"
    '';

  pkgs =
    lib.genAttrs [
      "binutils"
      "cargo"
      "clippy"
      "nixfmt-tree"
      "nodejs"
      "procps"
      "python3"
      "rust-analyzer"
      "rustc"
      "rustfmt"
      "shellcheck"
      "tmux"
      "util-linux"
    ] named
    // {
      inherit callPackage lib writeText;
      runCommand = run;
      mkShell = { packages }: run "shell" { inherit packages; } ''mkdir "$out"'';
      pkgsStatic.callPackage =
        file: arguments: callPackage file ({ rustPlatform = { inherit buildRustPackage; }; } // arguments);
      dockerTools = {
        inherit streamLayeredImage;
        caCertificates = named "ca-certificates";
        fakeNss = named "fake-nss";
      };
      # Tables of plain values, two deep: a JSON value of this kind is one of TOML too.
      formats.toml = _: {
        type = with lib.types; attrsOf (attrsOf (either (listOf anything) anything));
        generate =
          name: tables:
          writeText name (
            lib.concatStringsSep "\n" (
              lib.mapAttrsToList (
                table: values:
                "[${table}]\n"
                + lib.concatStringsSep "" (
                  lib.mapAttrsToList (key: value: "${key} = ${builtins.toJSON value}\n") values
                )
              ) tables
            )
          );
      };
      stdenv = {
        hostPlatform = { inherit system; };
        buildPlatform.canExecute = platform: platform.system == system;
      };
    };
in
pkgs
