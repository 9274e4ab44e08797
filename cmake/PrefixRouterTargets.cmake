# Settings that every target of this project shares.
function(prefix_router_configure target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # false alarms on string concatenation (GCC bug 105651)
    $<$<AND:$<BOOL:${PREFIX_ROUTER_DEVELOPER}>,$<CXX_COMPILER_ID:GNU,Clang,AppleClang>>:-Werror>
    $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wthread-safety>)
  if(PREFIX_ROUTER_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${PREFIX_ROUTER_SANITIZE}
                           -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${PREFIX_ROUTER_SANITIZE})
  endif()
endfunction()

# For code whose optimisation takes most of a build with sanitizers and is not what they are for:
# tests and bindings. The library stays as the preset has it.
function(prefix_router_quick_to_sanitize target)
  if(PREFIX_ROUTER_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-O0>)
  endif()
endfunction()

# An executable or library that sees the internal headers too: tests and benchmarks.
function(prefix_router_internal target)
  prefix_router_configure(${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_link_libraries(${target} PRIVATE prefixrouter::prefixrouter)
endfunction()
