fn main() {
    println!("cargo:rerun-if-env-changed=PROBE_DIR");
    let dir = std::env::var("PROBE_DIR").expect("PROBE_DIR: where libprefix_router_probe.so is");
    println!("cargo:rustc-link-search=native={dir}");
}
