//! Measures what a call of the router costs from Rust beyond the call itself: `Router::route`, minus
//! a foreign call of the same kind that does nothing, minus the same calls made from C.

use prefixrouter::{sys, Result, Router};
use std::time::Instant;

#[link(name = "prefix_router_probe")]
extern "C" {
    fn probe_noop(
        router: *mut sys::prefix_router,
        tokens: *const u32,
        token_count: usize,
        instance: *mut u64,
    ) -> i32;
    fn probe_route_nanos(
        router: *mut sys::prefix_router,
        prompts: *const u32,
        prompt_count: usize,
        token_count: usize,
        calls: usize,
    ) -> f64;
    fn probe_cached_share(router: *const sys::prefix_router) -> f64;
}

const INSTANCES: usize = 64;
const PROMPT_TOKENS: usize = 256;
const PROMPTS: usize = 64;
const CALLS: usize = 10 * PROMPTS; // a measurement
const REPETITIONS: usize = 301;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn nanos_per_call(prompts: &[u32], call: impl Fn(&[u32])) -> f64 {
    let begin = Instant::now();
    for prompt in prompts.chunks(PROMPT_TOKENS).cycle().take(CALLS) {
        call(prompt);
    }
    begin.elapsed().as_nanos() as f64 / CALLS as f64
}

fn main() -> Result<()> {
    let router = Router::new()?;
    for i in 0..INSTANCES {
        router.add_instance(&format!("instance-{i}"), 0)?;
    }
    // Prompts that differ from their first block on.
    let prompts: Vec<u32> = (0..(PROMPTS * PROMPT_TOKENS) as u32).collect();

    let route = |prompt: &[u32]| {
        router.route(prompt).expect("routing failed");
    };
    let noop = |prompt: &[u32]| {
        let mut instance = 0;
        let (tokens, count) = (prompt.as_ptr(), prompt.len());
        assert_eq!(unsafe { probe_noop(router.as_ptr(), tokens, count, &mut instance) }, 0);
    };
    let route_from_c = || {
        let nanos = unsafe {
            probe_route_nanos(router.as_ptr(), prompts.as_ptr(), PROMPTS, PROMPT_TOKENS, CALLS)
        };
        assert!(nanos > 0.0, "routing from C failed");
        nanos
    };

    let (mut overheads, mut routes, mut noops, mut from_c) = (vec![], vec![], vec![], vec![]);
    for i in 0..=REPETITIONS {
        let a = nanos_per_call(&prompts, route);
        let b = nanos_per_call(&prompts, noop);
        let c = route_from_c();
        if i == 0 {
            continue; // it warmed up
        }
        overheads.push(a - b - c);
        routes.push(a);
        noops.push(b);
        from_c.push(c);
    }
    let share = unsafe { probe_cached_share(router.as_ptr()) };
    assert!(share > 0.9, "only {share} of the tokens were known");
    println!(
        "# cgo_overhead_ns Rust: overhead {:.1} ns; route {:.1} ns, a call that does nothing {:.1} ns, the same route from C {:.1} ns",
        median(overheads),
        median(routes),
        median(noops),
        median(from_c)
    );
    Ok(())
}
