//! Which sequences make terminals answer. Told from their bytes alone, and more of them than are
//! answered here: what one terminal passes over another may know.

/// What becomes of a control sequence on its way to a terminal that is not to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Passes,
    /// It is a question.
    Taken,
    /// What it asks for is taken out of it.
    Becomes(Vec<u8>),
}

/// Reports of the window's size, from the moment it is set.
const SIZE_REPORTS: &[u8] = b"2048";

/// `CSI body last`; `body` holds params, markers and intermediates, and no controls.
pub fn csi(body: &[u8], last: u8) -> Fate {
    let marker = body.first().copied().filter(|byte| matches!(byte, b'<'..=b'?')).unwrap_or(0);
    let has = |between: u8| body.contains(&between);
    let plain = !body.iter().any(|byte| matches!(byte, b' '..=b'/'));
    let is_question = match last {
        // What are you: DA1, DA2, DA3. With `?` it is the Linux console's cursor.
        b'c' => plain && marker != b'?',
        // How are you, where is the cursor: DSR. With `>` it is a setting of keys.
        b'n' => plain && marker != b'>',
        b'q' => plain && marker == b'>',
        b'x' => plain && marker == 0 || has(b'+'),
        b't' => plain && marker == 0 && matches!(number(body), 11 | 13..=16 | 18..=21),
        // Keyboard flags, key settings, formats of keys, graphics.
        b'u' => plain && marker == b'?' || has(b'&') || has(b'$') || has(b','),
        b'm' | b'g' | b'S' => plain && marker == b'?' || has(b'#'),
        b'p' | b'w' => has(b'$'),
        b'y' => has(b'*'),
        b'v' => has(b'"'),
        b'|' => has(b'\'') || has(b'#'),
        b'R' => has(b'#'),
        _ => false,
    };
    if is_question {
        return Fate::Taken;
    }
    if plain && marker == b'?' && last == b'h' {
        return without_size_reports(&body[1..]);
    }
    Fate::Passes
}

fn without_size_reports(modes: &[u8]) -> Fate {
    let modes: Vec<&[u8]> = modes.split(|byte| *byte == b';').collect();
    let is_report = |mode: &&[u8]| {
        let zeros = mode.iter().take_while(|byte| **byte == b'0').count();
        mode[zeros..] == *SIZE_REPORTS
    };
    if !modes.iter().any(is_report) {
        return Fate::Passes;
    }
    let left: Vec<&[u8]> = modes.into_iter().filter(|mode| !is_report(mode)).collect();
    match left.is_empty() {
        true => Fate::Taken,
        false => Fate::Becomes([b"\x1b[?", &left.join(&b';')[..], b"h"].concat()),
    }
}

/// The first one in it.
fn number(body: &[u8]) -> u32 {
    let digits =
        body.iter().skip_while(|byte| !byte.is_ascii_digit()).take_while(|byte| byte.is_ascii_digit());
    digits.fold(0u32, |number, digit| number.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
}

/// An operating system command, without its frame; perhaps only its beginning, if it is long.
pub fn osc(command: &[u8]) -> bool {
    let mut fields = command.split(|byte| *byte == b';');
    let code = fields.next().unwrap_or_default();
    let rest = command.get(code.len() + 1..).unwrap_or_default();
    // A bare `?`, or a value of one.
    let mut asks = || fields.any(|field| field.starts_with(b"?") || holds(field, b"=?"));
    match code {
        // Titles, directories, links and marks hold whatever text they like.
        b"" | b"0" | b"1" | b"2" | b"7" | b"8" | b"9" | b"133" | b"633" | b"777" => false,
        b"60" | b"61" | b"5113" | b"5522" => true,
        b"99" => asks() || holds(rest, b"report") || holds(rest, b"c=1"),
        b"1337" => {
            [b"Report".as_slice(), b"RequestUpload", b"Capabilities"].iter().any(|it| rest.starts_with(it))
        }
        _ => asks(),
    }
}

/// Colours by number: an overlong command may still ask at its end.
pub fn may_ask_late(command: &[u8]) -> bool {
    let code = command.split(|byte| *byte == b';').next().unwrap_or_default();
    matches!(code, b"4" | b"5" | b"21" | [b'1', b'0'..=b'9'])
}

/// A device control string, without its frame.
pub fn dcs(data: &[u8]) -> bool {
    let params = data.iter().take_while(|byte| matches!(byte, b'0'..=b'?')).count();
    let data = &data[params..];
    [b"$q".as_slice(), b"+q", b"+Q", b"@kitty"].iter().any(|it| data.starts_with(it))
}

/// A picture of the kitty protocol is answered unless it says that it is not to be.
pub fn is_silent_picture(command: &[u8]) -> bool {
    let keys = command.split(|byte| *byte == b';').next().unwrap_or_default();
    keys.split(|byte| *byte == b',').any(|key| key == b"q=2")
}

/// The next part of one whose first part said how it is to be answered.
pub fn continues_picture(command: &[u8]) -> bool {
    let keys = command.split(|byte| *byte == b';').next().unwrap_or_default();
    !keys.is_empty()
        && keys.split(|byte| *byte == b',').all(|key| key.starts_with(b"m=") || key.starts_with(b"q="))
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
