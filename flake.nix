{
  description = "agentsup: an init-style supervisor for one AI coding agent";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      # The product is a static Linux binary; other systems run it in a container.
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      each =
        make: lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system} self.packages.${system});
    in
    {
      packages = each (
        pkgs: own: {
          default = own.agentsup;
          agentsup = pkgs.pkgsStatic.callPackage ./nix/package.nix { };
          container = pkgs.callPackage ./nix/container.nix { inherit (own) agentsup; };
        }
      );

      apps = each (
        _pkgs: own: rec {
          default = agentsup;
          agentsup = {
            type = "app";
            program = lib.getExe own.agentsup;
            meta.description = own.agentsup.meta.description;
          };
        }
      );

      checks = each (
        pkgs: own:
        import ./nix/checks.nix {
          inherit pkgs;
          inherit (own) agentsup container;
          inherit (lib) nixosSystem;
          module = self.nixosModules.default;
        }
      );

      devShells = each (pkgs: _own: { default = pkgs.callPackage ./nix/devshell.nix { }; });

      formatter = each (pkgs: _own: pkgs.nixfmt-tree);

      overlays.default = final: prev: {
        agentsup = final.pkgsStatic.callPackage ./nix/package.nix { };
      };

      nixosModules.default =
        { pkgs, ... }:
        {
          imports = [ ./nix/module.nix ];
          services.agentsup.package = lib.mkDefault self.packages.${pkgs.stdenv.hostPlatform.system}.default;
        };
    };
}
