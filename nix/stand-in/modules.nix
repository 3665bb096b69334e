# The module system, small: imports, nested options, mkIf, mkDefault, types that check and merge, and
# an error for an option that nobody declared. No freeform modules, no mkMerge, no mkForce.
{ lib }:
let
  inherit (builtins)
    all
    attrNames
    concatLists
    concatMap
    filter
    foldl'
    head
    isAttrs
    isFunction
    isInt
    isList
    isString
    mapAttrs
    ;
  showPath = lib.concatStringsSep ".";

  ordinary = 100;
  # A definition as `{ priority, value }`s; a false mkIf leaves none.
  unfold =
    value:
    if !isAttrs value || !value ? _type then
      [
        {
          priority = ordinary;
          inherit value;
        }
      ]
    else if value._type == "if" then
      if value.condition then unfold value.content else [ ]
    else if value._type == "override" then
      map (definition: definition // { inherit (value) priority; }) (unfold value.content)
    else
      throw "a definition of type ${value._type}";
  strongest =
    definitions:
    let
      least = foldl' (least: d: if d.priority < least then d.priority else least) 100000 definitions;
    in
    map (d: d.value) (filter (d: d.priority == least) definitions);

  # The value of an option from all its definitions.
  valueOf =
    path: option: raw:
    let
      values = strongest (concatMap unfold raw);
    in
    if values != [ ] then
      option.type.merge path values
    else
      option.default or (throw "the option ${showPath path} has no value");

  # A type: what it accepts, and how several definitions become one value.
  simple = name: check: {
    inherit name check;
    merge =
      path: values:
      if !all check values then
        throw "${showPath path} is not of type ${name}"
      else if all (value: value == head values) values then
        head values
      else
        throw "${showPath path} has conflicting definitions";
  };
  listOf =
    name: allowed: element:
    simple name isList
    // {
      merge =
        path: values:
        let
          list = concatLists values;
        in
        if !all isList values || !allowed list then
          throw "${showPath path} is not of type ${name}"
        else
          map (value: element.merge path [ value ]) list;
    };
  attrsOf =
    element:
    simple "attribute set" isAttrs
    // {
      merge =
        path: values:
        let
          names = attrNames (foldl' (sum: set: sum // set) { } values);
          raw = name: concatMap (set: if set ? ${name} then [ set.${name} ] else [ ]) values;
          defined = filter (name: concatMap unfold (raw name) != [ ]) names;
        in
        if !all isAttrs values then
          throw "${showPath path} is no attribute set"
        else
          lib.genAttrs defined (
            name:
            valueOf (path ++ [ name ]) { type = if isFunction element then element name else element; } (
              raw name
            )
          );
    };
  submodule =
    module: name:
    simple "submodule" isAttrs
    // {
      merge = path: values: evaluate path { inherit name; } ([ module ] ++ values);
    };
  either =
    first: second:
    simple "${first.name} or ${second.name}" (value: first.check value || second.check value)
    // {
      merge = path: values: (if all first.check values then first else second).merge path values;
    };
  str = simple "string" isString;
  bool = simple "boolean" builtins.isBool;
  int = simple "integer" isInt;
  package = simple "package" (value: isAttrs value && value.type or "" == "derivation");
  types = {
    inherit
      attrsOf
      bool
      either
      int
      package
      str
      submodule
      ;
    anything = simple "anything" (_: true);
    listOf = element: listOf "list" (_: true) element;
    nonEmptyListOf = element: listOf "non-empty list" (list: list != [ ]) element;
    ints.unsigned = simple "unsigned integer" (value: isInt value && value >= 0);
    nullOr = element: either (simple "null" (value: value == null)) element;
  };

  # Every module, imports first, as `{ options, config }`.
  collect =
    arguments: module:
    let
      set =
        if isFunction module then
          module arguments
        else if isAttrs module then
          module
        else
          import module;
      plain = if isFunction set then set arguments else set;
      bare = removeAttrs plain [ "imports" ];
    in
    concatMap (collect arguments) (plain.imports or [ ])
    ++ [
      (
        if plain ? options || plain ? config then
          {
            options = plain.options or { };
            config = plain.config or { };
          }
        else
          {
            options = { };
            config = bare;
          }
      )
    ];

  isOption = value: value._type or "" == "option";
  mergeOptions =
    a: b:
    a
    // mapAttrs (
      name: value: if a ? ${name} && !isOption value then mergeOptions a.${name} value else value
    ) b;

  # mkIf of a set, as a set of mkIf: names are known before the condition is, which may depend on them.
  pushDown =
    set:
    if set._type or "" == "if" then
      mapAttrs (_: content: set // { inherit content; }) (pushDown set.content)
    else
      set;

  # Options and the definitions of one level of the tree.
  tree =
    path: options: raw:
    let
      sets = map pushDown raw;
      unknown = filter (name: !options ? ${name}) (concatMap attrNames sets);
    in
    if unknown != [ ] then
      throw "the option ${showPath (path ++ [ (head unknown) ])} does not exist"
    else
      mapAttrs (
        name: option:
        (if isOption option then valueOf else tree) (path ++ [ name ]) option (
          concatMap (set: if set ? ${name} then [ set.${name} ] else [ ]) sets
        )
      ) options;

  evaluate =
    path: arguments: modules:
    let
      parts = concatMap (collect (arguments // { inherit config lib; })) modules;
      options = foldl' mergeOptions { } (map (part: part.options) parts);
      config = tree path options (map (part: part.config) parts);
    in
    config;
in
{
  inherit types;
  evalModules =
    { modules, specialArgs }:
    {
      config = evaluate [ ] specialArgs modules;
    };
  mkOption = option: option // { _type = "option"; };
  mkIf = condition: content: {
    _type = "if";
    inherit condition content;
  };
  mkDefault = content: {
    _type = "override";
    priority = 1000;
    inherit content;
  };
}
