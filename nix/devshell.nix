# `nix develop`: what `cargo test` and `ci/run` call. Docker and journald come from the machine.
{
  mkShell,
  cargo,
  clippy,
  rust-analyzer,
  rustc,
  rustfmt,
  nodejs,
  procps,
  python3,
  shellcheck,
  tmux,
  util-linux,
}:

mkShell {
  packages = [
    cargo
    clippy
    rust-analyzer
    rustc
    rustfmt
    nodejs
    procps
    python3
    shellcheck
    tmux
    util-linux
  ];
}
