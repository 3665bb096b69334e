//! The frame decoder. The input's first byte chooses how the rest is cut into pieces; every cut must
//! give the same frames, and never may more than one unfinished frame be held.
#![no_main]

use agentsup::control::frame::{Decoder, Frame, FrameError, REQUEST_MAX};
use libfuzzer_sys::fuzz_target;

type Seen = (Vec<Frame>, Result<Option<Frame>, FrameError>);

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Seen {
    let mut decoder = Decoder::for_requests();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        while let Ok(Some(frame)) = decoder.next() {
            let (Frame::Json(bytes) | Frame::Raw(bytes)) = &frame;
            assert!(bytes.len() <= REQUEST_MAX);
            frames.push(frame);
        }
        // A buffer grows by doubling.
        assert!(decoder.memory() <= 2 * (REQUEST_MAX + 4));
    }
    (frames, decoder.finish())
}

/// Pieces of lengths that look random and are the same for the same seed; mostly short ones.
fn cut(mut stream: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let mut dice = u32::from(seed) + 1;
    std::iter::from_fn(move || {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = (dice >> 16) as usize % if dice >> 30 == 0 { 70_000 } else { 9 };
        let (piece, rest) = stream.split_at(length.min(stream.len()));
        let more = !stream.is_empty();
        stream = rest;
        more.then_some(piece)
    })
}

fuzz_target!(|input: &[u8]| {
    let Some((seed, stream)) = input.split_first() else { return };
    assert_eq!(decode(cut(stream, *seed)), decode(std::iter::once(stream)));
});
