//! The story of a run, to file and journald.
