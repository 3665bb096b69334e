//! `--prompt TEXT`, `--prompt @FILE`; `@@` starts a text that begins with `@`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Failure;

/// The kernel's limit for one argument (MAX_ARG_STRLEN), less the NUL at its end.
const LONGEST: usize = 128 * 1024 - 1;

pub fn read(written: &OsStr, started_in: &Path) -> Result<String, Failure> {
    let bytes = written.as_bytes();
    let refused = |why: String| match bytes.starts_with(b"@") {
        true => Failure::refused(format!("prompt {}: {why}", written.display())),
        false => Failure::refused(format!("prompt: {why}")),
    };
    let text = match bytes {
        [b'@', b'@', ..] => bytes[1..].to_vec(),
        [b'@'] => return Err(refused("names no file; write @@ for the character itself".to_string())),
        [b'@', file @ ..] => {
            let path = started_in.join(OsStr::from_bytes(file));
            from_file(&path).map_err(|error| {
                refused(format!(
                    "cannot be read: {error}; name another file, or write @@ for the character itself"
                ))
            })?
        }
        _ => bytes.to_vec(),
    };
    if text.len() > LONGEST {
        return Err(refused("is longer than 128 KiB, the most that one argument can hold; name a file in it that the agent reads".to_string()));
    }
    if text.contains(&0) {
        return Err(refused("contains a NUL byte, which no argument can hold; take it out".to_string()));
    }
    if text.is_empty() {
        return Err(refused("is empty; leave it out to give none".to_string()));
    }
    String::from_utf8(text).map_err(|_| refused("is not UTF-8 text; save it as such".to_string()))
}

/// Without the newline that editors put at the end.
fn from_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST as u64 + 2).read_to_end(&mut text)?;
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_file_and_escape() {
        let dir = std::env::temp_dir().join(format!("agentsup-prompt-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let write = |bytes: &[u8]| std::fs::write(dir.join("p"), bytes).unwrap();
        let prompt = |written: &str| read(OsStr::new(written), &dir).map_err(|failure| failure.message);
        assert_eq!(prompt("fix it"), Ok("fix it".into()));
        assert_eq!(prompt("a@b"), Ok("a@b".into()));
        assert_eq!(prompt("@@p"), Ok("@p".into()));
        write(b"from a file\n\n");
        assert_eq!(prompt("@p"), Ok("from a file\n".into()));
        assert!(prompt("@").unwrap_err().contains("names no file"));
        assert!(prompt("@nope").unwrap_err().starts_with("prompt @nope: cannot be read: No such file"));
        assert!(prompt("@.").unwrap_err().contains("cannot be read: Is a directory"));
        assert!(prompt("").unwrap_err().contains("is empty"));
        for (bytes, why) in [
            (&b"\n"[..], "is empty"),
            (b"a\0b", "NUL"),
            (b"\xff", "not UTF-8"),
            (&vec![b'x'; LONGEST + 1], "longer than 128 KiB"),
        ] {
            write(bytes);
            let message = prompt("@p").unwrap_err();
            assert!(message.contains(why), "{message}");
        }
        write(&[vec![b'x'; LONGEST], vec![b'\n']].concat());
        assert_eq!(prompt("@p").map(|text| text.len()), Ok(LONGEST));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
