//! The end of every backtrace, at once.
//!
//! The static binary aborts on a panic and carries no unwind tables, so a walk over its stack ends where it
//! begins. std asks all the same, and would bring libunwind to answer, with a `printf` for its complaints:
//! 45 KB. Here are all the names that std knows of it; with one of them missing the whole would be linked.
//! Only where `ci/build-static` says so: beside a std that comes compiled, its libunwind is linked in any case.
#![cfg(agentsup_no_unwind)]

use std::ffi::{c_int, c_void};

const END_OF_STACK: c_int = 5;

// SAFETY: the name is libunwind's, and with the signature it has there; nothing here looks at an argument.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_: *const c_void, _: *mut c_void) -> c_int {
    END_OF_STACK
}

/// What can be asked of a frame or told to it. There is none, so nobody does.
macro_rules! of_a_frame {
    ($($name:ident($($kind:ty),+);)+) => {
        $(
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn $name($(_: $kind),+) -> usize {
                0
            }
        )+
    };
}

of_a_frame! {
    _Unwind_FindEnclosingFunction(*mut c_void);
    _Unwind_GetCFA(*mut c_void);
    _Unwind_GetDataRelBase(*mut c_void);
    _Unwind_GetIP(*mut c_void);
    _Unwind_GetIPInfo(*mut c_void, *mut c_int);
    _Unwind_GetLanguageSpecificData(*mut c_void);
    _Unwind_GetRegionStart(*mut c_void);
    _Unwind_GetTextRelBase(*mut c_void);
    _Unwind_SetGR(*mut c_void, c_int, usize);
    _Unwind_SetIP(*mut c_void, usize);
}
