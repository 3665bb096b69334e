{
  # The few attributes of nixpkgs that agentsup's flake uses, built on the tools of the machine. With
  # `--override-input nixpkgs path:…` the real Nix evaluates and builds the flake where nixpkgs cannot
  # be fetched. An attribute that is not here is an error, so this is also the list of what is used.
  #
  # What it does not show: that nixpkgs builds the package, and that NixOS takes the module. Options of
  # NixOS and their types are written down in nixos.nix, as they stand in the release that is pinned.
  outputs =
    { self }:
    let
      lib = import ./lib.nix;
      pkgsFor = system: import ./pkgs.nix { inherit lib system; };
    in
    {
      lib = lib // {
        nixosSystem = import ./nixos.nix { inherit lib pkgsFor; };
      };
      legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] pkgsFor;
    };
}
