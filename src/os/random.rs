//! Random bytes from the kernel; needs no `/dev`.

use std::io;

pub fn uuid_v4() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: `rest` is valid for writes of its own length.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(n) {
            Ok(n) => filled += n,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(text(bytes))
}

fn text(bytes: [u8; 16]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.extend([digit(byte >> 4), digit(byte & 0x0f)]);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uuid_is_written_in_five_groups() {
        let bytes: Vec<u8> = (0..16).map(|n| n * 0x11).collect();
        let bytes = bytes.try_into().unwrap();
        assert_eq!(super::text(bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn a_uuid_has_version_four_and_is_new_each_time() {
        let (a, b) = (super::uuid_v4().unwrap(), super::uuid_v4().unwrap());
        assert_ne!(a, b);
        for id in [a, b] {
            assert_eq!(id.len(), 36);
            assert_eq!(id.as_bytes()[14], b'4');
            assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
        }
    }
}
