use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What a decoder makes of pieces that arrive one after the other, and whether it still wants more.
fn decode(pieces: &[&[u8]]) -> (Vec<Frame>, Option<FrameError>, bool) {
    let mut decoder = Decoder::for_requests();
    let mut frames = Vec::new();
    let mut error = None;
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(why) => {
                    error = Some(why);
                    break;
                }
            }
        }
        assert!(decoder.bytes.len() < REQUEST_MAX + PREFIX, "{} bytes are held", decoder.bytes.len());
        assert!(decoder.memory() <= 2 * decoder.bytes.len().max(KEPT), "{} bytes", decoder.memory());
    }
    (frames, error, decoder.is_partial())
}

fn json(text: &str) -> Frame {
    Frame::Json(text.into())
}

fn prefixed(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [&length.to_be_bytes(), payload].concat()
}

const TOO_LARGE: FrameError = FrameError::TooLarge { limit: REQUEST_MAX };

#[test]
fn the_first_byte_chooses_the_framing() {
    let mut decoder = Decoder::for_requests();
    assert_eq!(decoder.framing(), None);
    decoder.push(b"");
    assert_eq!(decoder.framing(), None);
    decoder.push(b"{");
    assert_eq!(decoder.framing(), Some(Framing::Lines));
    let mut decoder = Decoder::for_requests();
    decoder.push(b"\0");
    assert_eq!(decoder.framing(), Some(Framing::LengthPrefixed));
    assert!(decoder.is_partial());
}

#[test]
fn lines_end_with_lf_or_crlf_and_empty_ones_are_nothing() {
    let (frames, error, partial) = decode(&[b"{}\n\n\r\n[1]\r\n{\"a\":1}"]);
    assert_eq!((frames, error, partial), (vec![json("{}"), json("[1]")], None, true));
    let (frames, error, partial) = decode(&[b"\n\r\n{}\n"]);
    assert_eq!((frames, error, partial), (vec![json("{}")], None, false));
}

#[test]
fn a_prefixed_frame_is_json_or_terminal_bytes() {
    let stream = [prefixed(b"{}"), prefixed(b"\x01ab\n"), prefixed(b"\x01")].concat();
    let (frames, error, partial) = decode(&[&stream]);
    assert_eq!(frames, [json("{}"), Frame::Raw(b"ab\n".to_vec()), Frame::Raw(vec![])]);
    assert_eq!((error, partial), (None, false));
}

#[test]
fn a_frame_may_be_as_long_as_the_limit_and_no_longer() {
    let most = vec![b' '; REQUEST_MAX];
    let line = [&most[..], b"\n"].concat();
    assert_eq!(decode(&[&line]), (vec![Frame::Json(most.clone())], None, false));
    assert_eq!(decode(&[&prefixed(&most)]), (vec![Frame::Json(most.clone())], None, false));
    let more = vec![b' '; REQUEST_MAX + 1];
    let line = [&more[..], b"\n"].concat();
    assert_eq!(decode(&[&line]), (vec![], Some(TOO_LARGE), false));
    assert_eq!(decode(&[&more]), (vec![], Some(TOO_LARGE), false));
    assert_eq!(decode(&[&most]), (vec![], None, true));
}

#[test]
fn an_announced_giant_is_refused_before_a_byte_of_it_comes() {
    let stream = [prefixed(b"{}"), vec![0xff; 4]].concat();
    assert_eq!(decode(&[&stream]), (vec![json("{}")], Some(TOO_LARGE), false));
    let (frames, error, _) = decode(&[&[0, 1, 0, 1]]);
    assert_eq!((frames, error), (vec![], Some(TOO_LARGE)));
    // A client's decoder takes what a supervisor may send.
    let mut decoder = Decoder::for_replies();
    decoder.push(&[0, 0x10, 0, 0]);
    assert_eq!(decoder.next(), Ok(None));
}

#[test]
fn an_error_is_the_last_word_and_frees_the_memory() {
    let mut decoder = Decoder::for_requests();
    decoder.push(&[0, 0, 0, 0]);
    assert_eq!(decoder.next(), Err(FrameError::Empty));
    decoder.push(&prefixed(b"{}"));
    assert_eq!(decoder.next(), Err(FrameError::Empty));
    assert_eq!((decoder.memory(), decoder.is_partial()), (0, false));
    assert_eq!(decoder.finish(), Err(FrameError::Empty));
}

#[test]
fn a_large_request_leaves_a_small_buffer() {
    let mut decoder = Decoder::for_requests();
    decoder.push(&prefixed(&[b' '; REQUEST_MAX]));
    assert!(decoder.next().unwrap().is_some());
    assert_eq!(decoder.next(), Ok(None));
    assert!(decoder.memory() <= 2 * KEPT, "{}", decoder.memory());
}

#[test]
fn at_the_end_a_line_counts_and_half_a_prefixed_frame_does_not() {
    let mut decoder = Decoder::for_requests();
    decoder.push(b"{}\n[]");
    assert_eq!(decoder.finish(), Ok(Some(json("{}"))));
    assert_eq!(decoder.finish(), Ok(Some(json("[]"))));
    assert_eq!(decoder.finish(), Ok(None));
    let mut decoder = Decoder::for_requests();
    decoder.push(&prefixed(b"{}")[..5]);
    assert_eq!(decoder.finish(), Err(FrameError::Truncated));
    assert_eq!(Decoder::for_requests().finish(), Ok(None));
}

#[test]
fn encoded_frames_are_what_the_document_shows() {
    let value = json!({"ok": true});
    assert_eq!(encode(Framing::Lines, &value, 64).unwrap(), b"{\"ok\":true}\n");
    assert_eq!(encode(Framing::LengthPrefixed, &value, 64).unwrap(), b"\0\0\0\x0b{\"ok\":true}");
    assert_eq!(encode(Framing::Lines, &value, 10), Err(EncodeError::TooLarge { size: 11 }));
    assert_eq!(encode_raw(b"abc", 3), b"\0\0\0\x03\x01ab\0\0\0\x02\x01c");
    assert_eq!(encode_raw(b"", 3), b"");
}

/// Streams near what a client sends, and some that are far from it.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "[a-z{}\":, ]{0,40}\r?\n".prop_map(String::into_bytes),
        Just(b"\n".to_vec()),
        (REQUEST_MAX - 2..REQUEST_MAX + 3).prop_map(|n| [vec![b'x'; n], b"\n".to_vec()].concat()),
    ];
    let frame = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40).prop_map(|payload| prefixed(&payload)),
        1 => (REQUEST_MAX - 2..REQUEST_MAX + 3).prop_map(|n| prefixed(&vec![b'x'; n])),
    ];
    prop_oneof![
        prop::collection::vec(line, 0..8).prop_map(|lines| lines.concat()),
        prop::collection::vec(frame, 0..8).prop_map(|frames| frames.concat()),
        prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(b'\n'), any::<u8>()], 0..60),
    ]
}

proptest! {
    #[test]
    fn any_split_gives_the_same_frames(
        stream in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        cut_end in any::<prop::sample::Index>(),
    ) {
        // Sometimes the last frame is left unfinished.
        let stream = &stream[..stream.len() - cut_end.index(stream.len() + 1) / 4];
        let whole = decode(&[stream]);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &stream[w[0]..w[1]]).collect();
        prop_assert_eq!(decode(&pieces), whole);
    }

    #[test]
    fn one_byte_at_a_time_gives_the_same_frames(stream in stream()) {
        let stream = &stream[..stream.len().min(2000)];
        let pieces: Vec<&[u8]> = stream.chunks(1).collect();
        prop_assert_eq!(decode(&pieces), decode(&[stream]));
    }

    #[test]
    fn what_is_encoded_comes_back(
        texts in prop::collection::vec(any::<String>(), 1..8),
        raw in prop::collection::vec(any::<u8>(), 1..200),
        framing in prop_oneof![Just(Framing::Lines), Just(Framing::LengthPrefixed)],
    ) {
        let values: Vec<_> = texts.iter().map(|text| json!({"method": text})).collect();
        let mut stream: Vec<u8> =
            values.iter().flat_map(|value| encode(framing, value, REQUEST_MAX).unwrap()).collect();
        if framing == Framing::LengthPrefixed {
            stream.extend(encode_raw(&raw, 50));
        }
        let (frames, error, partial) = decode(&[&stream]);
        prop_assert_eq!((error, partial), (None, false));
        let mut typed = Vec::new();
        let mut back = Vec::new();
        for frame in frames {
            match frame {
                Frame::Json(bytes) => back.push(serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()),
                Frame::Raw(bytes) => typed.extend(bytes),
            }
        }
        prop_assert_eq!(back, values);
        prop_assert_eq!(typed, if framing == Framing::Lines { vec![] } else { raw });
    }
}
