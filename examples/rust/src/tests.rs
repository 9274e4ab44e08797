use super::*;
use std::fmt::Debug;

fn router_with(names: &[&str]) -> Router {
    let router = Router::new().unwrap();
    for name in names {
        router.add_instance(name, 0).unwrap();
    }
    router
}

#[track_caller]
fn assert_error<T: Debug>(result: Result<T>, code: i32, message: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.code, code, "{error}");
    assert!(error.message.contains(message), "{error}");
}

#[test]
fn errors_name_what_was_refused() {
    let router = router_with(&["a"]);
    assert_error(router.add_instance("a", 0), sys::PREFIX_ROUTER_ALREADY_EXISTS, "\"a\"");
    assert_error(router.add_instance("", 0), sys::PREFIX_ROUTER_INVALID_ARGUMENT, "name");
    assert_error(router_with(&[]).route(&[1]), sys::PREFIX_ROUTER_UNAVAILABLE, "no instance");
}

#[test]
fn a_dropped_lease_has_ended() {
    let router = router_with(&["a"]);
    let lease = router.acquire(&[1, 2, 3]).unwrap();
    lease.first_token().unwrap();
    assert_error(lease.first_token(), sys::PREFIX_ROUTER_NOT_FOUND, "lease");
    let id = lease.id;
    drop(lease);
    let cancelled = check(unsafe { sys::prefix_router_cancel(router.as_ptr(), id) });
    assert_error(cancelled, sys::PREFIX_ROUTER_NOT_FOUND, "lease");
}

#[test]
fn an_empty_prompt_has_an_instance() {
    router_with(&["a"]).route(&[]).unwrap();
}

#[test]
fn threads_share_a_router() {
    let router = router_with(&["a", "b"]);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let router = &router;
            scope.spawn(move || {
                for i in 0..500 {
                    let tokens: Vec<u32> = (0..64).map(|t| thread * 1000 + i + t).collect();
                    router.acquire(&tokens).unwrap().finish(1).unwrap();
                }
            });
        }
    });
}
