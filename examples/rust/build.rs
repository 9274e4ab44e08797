//! Finds the C library with pkg-config, and lets programs find it at run time where it was at build
//! time.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let output = Command::new("pkg-config")
        .args(["--variable=libdir", "prefixrouter-c"])
        .output()
        .expect("pkg-config is needed to find the C library");
    let libdir = String::from_utf8_lossy(&output.stdout);
    let libdir = libdir.trim();
    assert!(
        output.status.success() && !libdir.is_empty(),
        "PKG_CONFIG_PATH must lead to prefixrouter-c.pc: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    println!("cargo:rustc-link-search=native={libdir}");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{libdir}");
}
