//! The C library of PrefixRouter from Rust: register instances, ask for each prompt which of them
//! should get it, and say how the request went. It covers what a gateway needs first; the rest of
//! `prefix_router.h` is bound in the same way.
//!
//! Tokens and names are passed as slices, without a copy: the library keeps no pointer to them.

pub mod sys;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;
use std::mem::{forget, size_of, zeroed};
use std::os::raw::c_char;
use std::ptr::{null, null_mut, NonNull};

/// What every failed call returns. The message names the argument and the refused value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// `sys::PREFIX_ROUTER_*`: the number of the canonical gRPC code.
    pub code: i32,
    pub message: String,
}

impl Error {
    /// The error of the call that just failed on this thread.
    fn last(code: i32) -> Self {
        let message = unsafe { text(sys::prefix_router_last_error()) };
        Error { code, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = unsafe { text(sys::prefix_router_status_name(self.code)) };
        write!(f, "{}: {}", name, self.message)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

fn check(status: i32) -> Result<()> {
    match status {
        sys::PREFIX_ROUTER_OK => Ok(()),
        code => Err(Error::last(code)),
    }
}

/// The library's texts are ASCII where they are its own, and otherwise the caller's, as UTF-8.
unsafe fn text<'a>(text: *const c_char) -> Cow<'a, str> {
    CStr::from_ptr(text).to_string_lossy()
}

/// A routing target of one router. The numbers are never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instance(pub u64);

/// The chosen instance, and why.
#[derive(Debug, Clone, Copy)]
pub struct Decision {
    pub instance: Instance,
    pub prompt_tokens: u64,
    /// Of the prompt, held by the instance.
    pub cached_tokens: u64,
    /// Predicted time to the first token, in seconds.
    pub predicted_ttft_s: f64,
    /// What made the choice: "lowest_cost" and so on.
    pub rule: &'static str,
}

/// Chooses instances. All methods may run at the same time on any threads; borrowing sees to it
/// that none runs during or after the drop.
pub struct Router(NonNull<sys::prefix_router>);

unsafe impl Send for Router {}
unsafe impl Sync for Router {}

impl Router {
    /// A router without instances, with default options.
    pub fn new() -> Result<Self> {
        let mut router = null_mut();
        check(unsafe { sys::prefix_router_create(null(), &mut router) })?;
        Ok(Router(NonNull::new(router).expect("a router was made")))
    }

    /// Adds an instance that is ready. `capacity_blocks` is what its KV cache holds, in blocks of 16
    /// tokens; 0 for the default.
    pub fn add_instance(&self, name: &str, capacity_blocks: u32) -> Result<Instance> {
        let options = sys::prefix_router_instance_options {
            struct_size: size_of::<sys::prefix_router_instance_options>(),
            name: name.as_ptr().cast(),
            name_size: name.len(),
            capacity_blocks,
            ..unsafe { zeroed() }
        };
        let mut instance = 0;
        check(unsafe { sys::prefix_router_add_instance(self.as_ptr(), &options, &mut instance) })?;
        Ok(Instance(instance))
    }

    /// Chooses the instance for a prompt, without a lease.
    pub fn route(&self, tokens: &[u32]) -> Result<Instance> {
        let mut instance = 0;
        check(unsafe {
            let (tokens, count) = (tokens.as_ptr(), tokens.len());
            sys::prefix_router_route(self.as_ptr(), tokens, count, &mut instance)
        })?;
        Ok(Instance(instance))
    }

    /// Chooses the instance for a prompt and holds its load until the lease ends.
    pub fn acquire(&self, tokens: &[u32]) -> Result<Lease<'_>> {
        let request = sys::prefix_router_request {
            struct_size: size_of::<sys::prefix_router_request>(),
            tokens: tokens.as_ptr(),
            token_count: tokens.len(),
            ..unsafe { zeroed() }
        };
        let mut decision = sys::prefix_router_decision {
            struct_size: size_of::<sys::prefix_router_decision>(),
            ..unsafe { zeroed() }
        };
        let mut id = 0;
        check(unsafe {
            sys::prefix_router_acquire(self.as_ptr(), &request, &mut decision, &mut id)
        })?;
        let decision = Decision {
            instance: Instance(decision.instance),
            prompt_tokens: decision.prompt_tokens,
            cached_tokens: decision.cached_tokens,
            predicted_ttft_s: decision.predicted_ttft_s,
            rule: unsafe { CStr::from_ptr(sys::prefix_router_rule_name(decision.rule)) }
                .to_str()
                .unwrap_or("unknown"),
        };
        Ok(Lease { router: self, id, decision })
    }

    /// For C functions of the caller's own.
    pub fn as_ptr(&self) -> *mut sys::prefix_router {
        self.0.as_ptr()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        unsafe { sys::prefix_router_destroy(self.as_ptr()) }
    }
}

/// The load of one request. Dropped without `finish`, the request counts as failed.
#[must_use = "a lease that is dropped counts as a failed request"]
pub struct Lease<'a> {
    router: &'a Router,
    id: u64,
    decision: Decision,
}

impl Lease<'_> {
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The first token of the answer arrived.
    pub fn first_token(&self) -> Result<()> {
        check(unsafe { sys::prefix_router_first_token(self.router.as_ptr(), self.id) })
    }

    /// The answer is complete.
    pub fn finish(self, output_tokens: u64) -> Result<()> {
        let info = sys::prefix_router_finish_info {
            struct_size: size_of::<sys::prefix_router_finish_info>(),
            reported: sys::PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS,
            output_tokens,
            ..unsafe { zeroed() }
        };
        let result =
            check(unsafe { sys::prefix_router_finish(self.router.as_ptr(), self.id, &info) });
        forget(self); // it has ended, whatever the result
        result
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // An error would say that the lease has expired: then nothing is left to do.
        let _ = unsafe { sys::prefix_router_cancel(self.router.as_ptr(), self.id) };
    }
}
