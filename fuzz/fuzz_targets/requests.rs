//! The whole way of a request but for what it does: bytes are understood or refused, and the reply
//! can always be sent and read.
#![no_main]

use agentsup::control::frame::{Decoder, Frame, Framing, REPLY_MAX};
use agentsup::control::protocol::{Ack, Body, Reply, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let parsed = Request::parse(bytes);
    let reply = match &parsed {
        Ok(request) => Reply::ok(request.id.clone(), Body::Ack(Ack {})),
        Err(refusal) => Reply::from(refusal.clone()),
    };
    for framing in [Framing::Lines, Framing::LengthPrefixed] {
        let frame = reply.to_frame(framing);
        assert!(frame.len() <= REPLY_MAX + 4);
        let mut decoder = Decoder::for_replies();
        decoder.push(&frame);
        let Ok(Some(Frame::Json(json))) = decoder.next() else { panic!("the reply is no frame") };
        let back: Reply<Ack> = Reply::parse(&json).expect("the reply can be read");
        assert_eq!(back.id, reply.id);
        assert_eq!(back.result.is_ok(), parsed.is_ok());
        if let Err(error) = &back.result {
            assert!(error.message.len() < 1000);
        }
    }
    if let Ok(request) = parsed
        && let Ok(frame) = request.to_frame(Framing::Lines)
    {
        // Said again with every default filled in, it means the same.
        assert_eq!(Request::parse(&frame), Ok(request));
    }
});
