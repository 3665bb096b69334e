//! What flags and file say about the control socket.

use super::{Picker, SocketChoices};
use crate::cli::Failure;
use crate::cli::config::Access;
use crate::control::access::Role;

/// Mode, group, and whether there is to be none.
type Wants = (Option<u32>, Option<String>, Option<bool>);

const DEFAULT_MODE: u32 = 0o600;
/// A group that may not use the socket would be pointless.
const GROUP_MODE: u32 = 0o660;

pub(super) fn settle(
    pick: &mut Picker,
    (flags, file): (Wants, Wants),
    access: &Access,
) -> Result<Option<SocketChoices>, Failure> {
    let said = |of: &str, is: [bool; 2]| is.contains(&true).then(|| of.to_owned());
    let others = [
        said("socket_mode", [flags.0.is_some(), file.0.is_some()]),
        said("socket_group", [flags.1.is_some(), file.1.is_some()]),
    ];
    let none = pick.one("no_socket", flags.2, file.2, (false, "default"), bool::to_string);
    if none.value {
        if let Some(other) = others.into_iter().flatten().next() {
            let source = none.source;
            return Err(Failure::refused(format!("no_socket ({source}) contradicts {other}; leave one out")));
        }
        return Ok(None);
    }
    let group = pick.optional("socket_group", flags.1, file.1, String::clone);
    let default = match group {
        Some(_) => (GROUP_MODE, "default (socket_group)"),
        None => (DEFAULT_MODE, "default"),
    };
    let mode = pick.one("socket_mode", flags.0, file.0, default, |mode| shown(*mode));
    let of_group = (Role::Observer, "default");
    let of_outside = (Role::Operator, "default");
    Ok(Some(SocketChoices {
        mode: mode.value,
        group,
        access_group: pick.choice("access.group", None, access.group, of_group).value,
        access_outside: pick.choice("access.outside", None, access.outside, of_outside).value,
    }))
}

fn shown(mode: u32) -> String {
    match mode & 0o006 {
        0 => format!("{mode:04o}"),
        _ => format!("{mode:04o} (lets in every user that can reach the directory)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::settings::tests::{settled, source};
    use crate::cli::world::Stdin::Null;

    #[test]
    fn the_socket_is_the_owners_unless_asked_otherwise() {
        let of = |line: &str, file: &str| settled(line, Some(file), Null).unwrap();
        let plain = of("sh", "");
        let socket = plain.socket.clone().unwrap();
        assert_eq!((socket.mode, socket.group), (0o600, None));
        assert_eq!((socket.access_group, socket.access_outside), (Role::Observer, Role::Operator));
        assert_eq!(source(&plain, "socket_mode"), ("0600", "default"));

        let grouped = of("--socket-group users sh", "[access]\ngroup = \"operator\"\noutside = \"agent\"");
        let socket = grouped.socket.clone().unwrap();
        assert_eq!((socket.mode, socket.group.as_deref()), (0o660, Some("users")));
        assert_eq!((socket.access_group, socket.access_outside), (Role::Operator, Role::Agent));
        assert_eq!(source(&grouped, "access.outside"), ("agent", "config a.toml"));

        let open = of("--socket-mode 0666 sh", "[run]\nsocket_mode = \"0660\"");
        assert_eq!(open.socket.as_ref().unwrap().mode, 0o666);
        let (value, from) = source(&open, "socket_mode");
        assert!(value.contains("every user") && from == "flag", "{value}");
    }

    #[test]
    fn no_socket_leaves_no_room_for_its_mode_and_group() {
        assert_eq!(settled("--no-socket sh", None, Null).unwrap().socket, None);
        assert_eq!(settled("sh", Some("[run]\nno_socket = true"), Null).unwrap().socket, None);
        for (line, file) in [
            ("--no-socket --socket-mode 0660 sh", ""),
            ("--no-socket --socket-group 5 sh", ""),
            ("--no-socket sh", "[run]\nsocket_mode = \"0660\""),
        ] {
            let failure = settled(line, Some(file), Null).expect_err(line);
            assert_eq!(failure.code, 78);
            assert!(
                failure.message.starts_with("no_socket (flag) contradicts socket_"),
                "{}",
                failure.message
            );
        }
    }
}
