// Catch2, whichever of its two lines is installed: 2.x has one header, 3.x has many and one that
// includes them all. Every test includes this file and nothing of Catch2 itself.
#ifndef PREFIXROUTER_TESTS_CATCH_H_
#define PREFIXROUTER_TESTS_CATCH_H_

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#endif  // PREFIXROUTER_TESTS_CATCH_H_
