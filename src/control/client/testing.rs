//! A supervisor that says what a test wants it to say.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::control::frame::{Decoder, Frame, Framing};
use crate::control::protocol::{Body, Call, Code, Reply, Request, StreamFrame};

pub enum Says {
    Body(Body),
    No(Code),
    Stream(Vec<StreamFrame>),
    /// As they are; then nothing more.
    Bytes(Vec<u8>),
    Nothing,
    HangUp,
}

type Answer = Arc<dyn Fn(&Call) -> Says + Send + Sync>;

/// A directory of its own, gone when the test ends.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("agentsup-client-{}-{n}", std::process::id()));
        for inside in ["supervisor", "logs"] {
            fs::create_dir_all(dir.join(inside)).expect("the temp dir is writable");
        }
        Dir(dir.canonicalize().expect("it was just made"))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Answers at `path` until the test's process ends.
pub fn serve(path: &Path, answer: impl Fn(&Call) -> Says + Send + Sync + 'static) {
    let listener = UnixListener::bind(path).expect("the test's own directory");
    let answer: Answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || serve_one(stream, &answer));
        }
    });
}

fn serve_one(mut stream: UnixStream, answer: &Answer) {
    let mut decoder = Decoder::for_requests();
    let mut chunk = [0; 4096];
    loop {
        while let Some(Frame::Json(json)) = decoder.next().expect("a client sends whole frames") {
            let Request { id, call } = Request::parse(&json).expect("a client sends requests");
            let reply = |body| Reply::ok(id.clone(), body).to_frame(Framing::LengthPrefixed);
            let bytes = match answer(&call) {
                Says::Body(body) => reply(body),
                Says::No(code) => Reply::error(id, code, "no").to_frame(Framing::LengthPrefixed),
                Says::Stream(frames) => {
                    frames.into_iter().flat_map(|frame| reply(Body::Stream(frame))).collect()
                }
                Says::Bytes(bytes) => bytes,
                Says::Nothing => Vec::new(),
                Says::HangUp => return,
            };
            let _ = stream.write_all(&bytes);
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(n) => decoder.push(&chunk[..n]),
        }
    }
}
