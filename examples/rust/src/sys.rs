//! What this crate uses of `prefix_router.h`, declared by hand: same names, same order of members.
//! Constants and functions that are not here are left out, structs are whole.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_void};

pub const PREFIX_ROUTER_OK: i32 = 0;
pub const PREFIX_ROUTER_INVALID_ARGUMENT: i32 = 3;
pub const PREFIX_ROUTER_NOT_FOUND: i32 = 5;
pub const PREFIX_ROUTER_ALREADY_EXISTS: i32 = 6;
pub const PREFIX_ROUTER_RESOURCE_EXHAUSTED: i32 = 8;
pub const PREFIX_ROUTER_UNAVAILABLE: i32 = 14;
pub const PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS: u32 = 1;

/// Opaque: only ever behind a pointer.
#[repr(C)]
pub struct prefix_router {
    _private: [u8; 0],
}

/// Options are left at their defaults here, so a pointer to them is always null.
pub type prefix_router_options = c_void;

#[repr(C)]
pub struct prefix_router_instance_options {
    pub struct_size: usize,
    pub name: *const c_char,
    pub name_size: usize,
    pub rank: u32,
    pub capacity_blocks: u32,
    pub prefill_tokens_per_s: f64,
    pub weight: f64,
    pub model: *const c_char,
    pub model_size: usize,
}

#[repr(C)]
pub struct prefix_router_multimodal_item {
    pub offset: u64,
    pub content_hash: u64,
}

#[repr(C)]
pub struct prefix_router_request {
    pub struct_size: usize,
    pub form: i32,
    pub expected_output_tokens: u32,
    pub tokens: *const u32,
    pub token_count: usize,
    pub text: *const c_char,
    pub text_size: usize,
    pub block_keys: *const u64,
    pub block_key_count: usize,
    pub prompt_tokens: u64,
    pub model: *const c_char,
    pub model_size: usize,
    pub adapter: *const c_char,
    pub adapter_size: usize,
    pub salt: *const c_char,
    pub salt_size: usize,
    pub multimodal: *const prefix_router_multimodal_item,
    pub multimodal_count: usize,
    pub allowed: *const u64,
    pub allowed_count: usize,
    pub session_key: *const c_char,
    pub session_key_size: usize,
    pub max_ttft_s: f64,
    pub priority: i32,
    pub reserved: u32,
}

#[repr(C)]
pub struct prefix_router_decision {
    pub struct_size: usize,
    pub instance: u64,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub best_cached_tokens: u64,
    pub predicted_ttft_s: f64,
    pub cost_pending: f64,
    pub cost_uncached: f64,
    pub cost_requests: f64,
    pub cost_pressure: f64,
    pub cost_total: f64,
    pub miss_weight: f64,
    pub runner_up: u64,
    pub runner_up_cost: f64,
    pub rule: i32,
    pub candidates: u32,
    pub stale_report: i32,
    pub reserved: u32,
    pub cached_credit_tokens: u64,
    pub home_tokens: f64,
}

#[repr(C)]
pub struct prefix_router_finish_info {
    pub struct_size: usize,
    pub reported: u32,
    pub reserved: u32,
    pub output_tokens: u64,
    pub engine_cached_tokens: u64,
}

#[link(name = "prefixrouter_c")]
extern "C" {
    pub fn prefix_router_create(
        options: *const prefix_router_options,
        router: *mut *mut prefix_router,
    ) -> i32;
    pub fn prefix_router_destroy(router: *mut prefix_router);
    pub fn prefix_router_add_instance(
        router: *mut prefix_router,
        options: *const prefix_router_instance_options,
        instance: *mut u64,
    ) -> i32;
    pub fn prefix_router_route(
        router: *mut prefix_router,
        tokens: *const u32,
        token_count: usize,
        instance: *mut u64,
    ) -> i32;
    pub fn prefix_router_acquire(
        router: *mut prefix_router,
        request: *const prefix_router_request,
        decision: *mut prefix_router_decision,
        lease: *mut u64,
    ) -> i32;
    pub fn prefix_router_first_token(router: *mut prefix_router, lease: u64) -> i32;
    pub fn prefix_router_finish(
        router: *mut prefix_router,
        lease: u64,
        info: *const prefix_router_finish_info,
    ) -> i32;
    pub fn prefix_router_cancel(router: *mut prefix_router, lease: u64) -> i32;
    pub fn prefix_router_last_error() -> *const c_char;
    pub fn prefix_router_status_name(status: i32) -> *const c_char;
    pub fn prefix_router_rule_name(rule: i32) -> *const c_char;
}
