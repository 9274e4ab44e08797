//! What a gateway does with PrefixRouter, in Rust: it registers instances, asks for each request
//! where to send it, says how the request went, and prints why each choice was made.
//!
//!     cargo run    # with prefixrouter-c.pc on PKG_CONFIG_PATH

use prefixrouter::{sys, Decision, Instance, Router};
use std::collections::HashMap;
use std::error::Error;

/// Stands for the model's tokenizer: a system prompt that all users share, then the user's words.
fn prompt(user: u32) -> Vec<u32> {
    const PROMPT_TOKENS: u32 = 1000;
    const SYSTEM_TOKENS: u32 = 800;
    (0..PROMPT_TOKENS)
        .map(|i| if i < SYSTEM_TOKENS { i } else { (user + 1) * 100_000 + i })
        .collect()
}

/// One request: where to, why, and what came of it.
fn serve(
    router: &Router,
    names: &HashMap<Instance, &str>,
    user: u32,
) -> prefixrouter::Result<Decision> {
    let lease = router.acquire(&prompt(user))?;
    let decision = *lease.decision();
    println!(
        "user {user}: {} by {}, {} of {} tokens cached, first token in {:.3} s",
        names[&decision.instance],
        decision.rule,
        decision.cached_tokens,
        decision.prompt_tokens,
        decision.predicted_ttft_s
    );

    // Here the request goes to the instance; if that fails, the lease is dropped. When the first
    // byte of the answer arrives:
    lease.first_token()?;
    // When the answer is complete:
    lease.finish(100)?;
    Ok(decision)
}

fn main() -> Result<(), Box<dyn Error>> {
    let router = Router::new()?;
    match router.route(&prompt(0)) {
        Err(error) if error.code == sys::PREFIX_ROUTER_UNAVAILABLE => {
            println!("no instance yet, a gateway answers 503: {}", error.message);
        }
        other => return Err(format!("routing without instances: {other:?}").into()),
    }

    let mut names = HashMap::new();
    for name in ["10.0.0.1:8000", "10.0.0.2:8000"] {
        names.insert(router.add_instance(name, 0)?, name);
    }
    let (mut total, mut cached) = (0, 0);
    for turn in 0..6 {
        let decision = serve(&router, &names, turn % 3)?;
        total += decision.prompt_tokens;
        cached += decision.cached_tokens;
    }
    println!("6 requests, {} % of their tokens cached", 100 * cached / total);
    if cached <= total / 2 {
        return Err("too few tokens cached".into());
    }
    Ok(())
}
