// What kind of build this is. Sanitizers and debug builds run the same checks on smaller inputs,
// and do not judge times and resident memory, which say nothing there.
#ifndef PREFIXROUTER_TESTS_SUPPORT_BUILD_KIND_H_
#define PREFIXROUTER_TESTS_SUPPORT_BUILD_KIND_H_

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define PREFIX_ROUTER_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PREFIX_ROUTER_TEST_SANITIZED 1
#endif

namespace prefixrouter::testing {

#if defined(NDEBUG) && !defined(PREFIX_ROUTER_TEST_SANITIZED)
inline constexpr bool kMeasuredBuild = true;
#else
inline constexpr bool kMeasuredBuild = false;
#endif

// `full` in a build that is measured, `reduced` in slower ones.
template <typename T>
constexpr T Sized(T full, T reduced) {
  return kMeasuredBuild ? full : reduced;
}

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_SUPPORT_BUILD_KIND_H_
