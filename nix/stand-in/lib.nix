# lib of nixpkgs, as far as it is used. modules.nix is the larger half.
let
  inherit (builtins)
    any
    attrNames
    concatStringsSep
    listToAttrs
    map
    pathExists
    stringLength
    substring
    ;
  hasPrefix = prefix: text: substring 0 (stringLength prefix) text == prefix;
  hasSuffix =
    suffix: text:
    let
      start = stringLength text - stringLength suffix;
    in
    start >= 0 && substring start (-1) text == suffix;
  nameValuePair = name: value: { inherit name value; };

  # A set of files here is the list of its paths.
  fileset = {
    unions = map (
      path: if pathExists path then toString path else throw "fileset: no ${toString path}"
    );
    toSource =
      { root, fileset }:
      let
        below = path: dir: path == dir || hasPrefix "${dir}/" path;
      in
      builtins.path {
        name = "source";
        path = root;
        filter = path: _type: any (wanted: below path wanted || below wanted path) fileset;
      };
  };

  modules = import ./modules.nix { inherit lib; };

  lib = modules // {
    inherit
      concatStringsSep
      fileset
      hasPrefix
      hasSuffix
      nameValuePair
      ;
    inherit (builtins) all any mapAttrs;
    assertMsg = condition: message: condition || throw message;
    concatMapStringsSep =
      sep: f: list:
      concatStringsSep sep (map f list);
    genAttrs = names: f: listToAttrs (map (name: nameValuePair name (f name)) names);
    getExe = package: "${package}/bin/${package.meta.mainProgram}";
    importTOML = file: builtins.fromTOML (builtins.readFile file);
    mapAttrs' = f: set: listToAttrs (map (name: f name set.${name}) (attrNames set));
    mapAttrsToList = f: set: map (name: f name set.${name}) (attrNames set);
    optionalAttrs = condition: set: if condition then set else { };
    licenses.mit.spdxId = "MIT";
    platforms.linux = [
      "x86_64-linux"
      "aarch64-linux"
    ];
  };
in
lib
