# lib of nixpkgs, as far as it is used. modules.nix is the larger half.
let
  inherit (builtins)
    any
    attrNames
    concatMap
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

  # A set of files here: the paths in it, and those that are taken out again.
  fileset =
    let
      asSet =
        files:
        if files ? within then
          files
        else if pathExists files then
          {
            within = [ (toString files) ];
            without = [ ];
          }
        else
          throw "fileset: ${toString files} does not exist";
      below = path: dir: path == dir || hasPrefix "${dir}/" path;
    in
    {
      unions = sets: {
        within = concatMap (set: (asSet set).within) sets;
        without = concatMap (set: (asSet set).without) sets;
      };
      difference = files: less: {
        inherit (asSet files) within;
        without = (asSet files).without ++ (asSet less).within;
      };
      toSource =
        { root, fileset }:
        let
          set = asSet fileset;
        in
        builtins.path {
          name = "source";
          path = root;
          filter =
            path: _type:
            any (wanted: below path wanted || below wanted path) set.within && !any (below path) set.without;
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
    concatMapStringsSep = sep: f: list: concatStringsSep sep (map f list);
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
