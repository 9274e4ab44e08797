# prefix_router_ratios, whose figures scripts/bench.sh compares with their bars, and
# prefix_router_benchmarks, the Google Benchmark suite.
find_package(benchmark REQUIRED)
find_package(CLI11 REQUIRED)

add_library(prefix_router_bench_lib STATIC fleet.cc)
prefix_router_internal(prefix_router_bench_lib)

add_executable(prefix_router_ratios
  conversation.cc
  heap.cc
  ratio_events.cc
  ratio_index.cc
  ratio_route.cc
  ratio_simulator.cc
  ratio_threads.cc
  ratio_trace.cc
  ratios_main.cc)
prefix_router_internal(prefix_router_ratios)
target_compile_definitions(prefix_router_ratios PRIVATE
  PREFIX_ROUTER_TRACE_DIR="${PROJECT_SOURCE_DIR}/../shared/traces")
target_link_libraries(prefix_router_ratios PRIVATE
  prefix_router_bench_lib prefix_router_replay_lib absl::flat_hash_map absl::inlined_vector
  CLI11::CLI11 Threads::Threads)

if(TARGET prefixrouter_capi)
  target_sources(prefix_router_ratios PRIVATE ratio_capi.cc)
  target_compile_definitions(prefix_router_ratios PRIVATE PREFIX_ROUTER_HAVE_CAPI)
  target_link_libraries(prefix_router_ratios PRIVATE prefixrouter::capi)
endif()

add_executable(prefix_router_benchmarks
  events_bench.cc
  hash_bench.cc
  index_bench.cc
  router_bench.cc)
prefix_router_internal(prefix_router_benchmarks)
target_link_libraries(prefix_router_benchmarks PRIVATE
  prefix_router_bench_lib absl::flat_hash_map absl::inlined_vector
  benchmark::benchmark_main Threads::Threads)

# The C++ side of python_ratios.py.
if(TARGET prefix_router_python)
  add_library(prefix_router_python_reference MODULE python_reference.cc)
  prefix_router_configure(prefix_router_python_reference)
  set_target_properties(prefix_router_python_reference PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(prefix_router_python_reference PRIVATE prefixrouter::prefixrouter)
endif()
