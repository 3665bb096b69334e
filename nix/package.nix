# The static binary. Called by `pkgsStatic`: with the ordinary package set it would be dynamic.
{
  lib,
  procps,
  rustPlatform,
  util-linux,
}:

let
  inherit (lib) fileset;
  manifest = lib.importTOML ../Cargo.toml;
in
rustPlatform.buildRustPackage {
  pname = manifest.package.name;
  inherit (manifest.package) version;

  # Only what the build and its tests read, so that a word in a script does not build it anew.
  src = fileset.toSource {
    root = ../.;
    fileset = fileset.unions [
      ../Cargo.lock
      ../Cargo.toml
      ../src
      ../tests
    ];
  };

  cargoLock.lockFile = ../Cargo.lock;

  # The release profile spends half a minute of link-time optimisation on every test binary.
  checkType = "debug";
  # The rooms one by one, and of the whole binary what a sandbox and musl allow: the others call
  # /bin/pwd, send signal 34, compare a terminal's modes to the last byte, or read the documents.
  cargoTestFlags = [
    "--lib"
    "--test=anywhere"
  ];
  checkFlags = [
    # Both want a directory that belongs to root; the sandbox has none.
    "--skip=a_place_of_root_is_passed_over_where_it_cannot_be_written"
    "--skip=another_owner_is_refused_and_root_is_fine_only_outside"
  ];
  nativeCheckInputs = [
    procps
    util-linux
  ];

  meta = {
    inherit (manifest.package) description;
    license = lib.licenses.mit;
    mainProgram = "agentsup";
    platforms = lib.platforms.linux;
  };
}
